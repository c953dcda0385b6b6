"""The page of tables of the papers, ``docs/tables.md``: ``python -m tools.docs.tables_page [--cells reproduce.json]``.

It is made from the printed tables of :mod:`scoring.reproduce`; a test holds it equal to them. With ``--cells``, the
file of ``probes reproduce --all --published --out FOLDER``, the state of every printed number is kept in
``docs/reached.json``; the small table of what is reached is made from it, which is in the page and in the README.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from cards.common.files import put
from scoring.reproduce.counts import COUNTS, row
from scoring.reproduce.measured import STATES, Cell
from scoring.reproduce.printed import PAPERS, PrintedTable, paper, printed_tables
from tools.docs.pages import ROOT, table

PAGE = ROOT / "docs" / "tables.md"
README = ROOT / "README.md"
REACHED = ROOT / "docs" / "reached.json"
#: The letter of each state in :data:`REACHED`.
LETTERS = dict(zip(STATES, "ewonfp", strict=True))
_INTRO = ROOT / "tools" / "templates" / "tables.md"
#: The small table of what is reached, between its marks.
MARKED = re.compile(r"(?<=<!-- reached -->\n)(.*?)(?=<!-- end of reached -->)", re.DOTALL)


def label(printed_table: PrintedTable, part: str) -> str:
    """The name of a table in its row.

    >>> tables = {table.id: table for table in printed_tables()}
    >>> label(tables["fast/table-10"], "cost"), label(tables["fast/figure-7"], "")
    ('10, cost', 'Figure 7')
    """
    name = re.sub(r"^table-", "", printed_table.name)
    name = re.sub(r"^figure-(\d+)$", r"Figure \1", name)
    return ", ".join(filter(None, (name.replace("-", " "), part)))


def page() -> str:
    """The text of the page."""
    # The marks of the small table are of the template alone.
    parts = [re.sub(r"^<!-- .*-->\n", "", _INTRO.read_text(encoding="utf-8"), flags=re.MULTILINE)]
    for name in PAPERS:
        rows = [
            [label(entry, part), str(len(entry.cells) or "–") if number == 0 else "", command, where, reached]
            for entry in printed_tables(name)
            for number, (part, command, where, reached) in enumerate(entry.how)
        ]
        about = paper(name)
        body = table(("table", "printed", "command", "where in the result", "reached"), rows)
        parts += [f"## {about['title']}\n", about.get("intro", ""), body, about.get("outro", "")]
    parts.append("Next: [where this project differs from the papers](LEDGER.md), or [real models](MODELS.md).\n")
    return "\n".join(part for part in parts if part)


def kept(cells: Sequence[Cell]) -> dict[str, str]:
    """For each table a letter for the state of each of its numbers, in their order.

    >>> kept([Cell("p", "t", "r", c, 1, m, None, None, v, "") for c, m, v in (("a", 1, "equal"), ("b", 2, "outside"))])
    {'p/t': 'eo'}
    """
    letters: dict[str, str] = {}
    for cell in cells:
        name = f"{cell.paper}/{cell.table}"
        letters[name] = letters.get(name, "") + LETTERS[cell.state]
    return letters


def reached(states: Mapping[str, str]) -> str:
    """The small table of how many printed numbers of each paper are in which state."""
    names = {letter: state for state, letter in LETTERS.items()}
    by_name: dict[str, Counter[str]] = {}
    for target, letters in states.items():
        counts = by_name.setdefault(target.partition("/")[0], Counter())
        counts.update(names[letter] for letter in letters)
    return table(COUNTS, [list(row(name, counts)) for name, counts in by_name.items()]) + "\n"


def read() -> dict[str, str]:
    """The states that are kept, by table."""
    states: dict[str, str] = json.loads(REACHED.read_bytes())
    return states


def main() -> None:
    """Writes the page, and with ``--cells`` the states and the small table too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=Path, help="reproduce.json of all papers from published responses.")
    options = parser.parse_args()
    if options.cells:
        states = kept([Cell(**cell) for cell in json.loads(options.cells.read_bytes())])
        put(REACHED, f"{json.dumps(states, indent=1)}\n".encode())
        for path in (_INTRO, README):
            text = path.read_text(encoding="utf-8")
            put(path, MARKED.sub(lambda _: reached(states), text).encode())
    put(PAGE, page().encode())
    print(f"The page is {PAGE}.")


if __name__ == "__main__":
    main()
