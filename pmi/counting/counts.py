"""Tables of counts: how often each word occurs and co-occurs with gendered words, stored with the counting rule."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pmi import types
from pmi.files import replacing
from pmi.types import SHE_HE, CorpusTotals, CountRule, DeltaTable, GenderedPair, IntArray, TableError, as_pairs

_METADATA_KEY = b"gender-neutral-probes"
#: Versions 1 and 2 have the same tables.
_FORMAT_VERSION = 3
# A column of the file is named by this and its gendered word.
_COLUMN_PREFIX = "near_"
_ROWS_PER_BATCH = 1 << 14

#: ``pair_rows(start, stop)`` gives the pair counts of the words start to stop, shape (rows, gendered).
PairRows = Callable[[int, int], IntArray]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each word occurs, and how often it co-occurs with each gendered word.

    c(w, g) is the number of pairs of places where w and g are within one window of each other, in either
    order. A word within a window of itself is counted from both places, as in the published counts.

    Parameters
    ----------
    words:
        Every word, sorted by code point.
    word_counts:
        How often each word occurs, shape (words,).
    pair_counts:
        c(w, g), shape (words, gendered).
    rule:
        How the words were counted; has the gendered words in the order of the columns.
    totals:
        Totals over the corpus.
    """

    words: tuple[str, ...]
    word_counts: IntArray
    pair_counts: IntArray
    rule: CountRule
    totals: CorpusTotals

    def __post_init__(self) -> None:
        n_words, n_gendered = len(self.words), len(self.rule.gendered)
        if self.word_counts.shape != (n_words,) or self.pair_counts.shape != (n_words, n_gendered):
            raise TableError(
                f"The counts are of shape {self.word_counts.shape} and {self.pair_counts.shape}; for {n_words} words "
                f"and {n_gendered} gendered words give {(n_words,)} and {(n_words, n_gendered)}."
            )

    def count_of(self, word: str) -> int:
        """How often a word occurs; 0 for a word that is not in the table.

        >>> rule = CountRule("toy", 10, "any", "none", gendered=("he", "she"))
        >>> counts = Counts(("he", "nurse"), np.array([2, 1]), np.array([[0, 0], [1, 0]]), rule, CorpusTotals())
        >>> counts.count_of("nurse"), counts.count_of("she")
        (1, 0)
        """
        # Words are sorted, so no index of millions of words has to be made.
        row = bisect_left(self.words, word)
        if row == len(self.words) or self.words[row] != word:
            return 0
        return int(self.word_counts[row])

    def pair_counts_of(self, gendered: str) -> IntArray:
        """c(w, gendered) for every word w, shape (words,).

        Raises
        ------
        TableError
            When co-occurrence with that word was not counted.
        """
        if gendered not in self.rule.gendered:
            raise TableError(
                f"Co-occurrence with {gendered!r} was not counted; this table has {', '.join(self.rule.gendered)}."
            )
        return self.pair_counts[:, self.rule.gendered.index(gendered)]

    def counted_pairs(self) -> tuple[GenderedPair, ...]:
        """The published pairs of which both words were counted."""
        counted = set(self.rule.gendered)
        pairs = []
        for pair in types.PUBLISHED_PAIRS:
            if pair.first in counted and pair.second in counted:
                pairs.append(pair)
        return tuple(pairs)

    def delta(self, pairs: GenderedPair | Sequence[GenderedPair] = SHE_HE) -> DeltaTable:
        """δ of every word that has one: the weighted mean over pairs of PMI(w, first) − PMI(w, second).

        A word has a δ when it co-occurs with both words of every pair. When a gendered word never
        occurs, no word has a δ.

        Raises
        ------
        TableError
            For a gendered word that was not counted, and for weights that have no mean.

        >>> rule = CountRule("toy", 10, "any", "none", gendered=("he", "she"))
        >>> words = ("he", "nurse", "she", "ship")
        >>> pair_counts = np.array([[0, 1], [1, 4], [1, 0], [2, 0]])
        >>> table = Counts(words, np.array([4, 5, 2, 2]), pair_counts, rule, CorpusTotals()).delta()
        >>> {word: round(value, 4) for word, value in table.delta.items()}
        {'nurse': 2.0794}
        """
        values = self.delta_values(pairs)
        defined = np.flatnonzero(np.isfinite(values))
        words = (self.words[row] for row in defined)
        return DeltaTable.of(words, values[defined], self.word_counts[defined], self.rule, as_pairs(pairs))

    def delta_values(self, pairs: GenderedPair | Sequence[GenderedPair] = SHE_HE) -> types.FloatArray:
        """δ of every word, shape (words,); NaN where :meth:`delta` has none. Raises as that."""
        pairs = as_pairs(pairs)
        total_weight = math.fsum(pair.weight for pair in pairs)
        if not (total_weight > 0 and all(0 <= pair.weight < math.inf for pair in pairs)):
            raise TableError("The weights of the pairs have no mean; give numbers of at least 0 that are not all 0.")
        # PMI is not defined where a count is 0, as there is no smoothing.
        defined = np.ones(len(self.words), bool)
        for word in types.words_of(pairs):
            defined &= (self.pair_counts_of(word) > 0) & (self.count_of(word) > 0)
        values = np.where(defined, 0.0, math.nan)
        if not defined.any():
            return values
        for pair in pairs:
            first = self.pair_counts_of(pair.first)[defined]
            second = self.pair_counts_of(pair.second)[defined]
            ratio = np.log(first) - np.log(second)
            # The counts of the word itself and of all pairs are in both PMI and cancel out.
            ratio = ratio - math.log(self.count_of(pair.first)) + math.log(self.count_of(pair.second))
            values[defined] += pair.weight / total_weight * ratio
        return values

    def write(self, path: str | Path) -> None:
        """Writes Parquet: a row per word, a column per gendered word, rule and totals as JSON in the schema.

        Equal counts give equal bytes with one release of pyarrow.
        """
        words = pa.array(self.words, pa.string())
        write_counts(path, words, self.word_counts, lambda i, j: self.pair_counts[i:j], self.rule, self.totals)

    @classmethod
    def read(cls, path: str | Path) -> Counts:
        """Reads what :meth:`write` wrote.

        Raises
        ------
        TableError
            When the file does not exist, is not Parquet, or does not hold counts.
        """
        return merge([path])


