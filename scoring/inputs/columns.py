"""Tables of examples of any length: numbers are arrays, and long texts are in a file until they are read.

A million examples with an identifier and three sentences each take half a gigabyte as objects of Python, and 40 MB as
compressed blocks. Metrics read numbers and labels, which stay in memory: a label that many rows share is one object.
Pages and files read the texts, block by block.

>>> columns = Columns()
>>> columns.add({"id": "a", "p": 1}), columns.add({"id": "b", "p": 0.5})
(None, None)
>>> table = columns.table()
>>> table["p"], length(table)
(array([1. , 0.5]), 2)
"""

from __future__ import annotations

import math
import pickle
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scoring.types import Line, Table

#: One column of a table.
Column = np.ndarray[Any, np.dtype[Any]]
#: Rows that are read from a table at one time.
BLOCK = 1 << 14


class Columns:
    """The columns of a table whose lines come one after the other; few lines are there as such at one time."""

    #: Lines that become a block of each column together.
    LINES = 4096
    #: Different texts of a column that are looked for in later lines; a column with so many goes to a file.
    TEXTS = 4096

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._rows = 0
        self._blocks: dict[str, list[Column]] = {}
        self._texts: dict[str, dict[str, str]] = {}
        self._file: TextFile | None = None

    def add(self, line: Line) -> None:
        """Adds a line; the first one says which columns there are."""
        self._lines.append(line)
        if len(self._lines) >= self.LINES:
            self._store()

    def table(self) -> Table:
        """The columns of all lines: a dictionary of arrays, or with long texts a :class:`SpooledTable`.

        It is the last call: the lines are not kept a second time.
        """
        if self._lines:
            self._store()
        names = list(self._blocks)
        kept = {}
        for name in names:
            # Column by column, so that only one of them is there twice.
            blocks = self._blocks.pop(name)
            if blocks:
                kept[name] = _joined(blocks)
        if self._file is None:
            return kept
        return SpooledTable(names, kept, self._file, self._rows)

    def _store(self) -> None:
        for name in list(self._blocks or self._lines[0]):
            block = as_column([line[name] for line in self._lines])
            # A column that once had many different texts stays in the file.
            if self._file is not None and name in self._file:
                self._file.append(name, block)
                continue
            self._blocks.setdefault(name, []).append(block)
            if block.dtype != object:
                continue
            # Each row has its own text of a word or a label that many rows have; one for all is kept.
            texts = self._texts.setdefault(name, {})
            for place, value in enumerate(block):
                if isinstance(value, str) and (value in texts or len(texts) < self.TEXTS):
                    block[place] = texts.setdefault(value, value)
            if len(texts) >= self.TEXTS:
                self._spool(name)
        self._rows += len(self._lines)
        self._lines.clear()

    def _spool(self, name: str) -> None:
        """Moves a column to the file."""
        self._file = self._file or TextFile()
        for block in self._blocks[name]:
            self._file.append(name, block)
        self._blocks[name].clear()
        self._texts[name].clear()


