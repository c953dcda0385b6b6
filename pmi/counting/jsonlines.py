"""JSON lines to text, compiled: of each line the string of one field, and nothing else is made of it.

Strings, escapes and brackets are followed exactly, what stands between them only roughly. A line that is
out of the ordinary in any way (an escape in a key, a field that comes twice or is no string, a bracket
too many) is given back, for :mod:`json` to judge.
"""

from __future__ import annotations

import json

import numpy as np

from pmi.counting.scan import END, Bytes, Longs, Number, compiled

_DEEPEST = 60
# What may stand outside of strings, brackets apart: white space, marks, numbers, and the letters of three words;
# and what stands for itself in a string.
_OUTSIDE, _ITSELF = 1, 2
_PLAIN = np.zeros(256, np.uint8)
_PLAIN[list(b" \t\r,:0123456789+-.eEtrufalsn")] = _OUTSIDE
_PLAIN[[c for c in range(32, END) if c not in b'"\\']] |= _ITSELF
# What an escape stands for, by its letter.
_ESCAPED = np.zeros(256, np.uint8)
_ESCAPED[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')


def texts(lines: bytes, field: str) -> tuple[bytes, list[tuple[int, bytes]], int]:
    r"""The texts of whole lines, each followed by 0xFF; lines that are out of the ordinary, by number; all lines.

    >>> texts(b'{"text": "one \\u00e9"}\n\n{"text": 1}\n', "text")
    (b'one \xc3\xa9\xff', [(2, b'{"text": 1}')], 3)
    """
    buf = np.frombuffer(lines, np.uint8)
    key = np.frombuffer(json.dumps(field, ensure_ascii=False).encode(), np.uint8)
    out = np.empty(len(buf), np.uint8)
    odd = np.empty((len(buf) // 2 + 2, 3), np.int64)
    size, found, number = _texts(buf, key, _PLAIN, _ESCAPED, out, odd)
    return out[:size].tobytes(), [(int(n), lines[a:b]) for n, a, b in odd[:found]], int(number)


@compiled
def _texts(
    buf: Bytes, key: Bytes, plain: Bytes, escaped: Bytes, out: Bytes, odd: Longs
) -> tuple[Number, Number, Number]:
    i = o = found = number = 0
    n = buf.shape[0]
    while i < n:
        start = i
        while i < n and (buf[i] == 32 or buf[i] == 9 or buf[i] == 13):
            i += 1
        end = o
        if i < n and buf[i] != 10:
            end = _line(buf, i, n, key, plain, escaped, out, o)
        while i < n and buf[i] != 10:
            i += 1
        if end < 0:
            odd[found, 0], odd[found, 1], odd[found, 2] = number, start, i
            found += 1
        else:
            o = end
        i += 1
        number += 1
    return o, found, number


@compiled
def _line(buf: Bytes, i: int, n: int, key: Bytes, plain: Bytes, escaped: Bytes, out: Bytes, o: int) -> Number:
    """Writes the text of the line at i; gives where the output ends, or a negative number for an odd line."""
    depth = kinds = np.int64(0)
    at_key = wanted = done = False
    while i < n and buf[i] != 10:
        c = buf[i]
        i += 1
        if c == 34:
            start = i
            if wanted:
                i, o = _string(buf, i, n, plain, escaped, out, o)
                if i < 0:
                    return -1
                out[o] = END
                o += 1
                wanted, done = False, True
                continue
            while i < n and buf[i] != 34 and buf[i] >= 32:
                if buf[i] == 92:
                    if at_key and depth == 1:
                        return -1
                    i += 1
                i += 1
            if i >= n or buf[i] != 34:
                return -1
            i += 1
            if at_key and depth == 1:
                at_key = False
                wanted = i - start + 1 == key.shape[0]
                for k in range(key.shape[0] - 1 if wanted else 0):
                    wanted = wanted and buf[start + k] == key[k + 1]
                while i < n and (buf[i] == 32 or buf[i] == 9):
                    i += 1
                if wanted and (done or i >= n or buf[i] != 58):
                    return -1
        elif c == 123 or c == 91:
            if wanted or depth == _DEEPEST or (depth == 0 and c == 91):
                return -1
            kinds = kinds << 1 | np.int64(c == 123)
            depth += 1
            at_key = depth == 1
        elif c == 125 or c == 93:
            if depth == 0 or (kinds & 1 == 1) != (c == 125):
                return -1
            kinds >>= 1
            depth -= 1
        elif not plain[c] & _OUTSIDE or (wanted and c != 58 and c != 32 and c != 9):
            return -1
        elif c == 44 and depth == 1:
            at_key = True
    return o if done and depth == 0 else -1


@compiled
def _string(buf: Bytes, i: int, n: int, plain: Bytes, escaped: Bytes, out: Bytes, o: int) -> tuple[Number, Number]:
    """Writes the string that begins at i; gives what comes after it and after the output, or a negative number."""
    while i < n:
        c = buf[i]
        while plain[c] & _ITSELF and i + 1 < n:  # as nearly every byte does
            out[o] = c
            o += 1
            i += 1
            c = buf[i]
        i += 1
        if c == 34:
            return i, o
        if c < 32:
            return -1, o
        if c != 92:
            out[o] = c if c != END else 0xFE
            o += 1
            continue
        if i >= n:
            return -1, o
        c = buf[i]
        i += 1
        if escaped[c]:
            out[o] = escaped[c]
            o += 1
            continue
        code = _hex(buf, i, n) if c == 117 else -1
        if code < 0:
            return -1, o
        i += 4
        if 0xD800 <= code < 0xDC00 and i + 1 < n and buf[i] == 92 and buf[i + 1] == 117:
            low = _hex(buf, i + 2, n)
            if 0xDC00 <= low < 0xE000:
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                i += 6
        o = _encode(code, out, o)
    return -1, o


@compiled
def _hex(buf: Bytes, i: int, n: int) -> Number:
    """Four hexadecimal digits as a number; negative where there are none."""
    if i + 4 > n:
        return -1
    code = np.int64(0)
    for k in range(4):
        c = np.int64(buf[i + k]) | 32
        if not (48 <= c <= 57 or 97 <= c <= 102):
            return -1
        code = code << 4 | (c - 48 if c <= 57 else c - 87)
    return code


@compiled
def _encode(code: int, out: Bytes, o: int) -> Number:
    """Writes a character as UTF-8; half a character becomes three bytes, which are counted as invalid later."""
    if code < 0x80:
        out[o] = code
        return o + 1
    if code < 0x800:
        out[o], out[o + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
        return o + 2
    if code < 0x10000:
        out[o], out[o + 1], out[o + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
        return o + 3
    out[o], out[o + 1] = 0xF0 | code >> 18, 0x80 | code >> 12 & 0x3F
    out[o + 2], out[o + 3] = 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
    return o + 4
