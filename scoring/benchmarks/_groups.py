"""Groups that not every metric of a benchmark is told of."""

from __future__ import annotations

from dataclasses import dataclass

from scoring.types import Benchmark, Group, Metric, Table


@dataclass(frozen=True, slots=True)
class Part(Group):
    """A group with the names of the metrics that say nothing of it, such as a correlation over jobs of one job."""

    without: frozenset[str] = frozenset()


def items(benchmark: Benchmark, profile: str, table: Table) -> list[tuple[Group, Metric]]:
    """What is reported of a table: each group that has rows, with each metric that says something of it."""
    metrics = benchmark.metrics(profile)
    return [
        (group, metric)
        for group in benchmark.groups(table)
        if group.mask.any()
        for metric in metrics
        if metric.name not in (group.without if isinstance(group, Part) else ())
    ]
