"""Files of text as blocks of bytes: plain, JSON lines or Parquet, compressed or not, here or far away.

Every reader gives bytes in which a record ends with the byte 0xFF, in blocks of a few megabytes at most,
however long a line is. What cannot be read is told in a sentence, and what stands before it is given.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from pmi.counting.corpus import CorpusError, Shard
from pmi.counting.jsonlines import texts
from pmi.types import first_line

#: Ends a record; it is no part of UTF-8.
END = b"\xff"
#: A longer line of JSON is passed over, since it would have to be in memory whole.
LONGEST_LINE = 1 << 26

_BLOCK = 1 << 20
_ROWS = 256
# Little is decompressed at once: a few bytes may stand for many.
_PIECE = 1 << 13

#: Takes a sentence about what could not be read.
Tell = Callable[[str], None]


@contextmanager
def _opened(address: str) -> Iterator[BinaryIO]:
    if "://" in address:
        import fsspec  # type: ignore[import-untyped]

        with fsspec.open(address, "rb") as file:
            yield file
    else:
        with open(address, "rb") as file:
            yield file


def read(shard: Shard, field: str, tell: Tell, progress: Callable[[int], None]) -> Iterator[bytes]:
    """The records of a file, in blocks.

    ``field`` names the text in a row of JSON lines or Parquet; ``tell`` is told what cannot be read, and
    ``progress`` how many bytes of the file have been.

    Raises
    ------
    CorpusError
        When the file cannot be opened, or its first row has no such field.
    """
    try:
        with _opened(shard.address) as file:
            if shard.format == "parquet":
                yield from _parquet(shard.address, file, field, tell)
                progress(shard.size)
                return
            plain = _decompressed(shard.address, file, tell, progress)
            yield from _text(plain) if shard.format == "text" else _json(shard.address, plain, field, tell)
    except OSError as error:
        raise CorpusError(f"{shard.address} cannot be read ({first_line(error)}); check the file and access.") from None


def records(rows: Iterable[Any], field: str) -> Iterator[bytes]:
    """Blocks from rows at hand: texts, or mappings with a text, as a streaming data set of ``datasets`` has."""
    block: list[bytes] = []
    size = 0
    for row in rows:
        text = row.get(field) if isinstance(row, Mapping) else row
        if not isinstance(text, str):
            told = f"the fields {', '.join(map(str, row))}" if isinstance(row, Mapping) else f"a {type(row).__name__}"
            raise CorpusError(f"A row has no text {field!r} but {told}; name the field that holds the text.")
        block.append(_bytes(text))
        size += len(block[-1])
        if size >= _BLOCK:
            yield END.join(block) + END
            block, size = [], 0
    if block:
        yield END.join(block) + END


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


_OPENERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
    ".zst": _zstd,
    ".zstd": _zstd,
}


def _decompressed(address: str, file: BinaryIO, tell: Tell, progress: Callable[[int], None]) -> Iterator[bytes]:
    """The bytes of a file in pieces; a stream that breaks off or is damaged is told of, and ends there."""
    opener = _OPENERS.get(PurePosixPath(address.lower()).suffix)
    size = _PIECE if opener else _BLOCK
    stream = None
    while piece := file.read(size):
        progress(len(piece))
        if opener is None:
            yield piece
            continue
        while piece:
            stream = stream or opener()
            try:
                plain = stream.decompress(piece)
            except Exception as error:  # zlib, zstandard and bz2 have an error each.
                tell(f"{address} is damaged ({first_line(error)}); what stands before was counted.")
                return
            if plain:
                yield plain
            piece, stream = (stream.unused_data, None) if stream.eof else (b"", stream)
    if stream is not None:
        tell(f"{address} breaks off in the middle of its compressed stream; what stands before was counted.")


def _text(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A file of plain text is one record."""
    for block in _gathered(pieces):
        yield block.replace(END, b"\xfe") if END in block else block
    yield END


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Small pieces as larger blocks."""
    kept: list[bytes] = []
    size = 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size >= _BLOCK:
            yield b"".join(kept)
            kept, size = [], 0
    if kept:
        yield b"".join(kept)


def _json(address: str, pieces: Iterable[bytes], field: str, tell: Tell) -> Iterator[bytes]:
    """The text of each line of JSON; lines without one are told of together, by what is wrong with them."""
    wrong: dict[str, list[int]] = {}
    good = False
    number = 1
    for lines, whole in _lines(pieces):
        found, odd, size = texts(lines, field) if whole else (b"", [], 1)
        if not whole:
            wrong.setdefault(f"is longer than {LONGEST_LINE} bytes", []).append(number)
        for offset, line in odd:
            text, fault = _field(line, field)
            if fault:
                wrong.setdefault(fault, []).append(number + offset)
            else:
                found += text + END
        number += size
        good = good or bool(found)
        if wrong and not good:
            fault, (first, *_) = next(iter(wrong.items()))
            raise CorpusError(f"{address} line {first} {fault}; name the field that holds the text.")
        if found:
            yield found
    for fault, numbers in wrong.items():
        tell(f"{address} has {len(numbers)} lines left out, the first of them line {numbers[0]}, which {fault}.")


def _lines(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Whole lines, many at a time; a line that is too long comes alone, cut, and marked as not whole."""
    rest: list[bytes] = []
    size = 0
    for block in _gathered(pieces):
        end = block.rfind(b"\n") + 1
        if not end:
            if size <= LONGEST_LINE:
                rest.append(block)
                size += len(block)
            continue
        first = block.find(b"\n") + 1
        if size + first > LONGEST_LINE:
            yield b"", False
            rest = []
        else:
            first = 0
        if lines := b"".join((*rest, block[first:end])):
            yield lines, True
        rest, size = [block[end:]], len(block) - end
    if size > LONGEST_LINE:
        yield b"", False
    elif size:
        yield b"".join(rest), True


def _field(line: bytes, field: str) -> tuple[bytes, str]:
    """The text of a row, or what is wrong with it."""
    try:
        row = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return b"", "is no JSON"
    if not isinstance(row, dict):
        return b"", "is no JSON object"
    text = row.get(field)
    if not isinstance(text, str):
        return b"", f"has no text {field!r} but the fields {', '.join(map(repr, row))}"
    return _bytes(text), ""


def _bytes(text: str) -> bytes:
    """UTF-8, in which what is no character stays invalid and is counted as such later."""
    try:
        return text.encode("utf-8", "surrogateescape").replace(END, b"\xfe")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _parquet(address: str, file: BinaryIO, field: str, tell: Tell) -> Iterator[bytes]:
    """The text of each row of Parquet; a file of which the end is missing cannot be read at all."""
    try:
        table = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"{address} is no whole Parquet file ({first_line(error)}); fetch it again.") from None
    names = table.schema_arrow.names
    kind = table.schema_arrow.field(field).type if field in names else None
    if kind is None or not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        known = ", ".join(map(repr, names))
        raise CorpusError(f"{address} has no text {field!r} but {known}; name the field that holds the text.")
    empty = 0
    try:
        for batch in table.iter_batches(_ROWS, columns=[field], use_threads=False):
            texts = batch.column(0).cast(pa.large_binary()).to_pylist()
            empty += texts.count(None)
            yield from _gathered(text.replace(END, b"\xfe") + END for text in texts if text is not None)
    except (pa.ArrowException, OSError) as error:
        tell(f"{address} is damaged ({first_line(error)}); what stands before was counted.")
    if empty:
        tell(f"{address} has {empty} rows left out, which have no text.")
