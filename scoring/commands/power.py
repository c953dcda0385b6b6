"""The command ``probes power BENCHMARK``: the minimum detectable effects of a run of so many rows."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cards.common.numbers import Scale, detectable_text
from cards.common.options import UsageError, ended, single
from cards.common.sentences import say
from cards.common.terminal import show_wrapped, text_table
from cards.common.verdict import LEVEL
from scoring import benchmarks, report
from scoring.report.headlines import headline_scores
from scoring.report.numbers import metric_range
from scoring.statistics.intervals import detectable
from scoring.types import Benchmark, Report, ScoringError

#: A score: its short name, ideal value and range, and the standard errors of it and of its change between two runs.
Planned = tuple[str, float | None, Scale, float, float]


def factor(n: int, clusters: int, icc: float) -> float:
    """The standard error of a mean for a standard deviation of 1, √((1 + (n / clusters - 1) · icc) / n).

    There are so many rows in clusters of one size, and ``icc`` is the correlation of two rows of a cluster. The
    numerator is the design effect (Kish, 1965, "Survey sampling").

    Raises
    ------
    ScoringError
        For fewer than two clusters, or more clusters than rows.

    >>> factor(100, 100, 0.05), round(factor(100, 20, 0.05), 4)
    (0.1, 0.1095)
    """
    if not 2 <= clusters <= n:
        raise ScoringError(
            f"There are no {n} rows in {clusters} clusters; give 2 clusters or more, and at least as many rows."
        )
    return math.sqrt((1 + (n / clusters - 1) * icc) / n)


def of_design(benchmark: Benchmark, n: int, clusters: int, icc: float, changed: float) -> Iterator[Planned]:
    """Each proportion of a benchmark; of one half, whose variance is the largest.

    ``changed`` is the share of rows that differ between two runs; the variance of a paired difference is at most this
    share (McNemar's test; Connor, 1987, "Sample size for testing differences in proportions for the paired-sample
    design").
    """
    unit = factor(n, clusters, icc)
    for metric in benchmark.metrics("clean"):
        if metric.events is not None and not metric.absolute:
            scale = Scale(metric.low, metric.high)
            # A proportion of one half has a standard deviation of half its range.
            error = (scale.high - scale.low) / 2 * unit
            yield metric.names[1], metric.ideal, scale, error, metric.high * math.sqrt(changed) * unit


def of_run(run: Report, benchmark: str, n: int, clusters: int, icc: float) -> Iterator[Planned]:
    """The scores of the group that a run's headline is of; two runs as if they were independent.

    The standard errors are those of the run, scaled to the other numbers of rows and clusters.
    """
    shown = [score.estimate.key[:2] for score in headline_scores(run) if score.estimate.benchmark == benchmark]
    for score in run.estimates:
        # A score without a standard error, such as one of a single cluster, says nothing of other sizes.
        if score.key[:2] in shown and score.error > 0:
            error = score.error * factor(n, clusters, icc) / factor(score.n, score.clusters, icc)
            # The variance of the difference of two independent runs is the sum of theirs.
            yield score.short_name, score.ideal, metric_range([score]), error, math.sqrt(2) * error


def size_of_run(run: Report, benchmark: str, clusters: int | None) -> tuple[int, int]:
    """The rows and clusters of the first headline of a benchmark in a run.

    Raises
    ------
    ScoringError
        When the run has no score of the benchmark with an interval.
    """
    for score in headline_scores(run):
        if score.estimate.benchmark == benchmark and score.estimate.error > 0:
            return score.estimate.n, clusters or score.estimate.clusters
    raise ScoringError(f"The run {run.name} has no interval of {benchmark}; give --n with the number of rows.")


def main(
    benchmark: Annotated[str, typer.Argument(help="The benchmark of the run.")],
    n: Annotated[int | None, typer.Option("--n", min=2, help="Rows of the group; by default those of --run.")] = None,
    clusters: Annotated[
        int | None, typer.Option(min=2, help="Clusters of the rows; by default one a row, or those of --run.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="Take the variance of this run.")] = None,
    icc: Annotated[float, typer.Option(min=0.0, max=1.0, help="Correlation of rows of a cluster.")] = 0.05,
    changed: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of rows in which two runs differ, without --run.")
    ] = 0.2,
    tests: Annotated[int, typer.Option(min=1, help="Number of changes in one correction (Holm).")] = 1,
) -> None:
    """Say the minimum detectable effects of a run of BENCHMARK: power 80 %, p below 0.05.

    A proportion needs no run; for other scores give --run. Exit status: 1 when something cannot be done.
    """
    console = Console()
    with ended(Console(stderr=True), ScoringError):
        chosen = benchmarks.get(benchmark)
        if run:
            stored = report.read(run)
            if n is None:
                n, clusters = size_of_run(stored, chosen.name, clusters)
            clusters = clusters or n
            scores = of_run(stored, chosen.name, n, clusters, icc)
            lacks = f"{run} has no interval of {benchmark}"
            variance = f"the variance of {run}, two runs as if independent"
        elif n is None:
            raise UsageError("Missing option '--n'.")
        else:
            clusters = clusters or n
            scores = of_design(chosen, n, clusters, icc, changed)
            lacks = f"No score of {benchmark} is a proportion"
            variance = f"shares of one half, {changed:g} of the rows changed, and a correlation of {icc:g} in a cluster"
        rows = []
        for name, ideal, scale, error, paired in scores:
            alone = math.nan
            if ideal is not None:
                alone = detectable(error, clusters - 1)
            # The smallest p of so few clusters, where all signs agree, is above the level.
            if 2.0 ** (1 - clusters) >= LEVEL / tests:
                change = math.inf
            else:
                change = detectable(paired, clusters - 1, LEVEL / tests)
            rows.append([name, detectable_text(alone, scale) or "–", detectable_text(change, scale) or "–"])
        if not rows:
            raise ScoringError(f"{lacks}; give --run with a run that has scored it.")
        console.print(text_table(["score", "from the ideal", "between two runs"], rows))
        planned = say("power.planned", rows=f"{n:,}", clusters=f"{clusters:,}", tests=tests, variance=variance)
        show_wrapped(console, planned)


app = single(main)
