"""Commands besides the recipes."""
