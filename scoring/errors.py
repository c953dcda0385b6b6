"""The error of scoring."""


class ScoringError(Exception):
    """Scoring cannot go on. The message is one sentence for the person at the terminal."""

    exit_code = 1
