"""The command ``probes power BENCHMARK``: what a run of so many rows would see."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from cards.numbers import would_see
from cards.options import single
from cards.verdict import LEVEL
from scoring import benchmarks, report
from scoring.statistics.intervals import detectable
from scoring.statistics.power import of_design, of_run
from scoring.terminal import ended, tell_wrapped
from scoring.types import ScoringError


def main(
    benchmark: Annotated[str, typer.Argument(help="Whose scores.")],
    n: Annotated[int, typer.Option("--n", min=2, help="Rows of the group.")],
    clusters: Annotated[int | None, typer.Option(min=2, help="Their clusters; by default as many.")] = None,
    run: Annotated[Path | None, typer.Option(help="Take the variance of this run.")] = None,
    icc: Annotated[float, typer.Option(min=0.0, max=1.0, help="Correlation of rows of a cluster.")] = 0.05,
    changed: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share that two runs differ in, without --run.")
    ] = 0.2,
    tests: Annotated[int, typer.Option(min=1, help="Changes corrected together (Holm).")] = 1,
) -> None:
    """Say which differences a run of BENCHMARK would see with a power of 80 %.

    A proportion needs no run; for other scores give --run. Exit status: 1 when something cannot be done.
    """
    console, clusters = Console(), clusters or n
    with ended(Console(stderr=True)):
        known, design = benchmarks.get(benchmark), (n, clusters, icc)
        grid = Grid("score", "from the ideal", "between two runs", box=None, pad_edge=False)
        scores = of_run(report.read(run), known.name, *design) if run else of_design(known, *design, changed)
        for name, ideal, on, error, paired in scores:
            few = 2.0 ** (1 - clusters) >= LEVEL / tests
            alone = math.nan if ideal is None else detectable(error, clusters - 1)
            change = math.inf if few else detectable(paired, clusters - 1, LEVEL / tests)
            grid.add_row(name, *(would_see(seen, on) or "–" for seen in (alone, change)))
        if not grid.row_count:
            lacks = f"{run} has no interval of {benchmark}" if run else f"No score of {benchmark} is a proportion"
            raise ScoringError(f"{lacks}; give --run with a run that has scored it.")
        console.print(grid)
        design_text = f"shares of one half, of which {changed:g} change, and a correlation of {icc:g} in a cluster"
        by = f"the variance of {run}, two runs as if independent" if run else design_text
        said = f"{n:,} rows in {clusters:,} clusters would see these with a power of 80 % and p below 0.05"
        tell_wrapped(console, f"{said} ({tests} changes corrected together), from {by}.")


app = single(main)
