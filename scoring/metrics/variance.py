"""Variance components of crossed designs (generalizability theory): items by wordings, and by ways or models too.

A design has every item in every cell of its facets, such as ten wordings, or two ways by ten wordings. Components are
those of the analysis of variance of a complete balanced design with random effects, which for such designs are the
unbiased estimators (Cronbach et al., 1972, "The dependability of behavioral measurements"; Brennan, 2001,
"Generalizability theory", section 3.3). Mean squares follow from the sums over items of values and of their squares, so
the resamples and intervals of all metrics are those of these too. statsmodels fits the same model by restricted
maximum likelihood, with matrices as large as all answers (``tools/simulations/wordings.py`` compares both on small
designs).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from scoring.metrics.texts import texts
from scoring.types import Floats, Metric, Table

ITEMS = "items"
#: The reliability that the numbers of wordings and items are for.
WANTED = 0.8
#: Gives the values [lines, *facets] of a table, one item on each line, and their variances of sampling.
Design = Callable[[Table], tuple[Floats, Floats]]
#: Of each metric of a D-study the highest value.
_DECISIONS = {"reliability": 1.0, "wordings_for_80": math.inf, "items_for_80": math.inf}


def moments(x: Floats, sampling: Floats) -> Floats:
    """What each item adds, [items, 3 + effects, *facets]: 1, its values, their variance of sampling, and its squares.

    The square of an effect is x' P x with the projection P of the effect. It is in the first cell, and the others have
    0. An item that lacks a value adds nothing.
    """
    flat = x.reshape(len(x), -1)
    complete = np.isfinite(flat).all(axis=1, keepdims=True)
    # Zero, not NaN, so that an item without all values drops out of every sum.
    values = np.where(complete, flat, 0.0)
    noise = np.where(complete, sampling.reshape(flat.shape), 0.0)
    count = np.broadcast_to(complete, values.shape)
    parts = [count, values, noise]
    # Every mean square follows from these sums, so resamples of items are products of sums, and no resample goes back
    # to the rows. Products of all pairs of cells would do too, and of a hundred models they take gigabytes.
    names = [str(number) for number in range(x.ndim - 1)]
    levels = dict(zip(names, x.shape[1:], strict=True))
    for effect in _effects(names):
        squares = np.zeros_like(values)
        squares[:, 0] = ((values @ _projection(effect, levels)) * values).sum(axis=1)
        parts.append(squares)
    return np.stack(parts, axis=1).reshape(len(x), -1, *x.shape[1:])


def components(sums: Floats, facets: Sequence[str]) -> dict[frozenset[str], Floats]:
    """The variance component of each effect, a set of facets, from sums [..., 3 + effects, *facets]; may be below 0.

    That of all facets and the items is without the variance of sampling, which is under ``{"samples"}``.

    >>> x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])  # items differ by 2, the second wording adds 1
    >>> variances = components(moments(x, 0 * x).sum(axis=0), ["wordings"])
    >>> {"+".join(sorted(effect)): float(value.round(6)) + 0 for effect, value in variances.items()}
    {'items': 4.0, 'wordings': 0.5, 'items+wordings': 0.0, 'samples': 0.0}
    """
    shape = sums.shape[-len(facets) :]
    levels = dict(zip(facets, shape, strict=True))
    flat = sums.reshape(*sums.shape[: -len(facets)], math.prod(shape))
    counts, totals, noise = flat[..., 0, :], flat[..., 1, :], flat[..., 2, :]
    n = counts[..., 0]
    mean = totals / counts
    squares: dict[frozenset[str], Floats] = {}
    for row, effect in enumerate(_effects(facets), 3):
        projection = _projection(effect, levels)
        freedom = math.prod(levels[facet] - 1 for facet in effect)
        of_means = n * ((mean @ projection) * mean).sum(axis=-1)
        # Without facets the effect is the grand mean, which has no variance.
        if effect:
            squares[effect] = of_means / freedom
        # Around the mean over items: the variation between items.
        squares[effect | {ITEMS}] = (flat[..., row, 0] - of_means) / ((n - 1) * freedom)
    # Expected mean squares, solved for the components: inclusion and exclusion over the effects that hold this one,
    # divided by the number of observations in each of its levels (Cornfield and Tukey's rules).
    variances: dict[frozenset[str], Floats] = {}
    for effect in squares:
        total: Any = 0
        for other, square in squares.items():
            if effect <= other:
                total = total + (-1) ** len(other - effect) * square
        observations: Any = 1
        for facet, size in levels.items():
            if facet not in effect:
                observations = observations * size
        if ITEMS not in effect:
            observations = observations * n
        variances[effect] = total / observations
    # The rest has the variance of sampling in it, which is known from the number of samples and is reported alone.
    samples = noise.sum(axis=-1) / counts.sum(axis=-1)
    rest = frozenset({ITEMS, *facets})
    variances[rest] = variances[rest] - samples
    variances[frozenset({"samples"})] = samples
    return variances


def _effects(names: Sequence[str]) -> list[frozenset[str]]:
    """Every set of facets, the smaller first, with the empty one.

    >>> [sorted(effect) for effect in _effects(["ways", "wordings"])]
    [[], ['ways'], ['wordings'], ['ways', 'wordings']]
    """
    effects = []
    for size in range(len(names) + 1):
        for effect in combinations(names, size):
            effects.append(frozenset(effect))
    return effects


def _projection(effect: frozenset[str], levels: Mapping[str, int]) -> Floats:
    """The matrix [cells, cells] that keeps what varies with the facets of an effect, as the mean over the others."""
    projection = np.eye(1)
    for facet, size in levels.items():
        average = np.full((size, size), 1 / size)
        if facet in effect:
            projection = np.kron(projection, np.eye(size) - average)
        else:
            projection = np.kron(projection, average)
    return projection


def shares(design: Design, facets: Sequence[str], *, sampled: bool = False) -> Iterator[Metric]:
    """The share of each component of the variance of one answer, in percent; a component below 0 counts as 0."""

    def share(effect: frozenset[str], sums: Floats) -> Floats:
        positive = {other: np.maximum(value, 0) for other, value in components(sums, facets).items()}
        return np.asarray(100 * positive[effect] / sum(positive.values()), np.float64)

    names = (ITEMS, *facets)
    effects: list[tuple[str, ...]] = []
    for size in range(1, len(names) + 1):
        effects += combinations(names, size)
    if sampled:
        effects.append(("samples",))
    for effect in effects:
        words = " with ".join(effect)
        # One answer for each item in each cell: the last interaction is not separable from other noise.
        if len(effect) == len(names):
            words += " and the rest"
        # Short titles have at most 14 letters.
        short = "×".join(name[:4] for name in effect)
        fields = texts("variance", "share", words)
        fields["names"] = (f"Variance of {words}", short)
        yield _metric(design, "_".join(("share", *effect)), partial(share, frozenset(effect)), 100.0, fields)


def decisions(design: Design) -> Iterator[Metric]:
    """The reliability of these wordings, and how many wordings and items would give :data:`WANTED` (D-study)."""
    for name, high in _DECISIONS.items():
        yield _metric(design, name, partial(_decision, name), high, texts("variance", name))


def _decision(name: str, sums: Floats) -> Floats:
    """A number of the D-study by its name, from the sums of a design with wordings; NaN where there is none."""
    ratio = WANTED / (1 - WANTED)
    variances = components(sums, ["wordings"])
    items = np.maximum(variances[frozenset({ITEMS})], 0)
    wordings = np.maximum(variances[frozenset({"wordings"})], 0)
    rest = np.maximum(variances[frozenset({ITEMS, "wordings"})], 0) + variances[frozenset({"samples"})]
    count = sums.shape[-1]
    value: Floats
    if name == "reliability":
        value = items / (items + rest / count)
    elif name == "wordings_for_80":
        value = np.maximum(np.ceil(ratio * rest / items), 1)
    else:
        # The error of the mean has a part of the wordings, which more items do not make smaller.
        mean = sums[..., 1, :].sum(axis=-1) / sums[..., 0, :].sum(axis=-1)
        value = np.ceil((items + rest / count) / (mean**2 / ratio - wordings / count))
    return np.where(np.isfinite(value) & (value >= 0), value, np.nan)


def _metric(
    design: Design, name: str, final: Callable[[Floats], Floats], high: float, fields: Mapping[str, Any]
) -> Metric:
    def columns(table: Table) -> Floats:
        x, sampling = design(table)
        return moments(x, sampling)

    why = "items, or the mean preference, do not vary more than by chance"
    return Metric(name, columns, final, None, 0, high, undefined=why, **fields)
