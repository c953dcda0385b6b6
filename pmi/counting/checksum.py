"""The checksum of a table of counts."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from pmi.types import IntArray


class Checksum:
    """SHA-256 of a table of counts: its header, words, counts and pair counts, in batches of any size.

    >>> whole, parts = Checksum(b"{}"), Checksum(b"{}")
    >>> whole.add(pa.array(["a", "b"]), np.array([1, 2]), np.array([[3, 4], [5, 6]]))
    >>> for row in range(2):
    ...     parts.add(pa.array(["ab"[row]]), np.array([row + 1]), np.array([[3 + 2 * row, 4 + 2 * row]]))
    >>> whole.hexdigest() == parts.hexdigest()
    True
    """

    def __init__(self, header: bytes) -> None:
        self._digests = [hashlib.sha256(content) for content in (header, b"", b"", b"")]

    def add(self, words: pa.Array, word_counts: IntArray, pair_counts: IntArray) -> None:
        """Adds the next rows."""
        _, of_words, of_counts, of_pairs = self._digests
        of_words.update("".join(f"{word}\n" for word in words.to_pylist()).encode())
        for digest, counts in ((of_counts, word_counts), (of_pairs, pair_counts)):
            digest.update(np.ascontiguousarray(counts, "<i8").tobytes())

    def hexdigest(self) -> str:
        """The checksum of the rows so far."""
        return hashlib.sha256(b"".join(digest.digest() for digest in self._digests)).hexdigest()
