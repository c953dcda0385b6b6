"""The hash table that numbers runs: each different run has one number, compared byte by byte, so none share one.

A run gets a key of two 64-bit integers. A run of at most 15 bytes is its own key: bytes 0 to 7 are in
``low``, bytes 8 to 14 in the lower 56 bits of ``high``, and its length in the top 8 bits. "ship" is
low = 0x70696873, high = 4 << 56. For a longer run, ``low`` is a 64-bit hash, the top 8 bits of ``high``
are 0xFF, and the others are the offset in ``pool`` where its length (2 bytes) and its bytes are.

``slots`` is an open-addressing table with linear probing; a slot holds a run number or -1. ``target``
says which word a run stands for. A run of ASCII letters and digits is a word itself; any other run is
marked UNRESOLVED, and :mod:`pmi.counting.scanner` resolves it once with the rule of :mod:`pmi.words`.
"""

from __future__ import annotations

import numpy as np

from pmi.counting.state import (
    ENTRIES,
    POOL_BYTES,
    UNRESOLVED,
    Int32Array,
    Scalar,
    Uint8Array,
    Uint64Array,
    compiled,
)
from pmi.types import IntArray


@compiled
def slot_of(low: int, high: int, mask: int) -> Scalar:
    """The first slot to probe for a key."""
    h = low * np.uint64(0x9E3779B97F4A7C15) ^ high * np.uint64(0xC2B2AE3D27D4EB4F)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((h >> np.uint64(32)) & np.uint64(mask))


@compiled
def long_hash(data: Uint8Array, start: int, end: int, lower: Uint8Array) -> Scalar:
    """The FNV-1a hash of a run, lower-cased where it is ASCII."""
    h = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        byte = data[i]
        h = (h ^ np.uint64(lower[byte] if lower[byte] else byte)) * np.uint64(0x100000001B3)
    return h


@compiled
def _equals_long(pool: Uint8Array, high: int, data: Uint8Array, start: int, end: int, lower: Uint8Array) -> bool:
    """Whether the entry with the key part ``high`` is the long run data[start:end]."""
    if high >> np.uint64(56) != np.uint64(0xFF):
        return False
    at = np.int64(high & np.uint64(0xFFFFFFFFFFFFFF))
    if np.int64(pool[at]) | np.int64(pool[at + 1]) << 8 != end - start:
        return False
    for k in range(end - start):
        byte = data[start + k]
        if pool[at + 2 + k] != (lower[byte] if lower[byte] else byte):
            return False
    return True


@compiled
def _is_plain(data: Uint8Array, start: int, end: int, lower: Uint8Array) -> bool:
    for i in range(start, end):  # noqa: SIM110  # all() over a generator does not compile
        if lower[data[i]] == 0:
            return False
    return True


@compiled
def lookup(
    data: Uint8Array, start: int, end: int, lower: Uint8Array,
    slots: Int32Array, low: Uint64Array, high: Uint64Array, pool: Uint8Array, target: Int32Array, state: IntArray,
) -> Scalar:  # fmt: skip
    """The number of the run data[start:end]; a new run is added. The arrays must have space for one more."""
    length = end - start
    a, b = np.uint64(0), np.uint64(0)
    if length <= 15:
        for k in range(length):
            byte = data[start + k]
            byte = np.uint64(lower[byte] if lower[byte] else byte)
            if k < 8:
                a |= byte << np.uint64(8 * k)
            else:
                b |= byte << np.uint64(8 * (k - 8))
        b |= np.uint64(length) << np.uint64(56)
        return enter(a, b, data, start, end, lower, slots, low, high, pool, target, state)
    return enter(long_hash(data, start, end, lower), b, data, start, end, lower, slots, low, high, pool, target, state)


@compiled
def enter(
    a: int, b: int, data: Uint8Array, start: int, end: int, lower: Uint8Array,
    slots: Int32Array, low: Uint64Array, high: Uint64Array, pool: Uint8Array, target: Int32Array, state: IntArray,
) -> Scalar:  # fmt: skip
    """The number of the run with the key (a, b); b is 0 for a long run, whose offset is not known before."""
    mask = slots.shape[0] - 1
    slot = slot_of(a, b, mask)
    while True:
        entry = slots[slot]
        if entry < 0:
            break
        if low[entry] == a and (
            high[entry] == b if b != 0 else _equals_long(pool, high[entry], data, start, end, lower)
        ):
            return entry
        slot = (slot + 1) & mask
    entry = state[ENTRIES]
    state[ENTRIES] += 1
    slots[slot] = entry
    low[entry] = a
    high[entry] = b
    if b == 0:
        at = state[POOL_BYTES]
        high[entry] = np.uint64(0xFF) << np.uint64(56) | np.uint64(at)
        pool[at] = (end - start) & 0xFF
        pool[at + 1] = (end - start) >> 8
        for k in range(end - start):
            byte = data[start + k]
            pool[at + 2 + k] = lower[byte] if lower[byte] else byte
        state[POOL_BYTES] += 2 + end - start
    target[entry] = entry if _is_plain(data, start, end, lower) else UNRESOLVED
    return entry


@compiled
def rehash(slots: Int32Array, low: Uint64Array, high: Uint64Array, n: int) -> None:
    """Fills empty slots with the first n entries."""
    mask = slots.shape[0] - 1
    for entry in range(n):
        is_long = high[entry] >> np.uint64(56) == np.uint64(0xFF)
        slot = slot_of(low[entry], np.uint64(0) if is_long else high[entry], mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = entry


@compiled
def number(
    data: Uint8Array, ends: IntArray, numbers: Int32Array, lower: Uint8Array,
    slots: Int32Array, low: Uint64Array, high: Uint64Array, pool: Uint8Array, target: Int32Array, state: IntArray,
) -> None:  # fmt: skip
    """Writes the numbers of concatenated words, of which word k ends at ``ends[k]``; there must be space for all."""
    start = 0
    for k in range(ends.shape[0]):
        numbers[k] = lookup(data, start, ends[k], lower, slots, low, high, pool, target, state)
        start = ends[k]


@compiled
def spell(
    numbers: Int32Array, low: Uint64Array, high: Uint64Array, pool: Uint8Array, out: Uint8Array, ends: Int32Array
) -> Scalar:
    """The length of the concatenated bytes of numbered runs; writes the bytes as far as ``out`` has space."""
    o: Scalar = 0
    for k in range(numbers.shape[0]):
        entry = numbers[k]
        length = np.int64(high[entry] >> np.uint64(56))
        at = np.int64(high[entry] & np.uint64(0xFFFFFFFFFFFFFF))
        if length == 0xFF:
            length = np.int64(pool[at]) | np.int64(pool[at + 1]) << 8
            for j in range(min(length, out.shape[0] - o)):
                out[o + j] = pool[at + 2 + j]
        else:
            for j in range(min(length, out.shape[0] - o)):
                key = low[entry] if j < 8 else high[entry]
                out[o + j] = (key >> np.uint64(8 * (j & 7))) & np.uint64(0xFF)
        o += length
        ends[k] = o
    return o
