"""Questions to a model become numbers with intervals: ``python -m scoring MODEL``."""
