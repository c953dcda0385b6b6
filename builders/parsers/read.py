"""Strict readers: a file is exactly what it should be, or the build stops and says where it is not."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from builders.dataset import BuildError

# Spaces between a closing quote and the end of the line, which the csv module would refuse.
_TRAILING = re.compile(r'(?<=") +$', re.MULTILINE)


def text(path: Path) -> str:
    """The file as UTF-8 text, without a byte-order mark.

    Raises
    ------
    BuildError
        At the first byte that is not UTF-8; nothing is replaced silently.
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
    """Lines of a UTF-8 text file, whatever the line ends, without trailing white space.

    Only LF, CRLF and lone CR end a line; other Unicode separators stay inside it.
    """
    body = text(path).replace("\r\n", "\n").replace("\r", "\n")
    return [line.rstrip() for line in body.removesuffix("\n").split("\n")] if body else []


def table(
    path: Path,
    columns: Sequence[str],
    *,
    optional: Sequence[str] = (),
    delimiter: str = ",",
    header: bool = True,
    quoted: bool = True,
) -> Iterator[dict[str, str]]:
    """Rows of a delimited file with exactly these columns, as dictionaries.

    Quoted fields may hold delimiters and line ends. Trailing white space of a field is removed.
    ``optional`` columns stand at the end of some lines, all of them or none. ``quoted=False`` reads
    a file in which quote characters are ordinary text.

    Raises
    ------
    BuildError
        When the header differs or a line has more or fewer fields: the line number is given and
        nothing is shifted into other columns.
    """
    body = _TRAILING.sub("", text(path).replace("\r\n", "\n").replace("\r", "\n"))
    reader = csv.reader(
        io.StringIO(body, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=True,
    )
    started = not header
    try:
        for fields in reader:
            if not fields:  # an empty line of a one-column file is an empty value, not nothing
                fields = [""] if len(columns) == 1 else []
            if not started:
                if fields != list(columns):
                    raise BuildError(
                        f"{path.name} has the columns {fields}, expected {list(columns)}; "
                        "the file is not the one this builder reads."
                    )
                started = True
                continue
            if len(fields) not in (len(columns), len(columns) + len(optional)):
                raise BuildError(
                    f"{path.name} line {reader.line_num} has {len(fields)} fields, expected {len(columns)} "
                    f"({', '.join(columns)}); quote a field that holds {delimiter!r}."
                )
            yield {name: value.rstrip() for name, value in zip((*columns, *optional), fields, strict=False)}
    except csv.Error as error:
        raise BuildError(f"{path.name} line {reader.line_num} is not valid CSV: {error}.") from None


def json_document(path: Path) -> Any:
    """The JSON value in the file; the error of a broken one names line and column."""
    try:
        return json.loads(text(path))
    except json.JSONDecodeError as error:
        raise BuildError(f"{path.name} is not JSON: {error}.") from None


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON object on each line; the error of a broken one names the line."""
    for number, line in enumerate(text(path).removesuffix("\n").split("\n"), 1):
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise BuildError(f"{path.name} line {number} is not JSON: {error}.") from None
