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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.statistics import intervals
from scoring.statistics.bootstrap import RESAMPLES, Item, Subset, Sums, added_up, resampled
from scoring.statistics.intervals import Counts, Interval
from scoring.types import Difference, Estimate, Floats, Group, Metric, ScoringError, Table

__all__ = ["RESAMPLES", "Item", "compare", "estimate", "holm", "measure"]

#: A standard deviation below this share of the range is rounding.
_ROUNDING = 1e-12


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
    codes, count = _codes(items, table, clusters)
    sums = added_up(items, table, codes)
    finals = resampled(items, sums, count, resamples, seed)
    return [_estimate(benchmark, *parts) for parts in zip(items, sums, finals, strict=True)]


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
    """Every metric of run a minus that of run b over the same examples, row by row.

    A resample has the same clusters in both runs. p belongs to the method of the interval: twice the
    smaller share of resampled differences that are not on the far side of 0, McNemar's exact test of
    gains and losses for few of them, or Student's t. The p-values of one metric are corrected by :func:`holm`
    over its groups, not over all differences: with 10,000 resamples the smallest p is 0.0002, and no p would stay
    significant over hundreds of them.

    Raises
    ------
    ScoringError
        When the tables hold different examples (column ``id``, where they have it).
    """
    codes, count = _codes(items, table_a, clusters)
    _check_same_examples(table_a, table_b)
    sums = [added_up(items, table, codes) for table in (table_a, table_b)]
    finals = [resampled(items, own, count, resamples, seed) for own in sums]
    differences = [_difference(benchmark, *parts) for parts in zip(items, *sums, *finals, strict=True)]
    for metric in {difference.metric for difference in differences}:
        places = [place for place, difference in enumerate(differences) if difference.metric == metric]
        for place, p in zip(places, holm([differences[place].p for place in places]), strict=True):
            differences[place] = replace(differences[place], p_holm=p)
    return differences


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
    >>> measured = estimate(share, {"x": np.array([0.0, 1.0, 1.0, 1.0] * 20)})
    >>> measured.value, measured.n, measured.low < 0.75 < measured.high
    (0.75, 80, True)
    """
    rows = _rows(table)
    group = Group("", np.ones(rows, bool) if mask is None else mask)
    clusters = np.arange(rows) if clusters is None else clusters
    return measure([(group, metric)], table, clusters, resamples=resamples, seed=seed)[0]


def _rows(table: Table) -> int:
    lengths = {name: len(column) for name, column in table.items()}
    if len(set(lengths.values())) != 1:
        listed = ", ".join(f"{name} {n}" for name, n in lengths.items()) or "no column"
        raise ScoringError(f"The table has columns of different lengths ({listed}); give one value for each row.")
    return next(iter(lengths.values()))


def _codes(items: Sequence[Item], table: Table, clusters: NDArray[np.generic]) -> tuple[NDArray[np.intp], int]:
    """The number of the cluster of each row, and the number of clusters; checks all lengths."""
    rows = _rows(table)
    if len(clusters) != rows:
        raise ScoringError(f"{len(clusters)} cluster names came with {rows} rows; give one for each row.")
    for group, _ in items:
        if len(group.mask) != rows:
            raise ScoringError(f"The group {group.name} marks {len(group.mask)} rows of {rows}; mark every row.")
    # Objects of several kinds have no order; strings have.
    ordered = clusters.astype(str) if clusters.dtype == object else clusters
    names, codes = np.unique(ordered, return_inverse=True)
    return codes, len(names)


def _check_same_examples(table_a: Table, table_b: Table) -> None:
    rows, other = _rows(table_a), _rows(table_b)
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


def _estimate(benchmark: str, item: Item, sums: Sums, finals: Floats) -> Estimate:
    _, metric = item
    value = math.nan if sums.why else float(finals[0])

    def counts(events: Callable[[Table], Floats]) -> Counts:
        event, weight = events(sums.subset.rows).T
        return Counts.of(event, weight, sums.subset.codes)

    bounds = metric.low, metric.high
    interval, sd = _interval(
        metric, sums.subset, value, finals[1:], bounds, counts, lambda: _without_each(metric, sums)
    )
    return Estimate(
        **_fields(benchmark, item, sums, value, interval, sd, sums.why),
        printed_sd=None if metric.sd is None or math.isnan(value) else metric.sd(value, sums.subset.n),
        least=metric.low,
        most=metric.high,
        label=metric.label,
    )


def _difference(benchmark: str, item: Item, a: Sums, b: Sums, finals_a: Floats, finals_b: Floats) -> Difference:
    _, metric = item
    finals, why = finals_a - finals_b, a.why or b.why
    value = math.nan if why else float(finals[0])
    span = metric.high - metric.low
    interval, sd = _interval(
        # The difference of two sizes is no difference of two proportions.
        replace(metric, events=None) if metric.absolute else metric,
        a.subset,
        value,
        finals[1:],
        (-span, span),
        lambda events: _discordant(events(a.subset.rows), events(b.subset.rows), a.subset),
        lambda: _without_each(metric, a) - _without_each(metric, b),
    )
    return Difference(**_fields(benchmark, item, a, value, interval, sd, why), p=interval.p)


def _fields(
    benchmark: str, item: Item, sums: Sums, value: float, interval: Interval, sd: float, why: str
) -> dict[str, Any]:
    """What an estimate and a difference have in common."""
    group, metric = item
    clusters = len(sums.subset.clusters)
    if not why and math.isnan(value):
        why = metric.undefined
    return {
        "benchmark": benchmark,
        "group": group.name,
        "metric": metric.name,
        "value": _steady(value),
        "low": _steady(interval.low),
        "high": _steady(interval.high),
        "sd": _steady(sd),
        "n": sums.subset.n,
        "clusters": clusters,
        "ideal": metric.ideal,
        "reading": metric.reading,
        "why": why or ("one cluster, so no interval" if clusters < 2 else ""),
        "method": interval.method,
        "ability": metric.ability,
    }


def _steady(value: float) -> float:
    """Twelve digits: in the last ones, sums depend on the processor."""
    return float(f"{value:.12g}")


def _interval(
    metric: Metric,
    subset: Subset,
    value: float,
    draws: Floats,
    bounds: tuple[float, float],
    counts: Callable[[Callable[[Table], Floats]], Counts],
    without_each: Callable[[], Floats],
) -> tuple[Interval, float]:
    """The interval of a value or of a difference, and the standard deviation of the bootstrap.

    ``bounds`` are the smallest and the largest possible value. ``counts`` adds up the events of a proportion by
    cluster, and ``without_each`` gives the values [clusters] without one cluster each.
    """
    clusters = len(subset.clusters)
    if math.isnan(value) or clusters < 2:
        return intervals.NONE, math.nan
    bootstrap = intervals.bootstrap(draws, clusters)
    defined = draws[~np.isnan(draws)]
    sd = float(defined.std(ddof=1)) if len(defined) > 1 else math.nan
    if metric.events is None:
        other = _few_clusters(value, sd, metric.high - metric.low, subset, without_each)
    else:
        exact, many = intervals.binomial(counts(metric.events), signed=bounds[0] < 0 or metric.absolute)
        other = None if many else _scaled(exact, metric)
    return intervals.cut(other, value, *bounds) if other else bootstrap, sd


def _scaled(exact: Interval, metric: Metric) -> Interval:
    """The interval of a proportion in the unit of its metric."""
    low, high = exact.low, exact.high
    if metric.absolute:
        low, high = max(0.0, low, -high), max(-low, high)
    return replace(exact, low=metric.high * low, high=metric.high * high)


def _few_clusters(
    value: float, sd: float, span: float, subset: Subset, without_each: Callable[[], Floats]
) -> Interval | None:
    """The interval of a metric whose bootstrap has no width or few clusters; None where the bootstrap is right."""
    clusters = intervals.effective_number(np.bincount(subset.codes).astype(float))
    if math.isfinite(span) and sd <= _ROUNDING * span:
        return intervals.rule_of_three(value, clusters, span)
    if clusters >= intervals.FEW:
        return None
    without = without_each()
    return intervals.cluster_t(value, without, max(1.0, clusters - 1)) if np.isfinite(without).all() else None


def _without_each(metric: Metric, sums: Sums) -> Floats:
    """Values [clusters] of a metric without one cluster each."""
    rest = sums.columns.sum(axis=1, keepdims=True) - sums.columns
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return metric.final(np.moveaxis(rest.reshape(*sums.shape, -1), -1, 0))


def _discordant(a: Floats, b: Floats, subset: Subset) -> Counts:
    """Gains and losses of run a against run b, from their events and weights [examples, 2].

    An example counts by what it adds to the difference of the two proportions p_a and p_b: with
    p = (p_a + p_b) / 2 and W the mean of the runs' sums of weights, p_a - p_b is exactly
    Σ ((event_a - p · weight_a) - (event_b - p · weight_b)) / W, in which concordant examples are 0.
    """
    (events_a, weights_a), (events_b, weights_b) = a.T, b.T
    p = (events_a.sum() / weights_a.sum() + events_b.sum() / weights_b.sum()) / 2
    return Counts.of(events_a - events_b - p * (weights_a - weights_b), (weights_a + weights_b) / 2, subset.codes)


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
