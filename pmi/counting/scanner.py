"""Counts a stream of bytes: calls the compiled steps, provides their arrays, and resolves tokens that are not words."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pmi.counting import characters, scan, word_table
from pmi.counting.counts import PairRows
from pmi.counting.state import LONGEST, NO_ROW, NO_WORD, ROWS_PER_BLOCK, SEVERAL, STATE, UNRESOLVED
from pmi.types import Boundary, CorpusTotals, Int32Array, IntArray, TableError, Uint8Array
from pmi.words import words

# Runs per call of the compiled steps: few enough to stay in a processor cache between the steps.
_TOKENS = 1 << 16
# Bytes per call.
_BYTES = 1 << 20
# Pair counts have 32 bits. Counts of at least half their range are moved to a dictionary.
_HALF = 1 << 31


class Scanner:
    r"""Counts words, and their co-occurrence with gendered words, in text that comes in blocks cut anywhere.

    A record ends with the byte 0xFF. Memory depends on the number of distinct words, not on the length
    of the text, of a record or of a line.

    Parameters
    ----------
    gendered:
        Words whose co-occurrence is counted, each one word by the rule of :mod:`pmi.words`.
    stop:
        Words that are removed before windows are formed, unless they are gendered words.
    window:
        Two words co-occur when they are at most this many words apart.
    boundary:
        What a window does not cross.

    Raises
    ------
    TableError
        When a gendered word is not one word.

    >>> scanner = Scanner(("she", "he"), {"the", "a"}, 10, "record")
    >>> scanner.feed(b"She saw the ship. The captain saw a she-wolf.\xff")
    >>> words, word_counts, pair_rows, totals = scanner.result()
    >>> words.to_pylist(), word_counts.tolist(), pair_rows(0, 5)[:, 0].tolist()
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
        self.window = window
        self.cross_records = boundary == "none"
        self.break_lines = boundary == "line"
        self.state = np.zeros(1, STATE)[0]
        self.bytes_read = 0
        self._allocate()
        # Gendered words are numbered 0, 1, …, so that the number of one is its column.
        self._number(list(gendered))
        self.table.target[: len(gendered)] = range(len(gendered))
        self.table.target[self._number(sorted(word for word in self.stop if word))] = NO_WORD
        self.n_resolved = 0
        self._resolve_new_tokens()

    def _allocate(self) -> None:
        # The arrays grow.
        self.table = word_table.WordTable(
            slots=np.full(1 << 16, -1, np.int32),
            low=np.zeros(1 << 15, np.uint64),
            high=np.zeros(1 << 15, np.uint64),
            pool=np.zeros(1 << 16, np.uint8),
            target=np.zeros(1 << 15, np.int32),
        )
        # Counts by word number, rows of pair counts by word number, and pair counts by row.
        self.word_counts = np.zeros(1 << 15, np.int64)
        self.row_of = np.full(1 << 15, NO_ROW, np.uint32)
        self.pair_counts = np.zeros((1, len(self.gendered), ROWS_PER_BLOCK), np.uint32)
        # An upper bound of what was added to one pair count since the last _move_large_counts, and what that moved.
        self.max_added, self.large_counts = 0, Counter[tuple[int, int]]()
        # The words of tokens that stand for several, see scan.resolve.
        self.several, self.starts = np.zeros(0, np.int32), np.zeros(1, np.int32)
        self.tokens = np.empty(_TOKENS, np.int32)
        self.words = np.empty(_TOKENS + 2 * LONGEST + self.window, np.int32)
        self.n_carried = 0
        self.buffer = np.empty(_BYTES + 2 * LONGEST + characters.PADDING, np.uint8)
        self.n_pending = 0

    @property
    def invalid_bytes(self) -> int:
        """How many bytes were not valid UTF-8 so far."""
        return int(self.state["invalid_bytes"])

    def feed(self, block: bytes, final: bool = False) -> None:
        """Counts a block. A token that the end of the block may cut waits for the next one, unless ``final``."""
        self.bytes_read += len(block)
        # An empty block is scanned once too: it may be the end of a stream with a token that waits.
        for start in range(0, len(block) or 1, _BYTES):
            piece = self.buffer[:0]
            if block:
                piece = np.frombuffer(block, np.uint8, offset=start)[:_BYTES]
            filled = self.n_pending + len(piece)
            self.buffer[self.n_pending : filled] = piece
            self.buffer[filled : filled + characters.PADDING] = 0
            done = self._scan(self.buffer[: filled + characters.PADDING], final)
            self.n_pending = filled - done
            # Copied first, because both parts may overlap.
            self.buffer[: self.n_pending] = self.buffer[done:filled].copy()

    def _scan(self, buffer: Uint8Array, final: bool) -> int:
        """Counts the whole tokens of a buffer; returns how many bytes that were."""
        done, full = 0, True
        while full:
            done, n_tokens, full = scan.tokenise(
                buffer, done, final, self.break_lines, characters.classes(), self.table, self.state, self.tokens
            )
            self._resolve_new_tokens()
            self._count(n_tokens)
            self._grow(0, 0)
        return done

    def _count(self, n_tokens: int) -> None:
        """Counts the first ``n_tokens`` tokens and the pairs around gendered words."""
        i = 0
        while i < n_tokens:
            i, n_words = scan.resolve(
                self.tokens, i, n_tokens, self.cross_records, self.window, self.table.target, self.several, self.starts,
                self.word_counts, self.state, self.words, self.n_carried,
            )  # fmt: skip
            place = 0
            while place < n_words:
                place = scan.count_pairs(
                    self.words, place, n_words, self.n_carried, len(self.gendered), self.window, self.row_of,
                    self.pair_counts, self.state,
                )  # fmt: skip
                if place < n_words:
                    _enlarge(self.pair_counts, 1 + 2 * self.window // ROWS_PER_BLOCK)
            # No pair count can grow faster: each word has at most so many neighbours.
            self.max_added += 2 * self.window * n_words
            if self.max_added >= _HALF:
                self._move_large_counts()
            self.n_carried = min(n_words, self.window)
            self.words[: self.n_carried] = self.words[n_words - self.n_carried : n_words].copy()

    def _move_large_counts(self) -> None:
        """Moves counts of at least 2³¹ out of the 32-bit array before they can overflow."""
        for block, gendered, place in np.argwhere(self.pair_counts >= _HALF).tolist():
            # A dictionary, because hardly any pair of words occurs two billion times.
            self.large_counts[block * ROWS_PER_BLOCK + place, gendered] += int(self.pair_counts[block, gendered, place])
            self.pair_counts[block, gendered, place] = 0
        self.max_added = 0

    def _resolve_new_tokens(self) -> None:
        """Finds the words of new tokens that are not plain ASCII words; each token is resolved once."""
        # Resolving may add new words, which are resolved in the next round.
        while self.n_resolved < (n_entries := int(self.state["entries"])):
            new = np.arange(self.n_resolved, n_entries, dtype=np.int32)
            self.n_resolved = n_entries
            unresolved = new[self.table.target[new] == UNRESOLVED]
            if unresolved.size:
                self._resolve(unresolved)

    def _resolve(self, tokens: Int32Array) -> None:
        """Sets the targets of tokens by the rule of :mod:`pmi.words`: no word, one word, or several."""
        names: list[str] = []
        n_words = []
        for text in self._spelling(tokens).to_pylist():
            words_of_token = list(words(text, self.stop))
            names += words_of_token
            n_words.append(len(words_of_token))
        # All words at once: each call of compiled code costs more than a word.
        numbers = self._number(names)
        lengths = np.array(n_words, np.int64)
        # The place of the first word of each token among all words.
        first = np.cumsum(lengths) - lengths
        self.table.target[tokens] = NO_WORD
        self.table.target[tokens[lengths == 1]] = numbers[first[lengths == 1]]
        several = np.flatnonzero(lengths > 1)
        if several.size:
            last = len(self.starts) - 1
            self.table.target[tokens[several]] = SEVERAL - last - np.arange(len(several), dtype=np.int32)
            chosen = np.concatenate([numbers[first[k] : first[k] + lengths[k]] for k in several])
            self.starts = np.append(self.starts, self.starts[-1] + np.cumsum(lengths[several])).astype(np.int32)
            self.several = np.append(self.several, chosen)

    def _number(self, names: Sequence[str]) -> Int32Array:
        """The numbers of words; new words are added to the table."""
        encoded = [name.encode() for name in names]
        ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        numbers = np.empty(len(names), np.int32)
        self._grow(len(names), int(ends[-1]) + 2 * len(names) if names else 0)
        data = np.frombuffer(b"".join(encoded), np.uint8)
        word_table.number(data, ends, numbers, self.table, self.state)
        return numbers

    def _spelling(self, numbers: Int32Array) -> pa.Array:
        """The texts of numbered tokens."""
        ends = np.zeros(len(numbers) + 1, np.int32)
        # The first call only measures the length, so that the texts are written into memory of the right size.
        size = word_table.spell(numbers, self.table, np.empty(0, np.uint8), ends[1:])
        data = np.empty(size, np.uint8)
        word_table.spell(numbers, self.table, data, ends[1:])
        return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(data))

    def _grow(self, entries: int, pool: int) -> None:
        """Makes space for so many more entries and bytes of long words, and for one more of each."""
        used, table = int(self.state["entries"]), self.table
        if int(self.state["pool_bytes"]) + pool + LONGEST + 2 > len(table.pool):
            _enlarge(table.pool, len(table.pool) // 2 + pool)
        if used + entries >= len(table.low):
            for array in (table.low, table.high, table.target, self.word_counts):
                _enlarge(array, used // 4 + entries + 1)
            _enlarge(self.row_of, used // 4 + entries + 1, NO_ROW)
        if used + entries >= len(table.slots) // 2:  # fuller than half, probing becomes long
            slots = np.full(1 << (2 * (used + entries)).bit_length() + 1, -1, np.int32)
            self.table = table._replace(slots=slots)
            word_table.rehash(self.table, used)

    def result(self) -> tuple[pa.Array, IntArray, PairRows, CorpusTotals]:
        """The words that occur, sorted; the count of each; a function that gives rows of pair counts; the totals."""
        self.feed(b"", final=True)
        numbers = np.flatnonzero(self.word_counts[: int(self.state["entries"])]).astype(np.int32)
        names = self._spelling(numbers)
        order = pc.sort_indices(names)
        numbers = numbers[order.to_numpy()]
        rows_of_words = self.row_of[numbers].tolist() if self.large_counts else []
        place_of_row = {row: place for place, row in enumerate(rows_of_words)}

        def pair_rows(start: int, stop: int) -> IntArray:
            rows = self.row_of[numbers[start:stop]]
            has_row = np.flatnonzero(rows != NO_ROW)
            counts = np.zeros((len(rows), len(self.gendered)), np.int64)
            counts[has_row] = self.pair_counts[rows[has_row] // ROWS_PER_BLOCK, :, rows[has_row] % ROWS_PER_BLOCK]
            for (row, gendered), count in self.large_counts.items():
                if start <= place_of_row[row] < stop:
                    counts[place_of_row[row] - start, gendered] += count
            return counts

        documents = int(self.state["documents"])
        totals = CorpusTotals(
            words=int(self.state["words"]),
            pairs=int(self.state["pairs"]),
            documents=documents,
            # Each record has one more byte at its end.
            bytes=self.bytes_read - documents,
            invalid_bytes=int(self.state["invalid_bytes"]),
            long_tokens=int(self.state["long_tokens"]),
        )
        return names.take(order), self.word_counts[numbers], pair_rows, totals


def _enlarge(array: np.ndarray[Any, Any], more: int, fill: Any = 0) -> None:
    """Adds rows to an array in place, because a copy would need the memory twice."""
    size = len(array)
    array.resize((size + more, *array.shape[1:]), refcheck=False)
    array[size:] = fill
