"""The compiled scanner gives the counts of the plain reference implementation."""

import re
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pmi.counting import characters
from pmi.counting.scanner import Scanner
from pmi.counting.state import LONGEST
from pmi.types import TableError
from pmi.words import words
from tests.pmi import reference

GENDERED = ("he", "she", "fiancée", "o'clock")
STOP = frozenset({"the", "a", "n't", "of", "she"})

# Letters that make gendered and stop words often, and characters that do something to a word.
PIECES = st.one_of(
    st.sampled_from(
        ["he", "she", "the", "a", "fiancée", "fiance\u0301e", "o'clock", "nurse", "don't", "she's", "3.14"]
    ),
    st.sampled_from(
        [*" \n\t.,'’‘`´-_–—“”…1", "\u00ad", "\u200b", "\u0301", "\u0338", "\u00a0", "ﬁ", "½", "Σ", "İ", "ß"]
    ),
    st.sampled_from(["हिन्दी", "你好，世界。", "สวัสดี", "١٢٫٥", "Ⅻ", "𝐇𝐞", "👩🏽‍🚀", "e", "E", "0"]),
    st.characters(exclude_categories=["Cs"]),
)
TEXTS = st.lists(PIECES, max_size=60).map("".join)


def scanned(blocks, gendered=GENDERED, stop=STOP, window=3, boundary="record"):
    scanner = Scanner(gendered, stop, window, boundary)
    for block in blocks:
        scanner.feed(block)
    word_array, count, near, totals = scanner.result()
    rows = near(0, len(word_array))
    names = word_array.to_pylist()
    pairs = {(w, g): int(rows[i, j]) for i, w in enumerate(names) for j, g in enumerate(gendered) if rows[i, j]}
    return dict(zip(names, count.tolist(), strict=True)), pairs, totals


def cut(data, size):
    return [data[i : i + size] for i in range(0, len(data), size)]


def in_bytes(documents):
    return b"".join(text.encode() + b"\xff" for text in documents)


@settings(max_examples=400)
@given(st.lists(TEXTS, max_size=4), st.integers(1, 40), st.integers(1, 5))
def test_counts_equal_the_reference_implementation_at_any_block_size(documents, size, window):
    count, near, pairs = reference.counted(documents, GENDERED, STOP, window)
    result = scanned(cut(in_bytes(documents), size), window=window)
    assert result[:2] == (dict(count), dict(near))
    assert (result[2].words, result[2].pairs, result[2].documents) == (count.total(), pairs, len(documents))


@settings(max_examples=20)
@given(st.binary(min_size=8, max_size=8))
@example(b"\x80aA0zZ9\xff")
def test_eight_bytes_at_once_are_what_single_bytes_are(data):
    # Each byte value is in each place once.
    for shift in range(256):
        moved = bytes((byte + shift) % 256 for byte in data)
        letters = re.match(rb"[a-zA-Z0-9]*", moved)[0].lower()
        number, length = characters.eight(np.frombuffer(moved, np.uint8), 0)
        assert (int(number), int(length)) == (int.from_bytes(letters, "little"), len(letters))


@settings(max_examples=300)
@given(TEXTS)
def test_a_sentence_has_the_words_that_a_corpus_has(text):
    assert list(words(text, STOP)) == list(reference.words(text, STOP))


@settings(max_examples=200)
@given(st.binary(max_size=200), st.integers(1, 30))
def test_any_bytes_give_the_same_counts_at_any_block_size_and_invalid_bytes_are_counted(data, size):
    texts = data.split(b"\xff")
    result = scanned(cut(data, size))
    assert result == scanned([data])
    invalid = [sum("\udc80" <= c <= "\udcff" for c in text.decode("utf-8", "surrogateescape")) for text in texts]
    assert result[2].invalid_bytes == sum(invalid)


def test_a_boundary_is_a_record_a_line_or_nothing():
    data = b"nurse she\ncaptain\xffship\xff"
    near = {boundary: scanned([data], ("she",), (), 10, boundary)[1] for boundary in ("record", "line", "none")}
    assert near["line"] == {("nurse", "she"): 1}
    assert near["record"] == {("nurse", "she"): 1, ("captain", "she"): 1}
    assert near["none"] == {("nurse", "she"): 1, ("captain", "she"): 1, ("ship", "she"): 1}


def test_a_gendered_word_near_itself_is_counted_from_both_places():
    assert scanned([b"she x she"], ("she",), (), 2)[1] == {("she", "she"): 2, ("x", "she"): 2}


def test_stop_words_are_removed_before_windows_are_formed():
    assert scanned([b"she the the the ship"], ("she",), ("the",), 1)[1] == {("ship", "she"): 1}