def delta(counts: Counts | str | Path, pairs: GenderedPair | Sequence[GenderedPair] = SHE_HE) -> DeltaTable:
    """δ of every word of a table of counts, or of a file of counts; see :meth:`Counts.delta`."""
    if not isinstance(counts, Counts):
        counts = Counts.read(counts)
    return counts.delta(pairs)


def merge(parts: Sequence[Counts | str | Path]) -> Counts:
    """The sum of tables with one rule; each part is a table or a file, and their order does not matter.

    Raises
    ------
    TableError
        When there is no part, a file does not hold counts, or two rules differ.
    """
    words, word_counts, pair_rows, rule, totals = _sum(parts)
    # By column, because readers take the counts of one gendered word at a time.
    pair_counts = np.empty((len(words), len(rule.gendered)), np.int64, order="F")
    for start in range(0, len(words), _ROWS_PER_BATCH):
        pair_counts[start : start + _ROWS_PER_BATCH] = pair_rows(start, start + _ROWS_PER_BATCH)
    return Counts(tuple(words.to_pylist()), word_counts, pair_counts, rule, totals)


@dataclass(frozen=True, slots=True)
class CountsSummary:
    """What a file of counts holds: the number of words, the totals, and the gendered words that do not occur."""

    words: int
    totals: CorpusTotals
    absent: tuple[str, ...]


def absent_text(words: Sequence[str], most: int = 8) -> str:
    """A sentence about gendered words that do not occur, of which the first are named.

    >>> absent_text(["her", "him", "his"], most=2)
    'Gendered words that do not occur: her, him and 1 more.'
    """
    listed = ", ".join(words[:most])
    if len(words) > most:
        listed += f" and {len(words) - most} more"
    return f"Gendered words that do not occur: {listed}."


def merge_files(parts: Sequence[Counts | str | Path], path: str | Path) -> CountsSummary:
    """Writes the sum of tables, as :func:`merge` gives it, without having all of it in memory.

    Raises
    ------
    TableError
        As :func:`merge`, and when no word was counted; a table at the path stays as it was.
    """
    words, word_counts, pair_rows, rule, totals = _sum(parts)
    if not totals.words:
        reason = ""
        if totals.losses:
            # Often a file that cannot be read is why there is no word.
            reason = f" ({totals.losses[0].rstrip('.')})"
        raise TableError(f"No word was counted in {rule.corpus}{reason}; give files with text.")
    write_counts(path, words, word_counts, pair_rows, rule, totals)
    gendered = pa.array(rule.gendered, pa.string())
    # Looked up in Arrow: a set of all words of a large corpus would take gigabytes.
    present = set(words.filter(pc.is_in(words, value_set=gendered)).to_pylist())
    absent = tuple(word for word in rule.gendered if word not in present)
    return CountsSummary(len(words), totals, absent)


