"""Files that are whole or not there, and rows of text from the formats that people keep them in."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from pmi.types import PmiError

#: Of files that can be read.
ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", ".parquet")
_READ = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
_WRITTEN = ".parquet, .csv, .tsv or .jsonl"


class FileFault(PmiError):
    """A file cannot be read or written as asked."""


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of ``path`` when all went well.

    Raises
    ------
    FileFault
        When the file cannot be written there.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise FileFault(f"{path} cannot be written ({error.strerror or error}); give another place.") from None
    finally:
        with suppress(OSError):
            beside.unlink()


def read_rows(path: str | Path) -> pa.Table:
    """The rows of a file by its ending: lines of plain text, CSV, JSON lines or Parquet.

    Lines of text are the column ``text``. Every column of CSV is text; nothing is guessed to be a
    number or a missing value.

    Raises
    ------
    FileFault
        When the file is not there or not what its ending says.
    """
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise FileFault(f"{path} has the ending {path.suffix!r}; give a file that ends in {_READ}.")
    try:
        return _READERS[path.suffix](path)
    except FileNotFoundError:
        raise FileFault(f"There is no file {path}; give one that ends in {_READ}.") from None
    except UnicodeDecodeError as error:
        raise FileFault(
            f"{path} is no UTF-8 text: byte {error.object[error.start]:#04x} at {error.start}; convert it first."
        ) from None
    except (pa.ArrowException, OSError, csv.Error) as error:
        told = " ".join(str(error).split()).rstrip(".")
        raise FileFault(f"{path} cannot be read as {path.suffix[1:]} ({told}); mend it or convert it.") from None


def text_column(table: pa.Table, name: str, path: str | Path) -> list[str]:
    """The texts of a column, each a string.

    Raises
    ------
    FileFault
        When there is no such column, it is no text, or a row has none.
    """
    if name not in table.column_names:
        raise FileFault(f"{path} has no column {name!r}; name one of {', '.join(table.column_names)}.")
    column = table[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise FileFault(f"The column {name!r} of {path} holds {column.type}; name one that holds text.")
    texts: list[str | None] = column.to_pylist()
    found = [text for text in texts if text is not None]
    if len(found) < len(texts):
        raise FileFault(f"Row {texts.index(None)} of {path} has no {name!r}; fill it in or leave the row out.")
    return found


def write_rows(table: pa.Table, path: str | Path) -> None:
    """Writes a table as Parquet, CSV or JSON lines, by the ending of the file.

    Raises
    ------
    FileFault
        For another ending, and when the file cannot be written.
    """
    writers = {".parquet": _write_parquet, ".csv": _write_csv, ".tsv": _write_csv, ".jsonl": _write_jsonl}
    if Path(path).suffix not in writers:
        raise FileFault(f"{path} has the ending {Path(path).suffix!r}; give a file that ends in {_WRITTEN}.")
    with replacing(path) as file:
        writers[Path(path).suffix](table, file, "\t" if Path(path).suffix == ".tsv" else ",")


def _lines(path: Path) -> pa.Table:
    text = path.read_bytes().decode("utf-8-sig")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n") if text else []
    return pa.table({"text": pa.array(lines, pa.string())})


def _csv(path: Path) -> pa.Table:
    mark = "\t" if path.suffix == ".tsv" else ","
    path.read_bytes().decode("utf-8")  # Arrow's own message does not say where
    with open(path, encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader(file, delimiter=mark), [])
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise FileFault(f"{path} has the column {twice[0]!r} more than once; give each a name of its own.")
    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(delimiter=mark, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )


def _json(path: Path) -> pa.Table:
    path.read_bytes().decode("utf-8")
    if not path.stat().st_size:
        return pa.table({"text": pa.array([], pa.string())})
    return pyarrow.json.read_json(path, parse_options=pyarrow.json.ParseOptions(newlines_in_values=False))


def _write_parquet(table: pa.Table, file: IO[bytes], _: str) -> None:
    pq.write_table(table, file, compression="zstd")


def _write_csv(table: pa.Table, file: IO[bytes], mark: str) -> None:
    pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(delimiter=mark))


def _write_jsonl(table: pa.Table, file: IO[bytes], _: str) -> None:
    import json

    for batch in table.to_batches():
        for row in batch.to_pylist():
            file.write(json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n")


_READERS: dict[str, Callable[[Path], Any]] = {
    ".txt": _lines,
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _json,
    ".parquet": pq.read_table,
}
