"""The command ``probes compare RUN BASE``: paired differences of two runs over the same examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scoring.report.terminal import ended, tell
from scoring.statistics.stats import RESAMPLES


def show_comparison(run: Path, base: Path, out: Path, resamples: int, console: Console) -> None:
    """Prints the comparison of two runs and writes its files into a folder."""
    from scoring.compare import lines
    from scoring.report import write_comparison
    from scoring.result import between

    comparison = between(run, base, resamples)
    tell(console, lines(comparison))
    write_comparison(out, comparison)
    tell(console, [f"The comparison is {out / 'compare.html'}."])


def main(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    base: Annotated[Path, typer.Argument(metavar="BASE", help="Folder of the earlier run to compare it with.")],
    out: Annotated[Path | None, typer.Option(help="Folder for compare.html and compare.json; RUN by default.")] = None,
    resamples: Annotated[int, typer.Option(min=2, help="Bootstrap resamples.")] = RESAMPLES,
) -> None:
    """Compare RUN with BASE: each metric before and after, the paired difference with its interval, and a verdict.

    Exit status: 1 when the runs cannot be compared.
    """
    console, errors = Console(), Console(stderr=True)
    with ended(errors):
        show_comparison(run, base, out or run, resamples, console)


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)
