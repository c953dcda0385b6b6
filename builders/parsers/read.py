"""Strict readers: an error names the place where a file differs from the expected form."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from builders.dataset import BuildError

# Spaces between a closing quote and the end of the line; the csv module refuses them.
_TRAILING = re.compile(r'(?<=") +$', re.MULTILINE)


def text(path: Path) -> str:
    """The file as UTF-8 text, without a byte-order mark.

    Raises
    ------
    BuildError
        When a byte is not UTF-8. No byte is replaced silently.
    """
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BuildError(
            f"{path.name} is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}; "
            "save the file as UTF-8 and try again."
        ) from None


def lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file without trailing white space.

    Lines end with LF, CRLF or CR; other Unicode separators do not end a line.
    """
    body = text(path).replace("\r\n", "\n").replace("\r", "\n")
    if not body:
        return []
    # Not splitlines(), which also splits at separators that occur inside sentences, such as U+2028.
    return [line.rstrip() for line in body.removesuffix("\n").split("\n")]


def table(
    path: Path,
    columns: Sequence[str],
    *,
    optional: Sequence[str] = (),
    delimiter: str = ",",
    header: bool = True,
    quoted: bool = True,
) -> Iterator[dict[str, str]]:
    """The rows of a delimited file with exactly these columns, as dictionaries.

    Quoted fields may contain delimiters and line ends. Trailing white space of a field is removed. A line has all
    ``optional`` columns at its end or none. With ``quoted=False`` quote characters are ordinary text.

    Raises
    ------
    BuildError
        When the header differs, or a line has more or fewer fields.
    """
    body = _TRAILING.sub("", text(path).replace("\r\n", "\n").replace("\r", "\n"))
    quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter, quoting=quoting, strict=True)
    # In a file with one column, an empty line is an empty value.
    empty = [""] if len(columns) == 1 else []
    rows = (fields or empty for fields in reader)
    names = [*columns, *optional]
    try:
        if header:
            # A file without a single line has no wrong header.
            stated = next(rows, list(columns))
            if stated != list(columns):
                raise BuildError(
                    f"{path.name} has the columns {stated}, expected {list(columns)}; "
                    "the file is not the one this builder reads."
                )
        for fields in rows:
            if len(fields) not in (len(columns), len(names)):
                raise BuildError(
                    f"{path.name} line {reader.line_num} has {len(fields)} fields, expected {len(columns)} "
                    f"({', '.join(columns)}); quote a field that holds {delimiter!r}."
                )
            yield {name: value.rstrip() for name, value in zip(names, fields, strict=False)}
    except csv.Error as error:
        raise BuildError(f"{path.name} line {reader.line_num} is not valid CSV: {error}.") from None


def json_document(path: Path) -> Any:
    """The JSON value of a file; the error for invalid JSON names line and column."""
    try:
        return json.loads(text(path))
    except json.JSONDecodeError as error:
        raise BuildError(f"{path.name} is not JSON: {error}.") from None


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON object on each line; the error for invalid JSON names the line."""
    for number, line in enumerate(text(path).removesuffix("\n").split("\n"), 1):
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise BuildError(f"{path.name} line {number} is not JSON: {error}.") from None
