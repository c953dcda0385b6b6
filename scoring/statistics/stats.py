"""Metrics over groups of examples, and their differences between two runs, with 95 % intervals.

Examples that depend on each other (a cluster) are resampled together. A resample draws as many clusters
as the table has, with replacement. Every metric of every group sees the same resamples, so differences
between groups and between runs are paired, and a group is a subpopulation: how many of its clusters a
resample has varies. Rare events and few clusters get other intervals than the bootstrap's
(:mod:`scoring.statistics.intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scoring.statistics import intervals
from scoring.statistics.bootstrap import RESAMPLES, Item, Part, Sums, added_up, resampled, weights
from scoring.statistics.intervals import LEVEL, Counts, Interval
from scoring.types import Difference, Estimate, Floats, Group, Metric, ScoringError, Table

__all__ = ["LEVEL", "RESAMPLES", "Item", "compare", "estimate", "holm", "measure", "paired", "weights"]

#: A standard deviation below this share of the range is rounding.
_ROUNDING = 1e-12


def _reason(value: float, sums: Sums, metric: Metric) -> str:
    if sums.why:
        return sums.why
    if math.isnan(value):
        return metric.undefined
    return "one cluster, so no interval" if len(sums.part.clusters) < 2 else ""


def _steady(value: float) -> float:
    """Twelve digits: in the last ones, sums depend on the processor."""
    return float(f"{value:.12g}")


def _codes(clusters: NDArray[np.generic], rows: int) -> tuple[NDArray[np.intp], int]:
    if len(clusters) != rows:
        raise ScoringError(f"{len(clusters)} cluster names came with {rows} rows; give one for each row.")
    # Objects of several kinds have no order; strings have.
    ordered = clusters.astype(str) if clusters.dtype == object else clusters
    names, codes = np.unique(ordered, return_inverse=True)
    return codes, len(names)


def _rows(table: Table) -> int:
    lengths = {name: len(column) for name, column in table.items()}
    if len(set(lengths.values())) != 1:
        listed = ", ".join(f"{name} {n}" for name, n in lengths.items()) or "no column"
        raise ScoringError(f"The table has columns of different lengths ({listed}); give one value for each row.")
    return next(iter(lengths.values()))


def measure(
    items: Sequence[Item],
    table: Table,
    clusters: NDArray[np.generic],
    *,
    benchmark: str = "",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Estimate]:
    """Every metric over its group, with intervals from the same resamples.

    Parameters
    ----------
    items:
        Pairs of a group and a metric.
    table:
        One line per example.
    clusters:
        For each example the name of its cluster, such as its target term.

    Raises
    ------
    ScoringError
        When columns, masks or clusters differ in length.
    """
    rows = _rows(table)
    codes, count = _codes(clusters, rows)
    for group, _ in items:
        if len(group.mask) != rows:
            raise ScoringError(f"The group {group.name} marks {len(group.mask)} rows of {rows}; mark every row.")
    sums = added_up(items, table, codes)
    finals = resampled(items, sums, count, resamples, seed)
    return [_estimate(benchmark, item, s, f) for item, s, f in zip(items, sums, finals, strict=True)]


def _estimate(benchmark: str, item: Item, sums: Sums, finals: Floats) -> Estimate:
    group, metric = item
    value = math.nan if sums.why else float(finals[0])
    interval, sd = (intervals.NONE, math.nan) if math.isnan(value) else _interval(metric, sums, finals)
    return Estimate(
        benchmark=benchmark,
        group=group.name,
        metric=metric.name,
        value=_steady(value),
        low=_steady(interval.low),
        high=_steady(interval.high),
        sd=_steady(sd),
        n=sums.part.n,
        clusters=len(sums.part.clusters),
        ideal=metric.ideal,
        reading=metric.reading,
        why=_reason(value, sums, metric),
        printed_sd=None if metric.sd is None or math.isnan(value) else metric.sd(value, sums.part.n),
        least=metric.low,
        most=metric.high,
        method=interval.method,
        label=metric.label,
    )


def _interval(metric: Metric, sums: Sums, finals: Floats) -> tuple[Interval, float]:
    """The interval of a value, and the standard deviation of the bootstrap."""
    value, clusters = float(finals[0]), len(sums.part.clusters)
    drawn = intervals.bootstrap(finals[1:], clusters)
    if clusters < 2:
        return drawn, math.nan
    sd = _deviation(finals[1:])
    if metric.events is None:
        span = metric.high - metric.low
        other = _few_clusters(value, sd, span, sums.part, lambda: _without_each(metric, sums))
    else:
        event, weight = metric.events(sums.part.rows).T
        exact, many = intervals.binomial(
            Counts.of(event, weight, sums.part.codes), signed=metric.low < 0 or metric.absolute
        )
        other = None if many else _scaled(exact, metric)
    return intervals.cut(other, value, metric.low, metric.high) if other else drawn, sd


def _deviation(draws: Floats) -> float:
    defined = draws[~np.isnan(draws)]
    return float(defined.std(ddof=1)) if len(defined) > 1 else math.nan


def _scaled(exact: Interval, metric: Metric) -> Interval:
    """The interval of a proportion in the unit of its metric."""
    low, high = exact.low, exact.high
    if metric.absolute:
        low, high = max(0.0, low, -high), max(-low, high)
    return replace(exact, low=metric.high * low, high=metric.high * high)


def _few_clusters(
    value: float, sd: float, span: float, part: Part, without_each: Callable[[], Floats]
) -> Interval | None:
    """The interval of a metric whose bootstrap has no width or few clusters; None where the bootstrap is right."""
    clusters = intervals.effective_number(np.bincount(part.codes).astype(float))
    if math.isfinite(span) and sd <= _ROUNDING * span:
        return intervals.rule_of_three(value, clusters, span)
    if clusters >= intervals.FEW:
        return None
    without = without_each()
    if not np.isfinite(without).all():
        return None
    return intervals.cluster_t(value, without, max(1.0, clusters - 1))


def _without_each(metric: Metric, sums: Sums) -> Floats:
    """Values [clusters] of a metric without one cluster each."""
    rest = sums.columns.sum(axis=1, keepdims=True) - sums.columns
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return metric.final(np.moveaxis(rest.reshape(*sums.shape, -1), -1, 0))


def estimate(
    metric: Metric,
    table: Table,
    mask: NDArray[np.bool_] | None = None,
    clusters: NDArray[np.generic] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """:func:`measure` for one metric, by default over all rows, each row its own cluster.

    >>> import numpy as np
    >>> share = Metric("share", lambda t: np.stack([t["x"], np.ones(len(t["x"]))], 1), lambda s: s[..., 0] / s[..., 1],
    ...                None, 0, 1, "Share of rows.")
    >>> found = estimate(share, {"x": np.array([0.0, 1.0, 1.0, 1.0] * 20)})
    >>> found.value, found.n, found.low < 0.75 < found.high
    (0.75, 80, True)
    """
    rows = _rows(table)
    group = Group("", np.ones(rows, bool) if mask is None else mask)
    return measure(
        [(group, metric)], table, np.arange(rows) if clusters is None else clusters, resamples=resamples, seed=seed
    )[0]


def compare(
    items: Sequence[Item],
    table_a: Table,
    table_b: Table,
    clusters: NDArray[np.generic],
    *,
    benchmark: str = "",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Difference]:
    """Every metric of run a minus that of run b over the same examples, row by row; p-values by Holm too.

    A resample has the same clusters in both runs. p belongs to the method of the interval: twice the
    smaller share of resampled differences that are not on the far side of 0, McNemar's exact test of
    gains and losses for few of them, or Student's t.

    Raises
    ------
    ScoringError
        When the tables hold different examples (column ``id``, where they have it).
    """
    rows = _rows(table_a)
    _same_examples(table_a, table_b, rows)
    codes, count = _codes(clusters, rows)
    sums = [added_up(items, table, codes) for table in (table_a, table_b)]
    finals = [resampled(items, own, count, resamples, seed) for own in sums]
    differences = [_difference(benchmark, *parts) for parts in zip(items, *sums, *finals, strict=True)]
    adjusted = holm([difference.p for difference in differences])
    return [replace(difference, p_holm=p) for difference, p in zip(differences, adjusted, strict=True)]


def paired(
    metric: Metric,
    table_a: Table,
    table_b: Table,
    mask: NDArray[np.bool_] | None = None,
    clusters: NDArray[np.generic] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """:func:`compare` for one metric, by default over all rows, each row its own cluster."""
    rows = _rows(table_a)
    group = Group("", np.ones(rows, bool) if mask is None else mask)
    names = np.arange(rows) if clusters is None else clusters
    return compare([(group, metric)], table_a, table_b, names, resamples=resamples, seed=seed)[0]


def _same_examples(table_a: Table, table_b: Table, rows: int) -> None:
    other = _rows(table_b)
    if rows != other:
        raise ScoringError(f"The runs have {rows} and {other} rows; compare two runs of the same data set version.")
    if "id" in table_a and "id" in table_b:
        differ = np.flatnonzero(table_a["id"] != table_b["id"])
        if len(differ):
            row = int(differ[0])
            raise ScoringError(
                f"The runs differ in {len(differ)} ids, first {table_a['id'][row]} and {table_b['id'][row]} in row "
                f"{row + 1}; compare two runs of the same data set version, in the same order."
            )


def _difference(benchmark: str, item: Item, a: Sums, b: Sums, finals_a: Floats, finals_b: Floats) -> Difference:
    group, metric = item
    finals = finals_a - finals_b
    why = a.why or b.why
    value = math.nan if why else float(finals[0])
    interval, sd = (intervals.NONE, math.nan) if math.isnan(value) else _interval_of_difference(metric, a, b, finals)
    return Difference(
        benchmark=benchmark,
        group=group.name,
        metric=metric.name,
        value=_steady(value),
        low=_steady(interval.low),
        high=_steady(interval.high),
        sd=_steady(sd),
        p=interval.p,
        p_holm=math.nan,
        n=a.part.n,
        clusters=len(a.part.clusters),
        why=why or _reason(value, a, metric),
        ideal=metric.ideal,
        reading=metric.reading,
        method=interval.method,
    )


def _interval_of_difference(metric: Metric, a: Sums, b: Sums, finals: Floats) -> tuple[Interval, float]:
    """The interval of a difference, and the standard deviation of the bootstrap."""
    value, clusters, span = float(finals[0]), len(a.part.clusters), metric.high - metric.low
    drawn = intervals.bootstrap(finals[1:], clusters)
    if clusters < 2:
        return drawn, math.nan
    sd = _deviation(finals[1:])
    if metric.events is None or metric.absolute:
        other = _few_clusters(value, sd, span, a.part, lambda: _without_each(metric, a) - _without_each(metric, b))
    else:
        exact, many = intervals.binomial(
            _discordant(metric.events(a.part.rows), metric.events(b.part.rows), a.part), signed=True
        )
        other = None if many else replace(exact, low=metric.high * exact.low, high=metric.high * exact.high)
    return intervals.cut(other, value, -span, span) if other else drawn, sd


def _discordant(a: Floats, b: Floats, part: Part) -> Counts:
    """Gains and losses of run a against run b, from their events and weights [examples, 2].

    An example counts by what it adds to the difference of the two proportions p_a and p_b: with
    p = (p_a + p_b) / 2 and W the mean of the runs' sums of weights, p_a - p_b is exactly
    Σ ((event_a - p · weight_a) - (event_b - p · weight_b)) / W, in which concordant examples are 0.
    """
    (events_a, weights_a), (events_b, weights_b) = a.T, b.T
    p = (events_a.sum() / weights_a.sum() + events_b.sum() / weights_b.sum()) / 2
    return Counts.of(events_a - events_b - p * (weights_a - weights_b), (weights_a + weights_b) / 2, part.codes)


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for the family that they are (Holm, 1979); NaN stays NaN and is not counted.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted((i for i, value in enumerate(p) if not math.isnan(value)), key=lambda i: p[i])
    adjusted = [math.nan] * len(p)
    floor = 0.0
    for rank, i in enumerate(order):
        floor = max(floor, min(1.0, p[i] * (len(order) - rank)))
        adjusted[i] = floor
    return adjusted
