"""Reads and writes rows of text as plain text, CSV, JSON lines or Parquet."""

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from cards.common import files
from pmi.types import PmiError, first_duplicate

#: Endings of the files that can be read.
ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", ".parquet")
_READABLE = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
#: Endings of the files that can be written.
WRITABLE = ".parquet, .csv, .tsv or .jsonl"


class FileError(PmiError):
    """A file cannot be read or written."""


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write that replaces ``path`` in one step when it is complete.

    Raises
    ------
    FileError
        When the file cannot be written there.
    """
    try:
        with files.replacing(Path(path)) as file:
            yield file
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror or error}); give another place.") from None


def read_rows(path: str | Path) -> pa.Table:
    """The rows of a file of plain text, CSV, JSON lines or Parquet; its ending says which.

    The lines of plain text become the column ``text``. Every column of CSV is read as text; numbers and
    missing values are not guessed.

    Raises
    ------
    FileError
        When the file does not exist or is not what its ending says.
    """
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise FileError(f"{path} has the ending {path.suffix!r}; give a file that ends in {_READABLE}.")
    try:
        return _READERS[path.suffix](path)
    except FileNotFoundError:
        raise FileError(f"There is no file {path}; give one that ends in {_READABLE}.") from None
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path} is not UTF-8 text: byte {error.object[error.start]:#04x} at {error.start}; convert it first."
        ) from None
    except (pa.ArrowException, OSError, csv.Error) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise FileError(f"{path} cannot be read as {path.suffix[1:]} ({reason}); repair it or convert it.") from None


def text_column(table: pa.Table, name: str, path: str | Path) -> list[str]:
    """The texts of a column.

    Raises
    ------
    FileError
        When there is no such column, it does not hold text, or a row has no text.
    """
    if name not in table.column_names:
        raise FileError(f"{path} has no column {name!r}; name one of {', '.join(table.column_names)}.")
    column = table[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise FileError(f"The column {name!r} of {path} holds {column.type}; name one that holds text.")
    texts: list[str | None] = column.to_pylist()
    if None in texts:
        raise FileError(f"Row {texts.index(None)} of {path} has no {name!r}; fill it in or leave the row out.")
    return cast(list[str], texts)


def write_rows(table: pa.Table, path: str | Path) -> None:
    """Writes a table as Parquet, CSV or JSON lines; the ending of the file says which.

    The file :data:`cards.common.files.RECORD` of its folder lists it.

    Raises
    ------
    FileError
        For another ending, when the file cannot be written, and when another program wrote the one that it replaces.
    """
    path = Path(path)
    if path.suffix not in _WRITERS:
        raise FileError(f"{path} has the ending {path.suffix!r}; give a file that ends in {WRITABLE}.")
    content = io.BytesIO()
    _WRITERS[path.suffix](table, content)
    files.put_all(path.parent, {path.name: content.getvalue()}, FileError)


def _lines(path: Path) -> pa.Table:
    text = path.read_bytes().decode("utf-8-sig")
    lines = []
    if text:
        # Not splitlines(), which also splits at separators inside sentences, such as U+2028.
        lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    return pa.table({"text": pa.array(lines, pa.string())})


def _csv(path: Path) -> pa.Table:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    path.read_bytes().decode("utf-8")  # to say where it is not UTF-8, which Arrow does not
    # Arrow would guess types and rename columns that occur twice, so the names are read first.
    with open(path, encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader(file, delimiter=delimiter), [])
    name = first_duplicate(names)
    if name:
        raise FileError(f"{path} has the column {name!r} more than once; give each column its own name.")
    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )


def _json(path: Path) -> pa.Table:
    path.read_bytes().decode("utf-8")
    if not path.stat().st_size:
        return pa.table({"text": pa.array([], pa.string())})
    return pyarrow.json.read_json(path, parse_options=pyarrow.json.ParseOptions(newlines_in_values=False))


def _write_parquet(table: pa.Table, file: IO[bytes]) -> None:
    pq.write_table(table, file, compression="zstd")


def _write_csv(table: pa.Table, file: IO[bytes], delimiter: str = ",") -> None:
    pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(delimiter=delimiter))


def _write_tsv(table: pa.Table, file: IO[bytes]) -> None:
    _write_csv(table, file, "\t")


def _write_jsonl(table: pa.Table, file: IO[bytes]) -> None:
    for batch in table.to_batches():
        for row in batch.to_pylist():
            # Dates and decimal numbers have no JSON of their own, so they are written as text.
            file.write(orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE))


_READERS: dict[str, Callable[[Path], Any]] = {
    ".txt": _lines,
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _json,
    ".parquet": pq.read_table,
}
_WRITERS: dict[str, Callable[[pa.Table, IO[bytes]], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".jsonl": _write_jsonl,
}
