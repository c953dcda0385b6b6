"""The command ``probes power BENCHMARK``: what a run of so many rows would see."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from cards.options import single
from scoring import benchmarks, report
from scoring.options import Include, Profile
from scoring.report.numbers import metric_range, would_see
from scoring.statistics.power import Design, of_design, of_run, seen
from scoring.terminal import ended, tell_wrapped
from scoring.types import ScoringError


def main(
    benchmark: Annotated[str, typer.Argument(help="Whose scores.")],
    n: Annotated[int, typer.Option("--n", min=2, help="Rows of the group.")],
    clusters: Annotated[int | None, typer.Option(min=2, help="Their clusters; by default as many.")] = None,
    run: Annotated[Path | None, typer.Option(help="Take the variance of this run.")] = None,
    icc: Annotated[float, typer.Option(min=0.0, max=1.0, help="Correlation of rows of a cluster.")] = 0.05,
    rate: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of events, without --run.")] = 0.5,
    changed: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Rows that two runs differ in, without --run.")
    ] = 0.2,
    tests: Annotated[int, typer.Option(min=1, help="Changes corrected together (Holm).")] = 1,
    profile: Profile = "clean",
    include: Include = (),  # type: ignore[assignment]  # nobody changes it
) -> None:
    """Say which differences a run of BENCHMARK would see with a power of 80 %.

    A proportion needs no run; for other scores give --run. Exit status: 1 when something cannot be done.
    """
    console = Console()
    with ended(Console(stderr=True)):
        for path in include:
            benchmarks.include(path)
        known, design = benchmarks.get(benchmark), Design(n, clusters or n, icc)
        scores = (
            of_run(report.read(run), known.name, design) if run else of_design(known, profile, design, rate, changed)
        )
        grid = Grid("score", "from the ideal", "between two runs", box=None, pad_edge=False)
        for score, paired in scores:
            both = (would_see(e, metric_range([score])) or "–" for e in seen(score, paired, design.clusters, tests))
            grid.add_row(score.short_name, *both)
        if not grid.row_count:
            lacks = f"{run} has no interval of {benchmark}" if run else f"No score of {benchmark} is a proportion"
            raise ScoringError(f"{lacks}; give --run with a run that has scored it.")
        console.print(grid)
        by = (
            f"the variance of {run}, two runs as if independent"
            if run
            else (f"a share of {rate:g}, and {changed:g} of the rows changed")
        )
        tell_wrapped(
            console,
            f"{n:,} rows in {design.clusters:,} clusters would see these with a power of 80 % and p below 0.05 "
            f"({tests} changes corrected together), with {by}, and a correlation of {icc:g} in a cluster.",
        )


app = single(main)
