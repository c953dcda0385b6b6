"""What the compiled steps of counting share: array types, constants, and the numbers that persist between calls."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Uint8Array = npt.NDArray[np.uint8]
Int32Array = npt.NDArray[np.int32]
Uint64Array = npt.NDArray[np.uint64]
#: A number inside compiled code, where integer types differ from Python's.
Scalar = Any

#: The byte that ends a record. It never occurs in UTF-8.
RECORD_END = 0xFF
#: A run of more bytes is not a word.
MAX_RUN = 1024
#: Pair counts are stored in blocks of this many words.
ROWS_PER_BLOCK = 4096
#: The row of a word that co-occurs with no gendered word.
NO_ROW = np.uint32(0xFFFFFFFF)

#: In a sequence of runs or words: windows end here.
BOUNDARY = -1
#: What a run stands for, when it is not the number of one word: no word (such as a stop word), not known yet, or
#: several words. The k-th run of several words has the target SEVERAL_WORDS - k.
NO_WORD, UNRESOLVED, SEVERAL_WORDS = -1, -2, -3

#: Indices into the int64 array ``state``.
(
    ENTRIES,  # entries of the word table
    POOL_BYTES,  # bytes of long words in the pool
    INVALID_BYTES,
    DOCUMENTS,
    LONG_RUNS,
    SKIPPING,  # 1 while the text is inside a run longer than MAX_RUN
    LAST_CLASS,  # class of the last character before the cut of such a run
    WORDS,
    PAIRS,
    WORDS_BEFORE,  # words since the last boundary, at most the window
    ROWS,  # rows of pair counts in use
) = range(11)
STATE_SIZE = 11


def compiled(function: Any) -> Any:
    """A function compiled to machine code that releases the interpreter lock.

    The code is cached on disk. Numba checks only the file of the function itself: after a change to a
    function in another file, remove ``__pycache__``.
    """
    return nb.njit(cache=True, nogil=True, boundscheck=False)(function)
