"""The error of this package."""

from scoring.types import ScoringError


class MitigationError(ScoringError):
    """A recipe cannot go on. The message is one sentence for the user."""
