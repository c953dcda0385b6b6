"""What the compiled steps of counting share: constants, and the numbers that persist between calls."""

from typing import Any

import numba as nb
import numba.extending
import numpy as np

#: A number inside compiled code, where integer types differ from Python's.
Scalar = Any
#: One record of the type :data:`STATE`.
State = Any

#: The byte that ends a record. It never occurs in UTF-8.
RECORD_END = 0xFF
#: A token of more bytes is not a word.
LONGEST = 1024
#: Pair counts are stored in blocks of this many words.
ROWS_PER_BLOCK = 4096
#: The row of a word that co-occurs with no gendered word.
NO_ROW = np.uint32(0xFFFFFFFF)

#: In a sequence of tokens or words: windows end here.
BOUNDARY = -1
#: What a token stands for, when it is not the number of one word: no word (such as a stop word), not known yet, or
#: several words. The k-th token of several words has the target SEVERAL - k.
NO_WORD, UNRESOLVED, SEVERAL = -1, -2, -3

#: Numbers that persist between calls of the compiled steps.
STATE = np.dtype(
    [
        ("entries", np.int64),  # entries of the word table
        ("pool_bytes", np.int64),  # bytes of long words in the pool
        ("invalid_bytes", np.int64),
        ("documents", np.int64),
        ("long_tokens", np.int64),
        ("skipping", np.int64),  # 1 while the text is inside a token longer than LONGEST
        ("last_class", np.int64),  # class of the last character before the cut of such a token
        ("words", np.int64),
        ("pairs", np.int64),
        ("words_before", np.int64),  # words since the last boundary, at most the window
        ("rows", np.int64),  # rows of pair counts in use
    ]
)


def compiled(function: Any) -> Any:
    """A function compiled to machine code that releases the interpreter lock.

    The code is cached on disk. Numba checks only the file of the function itself: after a change to a
    function in another file, remove ``__pycache__``.
    """
    return nb.njit(cache=True, nogil=True, boundscheck=False)(function)


def instructions(function: Any) -> Any:
    """A function that generates machine instructions for compiled code, where numba has no function for them."""
    return nb.extending.intrinsic(function)
