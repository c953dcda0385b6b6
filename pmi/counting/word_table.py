"""The hash table that numbers runs: each different run has one number, compared byte by byte, so none share one.

A run gets a key of two 64-bit integers. A run of at most 15 bytes is its own key: bytes 0 to 7 are in
``low``, bytes 8 to 14 in the lower 56 bits of ``high``, and its length in the top 8 bits. "ship" is
low = 0x70696873, high = 4 << 56. For a longer run, ``low`` is a 64-bit hash, the top 8 bits of ``high``
are 0xFF, and the others are the offset in ``pool`` where its length (2 bytes) and its bytes are.

Example: "ship" is the first run of a text. Its key is hashed to slot 9, which is empty (-1), so the run gets the
number 0: slots[9] = 0, low[0] and high[0] are the key. If the key of the next run is hashed to slot 9 too, the keys
differ, so slot 10 is tried, and so on (linear probing).
"""

from typing import NamedTuple

import numpy as np

from pmi.counting.characters import FOLDED, LOWER
from pmi.counting.state import UNRESOLVED, Scalar, State, compiled
from pmi.types import Int32Array, IntArray, Uint8Array, Uint64Array

# The top 8 bits of ``high`` for a long run, and the lower 56 bits.
_LONG, _OFFSET = np.uint64(0xFF), np.uint64(0xFFFFFFFFFFFFFF)


class WordTable(NamedTuple):
    """The arrays of the table.

    ``slots`` has a run number or -1 in each slot. ``low``, ``high`` and ``target`` are by run number:
    ``target`` says which word a run stands for. A run of ASCII letters and digits is a word itself; any other
    run is marked UNRESOLVED, and :mod:`pmi.counting.scanner` resolves it once with the rule of :mod:`pmi.words`.
    """

    slots: Int32Array
    low: Uint64Array
    high: Uint64Array
    pool: Uint8Array
    target: Int32Array


@compiled
def slot_of(low: int, high: int, mask: int) -> Scalar:
    """The first slot to probe for a key."""
    h = low * np.uint64(0x9E3779B97F4A7C15) ^ high * np.uint64(0xC2B2AE3D27D4EB4F)
    # A product moves bits upwards only; as in SplitMix64, a shift first brings those of late letters down.
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((h >> np.uint64(32)) & np.uint64(mask))


@compiled
def long_hash(data: Uint8Array, start: int, end: int) -> Scalar:
    """The FNV-1a hash of a run, lower-cased where it is ASCII."""
    h = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        h = (h ^ np.uint64(FOLDED[data[i]])) * np.uint64(0x100000001B3)
    return h


@compiled
def _pooled(pool: Uint8Array, high: int) -> tuple[Scalar, Scalar]:
    """Where the bytes of a long run begin in the pool, and their number."""
    at = np.int64(high & _OFFSET)
    return at + 2, np.int64(pool[at]) | np.int64(pool[at + 1]) << 8


@compiled
def _equals_long(pool: Uint8Array, high: int, data: Uint8Array, start: int, end: int) -> bool:
    """Whether the entry with the key part ``high`` is the long run data[start:end]."""
    if high >> np.uint64(56) != _LONG:
        return False
    at, length = _pooled(pool, high)
    if length != end - start:
        return False
    for k in range(length):  # all() over a generator does not compile
        if pool[at + k] != FOLDED[data[start + k]]:
            return False
    return True


@compiled
def lookup(data: Uint8Array, start: int, end: int, table: WordTable, state: State) -> Scalar:
    """The number of the run data[start:end]; a new run is added. The arrays must have space for one more."""
    length = end - start
    a, b = np.uint64(0), np.uint64(0)
    if length > 15:
        return enter(long_hash(data, start, end), b, data, start, end, table, state)
    for k in range(length):
        byte = np.uint64(FOLDED[data[start + k]])
        if k < 8:
            a |= byte << np.uint64(8 * k)
        else:
            b |= byte << np.uint64(8 * (k - 8))
    return enter(a, b | np.uint64(length) << np.uint64(56), data, start, end, table, state)


@compiled
def enter(a: int, b: int, data: Uint8Array, start: int, end: int, table: WordTable, state: State) -> Scalar:
    """The number of the run with the key (a, b); b is 0 for a long run, whose offset is not known before."""
    slots, low, high, pool, target = table
    mask = slots.shape[0] - 1
    slot = slot_of(a, b, mask)
    while slots[slot] >= 0:
        entry = slots[slot]
        if low[entry] == a and (high[entry] == b if b != 0 else _equals_long(pool, high[entry], data, start, end)):
            return entry
        slot = (slot + 1) & mask
    entry = state.entries
    state.entries += 1
    slots[slot] = entry
    low[entry] = a
    high[entry] = b
    if b == 0:
        at = state.pool_bytes
        high[entry] = _LONG << np.uint64(56) | np.uint64(at)
        pool[at] = (end - start) & 0xFF
        pool[at + 1] = (end - start) >> 8
        for k in range(end - start):
            pool[at + 2 + k] = FOLDED[data[start + k]]
        state.pool_bytes += 2 + end - start
    target[entry] = entry
    for i in range(start, end):
        if LOWER[data[i]] == 0:
            target[entry] = UNRESOLVED
    return entry


@compiled
def rehash(table: WordTable, n: int) -> None:
    """Fills empty slots with the first n entries."""
    slots, low, high = table.slots, table.low, table.high
    mask = slots.shape[0] - 1
    for entry in range(n):
        # Long runs are hashed by their low part alone, as when they were entered.
        is_long = high[entry] >> np.uint64(56) == _LONG
        slot = slot_of(low[entry], np.uint64(0) if is_long else high[entry], mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = entry


@compiled
def number(data: Uint8Array, ends: IntArray, numbers: Int32Array, table: WordTable, state: State) -> None:
    """Writes the numbers of concatenated words, of which word k ends at ``ends[k]``; there must be space for all."""
    start = 0
    for k in range(ends.shape[0]):
        numbers[k] = lookup(data, start, ends[k], table, state)
        start = ends[k]


@compiled
def spell(numbers: Int32Array, table: WordTable, out: Uint8Array, ends: Int32Array) -> Scalar:
    """The length of the concatenated bytes of numbered runs; writes the bytes as far as ``out`` has space."""
    o: Scalar = 0
    for k in range(numbers.shape[0]):
        low, high = table.low[numbers[k]], table.high[numbers[k]]
        length = np.int64(high >> np.uint64(56))
        if length == 0xFF:
            at, length = _pooled(table.pool, high)
            for j in range(min(length, out.shape[0] - o)):
                out[o + j] = table.pool[at + j]
        else:
            for j in range(min(length, out.shape[0] - o)):
                out[o + j] = ((low if j < 8 else high) >> np.uint64(8 * (j & 7))) & np.uint64(0xFF)
        o += length
        ends[k] = o
    return o