def _sum(parts: Sequence[Counts | str | Path]) -> tuple[pa.Array, IntArray, PairRows, CountRule, CorpusTotals]:
    """The sum of tables as :func:`write_counts` takes it; pair counts must be asked for in ascending order of rows."""
    tables = _tables_of_one_rule(parts)
    words = _union([table.words() for table in tables])
    # By table: the row of the sum for each of its rows. Words are sorted in both, so the rows ascend.
    rows_by_table = [pc.index_in(table.words(), value_set=words).to_numpy() for table in tables]
    word_counts = np.zeros(len(words), np.int64)
    for table, rows in zip(tables, rows_by_table, strict=True):
        word_counts[rows] += table.word_counts()
    # Pair counts of large corpora do not fit into memory, so they are read and added in pieces.
    readers = [table.row_reader() for table in tables]
    rule, totals = tables[0].rule, CorpusTotals.sum(table.totals for table in tables)

    def pair_rows(start: int, stop: int) -> IntArray:
        total = np.zeros((min(stop, len(words)) - start, len(rule.gendered)), np.int64)
        for rows, read in zip(rows_by_table, readers, strict=True):
            # Rows ascend, so a range of rows of the sum is a range of rows of the table.
            first, last = np.searchsorted(rows, [start, stop])
            # No row occurs twice in a table, so the sum by index misses none.
            total[rows[first:last] - start] += read(int(last - first))
        return total

    return words, word_counts, pair_rows, rule, totals


def _tables_of_one_rule(parts: Sequence[Counts | str | Path]) -> list[_Table]:
    tables = [_Table(part) for part in parts]
    if not tables:
        raise TableError("There are no counts to add up; give at least one table.")
    seen: dict[str, str] = {}
    for table in tables:
        files = table.totals.inputs
        # Tables of earlier versions do not name their files, so the name of the table counts as a file.
        if not files and not table.counts:
            files = (table.name,)
        for file in files:
            if file in seen:
                raise TableError(
                    f"{table.name} has counts of a file of which {seen[file]} has them too; add up each file once."
                )
            seen[file] = table.name
    for table in tables[1:]:
        difference = _difference(tables[0].rule, table.rule)
        if difference:
            raise TableError(
                f"{table.name} was counted by another rule than {tables[0].name} ({difference}); "
                "count both by one rule, then add them up."
            )
    return tables


def is_readable(path: str | Path) -> bool:
    """Whether a file exists and holds counts."""
    try:
        _Table(path)
    except TableError:
        return False
    return True


def contents(path: str | Path) -> tuple[str, ...] | None:
    """The digests of the files that a table was counted from; None where there is no table of counts."""
    try:
        return _Table(path).totals.contents
    except TableError:
        return None


def check_target(path: Path) -> None:
    """Refuses a file that counts would replace, if it holds no counts.

    Raises
    ------
    TableError
        With what is in the way.
    """
    if path.is_dir():
        raise TableError(f"{path} is a folder; give a file for the counts as --out.")
    if path.is_symlink() or (path.exists() and not is_readable(path)):
        raise TableError(f"{path} holds no counts, and would be replaced; move it away or give another --out.")


