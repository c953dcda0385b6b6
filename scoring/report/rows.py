"""The page of all rows of a run: searched, sorted and filtered in a browser, without a server."""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from cards.common.stored import finite
from scoring import benchmarks
from scoring.inputs.columns import blocks, length
from scoring.report.headlines import model_name
from scoring.report.page import template
from scoring.types import Report, Table

#: The file beside ``report.html``.
ROWS = "rows.html"
#: How many bytes of compressed rows the page has at most; a browser holds about four times as many as text.
LIMIT = 24 << 20
_SCRIPT = (Path(__file__).parent / "templates" / "rows.js").read_text(encoding="utf-8")


def rows_page(report: Report, tables: Mapping[str, Table], paths: Mapping[str, str], limit: int = LIMIT) -> str:
    """The text of ``rows.html``; ``paths`` has the Parquet file of each benchmark.

    The rows are compressed and in base64, so that no text of them is read as HTML. Benchmarks that do not fit into
    ``limit`` bytes are named with their file.
    """
    packed: dict[str, str] = {}
    room = limit
    for name, table in tables.items():
        block = _packed(name, table, room)
        if block is not None:
            packed[name] = block
            room -= len(block)
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    left_out = {name: (paths[name], length(table)) for name, table in tables.items() if name not in packed}
    return template("rows.html.j2").render(
        name=model_name(report), settings=report.settings(), blocks=packed, left_out=left_out, paths=paths,
        script=_SCRIPT, digest=digest,
    )  # fmt: skip


def _packed(name: str, table: Table, room: int) -> str | None:
    """The rows of a table, compressed and in base64; None where they need more than ``room`` letters."""
    packer = zlib.compressobj()
    parts = []
    size = 0
    for piece in _json(name, table):
        parts.append(packer.compress(piece.encode()))
        size += len(parts[-1])
        # Four letters have three bytes; a table of a million rows is not packed to its end only to be left out.
        if size * 4 > room * 3:
            return None
    packed = base64.b64encode(b"".join([*parts, packer.flush()])).decode()
    return packed if len(packed) <= room else None


def _json(name: str, table: Table) -> Iterator[str]:
    """In parts: what the benchmark of a table compares, and its columns with six significant digits."""
    contrast = benchmarks.get(name).contrast if benchmarks.known(name) else None
    about: dict[str, object] = {"names": [], "shown": list(table)[:8]}
    if contrast and set(contrast.numbers) <= table.keys():
        shown = [*contrast.sentences, *contrast.numbers, *contrast.about]
        about |= {"names": contrast.names, "numbers": contrast.numbers}
        about["shown"] = [*(n for n in ("prompt", "text") if not contrast.sentences), *shown]
    yield _text(about)[:-1] + ',"columns":{'
    for number, column in enumerate(table):
        yield f"{',' * (number > 0)}{_text(column)}:["
        before = ""
        for block in blocks(table, [column]):
            values = block[column].tolist()
            if block[column].dtype.kind == "f":
                values = [float(f"{value:.6g}") for value in values]
            if values:
                yield before + _text(finite(values))[1:-1]
                before = ","
        yield "]"
    yield "}}"


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
