"""Questions to a model become numbers with intervals. Nothing is implemented here yet."""
