"""The score of each example of a run, for scores that are a plain mean of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring import benchmarks
from scoring.report.headlines import headline_scores
from scoring.types import Estimate, Floats, Report, Table


@dataclass(frozen=True, slots=True)
class ExampleScores:
    """The examples [n] of a group that a metric counts: their rows, their ``clusters`` and their ``scores``.

    The mean of the scores is the value of the ``estimate``.
    """

    estimate: Estimate
    rows: Table
    clusters: NDArray[np.generic]
    scores: Floats


def example_scores(report: Report, tables: Mapping[str, Table]) -> Iterator[ExampleScores]:
    """The scores of examples for each proportion of each headline's group.

    Metrics in which examples count unequally, and those of the absolute value of a mean, are left out.
    """
    by_key = report.by_key
    for headline in headline_scores(report):
        chosen = headline.estimate
        benchmark = benchmarks.get(chosen.benchmark)
        table = tables[chosen.benchmark]
        for group, metric in benchmark.items(report.profile, table):
            # Only a proportion has an event for each example, and a size of a mean is not a mean of sizes.
            if group.name != chosen.group or metric.events is None or metric.absolute:
                continue
            rows = {name: column[group.mask] for name, column in table.items()}
            event, weight = metric.events(rows).T
            # Other weights than 0 and 1 make a weighted mean, which no score of one example is a part of.
            if not set(weight) <= {0, 1}:
                continue
            is_counted = weight > 0
            counted_rows = {name: column[is_counted] for name, column in rows.items()}
            yield ExampleScores(
                estimate=by_key[benchmark.name, group.name, metric.name],
                rows=counted_rows,
                clusters=counted_rows[benchmark.cluster],
                scores=(metric.high * event)[is_counted],
            )
