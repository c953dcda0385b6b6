"""The page of tables of the papers, ``docs/tables.md``: ``python -m tools.tables_page [--cells reproduce.json]``.

It is made from the printed tables of :mod:`scoring.reproduce`; a test holds it equal to them. With ``--cells``, the
file of ``probes reproduce --all --published --out FOLDER``, the small table of what is reached is made again, which
is in the page and in the README.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from cards.files import put
from scoring.reproduce.counts import COUNTS, by_paper
from scoring.reproduce.measured import Cell
from scoring.reproduce.printed import PAPERS, PrintedTable, paper, printed_tables
from tools.pages import ROOT, table

PAGE = ROOT / "docs" / "tables.md"
README = ROOT / "README.md"
_INTRO = ROOT / "tools" / "templates" / "tables.md"
#: The small table of what is reached, between its marks.
REACHED = re.compile(r"(?<=<!-- reached -->\n)(.*?)(?=<!-- end of reached -->)", re.DOTALL)


def label(of: PrintedTable, part: str) -> str:
    """The name of a table in its row.

    >>> tables = {table.id: table for table in printed_tables()}
    >>> label(tables["fast/table-10"], "cost"), label(tables["predecessor/figures-1-4"], "")
    ('10, cost', 'Figures 1 to 4')
    """
    name = re.sub(r"^table-", "", of.name)
    name = re.sub(
        r"^(figures?)-(\d+)(?:-(\d+))?$", lambda m: f"{m[1].title()} {m[2]}" + f" to {m[3]}" * bool(m[3]), name
    )
    return ", ".join(filter(None, (name.replace("-", " "), part)))


def page() -> str:
    """The text of the page."""
    # The marks of the small table are of the template alone.
    parts = [re.sub(r"^<!-- .*-->\n", "", _INTRO.read_text(encoding="utf-8"), flags=re.MULTILINE)]
    for name in PAPERS:
        rows = [
            [label(of, part), str(len(of.cells) or "–") if number == 0 else "", command, where, reached]
            for of in printed_tables(name)
            for number, (part, command, where, reached) in enumerate(of.how)
        ]
        about = paper(name)
        body = table(("table", "printed", "command", "where in the result", "reached"), rows)
        parts += [f"## {about['title']}\n", about.get("intro", ""), body, about.get("outro", "")]
    return "\n".join(part for part in parts if part)


def reached(cells: list[Cell]) -> str:
    """The small table of how many printed numbers of each paper are in which state."""
    return table(COUNTS, [list(row) for row in by_paper(cells)]) + "\n"


def main() -> None:
    """Writes the page, and with ``--cells`` the small table too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=Path, help="reproduce.json of all papers from published responses.")
    options = parser.parse_args()
    if options.cells:
        cells = [Cell(**cell) for cell in json.loads(options.cells.read_bytes())]
        for path in (_INTRO, README):
            text = path.read_text(encoding="utf-8")
            put(path, REACHED.sub(lambda _: reached(cells), text).encode())
    put(PAGE, page().encode())
    print(f"The page is {PAGE}.")


if __name__ == "__main__":
    main()
