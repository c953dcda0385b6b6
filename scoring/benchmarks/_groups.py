"""Which metrics are reported of which groups."""

from __future__ import annotations

from collections.abc import Sequence

from scoring.types import Benchmark, Group, Metric, Table


def items(
    benchmark: Benchmark, profile: str, table: Table, metrics: Sequence[Metric] | None = None
) -> list[tuple[Group, Metric]]:
    """What is reported of a table: each group that has rows, with each metric that says something of it.

    ``metrics`` are those of the profile unless told.
    """
    chosen = benchmark.metrics(profile) if metrics is None else metrics
    return [
        (group, metric)
        for group in benchmark.groups(table)
        if group.mask.any()
        for metric in chosen
        if metric.name not in group.without
    ]
