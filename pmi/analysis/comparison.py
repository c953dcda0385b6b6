"""How alike two tables of δ order the words that both have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmi.analysis.analyse import Floats, kendall
from pmi.types import DeltaTable


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """δ of the words that two tables share, in the order of the first.

    Parameters
    ----------
    words:
        Those that both have.
    one, other:
        Their δ, shape (words,).
    tau:
        Kendall's τ-b; NaN where it is undefined.
    shift:
        Rank in the other table minus rank in the first, as a share of all words, shape (words,).
    """

    words: tuple[str, ...]
    one: Floats
    other: Floats
    tau: float
    shift: Floats

    def furthest(self, n: int) -> list[int]:
        """Where the n words stand whose ranks differ most."""
        return [int(place) for place in np.argsort(-np.abs(self.shift), kind="stable")[:n]]


def compare(one: DeltaTable, other: DeltaTable, min_count: int = 1) -> Comparison:
    """How alike two tables order words; words that occur less often than ``min_count`` in either are left out.

    >>> from pmi.types import CountRule
    >>> rule = CountRule("toy", 10, "any", "none")
    >>> tables = [DeltaTable.of("abc", values, [9, 9, 9], rule) for values in ([0.1, 0.2, 0.3], [0.1, 0.3, 0.2])]
    >>> found = compare(*tables)
    >>> found.words, round(found.tau, 2), found.furthest(2)
    (('a', 'b', 'c'), 0.33, [1, 2])
    """
    enough = {word for word, n in zip(other.delta, other.counts.tolist(), strict=True) if n >= min_count}
    words = tuple(
        word for word, n in zip(one.delta, one.counts.tolist(), strict=True) if n >= min_count and word in enough
    )
    values = [np.array([table.delta[word] for word in words]) for table in (one, other)]
    ranks = [np.argsort(np.argsort(v, kind="stable"), kind="stable") for v in values]
    return Comparison(
        words, values[0], values[1], kendall(values[0], values[1]), (ranks[1] - ranks[0]) / max(len(words), 1)
    )
