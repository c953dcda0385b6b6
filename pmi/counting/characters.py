"""Characters in UTF-8 bytes: decoding, their role inside a word, and where a run of word characters ends.

A run is a longest sequence of characters that may form a word: letters, digits and marks, with
apostrophes between letters and ``.`` or ``,`` between digits. In ``She's paid 1,000 (or so).`` the runs
are ``She's``, ``paid``, ``1,000``, ``or`` and ``so``.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np

from pmi.counting.state import Scalar, Uint8Array, compiled
from pmi.words import normalise

#: Bits of the class of a character: it belongs to a run; it may contain a digit; it joins letters (an apostrophe);
#: it joins digits. Class 0 separates runs.
WORD, DIGIT, APOSTROPHE, POINT = 1, 2, 4, 8
# Classes are tabulated for the first two planes of Unicode. Characters above count as letters; pmi.words decides later.
_TABULATED = 0x20000
_INVALID = -1
#: By byte: lower case for an ASCII letter, a digit unchanged, 0 for any other byte. A constant of the compiled code.
LOWER = np.array([ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else 0 for c in range(256)], np.uint8)
#: By byte: lower case for an ASCII letter, any other byte unchanged.
FOLDED = np.where(LOWER > 0, LOWER, np.arange(256)).astype(np.uint8)
#: The result of :func:`decode` for a character that continues after the end of the buffer.
CUT = -2


@cache
def classes() -> Uint8Array:
    """The class of each character of the first two planes, shape (131072,)."""
    return np.array([0 if 0xD800 <= code < 0xE000 else _class(chr(code)) for code in range(_TABULATED)], np.uint8)


def _class(character: str) -> int:
    """The class of a character, from its normalised form."""
    plain = normalise(character)
    if plain in ("'", ".", ","):
        return APOSTROPHE if plain == "'" else POINT
    if not plain:  # An invisible character is removed later, so its neighbours are adjacent.
        return WORD | DIGIT
    in_word = any(c.isalnum() or unicodedata.category(c)[0] == "M" for c in plain)
    return in_word * WORD | any(c.isdecimal() for c in plain) * DIGIT


@compiled
def decode(data: Uint8Array, i: int, n: int) -> Scalar:
    """The character at byte i as ``code * 8 + length``; negative for invalid UTF-8 and for CUT.

    For example "é" (bytes C3 A9, code 233) gives 233 * 8 + 2 = 1866.
    """
    first = np.int64(data[i])
    if first < 0x80:
        return first * 8 + 1
    if first < 0xC2 or first > 0xF4:
        return _INVALID
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    code = first & (0x7F >> length)
    for k in range(1, length):
        if i + k >= n:
            return CUT
        byte = np.int64(data[i + k])
        if byte & 0xC0 != 0x80:
            return _INVALID
        code = code << 6 | byte & 0x3F
    # Overlong forms and surrogates are not UTF-8.
    if length == 3 and (code < 0x800 or 0xD800 <= code <= 0xDFFF):
        return _INVALID
    if length == 4 and (code < 0x10000 or code > 0x10FFFF):
        return _INVALID
    return code * 8 + length


@compiled
def class_of(classes: Uint8Array, decoded: int) -> Scalar:
    """The class of a decoded character."""
    if decoded < 0:
        return 0
    code = decoded >> 3
    return np.int64(classes[code]) if code < _TABULATED else WORD


@compiled
def run_end(data: Uint8Array, i: int, n: int, last: int, classes: Uint8Array) -> tuple[Scalar, Scalar, bool]:
    """The end of the run that continues at byte i.

    Parameters
    ----------
    last:
        The class of the character before i.

    Returns
    -------
    tuple
        The end, the class of the last character, and whether the buffer shows that the run ends there.
    """
    while i < n:
        decoded = decode(data, i, n)
        if decoded == CUT:
            return i, last, False
        kind = class_of(classes, decoded)
        if not kind & WORD:
            if kind == 0:
                return i, last, True
            # An apostrophe or a point belongs to the run only between two letters or two digits.
            after = i + (decoded & 7)
            following = decode(data, after, n) if after < n else CUT
            if following == CUT:
                return i, last, False
            needed = WORD if kind == APOSTROPHE else DIGIT
            if not (class_of(classes, following) & needed and last & needed):
                return i, last, True
            last = kind
            i = after
        else:
            last = kind
            i += decoded & 7
    return i, last, False
