"""Reads text files as blocks of bytes: plain text, JSON lines or Parquet, compressed or not, local or remote.

Every reader gives bytes in which each record ends with the byte 0xFF. Blocks have a few megabytes at
most, however long a line is. What cannot be read is reported in a sentence, and the part before it is read.
"""

import bz2
import codecs
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from pmi.counting.corpus import CorpusError, Shard
from pmi.types import first_line

#: Ends a record. The byte never occurs in UTF-8.
RECORD_END = b"\xff"
#: A longer line of JSON is skipped, because it would have to be in memory as a whole.
MAX_LINE = 1 << 26
#: The largest window of a zstd frame in bytes, as the zstd program has it; ``zstd --long=28`` and above need more.
MAX_WINDOW = 1 << 27

_BLOCK = 1 << 20
_LINE_ENDS = re.compile(rb"[\r\n]+")
_ROWS_PER_BATCH = 256
# Some programs write it at the beginning of a file; a line that begins with it is no JSON.
_BYTE_ORDER_MARK = "\ufeff".encode()
# The mark of UTF-32 begins with that of UTF-16, so it is looked for first.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Of English text in UTF-16 half of the bytes are zero, and of web text in UTF-8 nearly none.
_ZEROS_OF_WIDE_TEXT = 0.1
# Compressed input is read in small pieces, because a few bytes may expand to many.
_COMPRESSED_PIECE = 1 << 11

#: Receives a sentence about what could not be read.
Report = Callable[[str], None]


@contextmanager
def _opened(address: str) -> Iterator[BinaryIO]:
    if "://" in address:
        import fsspec  # type: ignore[import-untyped]

        with fsspec.open(address, "rb") as file:
            yield file
    else:
        with open(address, "rb") as file:
            yield file


def read(
    shard: Shard, field: str, report: Report, progress: Callable[[int], None], max_window: int = MAX_WINDOW
) -> Iterator[bytes]:
    """The records of a file, in blocks.

    Parameters
    ----------
    field:
        The field that holds the text, in JSON lines and Parquet.
    report:
        Receives a sentence about each thing that cannot be read.
    progress:
        Receives the size of each piece of the file that was read, in bytes.
    max_window:
        The largest window of a zstd frame in bytes, which is kept in memory.

    Raises
    ------
    CorpusError
        When the file cannot be opened, its first row has no such field, or a zstd frame has a longer window.
    """
    try:
        with _opened(shard.address) as file:
            if shard.format == "parquet":
                yield from _parquet(shard.address, file, field, report)
                progress(shard.size)
                return
            pieces = _in_utf8(shard.address, _decompressed(shard.address, file, report, progress, max_window))
            if shard.format == "text":
                yield from _lines(pieces)
            elif shard.format == "document":
                yield from _document(pieces)
            else:
                yield from _json(shard.address, pieces, field, report)
    except OSError as error:
        raise CorpusError(f"{shard.address} cannot be read ({first_line(error)}); check the file and access.") from None


def records(rows: Iterable[Any], field: str) -> Iterator[bytes]:
    """Blocks of records from rows in memory: texts, or mappings with a text as ``datasets`` streams them.

    Raises
    ------
    CorpusError
        When a row has no text.
    """
    return _blocks(_bytes(_row_text(row, field)) + RECORD_END for row in rows)


def _row_text(row: Any, field: str) -> str:
    if isinstance(row, Mapping):
        text = row.get(field)
        content = f"the fields {', '.join(map(str, row))}"
    else:
        text = row
        content = f"a {type(row).__name__}"
    if not isinstance(text, str):
        raise CorpusError(f"A row has no text {field!r} but {content}; name the field that holds the text.")
    return text


def _zstd(max_window: int) -> Any:
    import zstandard

    # A frame says how much memory it needs; without a limit a small file could take all of it.
    return zstandard.ZstdDecompressor(max_window_size=max_window).decompressobj()


#: Makes a decompressor, with the largest window of zstd in bytes.
_DECOMPRESSORS: dict[str, Callable[[int], Any]] = {
    ".gz": lambda _: zlib.decompressobj(wbits=31),
    ".bz2": lambda _: bz2.BZ2Decompressor(),
    ".xz": lambda _: lzma.LZMADecompressor(),
    ".zst": _zstd,
    ".zstd": _zstd,
}


