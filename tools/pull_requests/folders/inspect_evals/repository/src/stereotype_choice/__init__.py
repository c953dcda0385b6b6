"""Order-balanced choices between a stereotype and its opposite."""

from .stereotype_choice import crows_pairs_balanced, stereoset_balanced

__all__ = ["crows_pairs_balanced", "stereoset_balanced"]
