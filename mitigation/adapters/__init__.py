"""Adapters on disk and their attachment to a model."""