def test_a_gendered_word_is_never_a_stop_word():
    assert scanned([b"she"], ("she",), ("she",), 1)[0] == {"she": 1}


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_run_too_long_for_a_word_is_skipped_and_counted(size):
    longest = LONGEST
    text = " ".join(["a" * longest, "b" * (longest + 1), "é" * longest, "c" * longest + "'", "she", "d" * 5000])
    count, pairs, totals = scanned(cut(in_bytes([text]), size), ("she",), (), 10)
    assert count == {"a" * longest: 1, "c" * longest: 1, "she": 1}
    assert pairs == {("a" * longest, "she"): 1, ("c" * longest, "she"): 1}
    assert totals.long_tokens == 3


def test_words_with_equal_hashes_have_separate_counts():
    """Every key is given the same slot, and every long word the same hash."""
    code = (
        "from pmi.counting import word_table; import numba as nb, numpy as np\n"
        "word_table.slot_of = nb.njit(lambda low, high, mask: np.int64(7 & mask))\n"
        "word_table.long_hash = nb.njit(lambda data, start, end: np.uint64(42))\n"
        "for name in ('enter', 'lookup', 'rehash', 'number'):\n"
        "    setattr(word_table, name, nb.njit(getattr(word_table, name).py_func))\n"
        "from pmi.counting import scan\n"
        "scan.tokenise = nb.njit(scan.tokenise.py_func)\n"
        "from pmi.counting.scanner import Scanner\n"
        "texts = [f'w{n}' for n in range(500)] + [f'long-word-no{n}'.replace('-', '') * 3 for n in range(500)]\n"
        "scanner = Scanner(('she',), (), 2, 'record')\n"
        "scanner.feed(' '.join(texts * 2).encode())\n"
        "found, count, _, _ = scanner.result()\n"
        "assert sorted(texts) == found.to_pylist() and set(count.tolist()) == {2}, count\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_table_grows_with_the_words():
    texts = [f"w{n} x{n}longerthansixteenletters" for n in range(60_000)]
    count, _, totals = scanned(cut(in_bytes([" ".join(texts)]), 1 << 16))
    assert len(count) == totals.words == 120_000
    assert set(count.values()) == {1}


@pytest.mark.fault(32)
def test_counts_beyond_32_bits_are_exact():
    """Counts are raised close to 2³² again and again, as very long texts would raise them."""
    scanner = Scanner(("she", "he"), (), 10, "record")
    scanner.feed(b"he she ship ")
    for _ in range(5):
        scanner.pair_counts[:, :, :3] += np.uint32(2**31 - 1)  # a row for each of the three words
        scanner.max_added = 2**31
        scanner.feed(b"she ship ")
    scanner.feed(b"\xff")
    counted, _, near, _ = scanner.result()
    plain = reference.counted(["he " + "she ship " * 6], ("she", "he"), (), 10)[1]
    for row, word in enumerate(counted.to_pylist()):
        expected = [5 * (2**31 - 1) + plain[word, g] for g in ("she", "he")]
        assert near(row, row + 1).tolist() == [expected]


@pytest.mark.fault(32)
@pytest.mark.parametrize(
    ("data", "count"), [(b"", {}), (b"\xff\xff", {}), (b"ship", {"ship": 1}), (b"she", {"she": 1})]
)
def test_an_empty_text_and_a_single_word_have_counts_and_no_co_occurrences(data, count):
    assert scanned([data])[:2] == (count, {})


def test_characters_between_words_never_combine_to_a_letter():
    """The compiled steps cut text there, so composing across such a place must not make a letter."""
    kinds = characters.classes()
    for code in range(0x80, len(kinds)):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first = int(parts[0], 16)
            if first < len(kinds) and kinds[first] == 0:
                assert not chr(code).isalnum(), hex(code)


@pytest.mark.parametrize("word", ["She", "ice cream", "she's", "", "fiance\u0301e"])
def test_a_gendered_word_that_is_not_one_word_is_refused(word):
    with pytest.raises(TableError, match="not one word"):
        Scanner((word,), (), 10, "record")


def test_memory_does_not_grow_with_the_length_of_a_line():
    scanner = Scanner(GENDERED, STOP, 10, "record")
    line = b"the nurse saw that she had a ship " * 1000
    for _ in range(20):
        scanner.feed(line)
    arrays = [v for v in vars(scanner).values() if isinstance(v, np.ndarray)]
    before = sum(a.nbytes for a in arrays)
    for _ in range(200):
        scanner.feed(line)
    assert sum(v.nbytes for v in vars(scanner).values() if isinstance(v, np.ndarray)) == before
    assert scanner.n_pending < LONGEST