def _decompressed(
    address: str, file: BinaryIO, report: Report, progress: Callable[[int], None], max_window: int
) -> Iterator[bytes]:
    """The bytes of a file in pieces; a stream that is cut or damaged is reported, and ends there.

    Raises
    ------
    CorpusError
        When a zstd frame has a longer window than ``max_window``.
    """
    decompressor = _DECOMPRESSORS.get(PurePosixPath(address.lower()).suffix)
    stream = None
    while piece := file.read(_COMPRESSED_PIECE if decompressor else _BLOCK):
        progress(len(piece))
        if decompressor is None:
            yield piece
            continue
        while piece:
            stream = stream or decompressor(max_window)
            try:
                plain = stream.decompress(piece)
            except Exception as error:  # zlib, zstandard and bz2 each have their own error.
                if "too much memory" in str(error):
                    raise CorpusError(
                        f"{address} has a zstd frame with a window of more than {max_window >> 20} MB, as zstd --long "
                        "writes; give a larger --max-window, up to 2048."
                    ) from None
                report(f"{address} is damaged ({first_line(error)}); the part before was counted.")
                return
            if plain:
                yield plain
            # A file may hold several streams, one after the other.
            if stream.eof:
                piece, stream = stream.unused_data, None
            else:
                piece = b""
    if stream is not None:
        report(f"{address} ends in the middle of its compressed stream; the part before was counted.")


