"""The steps around a recipe: what it needs, what it costs, and scores before and after."""
