"""The smallest differences that a run would find, before it: from a design, or from the variance of an earlier run."""

import math
from collections.abc import Iterator

from cards.numbers import Scale
from scoring.report.headlines import headline_scores
from scoring.report.numbers import metric_range
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
        given = f"{n} rows in {clusters} clusters"
        raise ScoringError(f"There are no {given}; give 2 clusters or more, and at least as many rows.")
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
            on = Scale(metric.low, metric.high)
            error = (on.high - on.low) / 2 * unit
            yield metric.names[1], metric.ideal, on, error, metric.high * math.sqrt(changed) * unit


def of_run(run: Report, benchmark: str, n: int, clusters: int, icc: float) -> Iterator[Planned]:
    """The scores of the group that a run's headline is of; two runs as if they were independent.

    The standard errors are those of the run, times what the other number of rows and clusters makes of them.
    """
    shown = [score.estimate.key[:2] for score in headline_scores(run) if score.estimate.benchmark == benchmark]
    for score in run.estimates:
        if [score.key[:2]] == shown and score.error > 0:
            error = score.error * factor(n, clusters, icc) / factor(score.n, score.clusters, icc)
            yield score.short_name, score.ideal, metric_range([score]), error, math.sqrt(2) * error