class TextFile:
    """Columns of texts in a temporary file without a name, which ends with the table; blocks are compressed."""

    def __init__(self) -> None:
        # Only this process writes and reads it, so its blocks may be pickles.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)  # when the table is no longer used
        self._blocks: dict[str, list[tuple[int, int, int]]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._blocks

    def append(self, name: str, block: Column) -> None:
        """Adds values to a column; a missing number among texts is an empty text."""
        if block.dtype != object:
            block = _as_objects(block)
        content = pickle.dumps(block.tolist())
        place = self._file.seek(0, 2)
        compressed = pa.compress(content, codec="zstd", asbytes=True)
        self._file.write(compressed)
        self._blocks.setdefault(name, []).append((place, len(compressed), len(content)))

    def blocks(self, name: str) -> Iterator[Column]:
        """The values of a column as they were added."""
        for place, size, content in self._blocks[name]:
            self._file.seek(place)
            values = pickle.loads(pa.decompress(self._file.read(size), content, codec="zstd", asbytes=True))
            yield _objects(values)


class SpooledTable(Mapping[str, Column]):
    """A table whose long texts are in a file: a column of them is read each time that it is asked for.

    Parameters
    ----------
    names:
        All columns in their order.
    kept, file:
        The columns in memory, and the others.
    rows:
        The number of rows.
    """

    def __init__(self, names: Sequence[str], kept: Mapping[str, Column], file: TextFile, rows: int) -> None:
        self.names, self.kept, self.file, self.rows = names, kept, file, rows

    def __getitem__(self, name: str) -> Column:
        if name in self.kept:
            return self.kept[name]
        if name not in self.file:
            raise KeyError(name)
        column = np.empty(self.rows, dtype=object)
        start = 0
        for block in self.file.blocks(name):
            column[start : start + len(block)] = block
            start += len(block)
        return column

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def at(self, name: str, places: Sequence[int]) -> Column:
        """Some rows of a column, of which no more than a block is in memory."""
        if name in self.kept:
            return self.kept[name][places]
        values: dict[int, Any] = {}
        start = 0
        for block in self.file.blocks(name):
            for place in places:
                if start <= place < start + len(block):
                    values[place] = block[place - start]
            start += len(block)
        return _objects([values[place] for place in places])

    def blocks(self, names: Collection[str], size: int) -> Iterator[dict[str, Column]]:
        """The rows of some columns in blocks of about ``size``."""
        readers = {name: _Reader(self.file.blocks(name)) for name in names if name not in self.kept}
        for start in range(0, self.rows, size):
            end = min(start + size, self.rows)
            block = {}
            for name in names:
                if name in readers:
                    block[name] = readers[name].take(end - start)
                else:
                    block[name] = self.kept[name][start:end]
            yield block


class _Reader:
    """Takes any number of values from blocks of another size."""

    def __init__(self, blocks: Iterator[Column]) -> None:
        self._blocks = blocks
        self._rest = _objects([])

    def take(self, count: int) -> Column:
        parts = [self._rest]
        known = len(self._rest)
        while known < count:
            parts.append(next(self._blocks))
            known += len(parts[-1])
        # Blocks in the file have another size than those that are read, so the rest is kept for the next.
        whole = np.concatenate(parts)
        self._rest = whole[count:]
        return whole[:count]


class _View(Mapping[str, Column]):
    """A table of the columns of another one; what a column holds is said by a subclass."""

    table: Table

    def __contains__(self, name: object) -> bool:
        return name in self.table

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)


class ChosenRows(_View):
    """The rows of a table under a mask, whose columns are made when they are read and are not kept.

    >>> rows = ChosenRows({"p": np.array([1, 2, 3])}, np.array([True, False, True]))
    >>> rows["p"], list(rows)
    (array([1, 3]), ['p'])
    """

    def __init__(self, table: Table, mask: NDArray[np.bool_]) -> None:
        self.table, self.mask = table, mask

    def __getitem__(self, name: str) -> Column:
        return self.table[name][self.mask]


class ChangedTexts(_View):
    """A table in which a function changes each text, when it is read."""

    def __init__(self, table: Table, change: Callable[[Any], Any]) -> None:
        self.table, self.change = table, change
        # What is in memory is changed once.
        self._kept = {name: self.changed(column) for name, column in _in_memory(table).items()}

    def __getitem__(self, name: str) -> Column:
        if name in self._kept:
            return self._kept[name]
        return self.changed(self.table[name])

    def changed(self, column: Column) -> Column:
        """The column with its texts changed."""
        if column.dtype.kind not in "OUT":
            return column
        known: dict[str, Any] = {}
        values = column.tolist()
        for place, value in enumerate(values):
            # Equal texts stay one object: a column of a million rows may have few.
            if not isinstance(value, str):
                values[place] = self.change(value)
                continue
            if value not in known:
                known[value] = self.change(value)
            values[place] = known[value]
        return _objects(values)

    def blocks(self, names: Collection[str], size: int) -> Iterator[dict[str, Column]]:
        """As :meth:`SpooledTable.blocks`."""
        for block in blocks(self.table, names, size):
            yield {name: self.changed(column) for name, column in block.items()}


def length(table: Table) -> int:
    """The number of rows of a table, which for texts in a file takes no reading."""
    while isinstance(table, ChangedTexts):
        table = table.table
    if isinstance(table, SpooledTable):
        return table.rows
    if not table:
        return 0
    return len(next(iter(table.values())))


def _in_memory(table: Table) -> Table:
    """The columns of a table that are not in a file."""
    if isinstance(table, SpooledTable):
        return table.kept
    return table


def at(table: Table, name: str, places: Sequence[int]) -> Column:
    """Some rows of a column; of a table with changed texts only these are changed.

    >>> at({"id": np.array(["a", "b", "c"])}, "id", [2, 0]).tolist()
    ['c', 'a']
    """
    if isinstance(table, ChangedTexts):
        return table.changed(at(table.table, name, places))
    if isinstance(table, SpooledTable):
        return table.at(name, places)
    return table[name][places]


def numbers_first(table: Table) -> list[str]:
    """The columns of a table, those with numbers first: where two tables differ, numbers do, and they are read faster.

    >>> numbers_first({"id": np.array(["a"], dtype=object), "p": np.array([0.5])})
    ['p', 'id']
    """
    # A view has the columns of its table, whose types are known without reading a text.
    while isinstance(table, ChosenRows | ChangedTexts):
        table = table.table
    kept = _in_memory(table)
    numbers, others = [], []
    for name in table:
        if name in kept and kept[name].dtype.kind == "f":
            numbers.append(name)
        else:
            others.append(name)
    return numbers + others


