"""Intervals: examples that depend on each other are resampled together, all resamples in one matrix product.

A resample draws as many clusters as the table has, with replacement. Every metric of every group sees
the same resamples, so differences between groups and between runs are paired, and a group is a
subpopulation: how many of its clusters a resample has varies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from scoring.statistics.bootstrap import RESAMPLES, Item, Sums, added_up, resampled, weights
from scoring.types import Difference, Estimate, Floats, Group, Metric, ScoringError, Table

__all__ = ["LEVEL", "RESAMPLES", "Item", "compare", "estimate", "holm", "measure", "paired", "weights"]

LEVEL = 0.95


def _spread(draws: Floats, clusters: int) -> tuple[float, float, float]:
    """Lower and upper end of the percentile interval and the standard deviation, of the defined draws.

    The percentiles are moved out for few clusters, as Hesterberg (2015, "What teachers should know
    about the bootstrap") does: the bootstrap forgets the factor C / (C − 1) of the variance, and the
    normal distribution the tails of Student's.
    """
    defined = draws[~np.isnan(draws)]
    if clusters < 2 or len(defined) < 2:
        return math.nan, math.nan, math.nan
    tail = NormalDist().cdf(-_student(clusters - 1) * math.sqrt(clusters / (clusters - 1)))
    low, high = _quantiles(defined, (tail, 1 - tail))
    return low, high, float(defined.std(ddof=1))


def _quantiles(draws: Floats, shares: Sequence[float]) -> list[float]:
    """Quantiles between the two draws next to each, as :func:`numpy.quantile` has them and in less time.

    >>> _quantiles(np.array([4.0, 1.0, 2.0]), (0.25, 0.5))
    [1.5, 2.0]
    """
    places = [share * (len(draws) - 1) for share in shares]
    below = [min(int(place), len(draws) - 2) for place in places]
    ordered = np.partition(draws, sorted({i for each in below for i in (each, each + 1)}))
    return [
        float(ordered[each] + (place - each) * (ordered[each + 1] - ordered[each]))
        for each, place in zip(below, places, strict=True)
    ]


def _student(freedom: int) -> float:
    """Upper quantile of Student's t for :data:`LEVEL`, by the expansion 26.7.5 of Abramowitz and Stegun."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return math.fsum(term / float(freedom) ** power for power, term in enumerate(terms))


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
        told = ", ".join(f"{name} {n}" for name, n in lengths.items()) or "no column"
        raise ScoringError(f"The table has columns of different lengths ({told}); give one value for each row.")
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
        For each example the name of what it depends on, such as its target term.

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
    low, high, sd = (math.nan,) * 3 if math.isnan(value) else _spread(finals[1:], len(sums.part.clusters))
    return Estimate(
        benchmark=benchmark,
        group=group.name,
        metric=metric.name,
        value=_steady(value),
        low=_steady(low),
        high=_steady(high),
        sd=_steady(sd),
        n=sums.part.n,
        clusters=len(sums.part.clusters),
        ideal=metric.ideal,
        reading=metric.reading,
        why=_reason(value, sums, metric),
        printed_sd=None if metric.sd is None or math.isnan(value) else metric.sd(value, sums.part.n),
        least=metric.low,
        most=metric.high,
    )


def estimate(
    metric: Metric,
    table: Table,
    mask: NDArray[np.bool_] | None = None,
    clusters: NDArray[np.generic] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """:func:`measure` for one metric; without a mask over all rows, without clusters each row its own.

    >>> import numpy as np
    >>> share = Metric("share", lambda t: np.stack([t["x"], np.ones(len(t["x"]))], 1), lambda s: s[..., 0] / s[..., 1],
    ...                None, 0, 1, "Share of rows.")
    >>> found = estimate(share, {"x": np.array([0.0, 1.0, 1.0, 1.0] * 20)})
    >>> found.value, found.n, found.low < 0.75 < found.high
    (0.75, 80, True)
    """
    rows = _rows(table)
    group = Group("", np.ones(rows, bool) if mask is None else mask)
    found = measure(
        [(group, metric)], table, np.arange(rows) if clusters is None else clusters, resamples=resamples, seed=seed
    )
    return found[0]


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

    A resample has the same clusters in both runs. p is twice the smaller share of resampled
    differences that are not on the far side of 0.

    Raises
    ------
    ScoringError
        When the tables hold different examples (column ``id``, where they have it).
    """
    rows = _rows(table_a)
    _same_examples(table_a, table_b, rows)
    codes, count = _codes(clusters, rows)
    sums = [added_up(items, table, codes) for table in (table_a, table_b)]
    finals = [resampled(items, each, count, resamples, seed) for each in sums]
    found = [_difference(benchmark, *each) for each in zip(items, *sums, *finals, strict=True)]
    adjusted = holm([each.p for each in found])
    return [replace(each, p_holm=p) for each, p in zip(found, adjusted, strict=True)]


def paired(
    metric: Metric,
    table_a: Table,
    table_b: Table,
    mask: NDArray[np.bool_] | None = None,
    clusters: NDArray[np.generic] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """:func:`compare` for one metric; without a mask over all rows, without clusters each row its own."""
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
    low, high, sd = (math.nan,) * 3 if math.isnan(value) else _spread(finals[1:], len(a.part.clusters))
    p = math.nan if math.isnan(low) else _p(finals[1:])
    return Difference(
        benchmark=benchmark,
        group=group.name,
        metric=metric.name,
        value=_steady(value),
        low=_steady(low),
        high=_steady(high),
        sd=_steady(sd),
        p=p,
        p_holm=math.nan,
        n=a.part.n,
        clusters=len(a.part.clusters),
        why=why or _reason(value, a, metric),
        ideal=metric.ideal,
        reading=metric.reading,
    )


def _p(draws: Floats) -> float:
    """Two-sided p of no difference; the observed one counts as a resample, so p is never 0."""
    defined = draws[~np.isnan(draws)]
    smaller = min((defined <= 0).sum(), (defined >= 0).sum())
    return min(1.0, 2 * (1 + int(smaller)) / (1 + len(defined)))


def holm(p: Sequence[float]) -> list[float]:
    """p-values that hold for all of a family at once (Holm, 1979); NaN stays and counts for nothing.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted((i for i, each in enumerate(p) if not math.isnan(each)), key=lambda i: p[i])
    adjusted = [math.nan] * len(p)
    floor = 0.0
    for rank, i in enumerate(order):
        floor = max(floor, min(1.0, p[i] * (len(order) - rank)))
        adjusted[i] = floor
    return adjusted
