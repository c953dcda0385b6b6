"""Recipes whose result is an adapter folder or a named prompt. Nothing is implemented here yet."""
