"""Variance components of crossed designs (generalizability theory): items by wordings, and by ways or models too.

A design has every item in every cell of its facets, such as ten wordings, or two ways by ten wordings. Components are
those of the analysis of variance of a complete balanced design with random effects, which for such designs are the
unbiased estimators (Cronbach et al., 1972, "The dependability of behavioral measurements"; Brennan, 2001,
"Generalizability theory", section 3.3). Mean squares follow from the sums over items of values and of their squares, so
the resamples and intervals of all metrics are those of these too. statsmodels fits the same model by restricted
maximum likelihood, with matrices as large as all answers (``benchmarks/wordings.py`` compares both on small designs).
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


def projections(levels: Mapping[Any, int]) -> dict[frozenset[Any], Floats]:
    """For each effect, a set of facets, the matrix [cells, cells] that keeps what varies with it and with no other.

    >>> {len(effect): matrix.tolist() for effect, matrix in projections({"wordings": 2}).items()}
    {0: [[0.5, 0.5], [0.5, 0.5]], 1: [[0.5, -0.5], [-0.5, 0.5]]}
    """
    found: dict[frozenset[Any], Floats] = {}
    for size in range(len(levels) + 1):
        for effect in combinations(levels, size):
            matrix = np.ones((1, 1))
            for facet, count in levels.items():
                mean = np.full((count, count), 1 / count)
                matrix = np.kron(matrix, np.eye(count) - mean if facet in effect else mean)
            found[frozenset(effect)] = matrix
    return found


def moments(x: Floats, sampling: Floats) -> Floats:
    """What each item adds, [items, 3 + effects, *facets]: 1, its values, their variance of sampling, and their squares.

    The squares of an effect are x' P x with its projection P, and stand in the first cell; the other cells have 0. An
    item that lacks a value adds nothing.
    """
    flat = x.reshape(len(x), -1)
    complete = np.isfinite(flat).all(axis=1, keepdims=True)
    # Zero, not NaN, so that an item without all values drops out of every sum.
    flat, noise = (np.where(complete, values, 0.0) for values in (flat, sampling.reshape(flat.shape)))
    rows = [np.broadcast_to(complete, flat.shape), flat, noise]
    # Every mean square follows from these sums, so no resample goes back to the rows. The products of all pairs of
    # cells would do too, and of a hundred models they take gigabytes.
    for projection in projections(dict(enumerate(x.shape[1:]))).values():
        squares = np.zeros_like(flat)
        squares[:, 0] = ((flat @ projection) * flat).sum(axis=1)
        rows.append(squares)
    return np.stack(rows, axis=1).reshape(len(x), -1, *x.shape[1:])


def components(sums: Floats, facets: Sequence[str]) -> dict[frozenset[str], Floats]:
    """The variance component of each effect, a set of facets, from sums [..., 3 + effects, *facets]; may be below 0.

    That of all facets and the items is without the variance of sampling, which is under ``{"samples"}``.

    >>> x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])  # items differ by 2, the second wording adds 1
    >>> found = components(moments(x, 0 * x).sum(axis=0), ["wordings"])
    >>> {"+".join(sorted(effect)): float(value.round(6)) + 0 for effect, value in found.items()}
    {'items': 4.0, 'wordings': 0.5, 'items+wordings': 0.0, 'samples': 0.0}
    """
    shape = sums.shape[-len(facets) :]
    levels = dict(zip(facets, shape, strict=True))
    cells = math.prod(shape)
    one, x, noise, *products = np.moveaxis(sums.reshape(*sums.shape[: -len(facets)], cells), -2, 0)
    n = one[..., 0]
    mean = x / one
    squares: dict[frozenset[str], Floats] = {}
    for (effect, projection), product in zip(projections(levels).items(), products, strict=True):
        freedom = math.prod(levels[f] - 1 for f in effect)
        of_means = n * ((mean @ projection) * mean).sum(axis=-1)
        # Without facets the effect is the grand mean, which has no variance.
        if effect:
            squares[effect] = of_means / freedom
        # Around the mean over items: the variation between items.
        squares[effect | {ITEMS}] = (product[..., 0] - of_means) / ((n - 1) * freedom)
    # Expected mean squares, solved for the components: inclusion and exclusion over the effects that hold this one,
    # divided by the number of observations behind each of its levels (Cornfield and Tukey's rules).
    counts: Mapping[str, Any] = {**levels, ITEMS: n}
    found = {
        effect: sum((-1) ** len(other - effect) * square for other, square in squares.items() if effect <= other)
        / math.prod(count for f, count in counts.items() if f not in effect)
        for effect in squares
    }
    # The rest has the variance of sampling in it, which is known from the number of samples and stands apart.
    samples = noise.sum(axis=-1) / one.sum(axis=-1)
    found[frozenset({ITEMS, *facets})] = found[frozenset({ITEMS, *facets})] - samples
    return {**found, frozenset({"samples"}): samples}


def shares(design: Design, facets: Sequence[str], *, sampled: bool = False) -> Iterator[Metric]:
    """The share of each component of the variance of one answer, in percent; a component below 0 counts as 0."""

    def share(effect: frozenset[str], sums: Floats) -> Floats:
        found = {other: np.maximum(value, 0) for other, value in components(sums, facets).items()}
        return np.asarray(100 * found[effect] / sum(found.values()), np.float64)

    names = (ITEMS, *facets)
    effects = [e for size in range(1, len(names) + 1) for e in combinations(names, size)]
    for effect in [*effects, *([("samples",)] if sampled else [])]:
        words = " with ".join(effect) + " and the rest" * (len(effect) == len(names))
        yield _metric(
            *(design, "_".join(("share", *effect)), partial(share, frozenset(effect)), 100.0),
            **texts("variance", "share", words)
            | {"names": (f"Variance of {words}", "×".join(name[:4] for name in effect))},
        )


def decisions(design: Design) -> Iterator[Metric]:
    """The reliability of these wordings, and how many wordings and items would give :data:`WANTED` (D-study)."""
    ratio = WANTED / (1 - WANTED)

    def number(name: str, sums: Floats) -> Floats:
        found = components(sums, ["wordings"])
        named = [found[frozenset(e)] for e in ([ITEMS], ["wordings"], [ITEMS, "wordings"])]
        items, wordings, rest = (np.maximum(value, 0) for value in named)
        rest, k = rest + found[frozenset({"samples"})], sums.shape[-1]
        # The error of the mean has a part of the wordings, which more items do not make smaller.
        mean = sums[..., 1, :].sum(axis=-1) / sums[..., 0, :].sum(axis=-1)
        value: Floats = {
            "reliability": items / (items + rest / k),
            "wordings_for_80": np.maximum(np.ceil(ratio * rest / items), 1),
            "items_for_80": np.ceil((items + rest / k) / (mean**2 / ratio - wordings / k)),
        }[name]
        return np.where(np.isfinite(value) & (value >= 0), value, np.nan)

    for name, high in _DECISIONS.items():
        yield _metric(design, name, partial(number, name), high, **texts("variance", name))


def _metric(design: Design, name: str, final: Callable[[Floats], Floats], high: float, **told: Any) -> Metric:
    why = "items, or the mean preference, do not vary more than by chance"
    return Metric(name, lambda table: moments(*design(table)), final, None, 0, high, undefined=why, **told)
