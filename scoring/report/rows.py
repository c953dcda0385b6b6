"""The page of all rows of a run: searched, sorted and filtered in a browser, without a server."""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path

from cards.stored import finite
from scoring import benchmarks
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
    blocks: dict[str, str] = {}
    for name, table in tables.items():
        block = base64.b64encode(zlib.compress(_json(name, table))).decode()
        if sum(map(len, blocks.values())) + len(block) <= limit:
            blocks[name] = block
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    left_out = {name: (paths[name], len(table["id"])) for name, table in tables.items() if name not in blocks}
    return template("rows.html.j2").render(
        name=model_name(report), settings=report.settings(), blocks=blocks, left_out=left_out, paths=paths,
        script=_SCRIPT, digest=digest,
    )  # fmt: skip


def _json(name: str, table: Table) -> bytes:
    """The columns of a table with six significant digits, and what its benchmark compares."""
    contrast = benchmarks.get(name).contrast if benchmarks.known(name) else None
    columns = {
        column: [float(f"{v:.6g}") for v in values.tolist()] if values.dtype.kind == "f" else values.tolist()
        for column, values in table.items()
    }
    about: dict[str, object] = {"columns": finite(columns), "names": [], "shown": list(table)[:8]}
    if contrast and set(contrast.numbers) <= table.keys():
        shown = [*contrast.sentences, *contrast.numbers, *contrast.about]
        about |= {"names": contrast.names, "numbers": contrast.numbers}
        about["shown"] = [*(n for n in ("prompt", "text") if not contrast.sentences), *shown]
    return json.dumps(about, separators=(",", ":")).encode()
