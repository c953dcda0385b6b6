"""The command ``probes leaderboard``: one page for many models, with what this project declares of their scores."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cards import leaderboard
from cards.common.options import ended, single, start
from scoring import benchmarks
from scoring.types import ScoringError
from scoring.uploads import DECLARATIONS


def main(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|ORG|ORG/MODEL|ORG/DATASET...", help="Folders of runs, models or leaderboards of the Hub."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("leaderboard.html"),
    space: Annotated[
        str, typer.Option(metavar="ORG/NAME", help="Static Space of the Hub to publish the page in.")
    ] = "",
    include: Annotated[
        list[Path] | None, typer.Option(metavar="FILE.py", help="Add the BENCHMARK of a file; repeatable.")
    ] = None,
) -> None:
    """Make a page that compares models, from any number of runs and published results.

    A name that is no file or folder is an organisation, a model or a data set with a leaderboard of the Hub. A source
    that cannot be used is left out, with the reason. Exit status: 1 when none can be used, 2 when the Hub cannot be
    reached or refuses.
    """
    with ended(Console(stderr=True), ScoringError):
        # What an included benchmark declares is needed to read runs that have it.
        benchmarks.include(*(include or ()))
    # It ends the command itself, with the exit statuses of the Hub.
    leaderboard.make(sources, out, space, DECLARATIONS)


app = single(main)

if __name__ == "__main__":
    start(app, "python -m scoring.commands.leaderboard")
