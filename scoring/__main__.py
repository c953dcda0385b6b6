"""Entry point of ``probes score MODEL``; the command is in :mod:`scoring.commands.score`."""

from cards.common.options import start
from scoring.commands.score import app, default_folder

__all__ = ["app", "default_folder"]

if __name__ == "__main__":
    start(app, "python -m scoring")
