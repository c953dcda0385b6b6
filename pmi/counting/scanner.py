"""Counts a stream of bytes: gives the compiled steps room, and says what a run of letters means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pmi.counting import scan
from pmi.counting.counts import Longs, Rows, Totals
from pmi.counting.scan import AT, NOTHING, SEVERAL, UNKNOWN
from pmi.types import Boundary, TableError
from pmi.words import words

# Runs that are numbered at a time; few enough to stay in a cache between the steps.
_RUNS = 1 << 16
# Bytes that are looked at at a time.
_BYTES = 1 << 20
# Pairs are counted in 32 bits, and what comes to half of their range goes elsewhere.
_HALF = 1 << 31


class Scanner:
    r"""Counts words and their company in text that comes in blocks cut anywhere.

    A record ends with the byte 0xFF. Memory depends on the number of distinct words, not on the length
    of the text, of a record or of a line.

    Parameters
    ----------
    gendered:
        Words whose company is counted, each one word by the rule of :mod:`pmi.words`.
    stop:
        Words that are not there at all, unless they are among the gendered.
    window:
        Words that stand within so many words of each other are in company.
    boundary:
        What no window crosses.

    >>> scanner = Scanner(("she", "he"), {"the", "a"}, 10, "record")
    >>> scanner.feed(b"She saw the ship. The captain saw a she-wolf.\xff")
    >>> words, count, near, totals = scanner.result()
    >>> words.to_pylist(), count.tolist(), near(0, 5)[:, 0].tolist()
    (['captain', 'saw', 'she', 'ship', 'wolf'], [1, 2, 2, 1, 1], [2, 4, 2, 2, 2])
    >>> totals.words, totals.pairs
    (7, 21)
    """

    def __init__(self, gendered: Sequence[str], stop: Collection[str], window: int, boundary: Boundary) -> None:
        for word in gendered:
            if list(words(word, ())) != [word]:
                raise TableError(
                    f"The gendered word {word!r} is not one word by the rule of counting; give words in lower case, "
                    "one by one."
                )
        self.gendered = tuple(gendered)
        self.stop = frozenset(stop) - set(gendered)
        self.window, self.crossing, self.lines = window, boundary == "none", boundary == "line"
        self.state = np.zeros(len(AT), np.int64)
        self.fed = 0
        self._allocate()
        self._intern(list(gendered))
        self.target[: len(gendered)] = range(len(gendered))
        self.target[self._intern(sorted(word for word in self.stop if word))] = NOTHING
        self.known = 0
        self._ask()

    def _allocate(self) -> None:
        self.slots = np.full(1 << 16, -1, np.int32)
        self.lo, self.hi = np.zeros(1 << 15, np.uint64), np.zeros(1 << 15, np.uint64)
        self.target = np.zeros(1 << 15, np.int32)
        self.row = np.full(1 << 15, scan.NO_ROW, np.uint32)
        self.count = np.zeros(1 << 15, np.int64)
        self.pool = np.zeros(1 << 16, np.uint8)
        self.near = np.zeros((1, len(self.gendered), scan.BLOCK), np.uint32)
        self.added, self.over = 0, Counter[tuple[int, int]]()
        self.several, self.starts = np.zeros(0, np.int32), np.zeros(1, np.int32)
        self.runs = np.empty(_RUNS, np.int32)
        self.text = np.empty(_RUNS + 2 * scan.LONGEST + self.window, np.int32)
        self.carried = 0
        self.buffer = np.empty(_BYTES + 2 * scan.LONGEST, np.uint8)
        self.rest = 0

    @property
    def _table(self) -> tuple[Any, ...]:
        return self.slots, self.lo, self.hi, self.pool, self.target, self.state

    @property
    def invalid(self) -> int:
        """Bytes so far that are no UTF-8."""
        return int(self.state[AT.invalid])

    def feed(self, block: bytes, final: bool = False) -> None:
        """Counts a block; a word that it may cut waits for the next, unless it is the last."""
        self.fed += len(block)
        for start in range(0, len(block) or 1, _BYTES):
            piece = np.frombuffer(block, np.uint8, offset=start)[:_BYTES] if block else self.buffer[:0]
            filled = self.rest + len(piece)
            self.buffer[self.rest : filled] = piece
            at = self._scan(self.buffer[:filled], final)
            self.rest = filled - at
            self.buffer[: self.rest] = self.buffer[at:filled].copy()

    def _scan(self, buffer: npt.NDArray[np.uint8], final: bool) -> int:
        """Counts bytes as far as they hold whole runs; tells how far that is."""
        at, more = 0, True
        while more:
            at, n, more = scan.tokenise(
                buffer, at, final, self.lines, scan.lower(), scan.kinds(), *self._table, self.runs
            )
            self._ask()
            self._walk(n)
            self._grow(0, 0)
        return at

    def _walk(self, n: int) -> None:
        """Counts the first n runs and walks their windows."""
        i = 0
        while i < n:
            i, m = scan.settle(
                self.runs, i, n, self.crossing, self.window, self.target, self.several, self.starts,
                self.count, self.state, self.text, self.carried,
            )  # fmt: skip
            at = 0
            while at < m:
                at = scan.pair(
                    self.text, at, m, self.carried, len(self.gendered), self.window, self.row, self.near, self.state
                )
                if at < m:
                    _enlarge(self, "near", 1 + 2 * self.window // scan.BLOCK, 0)
            self.added += 2 * self.window * m
            if self.added >= _HALF:
                self._spill()
            self.carried = min(m, self.window)
            self.text[: self.carried] = self.text[m - self.carried : m].copy()

    def _spill(self) -> None:
        """Takes large numbers out of the 32 bits that each has, so that none is ever cut."""
        for block, gendered, place in np.argwhere(self.near >= _HALF).tolist():
            self.over[block * scan.BLOCK + place, gendered] += int(self.near[block, gendered, place])
            self.near[block, gendered, place] = 0
        self.added = 0

    def _ask(self) -> None:
        """Finds out what the new runs mean that are not plain words."""
        while self.known < (n := int(self.state[AT.entries])):
            new = np.arange(self.known, n, dtype=np.int32)[self.target[self.known : n] == UNKNOWN]
            self.known = n
            if new.size:
                self._mean(new)

    def _mean(self, runs: npt.NDArray[np.int32]) -> None:
        meanings = [list(words(text, self.stop)) for text in self._spelt(runs).to_pylist()]
        ids = self._intern([word for meaning in meanings for word in meaning])
        lengths = np.array([len(meaning) for meaning in meanings], np.int64)
        first = np.cumsum(lengths) - lengths
        self.target[runs] = NOTHING
        self.target[runs[lengths == 1]] = ids[first[lengths == 1]]
        more = np.flatnonzero(lengths > 1)
        if more.size:
            self.target[runs[more]] = SEVERAL - (len(self.starts) - 1) - np.arange(len(more), dtype=np.int32)
            picked = np.concatenate([ids[first[k] : first[k] + lengths[k]] for k in more])
            self.starts = np.append(self.starts, self.starts[-1] + np.cumsum(lengths[more])).astype(np.int32)
            self.several = np.append(self.several, picked)

    def _intern(self, names: Sequence[str]) -> npt.NDArray[np.int32]:
        """The numbers of words; new ones are entered."""
        encoded = [name.encode() for name in names]
        ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        ids = np.empty(len(names), np.int32)
        self._grow(len(names), int(ends[-1]) + 2 * len(names) if names else 0)
        scan.intern(np.frombuffer(b"".join(encoded), np.uint8), ends, ids, scan.lower(), *self._table)
        return ids

    def _spelt(self, ids: npt.NDArray[np.int32]) -> pa.Array:
        ends = np.zeros(len(ids) + 1, np.int32)
        size = scan.spell(ids, self.lo, self.hi, self.pool, np.empty(0, np.uint8), ends[1:])
        data = np.empty(size, np.uint8)
        scan.spell(ids, self.lo, self.hi, self.pool, data, ends[1:])
        return pa.StringArray.from_buffers(len(ids), pa.py_buffer(ends), pa.py_buffer(data))

    def _grow(self, entries: int, pool: int) -> None:
        """Makes room for so many more words and bytes of long words, and one of each besides."""
        used, filled = int(self.state[AT.entries]), int(self.state[AT.pool])
        if filled + pool + scan.LONGEST + 2 > len(self.pool):
            _enlarge(self, "pool", len(self.pool) // 2 + pool, 0)
        if used + entries >= len(self.lo):
            for name, fill in {"lo": 0, "hi": 0, "target": 0, "count": 0, "row": scan.NO_ROW}.items():
                _enlarge(self, name, used // 4 + entries + 1, fill)
        if used + entries >= len(self.slots) // 2:
            self.slots = np.full(1 << (2 * (used + entries)).bit_length() + 1, -1, np.int32)
            scan.rehash(self.slots, self.lo, self.hi, used)

    def result(self) -> tuple[pa.Array, Longs, Rows, Totals]:
        """Words that occur, sorted; how often each does; rows of how often near each gendered word; the totals."""
        self.feed(b"", final=True)
        ids = np.flatnonzero(self.count[: int(self.state[AT.entries])]).astype(np.int32)
        names = self._spelt(ids)
        order = pc.sort_indices(names)
        ids = ids[order.to_numpy()]

        over = {row: at for at, row in enumerate(self.row[ids].tolist())} if self.over else {}

        def near(start: int, stop: int) -> Longs:
            row = self.row[ids[start:stop]]
            company = np.flatnonzero(row != scan.NO_ROW)
            found = np.zeros((len(row), len(self.gendered)), np.int64)
            found[company] = self.near[row[company] // scan.BLOCK, :, row[company] % scan.BLOCK]
            for (large, gendered), more in self.over.items():
                if start <= over[large] < stop:
                    found[over[large] - start, gendered] += more
            return found

        return names.take(order), self.count[ids], near, self._totals()

    def _totals(self) -> Totals:
        return Totals(
            words=int(self.state[AT.words]),
            pairs=int(self.state[AT.pairs]),
            documents=int(self.state[AT.documents]),
            bytes=self.fed - int(self.state[AT.documents]),
            invalid_bytes=self.invalid,
            long_runs=int(self.state[AT.long_runs]),
        )


def _enlarge(scanner: Scanner, name: str, more: int, fill: Any) -> None:
    """Adds rows to an array of a scanner where it lies, since a copy would need the memory twice."""
    array = getattr(scanner, name)
    size = len(array)
    array.resize((size + more, *array.shape[1:]), refcheck=False)
    array[size:] = fill
