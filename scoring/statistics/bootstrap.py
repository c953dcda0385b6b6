"""The bootstrap over clusters: resamples as counts, and the values of metrics in every resample.

A resample draws as many clusters as the table has, with replacement. It is a vector of counts: with 3
clusters, (2, 0, 1) has the first cluster twice and the second never. The columns of a metric are added
up within each cluster first. The sums of all resamples are then one matrix product, counts
[resamples, clusters] by sums [clusters, columns], and the metric computes its values from these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.types import Floats, Group, Metric, ScoringError, Table

RESAMPLES = 10_000
# How many counts are drawn at once (to stay in the processor's cache), and multiplied at once (32 MB).
_DRAWN, _COUNTED = 1 << 16, 1 << 22

#: A metric to compute over a group.
Item = tuple[Group, Metric]


def draw(stream: np.random.PCG64, counts: Floats) -> None:
    """Fills ``counts`` [resamples, clusters] with the counts of clusters in the next resamples of the stream.

    A seed gives the same counts on every platform and version, because they follow by exact arithmetic
    from the raw stream of PCG64, which NumPy promises to keep: each half of a 64-bit number, the low half
    first, times ``clusters`` / 2**32 and rounded down is the number of a cluster. (Probabilities differ by
    less than ``clusters`` / 2**32.)

    >>> counts = np.empty((4, 3))
    >>> draw(np.random.PCG64(0), counts)
    >>> counts.sum(axis=1)
    array([3., 3., 3., 3.])
    """
    resamples, clusters = counts.shape
    rows = max(1, _DRAWN // max(1, clusters))
    for start in range(0, resamples if clusters else 0, rows):
        part = counts[start : start + rows]
        # A resample takes whole 64-bit numbers, so the counts do not depend on how many rows are drawn at once.
        raw = stream.random_raw((len(part), (clusters + 1) // 2)).astype("<u8", copy=False)
        halves = raw.view("<u4")[:, :clusters]
        # Exact, as no product reaches 2**53.
        cells = (halves * (clusters * 2.0**-32)).astype(np.intp)
        cells += np.arange(len(part))[:, None] * clusters
        part[:] = np.bincount(cells.ravel(), minlength=part.size).reshape(part.shape)


@dataclass(frozen=True, slots=True)
class Subset:
    """The ``n`` rows of a group, the numbers of their ``clusters``, and the index into these of each row."""

    rows: Table
    n: int
    clusters: NDArray[np.intp]
    codes: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a metric by cluster: ``columns`` [columns, clusters of the subset], flattened from ``shape``.

    ``why`` explains why there is no value.
    """

    subset: Subset
    columns: Floats
    shape: tuple[int, ...]
    why: str


def _subsets(items: Sequence[Item], table: Table, codes: NDArray[np.intp]) -> list[Subset]:
    """The subset of each item; items of one group share it."""
    subsets: dict[int, Subset] = {}
    for group, _ in items:
        if id(group) not in subsets:
            mask = np.asarray(group.mask, dtype=bool)
            clusters, places = np.unique(codes[mask], return_inverse=True)
            rows = {name: column[mask] for name, column in table.items()}
            subsets[id(group)] = Subset(rows, len(places), clusters, places)
    return [subsets[id(group)] for group, _ in items]


def _add_up(metric: Metric, subset: Subset) -> Sums:
    with np.errstate(invalid="ignore"):
        values = metric.columns(subset.rows)
    n, *shape = values.shape
    values = values.reshape(n, math.prod(shape))
    finite = np.isfinite(values)
    wrong = 0 if finite.all() else int((~finite).any(axis=1).sum())
    # NaN times a count of 0 is NaN, so one NaN would make the value of every resample NaN.
    usable = np.zeros_like(values) if wrong else values
    columns = np.empty((usable.shape[1], len(subset.clusters)))
    for number, column in enumerate(usable.T):
        columns[number] = np.bincount(subset.codes, column, minlength=len(subset.clusters))
    why = f"{wrong} of {n} rows have no finite value" if wrong else "" if n else "no rows"
    return Sums(subset, columns, tuple(shape), why)


def added_up(items: Sequence[Item], table: Table, codes: NDArray[np.intp]) -> list[Sums]:
    """The sums by cluster of each metric over its group."""
    subsets = _subsets(items, table, codes)
    return [_add_up(metric, subset) for (_, metric), subset in zip(items, subsets, strict=True)]


def _distinct(sums: Sequence[Sums], clusters: int) -> tuple[Floats, list[list[int]]]:
    """The distinct columns [columns, clusters of the table], and for each metric the indices of its own.

    Many metrics share a column, such as the count of a group; it is multiplied once.
    """
    numbers: dict[bytes, int] = {}
    columns: list[Floats] = []
    where: list[list[int]] = []
    for metric_sums in sums:
        where.append([])
        for own in metric_sums.columns:
            column = np.zeros(clusters)
            column[metric_sums.subset.clusters] = own
            number = numbers.setdefault(column.tobytes(), len(columns))
            if number == len(columns):
                columns.append(column)
            where[-1].append(number)
    return np.array(columns).reshape(len(columns), clusters), where


def resampled(items: Sequence[Item], sums: Sequence[Sums], clusters: int, resamples: int, seed: int) -> list[Floats]:
    """For each item an array [1 + resamples]: its value, then the values of the resamples; NaN where undefined."""
    columns, where = _distinct(sums, clusters)
    totals = _totals(columns, resamples, seed)
    finals = []
    for (_, metric), metric_sums, rows in zip(items, sums, where, strict=True):
        own = np.moveaxis(totals[rows].reshape(*metric_sums.shape, 1 + resamples), -1, 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values = metric.final(own)
        finals.append(np.where(np.isfinite(values), values, np.nan))
    return finals


def _totals(columns: Floats, resamples: int, seed: int) -> Floats:
    """Totals [columns, 1 + resamples] of columns [columns, clusters], first of the table itself."""
    if resamples < 2:
        raise ScoringError(f"An interval of {resamples} resamples was asked for; give at least 2, such as {RESAMPLES}.")
    totals = np.empty((len(columns), 1 + resamples))
    totals[:, 0] = columns.sum(axis=1)
    stream = np.random.PCG64(seed)
    clusters = columns.shape[1]
    counts = np.empty((min(resamples, max(1, _COUNTED // max(1, clusters))), clusters))
    for start in range(1, 1 + resamples, len(counts)):
        part = counts[: 1 + resamples - start]
        draw(stream, part)
        totals[:, start : start + len(part)] = columns @ part.T
    return totals
