"""Which metrics are reported of which groups."""

from __future__ import annotations

from collections.abc import Sequence

from scoring.types import Benchmark, Group, Metric, Table


def items(
    benchmark: Benchmark, profile: str, table: Table, metrics: Sequence[Metric] | None = None
) -> list[tuple[Group, Metric]]:
    """The groups of a table that have rows, each with every metric that is reported of it.

    ``metrics`` are those of the profile by default.
    """
    chosen = benchmark.metrics(profile) if metrics is None else metrics
    return [
        (group, metric)
        for group in benchmark.groups(table)
        if group.mask.any()
        for metric in chosen
        if metric.name not in group.without
    ]