def blocks(table: Table, names: Collection[str] = (), size: int = BLOCK) -> Iterator[dict[str, Column]]:
    """The rows of a table in blocks, of all columns or of those that are named.

    >>> [block["p"].tolist() for block in blocks({"p": np.arange(5)}, size=2)]
    [[0, 1], [2, 3], [4]]
    """
    names = names or list(table)
    if isinstance(table, SpooledTable | ChangedTexts):
        yield from table.blocks(names, size)
        return
    for start in range(0, length(table), size):
        yield {name: table[name][start : start + size] for name in names}


def numbered(values: Column) -> tuple[NDArray[np.intp], int]:
    """The number of each value among the different values in ascending order, and how many there are.

    As ``numpy.unique`` with the inverse, which for texts makes an array of the width of the longest one.

    >>> codes, count = numbered(np.array(["b", "a", "b"], dtype=object))
    >>> codes.tolist(), count
    ([1, 0, 1], 2)
    """
    if values.dtype != object:
        names, codes = np.unique(values, return_inverse=True)
        return codes, len(names)
    parts = []
    try:
        # In blocks, because the texts of all rows are many times the numbers of them.
        for start in range(0, len(values), BLOCK):
            parts.append(pa.array(values[start : start + BLOCK], pa.string()).dictionary_encode())
    except (pa.ArrowException, UnicodeEncodeError, TypeError):
        # Objects of several kinds have no order, and half a character is no UTF-8; strings of NumPy have both.
        names, codes = np.unique(values.astype(str), return_inverse=True)
        return codes, len(names)
    if not parts:
        return np.empty(0, np.intp), 0
    encoded = pa.chunked_array(parts).unify_dictionaries()
    # The bytes of UTF-8 have the order of the characters.
    order = pc.sort_indices(encoded.chunk(0).dictionary).to_numpy()
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    return np.concatenate([rank[part.indices.to_numpy()] for part in encoded.chunks]), len(order)


def first_of_each(codes: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """The first row of each number, of :func:`numbered`.

    >>> first_of_each(np.array([1, 0, 1]), 2).tolist()
    [1, 0]
    """
    first = np.empty(count, np.intp)
    # Backwards, so that the first row of a number is written last.
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def from_arrow(table: pa.Table) -> Table:
    """The columns of a Parquet file of examples; a missing number is NaN, a missing text is empty.

    >>> from_arrow(pa.table({"id": ["a", None], "p": [1, None]}))
    {'id': array(['a', ''], dtype=object), 'p': array([ 1., nan])}
    """
    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            # Equal texts become one object.
            encoded = column.fill_null("").dictionary_encode()
            words = _objects(encoded.dictionary.to_pylist())
            if len(words):
                words = words[encoded.indices.to_numpy()]
            columns[name] = words
        elif pa.types.is_null(column.type) or column.null_count:
            columns[name] = as_column(column.to_pylist())
        else:
            columns[name] = column.to_numpy(zero_copy_only=False)
    return columns


def as_column(values: Sequence[Any]) -> Column:
    """Values as a column: None among numbers is NaN, and among texts an empty text."""
    kinds = {type(value) for value in values}
    lacking = type(None) in kinds
    if any(issubclass(kind, str) for kind in kinds):
        # Objects, because an array of fixed width takes the memory of the longest text for every text.
        column = _objects(values)
        if lacking:
            column[[value is None for value in values]] = ""
        return column
    # Whole numbers have no NaN, so a column with a gap is one of floats.
    if lacking or any(issubclass(kind, float) for kind in kinds):
        return np.array(values, dtype=np.float64)
    return np.array(values)


def _objects(values: Sequence[Any]) -> Column:
    return np.array(values, dtype=object)


def _joined(blocks: Sequence[Column]) -> Column:
    """The blocks of a column as one; where only some have texts, a missing number is an empty text."""
    if len(blocks) == 1:
        return blocks[0]
    if not any(block.dtype == object for block in blocks):
        return np.concatenate(blocks)
    of_objects = []
    for block in blocks:
        if block.dtype != object:
            block = _as_objects(block)
        of_objects.append(block)
    return np.concatenate(of_objects)


def _as_objects(block: Column) -> Column:
    """Numbers as objects; a missing one is an empty text."""
    values = block.tolist()
    for place, value in enumerate(values):
        if isinstance(value, float) and math.isnan(value):
            values[place] = ""
    return _objects(values)
