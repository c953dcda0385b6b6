"""The scores of a table of examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from numpy.typing import NDArray

from scoring import benchmarks, responses
from scoring.statistics.stats import RESAMPLES, Item, measure
from scoring.types import BY_OTHERS, Benchmark, Estimate, Metric, Report, ScoringError, Table

#: The ``dtype`` of a report whose answers were sampled.
SAMPLED = "sampled answers, not probabilities"


def as_asked(benchmark: Benchmark, report: Report) -> Benchmark:
    """A benchmark as a run asked it: sampled answers and published responses have groups and metrics of their own."""
    if report.environment.get("engine") == BY_OTHERS:
        return responses.get(report.environment["source"]).asked(benchmark)
    task = benchmark.sampled
    if report.dtype == SAMPLED and task:
        return replace(benchmark, metrics=task.metrics, groups=task.groups, cluster=task.cluster)
    return benchmark


#: What is computed of each item, such as an estimate.
R = TypeVar("R")


def by_clusters(
    benchmark: Benchmark,
    items: Sequence[Item],
    table: Table,
    compute: Callable[[Sequence[Item], NDArray[Any]], Sequence[R]],
) -> list[R]:
    """``compute(items, clusters)`` for the items of each kind of clusters, in the order of the items."""
    # Metrics with the same clusters share their resamples, so they are measured together.
    by_column: dict[str, list[int]] = {}
    for place, (_, metric) in enumerate(items):
        by_column.setdefault(cluster_of(benchmark, metric, table), []).append(place)
    results: dict[int, R] = {}
    for column, places in by_column.items():
        computed = compute([items[place] for place in places], table[column])
        results.update(zip(places, computed, strict=True))
    return [results[place] for place in range(len(items))]


def cluster_of(benchmark: Benchmark, metric: Metric, table: Table) -> str:
    """The column that is resampled together for a metric: its own where each example is a cluster of the benchmark.

    Raises
    ------
    ScoringError
        If the examples have no such column.
    """
    # Prompts that are clusters of their own depend on each other for a difference within pairs of prompts.
    if benchmark.cluster == "id" and metric.cluster in table:
        return metric.cluster
    if benchmark.cluster not in table:
        raise ScoringError(
            f"The cluster of {benchmark.name} is {benchmark.cluster!r}, which is no column of its examples; give "
            f"one of {', '.join(table)}."
        )
    return benchmark.cluster


def estimate(benchmark: Benchmark, profile: str, table: Table, resamples: int = RESAMPLES) -> list[Estimate]:
    """Every metric over every group that has rows."""
    if not table:
        return []

    def measured(items: Sequence[Item], clusters: NDArray[Any]) -> list[Estimate]:
        return measure(items, table, clusters, benchmark=benchmark.name, resamples=resamples)

    return by_clusters(benchmark, benchmark.items(profile, table), table, measured)


def with_computed(report: Report, tables: Mapping[str, Table], resamples: int = RESAMPLES) -> Report:
    """A report whose scores of these benchmarks are those of their examples.

    A score that the metrics of this version do not make is left as it is.
    """
    computed: dict[Any, Estimate] = {}
    for name, table in tables.items():
        for score in estimate(as_asked(benchmarks.get(name), report), report.profile, table, resamples):
            computed[score.key] = score
    return replace(report, estimates=tuple(computed.get(score.key, score) for score in report.estimates))
