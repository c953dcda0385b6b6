"""The page of tables of the papers, ``docs/tables.md``: ``python -m tools.tables_page``.

It is made from the printed tables of :mod:`scoring.reproduce`; a test holds it equal to them.
"""

from __future__ import annotations

import re

from cards.files import put
from scoring.reproduce.printed import PAPERS, PrintedTable, paper, printed_tables
from tools.pages import ROOT, table

PAGE = ROOT / "docs" / "tables.md"
_INTRO = ROOT / "tools" / "templates" / "tables.md"


def label(of: PrintedTable, part: str) -> str:
    """The name of a table in its row.

    >>> tables = {table.id: table for table in printed_tables()}
    >>> label(tables["fast/table-10"], "cost"), label(tables["disclosure/figures-2-7"], "")
    ('10, cost', 'Figures 2 to 7')
    """
    name = re.sub(r"^table-", "", of.name)
    name = re.sub(
        r"^(figures?)-(\d+)(?:-(\d+))?$", lambda m: f"{m[1].title()} {m[2]}" + f" to {m[3]}" * bool(m[3]), name
    )
    return ", ".join(filter(None, (name.replace("-", " "), part)))


def page() -> str:
    """The text of the page."""
    parts = [_INTRO.read_text(encoding="utf-8")]
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


if __name__ == "__main__":
    put(PAGE, page().encode())
    print(f"The page is {PAGE}.")
