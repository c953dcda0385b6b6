"""Shared types: the counting rule, corpus totals, pairs of gendered words, δ by word, and the errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
#: Arrays of the compiled steps of counting, which take half the memory or less.
Uint8Array = npt.NDArray[np.uint8]
Int32Array = npt.NDArray[np.int32]
Uint64Array = npt.NDArray[np.uint64]

#: The largest window, in words. With a larger one a 32-bit pair count could overflow between two checks.
MAX_WINDOW = 10_000

#: Where a window ends: with the record (a file of plain text, a row of JSON lines or Parquet), with the line, or never.
Boundary = Literal["record", "line", "none"]


class ArrowTable(Protocol):
    """A :class:`pyarrow.Table` for type checkers: pyarrow declares no types, so all that is not here is Any."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""

    def to_pandas(self) -> pd.DataFrame:
        """The table as a DataFrame."""

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dictionaries by column."""

    def __getattr__(self, name: str) -> Any: ...

    def __getitem__(self, column: str | int) -> Any: ...

    def __len__(self) -> int: ...


class PmiError(Exception):
    """Something cannot be done. The message is one sentence: what was given, what is expected, what to do."""

    exit_code = 1


def first_line(error: BaseException) -> str:
    """The first line of an error message without its full stop; the name of the error when it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


class JobSubmitted(PmiError):
    """Work was submitted to a queue and is not finished; the message says how to get the result."""

    exit_code = 75


class ClusterError(PmiError):
    """A job on a cluster could not be started, or it failed."""


class TableError(PmiError, ValueError):
    """Words, values and counts do not form a valid table."""


@dataclass(frozen=True, slots=True)
class CountRule:
    """How words were counted. It is stored with the counts; only counts with equal rules are added.

    Parameters
    ----------
    corpus:
        Name of the corpus.
    window:
        Two words co-occur when they are at most this many words apart.
    tokenizer:
        How text is split into words, in one phrase.
    stop_words:
        Name of the stop-word list. Stop words are removed before windows are formed.
    lower_case:
        Whether words were lower-cased.
    boundary:
        What a window does not cross.
    stopped:
        The stop words, sorted, where they are known.
    gendered:
        The words whose co-occurrence was counted, in the order of the columns of the counts.
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
        if not 1 <= self.window <= MAX_WINDOW:
            raise TableError(f"The window is {self.window} words wide; give 1 to {MAX_WINDOW}.")
        if self.boundary not in get_args(Boundary):
            raise TableError(f"The boundary is {self.boundary!r}; give one of {', '.join(get_args(Boundary))}.")
        if word := first_duplicate(self.gendered):
            raise TableError(f"The gendered word {word!r} is given more than once; give each once.")


@dataclass(frozen=True, slots=True)
class CorpusTotals:
    """Totals over a corpus; totals of parts can be added.

    Parameters
    ----------
    words:
        Word tokens counted, without stop words.
    pairs:
        Pairs of any two words within one window: M in the definition of PMI.
    documents:
        Records read.
    bytes:
        Bytes of text after decompression.
    invalid_bytes:
        Bytes that are not valid UTF-8. They belong to no word.
    long_tokens:
        Sequences of letters that are too long for a word and were skipped.
    losses:
        What could not be read, one sentence each.
    inputs:
        A digest of the name and the words of each file; none in tables of earlier versions.
    contents:
        SHA-256 of the bytes of each local file, by which a file that was replaced is counted again.
    """

    words: int = 0
    pairs: int = 0
    documents: int = 0
    bytes: int = 0
    invalid_bytes: int = 0
    long_tokens: int = 0
    losses: tuple[str, ...] = ()
    inputs: tuple[str, ...] = field(default=(), compare=False, repr=False)
    contents: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def sum(cls, parts: Iterable[CorpusTotals]) -> CorpusTotals:
        """The sum over parts, with the losses in alphabetical order.

        >>> CorpusTotals.sum([CorpusTotals(words=3, losses=("b",)), CorpusTotals(words=4, losses=("a",))])
        CorpusTotals(words=7, pairs=0, documents=0, bytes=0, invalid_bytes=0, long_tokens=0, losses=('a', 'b'))
        """
        words = pairs = documents = size = invalid_bytes = long_tokens = 0
        losses: list[str] = []
        inputs: list[str] = []
        contents: list[str] = []
        for part in parts:
            words += part.words
            pairs += part.pairs
            documents += part.documents
            size += part.bytes
            invalid_bytes += part.invalid_bytes
            long_tokens += part.long_tokens
            losses += part.losses
            inputs += part.inputs
            contents += part.contents
        # Sorted, so that the sum does not depend on the order of the parts.
        return cls(
            words,
            pairs,
            documents,
            size,
            invalid_bytes,
            long_tokens,
            tuple(sorted(losses)),
            tuple(sorted(inputs)),
            tuple(sorted(contents)),
        )


@dataclass(frozen=True, slots=True)
class GenderedPair:
    """Two gendered words that δ compares: δ is positive for words closer to the first.

    ``weight`` is the weight of the pair in the mean over several pairs.
    """

    first: str
    second: str
    weight: float = 1.0


SHE_HE = GenderedPair("she", "he")


def as_pairs(pairs: GenderedPair | Sequence[GenderedPair]) -> tuple[GenderedPair, ...]:
    """One pair or several as a tuple."""
    if isinstance(pairs, GenderedPair):
        return (pairs,)
    return tuple(pairs)


@dataclass(frozen=True, slots=True, eq=False)
class DeltaTable:
    """δ(w) = PMI(w, "she") − PMI(w, "he") for every word that has one (UnStereoEval, section 3).

    The count of w itself cancels: δ(w) = ln c(w, she)/c(w, he) − ln c(she)/c(he), where c(w, g) is
    how often w and g occur within one window, in either order. A word with a zero count has no δ
    and is not in the table. Make a table with :meth:`of`.

    Parameters
    ----------
    delta:
        δ by word, in the order given; natural logarithm.
    counts:
        How often each word occurs in the corpus, shape (words,), in the same order.
    rule:
        How the words were counted.
    pairs:
        The gendered words that are compared. With several pairs, δ is their weighted mean.
    """

    delta: Mapping[str, float]
    counts: IntArray
    rule: CountRule
    pairs: tuple[GenderedPair, ...] = (SHE_HE,)

    @classmethod
    def of(
        cls,
        words: Iterable[str],
        delta: Iterable[float],
        counts: Iterable[int],
        rule: CountRule,
        pairs: Sequence[GenderedPair] = (SHE_HE,),
    ) -> DeltaTable:
        """A table from columns: each word once, with one finite δ and one count.

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
        word_counts = np.array(list(counts), dtype=np.int64)
        if not len(names) == len(values) == len(word_counts):
            raise TableError(
                f"The table has {len(names)} words, {len(values)} values and {len(word_counts)} counts; "
                "give equally many."
            )
        if word := first_duplicate(names):
            raise TableError(f"The table has the word {word!r} more than once; give each word one value.")
        infinite = np.flatnonzero(~np.isfinite(values))
        if infinite.size:
            raise TableError(
                f"The word {names[infinite[0]]!r} has the value {values[infinite[0]]}; "
                "leave out a word that has no finite value."
            )
        # The table is shared by all that look words up.
        word_counts.flags.writeable = False
        return cls(MappingProxyType(dict(zip(names, values.tolist(), strict=True))), word_counts, rule, tuple(pairs))