def write_counts(
    path: str | Path, words: pa.Array, word_counts: IntArray, pair_rows: PairRows, rule: CountRule, totals: CorpusTotals
) -> None:
    """Writes a table of counts in batches of rows; ``words`` are sorted already."""
    metadata = {"format": _FORMAT_VERSION, "rule": asdict(rule), "totals": asdict(totals)}
    header = json.dumps(metadata, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
    fields = [pa.field("word", pa.string(), nullable=False), pa.field("count", pa.int64(), nullable=False)]
    for word in rule.gendered:
        fields.append(pa.field(_COLUMN_PREFIX + word, pa.int64(), nullable=False))
    schema = pa.schema(fields, metadata={_METADATA_KEY: header})
    # Counting takes hours, so a reader has to know where a table was damaged since.
    options: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
    with replacing(path) as file, pq.ParquetWriter(file, schema, **options) as writer:
        for start in range(0, len(words), _ROWS_PER_BATCH):
            stop = start + _ROWS_PER_BATCH
            batch_words, batch_counts = words[start:stop], word_counts[start:stop]
            near = pair_rows(start, stop)
            columns = [batch_words, pa.array(batch_counts)]
            # A file has columns, and a batch has rows.
            columns += [pa.array(column) for column in near.T]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


class _Table:
    """A table to add up, in memory or in a file; pair counts are read in batches of rows."""

    def __init__(self, part: Counts | str | Path) -> None:
        self.counts: Counts | None = None
        if isinstance(part, Counts):
            self.counts = part
            self.name = "a table"
            self.rule, self.totals = part.rule, part.totals
        else:
            self.name = str(part)
            # The rule is read first: files that do not fit together are refused before their rows are read.
            self.rule, self.totals = self._header()

    def _file(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.name, page_checksum_verification=True)
        except FileNotFoundError:
            raise TableError(f"There is no file {self.name}; probes pmi count writes one.") from None
        except (pa.ArrowException, OSError, ValueError) as error:
            raise TableError(
                f"{self.name} is not a Parquet file ({types.first_line(error)}); give one that pmi count wrote."
            ) from None

    def _header(self) -> tuple[CountRule, CorpusTotals]:
        with self._file() as file:
            schema = file.schema_arrow
        try:
            metadata: dict[str, Any] = json.loads((schema.metadata or {})[_METADATA_KEY])
            if metadata["format"] not in (1, 2, _FORMAT_VERSION):
                raise TableError(f"{self.name} has format {metadata['format']}; this release reads {_FORMAT_VERSION}.")
            rule = rule_from_json(metadata["rule"])
            numbers = {**metadata["totals"]}
            for name in ("losses", "inputs", "contents"):
                # JSON has lists; tables of earlier versions lack some of them.
                numbers[name] = tuple(numbers.get(name, ()))
            if "long_runs" in numbers:
                numbers["long_tokens"] = numbers.pop("long_runs")  # its name in tables of earlier versions
            totals = CorpusTotals(**numbers)
        except (KeyError, TypeError, ValueError, RecursionError):
            raise TableError(f"{self.name} holds no counts; give a file that pmi count wrote.") from None
        near = [_COLUMN_PREFIX + word for word in rule.gendered]
        if schema.names != ["word", "count", *near]:
            raise TableError(f"{self.name} has other columns than its rule names; count the corpus again.")
        return rule, totals

    def words(self) -> pa.Array:
        if self.counts:
            return pa.array(self.counts.words, pa.string())
        return self._read("word")

    def word_counts(self) -> IntArray:
        if self.counts:
            return self.counts.word_counts
        counts: IntArray = self._read("count").to_numpy()
        return counts

    def row_reader(self) -> Callable[[int], IntArray]:
        """A function that gives the next n rows of pair counts."""
        batches = self._batches()
        held = np.zeros((0, len(self.rule.gendered)), np.int64)

        def read(n: int) -> IntArray:
            nonlocal held
            while len(held) < n:
                held = np.concatenate((held, next(batches)))
            rows, held = held[:n], held[n:]
            return rows

        return read

    def _batches(self) -> Iterator[IntArray]:
        if self.counts:
            yield self.counts.pair_counts
            return
        names = [_COLUMN_PREFIX + word for word in self.rule.gendered]
        with self._file() as file, self._damage_as_table_error():
            for batch in file.iter_batches(_ROWS_PER_BATCH, columns=names, use_threads=False):
                yield np.column_stack([column.to_numpy() for column in batch.columns])

    @contextmanager
    def _damage_as_table_error(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, ValueError) as error:
            raise TableError(f"{self.name} is damaged ({types.first_line(error)}); count the corpus again.") from None

    def _read(self, name: str) -> pa.Array:
        with self._file() as file, self._damage_as_table_error():
            return file.read([name], use_threads=False).column(0).combine_chunks()


def rule_from_json(values: dict[str, Any]) -> CountRule:
    """A rule from its fields as JSON gives them, with lists for tuples."""
    facts: dict[str, Any] = {}
    for name, value in values.items():
        facts[name] = tuple(value) if isinstance(value, list) else value
    return CountRule(**facts)


def _union(word_lists: Sequence[pa.Array]) -> pa.Array:
    """Every word of several lists once, sorted."""
    words = word_lists[0]
    for other in word_lists[1:]:
        # One table at a time, so that at most two lists of words are in memory with their union.
        words = pc.unique(pa.concat_arrays([words, other]))
    return words.take(pc.sort_indices(words))


def _difference(rule: CountRule, other: CountRule) -> str:
    """The fields in which two rules differ, in words; empty for equal rules."""
    parts = []
    for field in fields(CountRule):
        here, there = getattr(rule, field.name), getattr(other, field.name)
        if here != there:
            parts.append(f"{field.name.replace('_', ' ')} {_shortened(here)}, there {_shortened(there)}")
    return "; ".join(parts)


def _shortened(value: Any) -> str:
    """A value of a rule; for a long list its length and its last word."""
    if isinstance(value, tuple) and len(value) > 3:
        return f"{len(value)} words up to {value[-1]!r}"
    return repr(value)
