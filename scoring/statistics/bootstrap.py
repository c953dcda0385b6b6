"""Resamples of clusters: how often each has each cluster, and what sums of examples become in all of them.

A resample draws as many clusters as the table has, with replacement. Examples of a cluster are added up
first, so that all resamples of all metrics are one matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.types import Floats, Group, Metric, ScoringError, Table

RESAMPLES = 10_000
# Cells drawn, and counts multiplied, at once: the first stay near the processor, the second (32 MB) keep it busy.
_DRAWN, _COUNTED = 1 << 16, 1 << 22

#: What is measured: a metric over a group.
Item = tuple[Group, Metric]


def weights(clusters: int, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """How often each resample has each cluster, of shape [resamples, clusters].

    Drawn from the raw stream of PCG64, which NumPy keeps for good, by exact arithmetic alone, so a
    seed gives the same counts on every platform and version: each half of a 64-bit number, the low
    one first, times ``clusters`` over 2**32 is a cluster (the chances differ by less than ``clusters`` / 2**32). For
    the weights of examples take ``weights(...)[:, cluster_of_example]``.

    >>> weights(3, resamples=4, seed=0).sum(axis=1)
    array([3., 3., 3., 3.])
    """
    counts = np.empty((resamples, clusters))
    _draw(np.random.PCG64(seed), counts)
    return counts


def _draw(stream: np.random.PCG64, counts: Floats) -> None:
    """Fills counts [resamples, clusters] with the next resamples of the stream."""
    resamples, clusters = counts.shape
    rows = max(1, _DRAWN // max(1, clusters))
    for start in range(0, resamples if clusters else 0, rows):
        part = counts[start : start + rows]
        # A resample takes whole 64-bit numbers, so that it does not matter how they are parted.
        raw = stream.random_raw((len(part), (clusters + 1) // 2)).astype("<u8", copy=False)
        halves = raw.view("<u4")[:, :clusters]
        # Exact, as no product reaches 2**53.
        cells = (halves * (clusters * 2.0**-32)).astype(np.intp)
        cells += np.arange(len(part))[:, None] * clusters
        part[:] = np.bincount(cells.ravel(), minlength=part.size).reshape(part.shape)


class _Rows(Mapping[str, NDArray[Any]]):
    """The rows of a table that a mask marks; a column is cut out when it is first asked for."""

    def __init__(self, table: Table, mask: NDArray[np.bool_]) -> None:
        self._table, self._mask = table, mask
        self._cut: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._cut:
            self._cut[name] = self._table[name][self._mask]
        return self._cut[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a group: how many, the clusters they are in, and for each row the place of its own among these."""

    rows: Table
    n: int
    clusters: NDArray[np.intp]
    codes: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Sums:
    """A metric over a part, added up: ``columns`` [all columns, clusters of the part], which had ``shape``."""

    part: Part
    columns: Floats
    shape: tuple[int, ...]
    why: str


def _parts(items: Sequence[Item], table: Table, codes: NDArray[np.intp]) -> list[Part]:
    """The part of each item; items of one group share it."""
    found: dict[int, Part] = {}
    for group, _ in items:
        if id(group) not in found:
            mask = np.asarray(group.mask, dtype=bool)
            clusters, places = np.unique(codes[mask], return_inverse=True)
            found[id(group)] = Part(_Rows(table, mask), len(places), clusters, places)
    return [found[id(group)] for group, _ in items]


def _add_up(metric: Metric, part: Part) -> Sums:
    with np.errstate(invalid="ignore"):
        each = metric.columns(part.rows)
    n, *shape = each.shape
    each = each.reshape(n, math.prod(shape))
    finite = np.isfinite(each)
    wrong = 0 if finite.all() else int((~finite).any(axis=1).sum())
    # NaN times a weight of 0 is NaN: what has no finite value would spoil every resample.
    usable = np.zeros_like(each) if wrong else each
    columns = np.empty((usable.shape[1], len(part.clusters)))
    for number, column in enumerate(usable.T):
        columns[number] = np.bincount(part.codes, column, minlength=len(part.clusters))
    why = f"{wrong} of {n} rows have no finite value" if wrong else "" if n else "no rows"
    return Sums(part, columns, tuple(shape), why)


def added_up(items: Sequence[Item], table: Table, codes: NDArray[np.intp]) -> list[Sums]:
    """Each metric over its group, added up."""
    parts = _parts(items, table, codes)
    return [_add_up(metric, part) for (_, metric), part in zip(items, parts, strict=True)]


def _distinct(sums: Sequence[Sums], clusters: int) -> tuple[Floats, list[list[int]]]:
    """All columns over the clusters of the table, each once, and for each metric the numbers of its own.

    Many metrics share such as the count of a group.
    """
    numbers: dict[bytes, int] = {}
    columns: list[Floats] = []
    where: list[list[int]] = []
    for each in sums:
        where.append([])
        for own in each.columns:
            column = np.zeros(clusters)
            column[each.part.clusters] = own
            number = numbers.setdefault(column.tobytes(), len(columns))
            if number == len(columns):
                columns.append(column)
            where[-1].append(number)
    return np.array(columns).reshape(len(columns), clusters), where


def resampled(items: Sequence[Item], sums: Sequence[Sums], clusters: int, resamples: int, seed: int) -> list[Floats]:
    """For each item its value (first) and its resampled values; NaN where not defined."""
    columns, where = _distinct(sums, clusters)
    totals = _totals(columns, resamples, seed)
    finals = []
    for (_, metric), each, rows in zip(items, sums, where, strict=True):
        own = np.moveaxis(totals[rows].reshape(*each.shape, 1 + resamples), -1, 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values = metric.final(own)
        finals.append(np.where(np.isfinite(values), values, np.nan))
    return finals


def _totals(columns: Floats, resamples: int, seed: int) -> Floats:
    """Sums [columns, 1 + resamples] of columns [columns, clusters]: first over the table itself."""
    if resamples < 2:
        raise ScoringError(f"An interval of {resamples} resamples was asked for; give at least 2, such as {RESAMPLES}.")
    totals = np.empty((len(columns), 1 + resamples))
    totals[:, 0] = columns.sum(axis=1)
    stream = np.random.PCG64(seed)
    clusters = columns.shape[1]
    counts = np.empty((min(resamples, max(1, _COUNTED // max(1, clusters))), clusters))
    for start in range(1, 1 + resamples, len(counts)):
        part = counts[: 1 + resamples - start]
        _draw(stream, part)
        totals[:, start : start + len(part)] = columns @ part.T
    return totals