def first_duplicate(names: Iterable[str]) -> str | None:
    """The first name that occurs more than once.

    >>> first_duplicate(["she", "he", "he"]), first_duplicate([])
    ('he', None)
    """
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    # In the order of first appearance, so that the error names the same one each time.
    for name, count in counts.items():
        if count > 1:
            return name
    return None


#: Forms of singular they, which are in none of those pairs.
THEY_FORMS = ("they", "them", "their", "theirs", "themself", "themselves")

_PAIR = re.compile(r"([^\s:=,]+):([^\s:=,]+)(?:=(\d+(?:\.\d+)?))?")


PAIRS_METAVAR = "A:B,C:D=W"
PAIRS_HELP = "Pairs that δ compares, where TABLE holds counts; she:he by default."


def parse_pairs(text: str) -> tuple[GenderedPair, ...]:
    """Pairs from a list such as ``she:he,her:his=0.5``, where 0.5 is the weight of a pair.

    Raises
    ------
    TableError
        When an entry is not a pair of two words, a pair occurs twice, or there is none.

    >>> parse_pairs("She:he, her:his=0.5")
    (GenderedPair(first='she', second='he', weight=1.0), GenderedPair(first='her', second='his', weight=0.5))
    """
    # By both words, so that a pair with two weights is noticed.
    pairs: dict[tuple[str, str], GenderedPair] = {}
    for part in text.split(","):
        entry = part.strip()
        # A comma at the end is no further pair.
        if not entry:
            continue
        parts = _PAIR.fullmatch(entry)
        if not parts or parts[1].lower() == parts[2].lower():
            raise TableError(f"{entry!r} is not a pair of words; give pairs such as she:he,her:his=0.5.")
        pair = GenderedPair(parts[1].lower(), parts[2].lower(), float(parts[3] or 1))
        if pairs.setdefault((pair.first, pair.second), pair) is not pair:
            raise TableError(f"The pair {pair.first}:{pair.second} is given more than once; give each once.")
    if not pairs:
        raise TableError("There is no pair of words; give one such as she:he.")
    return tuple(pairs.values())


#: The pairs that UnStereoEval compares in its appendix (Figure 6), in the order of the authors' notebook.
PUBLISHED_PAIRS = parse_pairs(",".join((Path(__file__).parent / "data" / "pairs.txt").read_text("utf-8").split()))


def words_of(pairs: Iterable[GenderedPair] = PUBLISHED_PAIRS) -> tuple[str, ...]:
    """The words of pairs, each once, in order of appearance.

    >>> words_of(parse_pairs("her:his,her:him"))
    ('her', 'his', 'him')
    """
    words: dict[str, None] = {}
    for pair in pairs:
        words[pair.first] = None
        words[pair.second] = None
    return tuple(words)
