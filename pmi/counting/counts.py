"""A table of counts: every word, and every word near every gendered word, with the rule of counting inside."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pmi.files import replacing
from pmi.types import SHE_HE, CountRule, DeltaTable, Pair, TableError, first_line

_META = b"gender-neutral-probes"
_FORMAT = 1
_NEAR = "near_"
_ROWS = 1 << 14

Longs = npt.NDArray[np.int64]
#: Gives rows of pairs from one number to another, shape (rows, gendered).
Rows = Callable[[int, int], Longs]


@dataclass(frozen=True, slots=True)
class Totals:
    """What was read and counted besides the single words; adds up over parts.

    Parameters
    ----------
    words:
        Words counted, stop words left out.
    pairs:
        Pairs of words within one window, whatever the words are: what the probability of a pair is a share of.
    documents:
        Records read.
    bytes:
        Bytes of text, decompressed.
    invalid_bytes:
        Those that are no UTF-8; none of them is part of a word.
    long_runs:
        Runs of letters too long to be a word, which were passed over.
    losses:
        What could not be read, one sentence each.
    """

    words: int = 0
    pairs: int = 0
    documents: int = 0
    bytes: int = 0
    invalid_bytes: int = 0
    long_runs: int = 0
    losses: tuple[str, ...] = ()

    @classmethod
    def sum(cls, parts: Iterable[Totals]) -> Totals:
        """All parts together, losses in alphabetical order.

        >>> Totals.sum([Totals(words=3, losses=("b",)), Totals(words=4, losses=("a",))])
        Totals(words=7, pairs=0, documents=0, bytes=0, invalid_bytes=0, long_runs=0, losses=('a', 'b'))
        """
        every = list(parts)
        numbers = {f.name: sum(getattr(p, f.name) for p in every) for f in fields(cls) if f.name != "losses"}
        return cls(**numbers, losses=tuple(sorted(loss for part in every for loss in part.losses)))


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each word occurs, and how often near each gendered word.

    c(w, g) is the number of places where w and g stand within a window of each other, in either
    order; near itself a word is counted from both ends, as in the published counts.

    Parameters
    ----------
    words:
        Every word, sorted by code point.
    count:
        How often each occurs, shape (words,).
    pairs:
        How often each stands near each gendered word, shape (words, gendered).
    rule:
        How the counts were made; names the gendered words in the order of the columns.
    totals:
        What was read besides.
    """

    words: tuple[str, ...]
    count: Longs
    pairs: Longs
    rule: CountRule
    totals: Totals

    def __post_init__(self) -> None:
        shape = len(self.words), len(self.rule.gendered)
        if self.count.shape != shape[:1] or self.pairs.shape != shape:
            raise TableError(
                f"The counts are of shape {self.count.shape} and {self.pairs.shape}; for {shape[0]} words and "
                f"{shape[1]} gendered words give {shape[:1]} and {shape}."
            )

    def of(self, word: str) -> int:
        """How often a word occurs; 0 for one that never does.

        >>> rule = CountRule("toy", 10, "any", "none", gendered=("he", "she"))
        >>> counts = Counts(("he", "nurse"), np.array([2, 1]), np.array([[0, 0], [1, 0]]), rule, Totals())
        >>> counts.of("nurse"), counts.of("she")
        (1, 0)
        """
        row = bisect_left(self.words, word)
        return int(self.count[row]) if row < len(self.words) and self.words[row] == word else 0

    def near(self, gendered: str) -> Longs:
        """How often each word stands near a gendered word, shape (words,).

        Raises
        ------
        TableError
            When the company of that word was not counted.
        """
        if gendered not in self.rule.gendered:
            raise TableError(
                f"The company of {gendered!r} was not counted; this table has {', '.join(self.rule.gendered)}."
            )
        return self.pairs[:, self.rule.gendered.index(gendered)]

    def delta(self, pairs: Pair | Sequence[Pair] = SHE_HE) -> DeltaTable:
        """δ of every word that has one: the weighted mean over pairs of PMI(w, first) − PMI(w, second).

        A word has a δ when it stands near both words of every pair; where a gendered word never
        occurs, no word has one.

        Raises
        ------
        TableError
            For a gendered word whose company was not counted, and for weights that make no mean.

        >>> rule = CountRule("toy", 10, "any", "none", gendered=("he", "she"))
        >>> words = ("he", "nurse", "she", "ship")
        >>> near = np.array([[0, 1], [1, 4], [1, 0], [2, 0]])
        >>> table = Counts(words, np.array([4, 5, 2, 2]), near, rule, Totals()).delta()
        >>> {word: round(value, 4) for word, value in table.delta.items()}
        {'nurse': 2.0794}
        """
        wanted = (pairs,) if isinstance(pairs, Pair) else tuple(pairs)
        total = math.fsum(pair.weight for pair in wanted)
        if not (total > 0 and all(0 <= pair.weight < math.inf for pair in wanted)):
            raise TableError("The weights of the pairs make no mean; give numbers of at least 0 that are not all 0.")
        known = np.ones(len(self.words), bool)
        for name in dict.fromkeys(name for pair in wanted for name in (pair.first, pair.second)):
            known &= (self.near(name) > 0) & (self.of(name) > 0)
        value = np.zeros(int(known.sum()))
        for pair in wanted if value.size else ():
            ratio = np.log(self.near(pair.first)[known]) - np.log(self.near(pair.second)[known])
            value += pair.weight / total * (ratio - math.log(self.of(pair.first)) + math.log(self.of(pair.second)))
        words = (self.words[row] for row in np.flatnonzero(known))
        return DeltaTable.of(words, value, self.count[known], self.rule, wanted)

    def write(self, path: str | Path) -> None:
        """Writes Parquet: a row a word, a column a gendered word, rule and totals as JSON in the schema.

        Equal counts give equal bytes with one release of pyarrow.
        """
        words = pa.array(self.words, pa.string())
        write_rows(path, words, self.count, lambda start, stop: self.pairs[start:stop], self.rule, self.totals)

    @classmethod
    def read(cls, path: str | Path) -> Counts:
        """Reads what :meth:`write` wrote.

        Raises
        ------
        TableError
            When the file is not there, is no Parquet, or does not hold counts.
        """
        return merge([path])


