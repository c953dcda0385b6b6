"""Entry point of ``probes rescore FILE``; metrics are in :mod:`scoring.rescoring`."""

from cards.command import start
from scoring.commands.rescore import app

__all__ = ["app"]

if __name__ == "__main__":
    start(app, "python -m scoring.rescore")
