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

#: The name of the page, which is in the folder of ``report.html``.
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
    left_out = {}
    room = limit
    for name, table in tables.items():
        block = _packed(name, table, room)
        if block is None:
            left_out[name] = (paths[name], length(table))
        else:
            packed[name] = block
            room -= len(block)
    # The page allows this script alone by its digest, so that no text of a row is run as one.
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    return template("rows.html.j2").render(
        name=model_name(report),
        settings=report.settings(),
        blocks=packed,
        left_out=left_out,
        paths=paths,
        script=_SCRIPT,
        digest=digest,
    )


def _packed(name: str, table: Table, room: int) -> str | None:
    """The rows of a table, compressed and in base64; None where they need more than ``room`` letters."""
    packer = zlib.compressobj()
    packed = bytearray()
    for piece in _json(name, table):
        packed += packer.compress(piece.encode())
        # Four letters have three bytes; a table of a million rows is not packed to its end only to be left out.
        if len(packed) * 4 > room * 3:
            return None
    packed += packer.flush()
    text = base64.b64encode(packed).decode()
    if len(text) > room:
        return None
    return text


def _json(name: str, table: Table) -> Iterator[str]:
    """In parts: what the benchmark of a table compares, and its columns with six significant digits."""
    contrast = None
    if benchmarks.known(name):
        contrast = benchmarks.get(name).contrast
    about: dict[str, object]
    if contrast and set(contrast.numbers) <= table.keys():
        shown = list(contrast.sentences + contrast.numbers + contrast.about)
        # Rows without a pair of sentences are shown with their prompt and the text after it.
        if not contrast.sentences:
            shown = ["prompt", "text", *shown]
        about = {"names": contrast.names, "shown": shown, "numbers": contrast.numbers}
    else:
        about = {"names": [], "shown": list(table)[:8]}
    # The last bracket of the object is left open, and the columns follow as its last field.
    yield _text(about)[:-1] + ',"columns":{'
    before_column = ""
    for column in table:
        yield f"{before_column}{_text(column)}:["
        before_column = ","
        before_block = ""
        for block in blocks(table, [column]):
            values = block[column].tolist()
            if block[column].dtype.kind == "f":
                # Six digits are more than any number of the page has.
                values = [float(f"{value:.6g}") for value in values]
            if values:
                # The brackets of the block's list are cut off: all blocks of a column are one list.
                yield before_block + _text(finite(values))[1:-1]
                before_block = ","
        yield "]"
    yield "}}"


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
