"""Shapes that most metrics have: a ratio of two sums, a mean, a mean over parts of the table."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.inputs.columns import numbered
from scoring.types import Floats, Metric, Table

#: One value per example.
Column = Callable[[Table], NDArray[Any]]


def side_by_side(*columns: NDArray[Any]) -> Floats:
    """Columns of one length as an array [examples, columns]."""
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=-1)


def ratio(sums: Floats, scale: float = 1.0) -> Floats:
    """The first sum over the second, times ``scale``; NaN where the second is 0.

    >>> ratio(np.array([[1.0, 4.0], [0.0, 0.0]]))
    array([0.25,  nan])
    """
    below = sums[..., 1]
    quotient: Floats = np.divide(scale * sums[..., 0], below, out=np.full(np.shape(below), np.nan), where=below != 0)
    return quotient


def proportion(
    name: str, columns: Column, ideal: float | None, reading: str, *, low: float = 0, high: float = 1, **more: Any
) -> Metric:
    """The ratio of sums of events and weights, the ``columns`` [examples, 2], with the intervals of a proportion."""
    plain = Metric(name, columns, lambda sums: ratio(sums, high), ideal, low, high, reading, events=columns)
    return replace(plain, **more)


def mean(
    name: str,
    column: Column,
    ideal: float | None,
    low: float,
    high: float,
    reading: str,
    *,
    scale: float = 1.0,
    where: Column | None = None,
    proportion: bool = False,
    **more: Any,
) -> Metric:
    """The mean of a column times ``scale`` (100 for percentages), over the examples that ``where`` marks.

    The mean is NaN if a value is. ``proportion`` says that values are 0, 1, a half for a tie, or -1
    for an event on the other side; ``high`` is then ``scale``.

    >>> metric = mean("share", lambda t: t["x"] > 1, 50, 0, 100, "How many are above 1.", scale=100)
    >>> metric.value({"x": np.array([1, 2, 3, 4])}, np.ones((1, 4)))
    array([75.])
    """

    def columns(table: Table) -> Floats:
        values = np.asarray(column(table), dtype=np.float64)
        counted: NDArray[Any] = np.ones(len(values), bool)
        if where is not None:
            counted = where(table)
        return side_by_side(np.where(counted, values, 0), counted)

    events = None
    if proportion:
        events = columns
    return Metric(name, columns, lambda sums: ratio(sums, scale), ideal, low, high, reading, events=events, **more)


def of_column(name: str) -> Metric:
    """The mean of a column with probabilities, over the rows that have one."""
    return mean(name, lambda t: t[name], None, 0, 1, "", where=lambda t: np.isfinite(t[name].astype(float)))


def percentage(name: str, column: Column, ideal: float | None, reading: str, *, low: float = 0, **more: Any) -> Metric:
    """:func:`mean` of events in percent, with the intervals of a proportion."""
    return mean(name, column, ideal, low, 100, reading, scale=100, proportion=True, **more)


def share(name: str, column: Column, ideal: float | None, reading: str, **more: Any) -> Metric:
    """:func:`mean` of events as a share of 1, with the intervals of a proportion."""
    return mean(name, column, ideal, 0, 1, reading, proportion=True, **more)


def once_each(table: Table, by: str) -> Floats:
    """Weights [examples] with which each value of column ``by`` counts once: one over its number of examples.

    >>> once_each({"subject": np.array(["nurse", "cook", "nurse"])}, "subject")
    array([0.5, 1. , 0.5])
    """
    codes, count = numbered(table[by])
    return 1 / np.bincount(codes, minlength=count)[codes]


def mean_over(metric: Metric, by: str, name: str, reading: str, **more: Any) -> Metric:
    """The plain mean of a metric's values over the parts of the table that share a value in column ``by``.

    >>> share = mean("share", lambda t: t["x"], None, 0, 1, "Share.")
    >>> table = {"x": np.array([1, 1, 1, 0]), "topic": np.array(["a", "a", "a", "b"])}
    >>> mean_over(share, "topic", "share by topic", "Share.").value(table, np.ones((1, 4)))
    array([0.5])
    """

    def columns(table: Table) -> Floats:
        parts = np.unique(table[by])
        inside = (table[by][:, None] == parts).astype(np.float64)
        added = metric.columns(table)
        # From [examples, …] to [examples, parts, …], with 0 in the parts that an example is not in.
        axes = (1,) * (added.ndim - 1)
        by_part: Floats = inside.reshape(inside.shape + axes) * added[:, None]
        return by_part

    def final(sums: Floats) -> Floats:
        values = metric.final(sums)
        if not values.shape[-1]:
            return np.full(values.shape[:-1], np.nan)
        means: Floats = values.mean(axis=-1)
        return means

    def events(table: Table) -> Floats:
        assert metric.events is not None
        happened, weights = metric.events(table).T
        _, codes = np.unique(table[by], return_inverse=True)
        total = np.bincount(codes, weights)
        # Each part counts once, and its examples by their share of it.
        return side_by_side(happened, weights) / np.where(total > 0, total, 1)[codes][:, None]

    # The mean of the sizes of several signed shares is not the size of one signed share.
    rare = None
    if metric.events is not None and not metric.absolute:
        rare = events
    mean_of = replace(metric, name=name, columns=columns, final=final, reading=reading, sd=None)
    return replace(mean_of, events=rare, absolute=False, **more)


def centred(values: Floats) -> Floats:
    """Values minus the mean of the finite ones.

    >>> centred(np.array([1.0, 3.0, np.nan]))
    array([-1.,  1., nan])
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return values - 0.0
    distances: Floats = values - finite.mean()
    return distances


def products(x: Floats, y: Floats) -> Floats:
    """What each example adds to the correlation of two columns, [examples, 6]; see :func:`pearson`."""
    # Around their means, so that the sums of squares lose nothing where the spread is small.
    x, y = centred(x), centred(y)
    return side_by_side(np.ones(len(x)), x, y, x * x, y * y, x * y)


def uncorrelated(sums: Floats, share: float) -> Floats:
    """Sums of so many more rows, as a share of those of ``sums``, with the same means and variances and correlation 0.

    Added to the sums of :func:`products` they make a correlation r smaller, r / (1 + share), and change no variance.

    >>> line = products(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0])).sum(axis=0)
    >>> pearson(line), pearson(line + uncorrelated(line, 0.25)).round(3)
    (array(1.), np.float64(0.8))
    """
    more = share * sums
    n, x, y = sums[..., 0], sums[..., 1], sums[..., 2]
    # The product that remains is that of both means.
    more[..., 5] = np.divide(share * x * y, n, out=np.zeros_like(n), where=n != 0)
    return more


def pearson(sums: Floats) -> Floats:
    """Pearson's correlation from the sums of :func:`products`; NaN where a column does not vary."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    # What rounding leaves of a constant, within a group or of all rows, is no variance.
    x_varies = spread_x > n * np.maximum(1e-12 * xx, 1e-28 * n)
    y_varies = spread_y > n * np.maximum(1e-12 * yy, 1e-28 * n)
    varies = x_varies & y_varies
    root = np.sqrt(np.where(varies, spread_x * spread_y, 1))
    return np.where(varies, np.clip((n * xy - x * y) / root, -1, 1), np.nan)
