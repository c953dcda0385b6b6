"""The smallest differences that a run would find, before it: from a design, or from the variance of an earlier run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cards.verdict import LEVEL
from scoring.report.headlines import headline_scores
from scoring.statistics.intervals import detectable
from scoring.types import Benchmark, Estimate, Report, ScoringError


@dataclass(frozen=True, slots=True)
class Design:
    """So many rows in clusters of one size; ``icc`` is the correlation of two rows of a cluster."""

    n: int
    clusters: int
    icc: float

    @property
    def error(self) -> float:
        """The standard error of a mean for a standard deviation of 1, √((1 + (n / clusters - 1) · icc) / n).

        The numerator is the design effect (Kish, 1965, "Survey sampling").

        Raises
        ------
        ScoringError
            For fewer than two clusters, or more clusters than rows.

        >>> Design(100, 100, 0.05).error, round(Design(100, 20, 0.05).error, 4)
        (0.1, 0.1095)
        """
        if not 2 <= self.clusters <= self.n:
            given = f"{self.n} rows in {self.clusters} clusters"
            raise ScoringError(f"There are no {given}; give 2 clusters or more, and at least as many rows.")
        return math.sqrt((1 + (self.n / self.clusters - 1) * self.icc) / self.n)


def of_design(
    benchmark: Benchmark, profile: str, design: Design, rate: float, changed: float
) -> Iterator[tuple[Estimate, float]]:
    """Each proportion of a benchmark, with its standard error, and the standard error of a paired difference.

    ``rate`` is the share of events, and ``changed`` that of the rows which differ between two runs; the variance of a
    paired difference is at most this share (McNemar's test; Connor, 1987, "Sample size for testing differences in
    proportions for the paired-sample design").
    """
    for metric in benchmark.metrics(profile):
        if metric.events is not None and not metric.absolute:
            none, span = (math.nan,) * 4, metric.high - metric.low
            error = span * math.sqrt(rate * (1 - rate)) * design.error
            score = Estimate(
                *(benchmark.name, "", metric.name, *none, design.n, design.clusters, metric.ideal),
                short=metric.names[1],
                error=error,
                least=metric.low,
                most=metric.high,
            )
            yield score, metric.high * math.sqrt(changed) * design.error


def of_run(run: Report, benchmark: str, design: Design) -> Iterator[tuple[Estimate, float]]:
    """The scores of the group that a run's headline is of, as :func:`of_design`, the runs as if independent.

    The standard errors are those of the run, times what the other number of rows and clusters makes of them.
    """
    shown = [score.estimate for score in headline_scores(run) if score.estimate.benchmark == benchmark]
    for score in run.estimates:
        if [score.key[:2]] == [e.key[:2] for e in shown] and score.error > 0:
            error = score.error * design.error / replace(design, n=score.n, clusters=score.clusters).error
            yield replace(score, error=error), math.sqrt(2) * error


def seen(score: Estimate, paired: float, clusters: int, tests: int) -> tuple[Estimate, Estimate]:
    """The score with the smallest distance from its ideal value, and with the smallest change, that would be found.

    The change is one of so many ``tests`` of a page.
    """
    few = 2.0 ** (1 - clusters) >= LEVEL / tests
    alone = detectable(math.nan if score.ideal is None else score.error, clusters - 1)
    change = math.inf if few else detectable(paired, clusters - 1, LEVEL / tests)
    return replace(score, detectable=alone), replace(score, detectable=change)