def delta(counts: Counts | str | Path, pairs: Pair | Sequence[Pair] = SHE_HE) -> DeltaTable:
    """δ of every word of a table of counts, or of a file of one; see :meth:`Counts.delta`."""
    return (counts if isinstance(counts, Counts) else Counts.read(counts)).delta(pairs)


def merge(parts: Sequence[Counts | str | Path]) -> Counts:
    """The sum of tables of one rule, each a table or its file.

    The order of the parts does not matter. Files are read a column at a time, so that beside the
    result little more than one column is in memory.

    Raises
    ------
    TableError
        When there is no part, a file does not hold counts, or two rules differ.
    """
    opened = _opened(parts)
    rule = opened[0].rule
    words = _union([part.words() for part in opened])
    names = tuple(words.to_pylist())
    count = np.zeros(len(names), np.int64)
    pairs = np.zeros((len(names), len(rule.gendered)), np.int64, order="F")
    for part in opened:
        at = pc.index_in(part.words(), value_set=words).to_numpy()
        count[at] += part.column("count")
        for column, name in enumerate(rule.gendered):
            pairs[at, column] += part.column(_NEAR + name)
    return Counts(names, count, pairs, rule, Totals.sum(part.totals for part in opened))


@dataclass(frozen=True, slots=True)
class Summary:
    """What a file of counts holds: how many words, the totals, and the gendered words that never occur."""

    words: int
    totals: Totals
    never: tuple[str, ...]


def merge_files(parts: Sequence[Counts | str | Path], path: str | Path) -> Summary:
    """Writes the sum of tables, which is that of :func:`merge`, without having the whole of it in memory.

    Raises
    ------
    TableError
        As :func:`merge`.
    """
    opened = _opened(parts)
    rule, totals = opened[0].rule, Totals.sum(part.totals for part in opened)
    words = _union([part.words() for part in opened])
    places = [pc.index_in(part.words(), value_set=words).to_numpy() for part in opened]
    count = np.zeros(len(words), np.int64)
    for part, at in zip(opened, places, strict=True):
        count[at] += part.column("count")
    streams = [part.stream() for part in opened]

    def near(start: int, stop: int) -> Longs:
        total = np.zeros((min(stop, len(words)) - start, len(rule.gendered)), np.int64)
        for at, take in zip(places, streams, strict=True):
            first, last = np.searchsorted(at, [start, stop])
            total[at[first:last] - start] += take(int(last - first))
        return total

    write_rows(path, words, count, near, rule, totals)
    seen = set(words.filter(pc.is_in(words, value_set=pa.array(rule.gendered, pa.string()))).to_pylist())
    return Summary(len(words), totals, tuple(word for word in rule.gendered if word not in seen))


def _opened(parts: Sequence[Counts | str | Path]) -> list[_Part]:
    """Parts that can be added up."""
    opened = [_Part(part) for part in parts]
    if not opened:
        raise TableError("There are no counts to add up; give at least one table.")
    for part in opened[1:]:
        if different := _difference(opened[0].rule, part.rule):
            raise TableError(
                f"{part.name} was counted by another rule than {opened[0].name} ({different}); "
                "count both by one rule, then add them up."
            )
    return opened


def readable(path: str | Path) -> bool:
    """Whether a file is there and holds counts."""
    try:
        _Part(path)
    except TableError:
        return False
    return True


