"""What counts and tables are made of: the rule of counting, values by word, and the errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

#: The widest window; beyond it a count of pairs could outgrow its bits between two looks.
WIDEST = 10_000

#: Where a window ends: with the record (a file of plain text, a row of JSON lines or Parquet), with the line, or never.
Boundary = Literal["record", "line", "none"]


class PmiError(Exception):
    """Something cannot be done. The message is one sentence: what was given, what is expected, what to do."""

    exit_code = 1


def first_line(error: BaseException) -> str:
    """What an error says first, or what it is called; to be part of a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


class Submitted(PmiError):
    """Work was handed to a queue and goes on there; says how to get the result."""

    exit_code = 75


class ClusterError(PmiError):
    """A cluster did not do what it was asked."""


class TableError(PmiError, ValueError):
    """Words, values and counts do not make a table."""


@dataclass(frozen=True, slots=True)
class CountRule:
    """How counts were made; without it they mean nothing, and only counts of one rule can be added.

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
    lower_case:
        Whether words were lower-cased.
    boundary:
        What no window crosses.
    stopped:
        The words that were taken out, sorted, where they are known.
    gendered:
        The words whose company was counted, in the order of the columns of counts.
    """

    corpus: str
    window: int
    tokenizer: str
    stop_words: str
    lower_case: bool = True
    boundary: Boundary = "record"
    stopped: tuple[str, ...] = ()
    gendered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.window <= WIDEST:
            raise TableError(f"The window is {self.window} words wide; give 1 to {WIDEST}.")
        if self.boundary not in get_args(Boundary):
            raise TableError(f"The boundary is {self.boundary!r}; give one of {', '.join(get_args(Boundary))}.")
        twice = [word for word, n in Counter(self.gendered).items() if n > 1]
        if twice:
            raise TableError(f"The gendered word {twice[0]!r} is given more than once; give each once.")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two gendered words: a positive value leans to the first. The weight counts among several pairs."""

    first: str
    second: str
    weight: float = 1.0


SHE_HE = Pair("she", "he")


@dataclass(frozen=True, slots=True, eq=False)
class DeltaTable:
    """δ(w) = PMI(w, "she") − PMI(w, "he") for every word that has one (UnStereoEval, section 3).

    The count of w itself cancels: δ(w) = ln c(w, she)/c(w, he) − ln c(she)/c(he), where c(w, g) is
    how often the two words stand in one window, in either order. A word with a zero count has no δ
    and is not in the table. Made by :meth:`of`.

    Parameters
    ----------
    delta:
        Value by word, in the order given; natural logarithm.
    counts:
        How often each word occurs in the corpus, shape (words,), in the same order.
    rule:
        How the counts were made.
    pairs:
        The gendered words that are compared; with several, δ is the weighted mean over them.
    """

    delta: Mapping[str, float]
    counts: npt.NDArray[np.int64]
    rule: CountRule
    pairs: tuple[Pair, ...] = (SHE_HE,)

    @classmethod
    def of(
        cls,
        words: Iterable[str],
        delta: Iterable[float],
        counts: Iterable[int],
        rule: CountRule,
        pairs: Sequence[Pair] = (SHE_HE,),
    ) -> DeltaTable:
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
        return cls(MappingProxyType(dict(zip(names, values.tolist(), strict=True))), totals, rule, tuple(pairs))