def _in_utf8(address: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    r"""The bytes of a file in UTF-8, also of one in UTF-16 or UTF-32 with a byte-order mark, as Excel writes.

    >>> list(_in_utf8("a.txt", ["She saw.".encode("utf-16")]))
    [b'She saw.']

    Raises
    ------
    CorpusError
        When the first block has as many zero bytes as text in UTF-16 and no mark: its words would be single letters.
    """
    blocks = _blocks(pieces)
    first = next(blocks, b"")
    encoding = next((encoding for mark, encoding in _WIDE_MARKS if first.startswith(mark)), None)
    if encoding is None:
        if first.count(0) > _ZEROS_OF_WIDE_TEXT * len(first):
            raise CorpusError(
                f"{address} has zero bytes, as UTF-16 without a byte-order mark or a binary file has; convert it to "
                "UTF-8, for example with iconv -f UTF-16LE -t UTF-8."
            )
        yield first
        yield from blocks
        return
    # A character may be cut between two blocks, so the decoder keeps what is open.
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    yield decoder.decode(first).encode()
    for block in blocks:
        yield decoder.decode(block).encode()
    if rest := decoder.decode(b"", final=True):
        yield rest.encode()


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    r"""Each line of plain text is a record, as each line of JSON is; an empty line is no record.

    >>> list(_lines([b"She saw it.\n\nHe", b" did.\n"]))
    [b'She saw it.\xffHe did.\xff']
    """
    at_start = True
    for block in _blocks(pieces):
        records = _LINE_ENDS.sub(RECORD_END, _without_record_ends(block))
        if at_start:
            # The lines before this block have ended, so ends at its beginning are those of empty lines.
            records = records.removeprefix(RECORD_END)
        if records:
            yield records
            at_start = records.endswith(RECORD_END)
    if not at_start:
        yield RECORD_END


def _document(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A file of plain text is one record."""
    for block in _blocks(pieces):
        yield _without_record_ends(block)
    yield RECORD_END


def _without_record_ends(text: bytes) -> bytes:
    """Text in which an invalid byte 0xFF is replaced by another invalid byte."""
    return text.replace(RECORD_END, b"\xfe") if RECORD_END in text else text


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Small pieces joined to larger blocks."""
    block: list[bytes] = []
    size = 0
    for piece in pieces:
        block.append(piece)
        size += len(piece)
        if size >= _BLOCK:
            yield b"".join(block)
            block, size = [], 0
    if block:
        yield b"".join(block)


def _json(address: str, pieces: Iterable[bytes], field: str, report: Report) -> Iterator[bytes]:
    """The text of each line of JSON; the lines without one are reported together, by what is wrong with them."""
    lines_by_fault: dict[str, list[int]] = {}
    any_text = False
    lines_before = 0
    for block in _line_blocks(pieces):
        texts: list[bytes] = []
        if block and not lines_before:
            block = block.removeprefix(_BYTE_ORDER_MARK)
        lines: list[bytes | None] = [None]
        if block is not None:
            lines = [*block.removesuffix(b"\n").split(b"\n")]
        for number, line in enumerate(lines, start=lines_before + 1):
            text: bytes | None = None
            if line is None:
                fault = f"is longer than {MAX_LINE} bytes"
            else:
                text, fault = json_text(line, field)
            if text is not None:
                texts.append(text)
            elif fault:
                lines_by_fault.setdefault(fault, []).append(number)
        lines_before += len(lines)
        any_text = any_text or bool(texts)
        if lines_by_fault and not any_text:
            fault, numbers = next(iter(lines_by_fault.items()))
            raise CorpusError(f"{address} line {numbers[0]} {fault}; name the field that holds the text.")
        if texts:
            yield RECORD_END.join(texts) + RECORD_END
    for fault, numbers in lines_by_fault.items():
        report(f"{address} has {len(numbers)} lines left out, the first of them line {numbers[0]}, which {fault}.")


def _line_blocks(pieces: Iterable[bytes]) -> Iterator[bytes | None]:
    """Blocks of whole lines; None stands for a line that is too long."""
    rest: list[bytes] = []
    size = 0
    for block in _blocks(pieces):
        end = block.rfind(b"\n") + 1
        if not end:
            # The line continues. Of a line that is too long only the size is kept.
            if size <= MAX_LINE:
                rest.append(block)
                size += len(block)
            continue
        # Of a block the rest of the open line comes first, then whole lines, then the beginning of the next one.
        first = block.find(b"\n") + 1
        if size + first > MAX_LINE:
            yield None
            rest = []
        else:
            first = 0
        lines = b"".join(rest) + block[first:end]
        if lines:
            yield lines
        rest, size = [block[end:]], len(block) - end
    if size > MAX_LINE:
        yield None
    elif size:
        yield b"".join(rest)


def json_text(line: bytes, field: str) -> tuple[bytes | None, str]:
    r"""The text in a line of JSON as UTF-8, or what is wrong with the line; neither for an empty line.

    Bytes that are not UTF-8, and escapes of half a character, stay invalid, so that they are counted as such.

    >>> json_text(b'{"text": "caf\\u00e9"}', "text"), json_text(b"[1]", "text"), json_text(b"\r", "text")
    ((b'caf\xc3\xa9', ''), (None, 'is not a JSON object'), (None, ''))
    """
    try:
        return orjson.loads(line)[field].encode(), ""
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # orjson takes valid UTF-8 only, and what is wrong is found below.
    if not line.strip(b" \t\r"):
        return None, ""
    try:
        row = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None, "is not JSON"
    if not isinstance(row, dict):
        return None, "is not a JSON object"
    text = row.get(field)
    if not isinstance(text, str):
        return None, f"has no text {field!r} but the fields {', '.join(map(repr, row))}"
    return _bytes(text), ""


def _bytes(text: str) -> bytes:
    """UTF-8 in which surrogates, which are not characters, become invalid bytes."""
    try:
        return _without_record_ends(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


_TEXT_TYPES = {pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()}


def _parquet(address: str, file: BinaryIO, field: str, report: Report) -> Iterator[bytes]:
    """The text of each row of Parquet. A file without its end cannot be read at all."""
    try:
        table = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"{address} is not a complete Parquet file ({first_line(error)}); fetch it again.") from None
    names = table.schema_arrow.names
    if field not in names:
        columns = ", ".join(map(repr, names))
        raise CorpusError(f"{address} has no text {field!r} but {columns}; name the field that holds the text.")
    column_type = table.schema_arrow.field(field).type
    text_type = column_type.value_type if pa.types.is_dictionary(column_type) else column_type
    if text_type not in _TEXT_TYPES:
        raise CorpusError(f"{address} has {column_type} as {field!r}; name a field that holds text.")
    n_empty = 0
    try:
        for batch in table.iter_batches(_ROWS_PER_BATCH, columns=[field], use_threads=False):
            # Bytes and no texts: UTF-8 is not decoded and encoded again only to be counted.
            texts = batch.column(0).cast(text_type).cast(pa.large_binary()).to_pylist()
            n_empty += texts.count(None)
            yield from _blocks(_without_record_ends(text) + RECORD_END for text in texts if text is not None)
    except (pa.ArrowException, OSError) as error:
        report(f"{address} is damaged ({first_line(error)}); the part before was counted.")
    if n_empty:
        report(f"{address} has {n_empty} rows left out, which have no text.")
