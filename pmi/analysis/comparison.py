"""Compares two tables of δ by the ranks of the words that both have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmi.analysis.table import kendall
from pmi.types import DeltaTable, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class WordComparison:
    """δ of the words that two tables share, in the order of the first table.

    Parameters
    ----------
    words:
        The shared words.
    first, second:
        Their δ in the first and the second table, shape (words,).
    tau:
        Kendall's τ-b of the two; NaN where it is undefined.
    rank_shift:
        Rank in the second table minus rank in the first, as a share of all words, shape (words,).
    """

    words: tuple[str, ...]
    first: FloatArray
    second: FloatArray
    tau: float
    rank_shift: FloatArray

    def largest_shifts(self, n: int) -> list[int]:
        """The indices of the n words whose ranks differ most."""
        return [int(index) for index in np.argsort(-np.abs(self.rank_shift), kind="stable")[:n]]


def compare(first: DeltaTable, second: DeltaTable, min_count: int = 1) -> WordComparison:
    """Compares two tables; words that occur less often than ``min_count`` in either are left out.

    >>> from pmi.types import CountRule
    >>> rule = CountRule("toy", 10, "any", "none")
    >>> tables = [DeltaTable.of("abc", values, [9, 9, 9], rule) for values in ([0.1, 0.2, 0.3], [0.1, 0.3, 0.2])]
    >>> comparison = compare(*tables)
    >>> comparison.words, round(comparison.tau, 2), comparison.largest_shifts(2)
    (('a', 'b', 'c'), 0.33, [1, 2])
    """
    frequent = [
        [word for word, n in zip(table.delta, table.counts.tolist(), strict=True) if n >= min_count]
        for table in (first, second)
    ]
    in_second = set(frequent[1])
    words = tuple(word for word in frequent[0] if word in in_second)
    values = [np.array([table.delta[word] for word in words]) for table in (first, second)]
    ranks = [np.argsort(np.argsort(column, kind="stable"), kind="stable") for column in values]
    shift = (ranks[1] - ranks[0]) / max(len(words), 1)
    return WordComparison(words, values[0], values[1], kendall(values[0], values[1]), shift)