def write_rows(path: str | Path, words: pa.Array, count: Longs, near: Rows, rule: CountRule, totals: Totals) -> None:
    """Writes a table of counts of which the words are sorted already, some rows at a time.

    ``near`` gives the rows of pairs from one number to another, shape (rows, gendered).
    """
    meta = {"format": _FORMAT, "rule": asdict(rule), "totals": asdict(totals)}
    text = json.dumps(meta, sort_keys=True, ensure_ascii=False, allow_nan=False)
    names = ["count", *(_NEAR + name for name in rule.gendered)]
    schema = pa.schema(
        [pa.field("word", pa.string(), nullable=False), *(pa.field(n, pa.int64(), nullable=False) for n in names)],
        metadata={_META: text.encode()},
    )
    with replacing(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for start in range(0, len(words), _ROWS):
            some = slice(start, start + _ROWS)
            columns = [words[some], pa.array(count[some]), *map(pa.array, near(start, start + _ROWS).T)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


class _Part:
    """One table to add up, in memory or in a file, read a column at a time."""

    def __init__(self, part: Counts | str | Path) -> None:
        self.counts = part if isinstance(part, Counts) else None
        self.name = "a table" if isinstance(part, Counts) else str(part)
        self.rule, self.totals = (part.rule, part.totals) if isinstance(part, Counts) else self._header()

    def _file(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.name)
        except FileNotFoundError:
            raise TableError(f"There is no file {self.name}; python -m pmi count writes one.") from None
        except (pa.ArrowInvalid, OSError) as error:
            raise TableError(
                f"{self.name} is no Parquet file ({first_line(error)}); give one that pmi count wrote."
            ) from None

    def _header(self) -> tuple[CountRule, Totals]:
        with self._file() as file:
            schema = file.schema_arrow
        try:
            meta: dict[str, Any] = json.loads((schema.metadata or {})[_META])
            if meta["format"] != _FORMAT:
                raise TableError(f"{self.name} has format {meta['format']}; this release reads {_FORMAT}.")
            rule = CountRule(**{**meta["rule"], **_tuples(meta["rule"], "stopped", "gendered")})
            totals = Totals(**{**meta["totals"], **_tuples(meta["totals"], "losses")})
        except (KeyError, TypeError, json.JSONDecodeError):
            raise TableError(f"{self.name} holds no counts; give a file that pmi count wrote.") from None
        if schema.names != ["word", "count", *(_NEAR + name for name in rule.gendered)]:
            raise TableError(f"{self.name} has other columns than its rule names; count the corpus again.")
        return rule, totals

    def words(self) -> pa.Array:
        return pa.array(self.counts.words, pa.string()) if self.counts else self._read("word")

    def column(self, name: str) -> Longs:
        if self.counts:
            return self.counts.count if name == "count" else self.counts.near(name.removeprefix(_NEAR))
        found: Longs = self._read(name).to_numpy()
        return found

    def stream(self) -> Callable[[int], Longs]:
        """Gives the rows of pairs, so many at each call, from the first to the last."""
        batches = self._batches()
        held = np.zeros((0, len(self.rule.gendered)), np.int64)

        def take(n: int) -> Longs:
            nonlocal held
            while len(held) < n:
                held = np.concatenate((held, next(batches)))
            taken, held = held[:n], held[n:]
            return taken

        return take

    def _batches(self) -> Iterator[Longs]:
        if self.counts:
            yield self.counts.pairs
            return
        names = [_NEAR + name for name in self.rule.gendered]
        with self._file() as file, self._sound():
            for batch in file.iter_batches(_ROWS, columns=names, use_threads=False):
                yield np.column_stack([column.to_numpy() for column in batch.columns])

    @contextmanager
    def _sound(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, OSError) as error:
            raise TableError(f"{self.name} is damaged ({first_line(error)}); count the corpus again.") from None

    def _read(self, name: str) -> pa.Array:
        with self._file() as file, self._sound():
            return file.read([name], use_threads=False).column(0).combine_chunks()


def _tuples(record: dict[str, Any], *names: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(record[name]) for name in names}


def _union(lists: Sequence[pa.Array]) -> pa.Array:
    """Every word of several lists once, sorted."""
    found = lists[0]
    for other in lists[1:]:
        found = pc.unique(pa.concat_arrays([found, other]))
    return found.take(pc.sort_indices(found))


def _difference(one: CountRule, other: CountRule) -> str:
    """What two rules differ in, in words; empty for equal ones."""
    return "; ".join(
        f"{f.name.replace('_', ' ')} {_shown(getattr(one, f.name))}, there {_shown(getattr(other, f.name))}"
        for f in fields(CountRule)
        if getattr(one, f.name) != getattr(other, f.name)
    )


def _shown(value: Any) -> str:
    """A value of a rule; of a long list its length and last word."""
    if isinstance(value, tuple) and len(value) > 3:
        return f"{len(value)} words up to {value[-1]!r}"
    return repr(value)
