"""A table of words and how much more they keep company with one gendered word than with another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt


class TableError(ValueError):
    """Words, values and counts do not make a table. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class CountRule:
    """How the counts behind a table were made; without it a value means nothing.

    Parameters
    ----------
    corpus:
        The text that was counted.
    window:
        Two words keep company when they stand within so many words of each other.
    tokenizer:
        What a word is, in one phrase.
    stop_words:
        Which words were taken out before counting, in one phrase.
    pair:
        The two gendered words: a positive value leans to the first.
    log_base:
        Base of the logarithm, ``"e"`` for natural.
    """

    corpus: str
    window: int
    tokenizer: str
    stop_words: str
    pair: tuple[str, str] = ("she", "he")
    log_base: str = "e"


@dataclass(frozen=True, slots=True, eq=False)
class DeltaTable:
    """δ(w) = PMI(w, "she") − PMI(w, "he") for every word that has one (UnStereoEval, section 3).

    The count of w itself cancels: δ(w) = ln c(w, she)/c(w, he) − ln c(she)/c(he), where c(w, g) is
    how often the two words stand in one window, in either order. A word with a zero count has no δ
    and is not in the table. Made by :meth:`of`.

    Parameters
    ----------
    delta:
        Value by word, in the order given.
    counts:
        How often each word occurs in the corpus, shape (words,), in the same order.
    rule:
        How the counts were made.
    """

    delta: Mapping[str, float]
    counts: npt.NDArray[np.int64]
    rule: CountRule

    @classmethod
    def of(cls, words: Iterable[str], delta: Iterable[float], counts: Iterable[int], rule: CountRule) -> DeltaTable:
        """A table of words, each once, with one finite value and one count a word.

        Raises
        ------
        TableError
            When the lengths differ, a word occurs twice, or a value is not finite.

        >>> rule = CountRule("three sentences", 10, "white space", "none")
        >>> table = DeltaTable.of(["nurse", "bridge"], [0.9, -0.1], [7, 12], rule)
        >>> table.delta["nurse"], "umbrella" in table.delta, len(table.delta)
        (0.9, False, 2)
        """
        names = list(words)
        values = np.array(list(delta), dtype=np.float64)
        totals = np.array(list(counts), dtype=np.int64)
        if not len(names) == len(values) == len(totals):
            raise TableError(
                f"The table has {len(names)} words, {len(values)} values and {len(totals)} counts; give equally many."
            )
        twice = [word for word, n in Counter(names).items() if n > 1]
        if twice:
            raise TableError(f"The table has the word {twice[0]!r} more than once; give each word one value.")
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise TableError(
                f"The word {names[bad[0]]!r} has the value {values[bad[0]]}; leave out a word that has no finite value."
            )
        totals.flags.writeable = False
        return cls(MappingProxyType(dict(zip(names, values.tolist(), strict=True))), totals, rule)
