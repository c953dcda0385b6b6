"""Characters in UTF-8 bytes: decoding, their role inside a word, and where a token of word characters ends.

A token is a longest sequence of characters that may form a word: letters, digits and marks, with
apostrophes between letters and ``.`` or ``,`` between digits. In ``She's paid 1,000 (or so).`` the tokens
are ``She's``, ``paid``, ``1,000``, ``or`` and ``so``.
"""

import unicodedata
from functools import cache
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]

from pmi.counting.state import Scalar, compiled, instructions
from pmi.types import Uint8Array
from pmi.words import normalise

#: Bits of the class of a character: it belongs to a token; it may contain a digit; it joins letters (an apostrophe);
#: it joins digits. Class 0 separates tokens.
WORD, DIGIT, APOSTROPHE, POINT = 1, 2, 4, 8
# Classes are tabulated for the first two planes of Unicode. Characters above count as letters; pmi.words decides later.
_TABULATED = 0x20000
_INVALID = -1
#: By byte: lower case for an ASCII letter, a digit unchanged, 0 for any other byte. A constant of the compiled code.
LOWER = np.array([ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else 0 for c in range(256)], np.uint8)
#: By byte: lower case for an ASCII letter, any other byte unchanged.
FOLDED = np.where(LOWER > 0, LOWER, np.arange(256)).astype(np.uint8)
#: Zeros after the bytes of a buffer, so that 8 bytes can be read at any place of it.
PADDING = 16
#: The result of :func:`decode` for a character that continues after the end of the buffer.
CUT = -2


@cache
def classes() -> Uint8Array:
    """The class of each character of the first two planes, shape (131072,)."""
    table = np.zeros(_TABULATED, np.uint8)
    for code in range(_TABULATED):
        # Surrogates are halves of characters, and separate tokens as all that is not valid does.
        if not 0xD800 <= code < 0xE000:
            table[code] = _class(chr(code))
    return table


def _class(character: str) -> int:
    """The class of a character, from its normalised form."""
    plain = normalise(character)
    if plain == "'":
        return APOSTROPHE
    if plain in (".", ","):
        return POINT
    if not plain:  # An invisible character is removed later, so its neighbours are adjacent.
        return WORD | DIGIT
    kind = 0
    # NFKC may turn one character into several, such as ½ into 1⁄2.
    for part in plain:
        if part.isalnum() or unicodedata.category(part)[0] == "M":
            kind |= WORD
        if part.isdecimal():
            kind |= DIGIT
    return kind


#: Eight bytes with the same value, to treat eight characters in one step.
_EACH = np.uint64(0x0101010101010101)
_HIGH, _CASE = np.uint64(0x80) * _EACH, np.uint64(0x20) * _EACH
_FROM_A, _AFTER_Z, _FROM_0, _AFTER_9 = (np.uint64(0x80 - ord(c)) * _EACH for c in "a{0:")


@instructions
def _eight_bytes(_context: Any, data: Any, i: Any) -> Any:
    """Bytes i to i + 7 of an array as one little-endian integer, at any address."""

    def generated(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return nb.uint64(data, i), generated


@instructions
def _trailing_zeros(_context: Any, value: Any) -> Any:
    """The number of zero bits below the lowest bit of a 64-bit integer; 64 for zero."""

    def generated(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return nb.uint64(value), generated


@compiled
def eight(data: Uint8Array, i: int) -> tuple[Scalar, Scalar]:
    """The ASCII letters and digits from byte i on, at most 8: in lower case as an integer, and their number.

    All eight bytes are compared at once: with ``0x80 - ord("a")`` added, a byte of at least *a* has its highest bit
    set, and no sum reaches the next byte, because the highest bit was removed before. Lower case is the bit 0x20, which
    digits have too.
    """
    data8: Scalar = _eight_bytes(data, i)
    lower = data8 | _CASE
    low_bits, digits = lower & ~_HIGH, data8 & ~_HIGH
    # Adding 0x80 − "a" sets the high bit of a byte from "a" on, and 0x80 − "{" that of one after "z".
    letter = (low_bits + _FROM_A) & ~(low_bits + _AFTER_Z)
    digit = (digits + _FROM_0) & ~(digits + _AFTER_9)
    bits = _trailing_zeros(~((letter | digit) & ~data8) & _HIGH) & ~np.uint64(7)
    # A shift by 64 bits is undefined.
    letters = lower & (np.uint64(1) << bits) - np.uint64(1) if bits < np.uint64(64) else lower
    return letters, np.int64(bits >> np.uint64(3))


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
    # The first byte has as many ones as the character has bytes, then a zero and the first bits of the code.
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
def token_end(data: Uint8Array, i: int, n: int, last: int, classes: Uint8Array) -> tuple[Scalar, Scalar, bool]:
    """The end of the token that continues at byte i.

    Parameters
    ----------
    last:
        The class of the character before i.

    Returns
    -------
    tuple
        The end, the class of the last character, and whether the buffer shows that the token ends there.
    """
    while i < n:
        decoded = decode(data, i, n)
        if decoded == CUT:
            return i, last, False
        kind = class_of(classes, decoded)
        if not kind & WORD:
            if kind == 0:
                return i, last, True
            # An apostrophe or a point belongs to the token only between two letters or two digits.
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
