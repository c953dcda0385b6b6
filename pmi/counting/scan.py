"""The hot loop: bytes of text become numbers of words, and windows are walked around gendered words only.

Three compiled steps, none of which holds the interpreter's lock. ``tokenise`` cuts text into runs and looks
each up in a hash table that grows; a run is what lies between separators, lower-cased where it is ASCII, and
nearly always one word. A run of letters and digits alone is its own word; what any other run means
(apostrophes, letters beyond ASCII) is asked of :mod:`pmi.words` once, outside. ``settle`` replaces runs by
words and counts them. ``pair`` walks the windows.

Keys are compared whole: the first 15 bytes of a word are its key, and a longer word is compared byte by
byte, so two words never share a number.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from pmi.words import normalise

#: Ends a record in the bytes that are scanned; it is no part of UTF-8.
END = 0xFF
#: Rows of pairs lie in blocks, and in a block those of one gendered word side by side: the commonest words of
#: a text come early, so that what is written to most lies together.
BLOCK = 4096
#: Stands for a word without company.
NO_ROW = np.uint32(0xFFFFFFFF)
#: A run of more bytes is no word.
LONGEST = 1024
#: What a run stands for, where not for a word: a boundary, nothing, or what is still to be asked.
BOUNDARY, NOTHING, UNKNOWN = -1, -1, -2
#: Runs that stand for several words are numbered from here downwards.
SEVERAL = -3

# What a character does: belongs to a run; may bring a digit; joins letters as an apostrophe; joins digits.
_WORD, _DIGIT, _APOSTROPHE, _POINT = 1, 2, 4, 8
# The planes of which characters are looked up; all others are taken for letters, and asked about.
_PLANES = 0x20000
_INVALID, _CUT = -1, -2

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
#: A number as compiled code has it: not of one type with Python's.
Number = Any


class State(NamedTuple):
    """Where the numbers of a scan stand in its array of int64."""

    entries: int = 0
    pool: int = 1
    invalid: int = 2
    documents: int = 3
    long_runs: int = 4
    skipping: int = 5
    last: int = 6
    words: int = 7
    pairs: int = 8
    place: int = 9
    rows: int = 10


AT = State()
_ENTRIES, _POOL, _INVALIDS, _DOCUMENTS, _LONG, _SKIPPING, _LAST, _WORDS, _PAIRS, _PLACE, _ROWS = AT


def _kind(character: str) -> int:
    """What a character does in a run of text, by what it is normalised to."""
    plain = normalise(character)
    if plain in ("'", ".", ","):
        return _APOSTROPHE if plain == "'" else _POINT
    if not plain:  # An invisible character: what stands around it is adjacent.
        return _WORD | _DIGIT
    inside = any(c.isalnum() or unicodedata.category(c)[0] == "M" for c in plain)
    return inside * _WORD | any(c.isdecimal() for c in plain) * _DIGIT


@cache
def kinds() -> Bytes:
    """What each character of the first two planes does."""
    return np.array([0 if 0xD800 <= c < 0xE000 else _kind(chr(c)) for c in range(_PLANES)], np.uint8)


@cache
def lower() -> Bytes:
    """Lower case of each ASCII letter, each digit as it is, 0 for any other byte."""
    return np.array([ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else 0 for c in range(256)], np.uint8)


def compiled(function: Any) -> Any:
    """A function as machine code, kept on disk, which does not hold the lock of the interpreter."""
    return nb.njit(cache=True, nogil=True, boundscheck=False)(function)


@compiled
def _decode(buf: Bytes, i: int, n: int) -> Number:
    """The character at i as code * 8 + length; negative where it is not UTF-8 or the buffer cuts it."""
    b = np.int64(buf[i])
    if b < 0x80:
        return b * 8 + 1
    if b < 0xC2 or b > 0xF4:
        return _INVALID
    length = 2 if b < 0xE0 else 3 if b < 0xF0 else 4
    code = b & (0x7F >> length)
    for k in range(1, length):
        if i + k >= n:
            return _CUT
        c = np.int64(buf[i + k])
        if c & 0xC0 != 0x80:
            return _INVALID
        code = code << 6 | c & 0x3F
    if length == 3 and (code < 0x800 or 0xD800 <= code <= 0xDFFF):
        return _INVALID
    if length == 4 and (code < 0x10000 or code > 0x10FFFF):
        return _INVALID
    return code * 8 + length


@compiled
def _kind_of(kinds: Bytes, decoded: int) -> Number:
    if decoded < 0:
        return 0
    code = decoded >> 3
    return np.int64(kinds[code]) if code < _PLANES else _WORD


@compiled
def _extend(buf: Bytes, i: int, n: int, last: int, kinds: Bytes) -> tuple[Number, Number, bool]:
    """Where the run ends that reaches i, what its last character does, and whether the buffer shows the end."""
    while i < n:
        decoded = _decode(buf, i, n)
        if decoded == _CUT:
            return i, last, False
        kind = _kind_of(kinds, decoded)
        if not kind & _WORD:
            if kind == 0:
                return i, last, True
            after = i + (decoded & 7)
            following = _decode(buf, after, n) if after < n else _CUT
            if following == _CUT:
                return i, last, False
            next_kind = _kind_of(kinds, following)
            wanted = _WORD if kind == _APOSTROPHE else _DIGIT
            if not (next_kind & wanted and last & wanted):
                return i, last, True
            last = kind
            i = after
        else:
            last = kind
            i += decoded & 7
    return i, last, False


@compiled
def _slot(lo: int, hi: int, mask: int) -> Number:
    h = lo * np.uint64(0x9E3779B97F4A7C15) ^ hi * np.uint64(0xC2B2AE3D27D4EB4F)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((h >> np.uint64(32)) & np.uint64(mask))


@compiled
def _same(pool: Bytes, hi: int, buf: Bytes, start: int, end: int, lower: Bytes) -> bool:
    """Whether a key is that of the long word in the buffer."""
    if hi >> np.uint64(56) != np.uint64(0xFF):
        return False
    at = np.int64(hi & np.uint64(0xFFFFFFFFFFFFFF))
    if np.int64(pool[at]) | np.int64(pool[at + 1]) << 8 != end - start:
        return False
    for k in range(end - start):
        b = buf[start + k]
        if pool[at + 2 + k] != (lower[b] if lower[b] else b):
            return False
    return True


@compiled
def _long(buf: Bytes, start: int, end: int, lower: Bytes) -> Number:
    """A hash of a long word."""
    h = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        b = buf[i]
        h = (h ^ np.uint64(lower[b] if lower[b] else b)) * np.uint64(0x100000001B3)
    return h


@compiled
def _plain(buf: Bytes, start: int, end: int, lower: Bytes) -> bool:
    for i in range(start, end):  # noqa: SIM110  # all() over a generator does not compile
        if lower[buf[i]] == 0:
            return False
    return True


@compiled
def lookup(
    buf: Bytes, start: int, end: int, lower: Bytes, slots: Ints, lo: Keys, hi: Keys, pool: Bytes, target: Ints, s: Longs
) -> Number:
    """The number of a run, which is entered when it is new; there must be room for one more."""
    length = end - start
    a, b = np.uint64(0), np.uint64(0)
    if length <= 15:
        for k in range(length):
            c = buf[start + k]
            c = np.uint64(lower[c] if lower[c] else c)
            if k < 8:
                a |= c << np.uint64(8 * k)
            else:
                b |= c << np.uint64(8 * (k - 8))
        b |= np.uint64(length) << np.uint64(56)
        return _enter(a, b, buf, start, end, lower, slots, lo, hi, pool, target, s)
    return _enter(_long(buf, start, end, lower), b, buf, start, end, lower, slots, lo, hi, pool, target, s)


@compiled
def _enter(
    a: int, b: int, buf: Bytes, start: int, end: int, lower: Bytes,
    slots: Ints, lo: Keys, hi: Keys, pool: Bytes, target: Ints, s: Longs,
) -> Number:  # fmt: skip
    """The number of the run with the key (a, b), where b is 0 for a long one."""
    mask = slots.shape[0] - 1
    p = _slot(a, b, mask)
    while True:
        e = slots[p]
        if e < 0:
            break
        if lo[e] == a and (hi[e] == b if b != 0 else _same(pool, hi[e], buf, start, end, lower)):
            return e
        p = (p + 1) & mask
    e = s[_ENTRIES]
    s[_ENTRIES] += 1
    slots[p] = e
    lo[e] = a
    hi[e] = b
    if b == 0:
        at = s[_POOL]
        hi[e] = np.uint64(0xFF) << np.uint64(56) | np.uint64(at)
        pool[at] = (end - start) & 0xFF
        pool[at + 1] = (end - start) >> 8
        for k in range(end - start):
            c = buf[start + k]
            pool[at + 2 + k] = lower[c] if lower[c] else c
        s[_POOL] += 2 + end - start
    target[e] = e if _plain(buf, start, end, lower) else UNKNOWN
    return e


@compiled
def rehash(slots: Ints, lo: Keys, hi: Keys, n: int) -> None:
    """Fills an empty hash table with the first n keys."""
    mask = slots.shape[0] - 1
    for e in range(n):
        long = hi[e] >> np.uint64(56) == np.uint64(0xFF)
        p = _slot(lo[e], np.uint64(0) if long else hi[e], mask)
        while slots[p] >= 0:
            p = (p + 1) & mask
        slots[p] = e


@compiled
def tokenise(
    buf: Bytes, i: int, final: bool, lines: bool, lower: Bytes, kinds: Bytes,
    slots: Ints, lo: Keys, hi: Keys, pool: Bytes, target: Ints, s: Longs, out: Ints,
) -> tuple[int, int, bool]:  # fmt: skip
    """Runs of a buffer from i on, as numbers, with boundaries between them.

    Returns where to go on, how many numbers were written, and whether it stopped for want of room. It also
    stops before a run that the buffer may cut, unless there is no more text.
    """
    n = buf.shape[0]
    o = 0
    mask = slots.shape[0] - 1
    room = min(lo.shape[0], slots.shape[0] // 2)
    if s[_SKIPPING]:
        i, last, whole = _extend(buf, i, n, s[_LAST], kinds)
        s[_LAST] = last
        if not (whole or final):
            return i, o, False
        s[_SKIPPING] = 0
    while i < n and o < out.shape[0]:
        b = buf[i]
        if lower[b] == 0:
            if b < 0x80:
                if b == 10 and lines:
                    out[o] = BOUNDARY
                    o += 1
                i += 1
                continue
            if b == END:
                out[o] = BOUNDARY
                o += 1
                s[_DOCUMENTS] += 1
                i += 1
                continue
            decoded = _decode(buf, i, n)
            if decoded == _CUT and not final:
                return i, o, False
            if decoded < 0:
                s[_INVALIDS] += 1
                i += 1
                continue
            if not _kind_of(kinds, decoded) & _WORD:
                i += decoded & 7
                continue
        start = i
        a, h = np.uint64(0), np.uint64(0)
        k = np.uint64(0)
        while i < n and k < np.uint64(64):
            c = lower[buf[i]]
            if c == 0:
                break
            a |= np.uint64(c) << k
            k += np.uint64(8)
            i += 1
        if k == np.uint64(64):
            k = np.uint64(0)
            while i < n and k < np.uint64(56):
                c = lower[buf[i]]
                if c == 0:
                    break
                h |= np.uint64(c) << k
                k += np.uint64(8)
                i += 1
        end = i
        # Nearly always white space follows, or a point or comma before white space.
        b = buf[i] if i < n else END
        after = buf[i + 1] if i + 1 < n else END
        if b >= 0x80 or kinds[b] & (_WORD | _DIGIT) or (kinds[b] and (after >= 0x80 or kinds[after])):
            last = np.int64(kinds[buf[i - 1]]) if i > start else np.int64(0)
            end, last, whole = _extend(buf, i, n, last, kinds)
            if not (whole or final):
                if end - start <= LONGEST:
                    return start, o, False
                s[_LONG] += 1
                s[_SKIPPING] = 1
                s[_LAST] = last
                return end, o, False
            if end - start > LONGEST:
                s[_LONG] += 1
                i = max(end, i)
                continue
        if end > i:
            if s[_ENTRIES] >= room or s[_POOL] + LONGEST + 2 > pool.shape[0]:
                return start, o, True
            out[o] = lookup(buf, start, end, lower, slots, lo, hi, pool, target, s)
            i = end
        else:
            h |= np.uint64(end - start) << np.uint64(56)
            p = _slot(a, h, mask)
            e = slots[p]
            while e >= 0 and (lo[e] != a or hi[e] != h):
                p = (p + 1) & mask
                e = slots[p]
            if e < 0:
                if s[_ENTRIES] >= room:
                    return start, o, True
                e = _enter(a, h, buf, start, end, lower, slots, lo, hi, pool, target, s)
            out[o] = e
        o += 1
    return i, o, i < n


@compiled
def intern(
    buf: Bytes, ends: Longs, ids: Ints, lower: Bytes,
    slots: Ints, lo: Keys, hi: Keys, pool: Bytes, target: Ints, s: Longs,
) -> None:  # fmt: skip
    """The numbers of words that stand one after the other in a buffer; there must be room for all."""
    start = 0
    for k in range(ends.shape[0]):
        ids[k] = lookup(buf, start, ends[k], lower, slots, lo, hi, pool, target, s)
        start = ends[k]


@compiled
def spell(ids: Ints, lo: Keys, hi: Keys, pool: Bytes, out: Bytes, ends: Ints) -> Number:
    """The bytes of numbered runs, one after the other; returns how many they are, and writes those that fit."""
    o: Number = 0
    for k in range(ids.shape[0]):
        e = ids[k]
        length = np.int64(hi[e] >> np.uint64(56))
        at = np.int64(hi[e] & np.uint64(0xFFFFFFFFFFFFFF))
        if length == 0xFF:
            length = np.int64(pool[at]) | np.int64(pool[at + 1]) << 8
            for j in range(min(length, out.shape[0] - o)):
                out[o + j] = pool[at + 2 + j]
        else:
            for j in range(min(length, out.shape[0] - o)):
                key = lo[e] if j < 8 else hi[e]
                out[o + j] = (key >> np.uint64(8 * (j & 7))) & np.uint64(0xFF)
        o += length
        ends[k] = o
    return o


@compiled
def settle(
    runs: Ints, i: int, n: int, crossing: bool, window: int,
    target: Ints, several: Ints, starts: Ints, count: Longs, s: Longs, words: Ints, m: Number,
) -> tuple[int, int]:  # fmt: skip
    """Runs i to n as words, counted, written from m on; returns where it stopped for want of room, and the new m.

    Also adds up how many pairs of words stand in one window, which takes no walk.
    """
    counted, pairs, place = s[_WORDS], s[_PAIRS], s[_PLACE]
    while i < n and m + LONGEST < words.shape[0]:
        run = runs[i]
        i += 1
        if run < 0:
            if not crossing:
                words[m] = BOUNDARY
                m += 1
                place = 0
            continue
        word = target[run]
        if word >= NOTHING:
            # Half of all runs are stop words, which no processor can foresee: so there is no branch here.
            kept = np.int64(word >= 0)
            words[m] = word
            m += kept
            count[max(word, 0)] += kept
            counted += kept
            pairs += place * kept
            place = min(place + kept, window)
            continue
        for k in range(starts[SEVERAL - word], starts[SEVERAL - word + 1]):
            words[m] = several[k]
            m += 1
            count[several[k]] += 1
            counted += 1
            pairs += place
            place = min(place + 1, window)
    s[_WORDS], s[_PAIRS], s[_PLACE] = counted, pairs, place
    return i, m


@compiled
def pair(words: Ints, i: int, m: int, old: int, gendered: int, window: int, row: Any, near: Any, s: Longs) -> int:
    """Adds the pairs of gendered words i to m with all around them, but for pairs among the first ``old`` words.

    Returns where it stopped for want of rows.
    """
    rows = np.uint32(s[_ROWS])
    for g in range(i, m):
        word = words[g]
        if word < 0 or word >= gendered:
            continue
        if rows + 2 * window > near.shape[0] * BLOCK:
            s[_ROWS] = rows
            return g
        begin, end = g, g + 1
        lowest, highest = max(g - window, 0), min(g + window + 1, m)
        while begin > lowest and words[begin - 1] >= 0:
            begin -= 1
        while end < highest and words[end] >= 0:
            end += 1
        for j in range(begin if g >= old else max(g + 1, old), end):
            if j != g:
                other = words[j]
                r = row[other]
                if r == NO_ROW:
                    r = rows
                    row[other] = r
                    rows += np.uint32(1)
                near[r // BLOCK, word, r % BLOCK] += 1
    s[_ROWS] = rows
    return m
