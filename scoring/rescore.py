"""Entry point of ``python -m scoring.rescore FILE``; metrics are in :mod:`scoring.rescoring`."""

from cards.command import start
from scoring.commands.rescore import app
from scoring.rescoring import DOMAINS, LABELS, TASKS, THRESHOLDS, Answer, document, stereoset_scores, unstereo

__all__ = ["DOMAINS", "LABELS", "TASKS", "THRESHOLDS", "Answer", "app", "document", "stereoset_scores", "unstereo"]

if __name__ == "__main__":
    start(app, "python -m scoring.rescore")
