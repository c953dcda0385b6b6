"""The printed tables of the papers, from ``scoring/data/printed``.

``PAPER.toml`` says for each table of a paper what it is and where its numbers are in our results, and
``PAPER-TABLE.csv`` has the numbers as printed. The place of a number follows from its labels: the row
``STS-B, Original`` and the column ``LLaMA2-7B_GAS`` consist of four terms, each of which adds a part, such as the model
or the metric, to what holds for the whole table. Figures and tables without numbers have no CSV file; ``figures.toml``
says what the figures show.
"""

import csv
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cards.common.text import did_you_mean
from scoring.types import ScoringError

FOLDER = Path(__file__).parents[1] / "data" / "printed"
#: The papers in the order of the list of tables; the official scores of StereoSet are the last.
PAPERS = ("disclosure", "predecessor", "occugender", "fast", "unstereo", "stereoset")


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """A printed number: its labels, its digits as printed, and where it is in our results.

    ``place`` has the ``model`` (none where the paper does not name it), the ``run`` or ``source`` that measures it,
    ``benchmark``, ``group`` and ``metric`` (of ``examples`` their id and a column) and ``field`` (``value`` or ``sd``);
    or a ``reason`` why there is none.
    """

    row: str
    column: str
    text: str
    digits: int
    place: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def of_run(self) -> bool:
        """Whether a run of a model measures it."""
        return "run" in self.place and not self.place.keys() & {"source", "reason"}


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """A printed table or figure. ``how`` has rows of four texts: what of it, command, where in the result, reached.

    ``panels`` are those of a figure (:mod:`scoring.reproduce.figures`). ``caption`` says in our words what the printed
    figure shows; a figure without one is not in the paper, and its name has no number.
    """

    paper: str
    name: str
    title: str
    how: tuple[tuple[str, str, str, str], ...]
    unit: str
    runs: Mapping[str, str]
    cells: tuple[PrintedCell, ...]
    panels: tuple[Mapping[str, Any], ...] = ()
    caption: str = ""

    @property
    def id(self) -> str:
        """The name on the command line, such as ``unstereo/table-5``."""
        return f"{self.paper}/{self.name}"


@cache
def paper(name: str) -> Mapping[str, Any]:
    """What ``PAPER.toml`` says."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file of the folder, in its own texts."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def printed_tables(target: str = "") -> tuple[PrintedTable, ...]:
    """The tables and figures of all papers, of a ``PAPER``, or one as ``PAPER/TABLE``.

    Raises
    ------
    ScoringError
        When there is no such paper or table.

    >>> [len(table.cells) for table in printed_tables("occugender/table-7")]
    [80]
    """
    # The figures of all papers are in one file, and follow the tables of their paper.
    figures = [figure for entry in paper("figures")["figure"] for figure in _by_model(entry)]
    every = []
    for name in PAPERS:
        for entry in paper(name).get("table", ()):
            every.append(_table(name, entry))
        for figure in figures:
            if figure["paper"] == name:
                every.append(_table(name, figure))
    tables = []
    for table in every:
        if target in ("", table.paper, table.id):
            tables.append(table)
    if not tables:
        names = list(PAPERS) + [table.id for table in every]
        meant = did_you_mean(target, names)
        raise ScoringError(f"There is no table {target!r}{meant}; give a paper of {', '.join(PAPERS)}, or PAPER/TABLE.")
    return tuple(tables)


def _by_model(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The entry of a figure, or one for each model of ``by_model`` with that model and the next number.

    >>> entry = {"name": "figure-5", "title": "JSD of {model}", "how": [["{name}"]], "by_model": ["gpt2", "opt"]}
    >>> [(figure["name"], figure["title"], figure["models"], figure["how"]) for figure in _by_model(entry)]
    [('figure-5', 'JSD of gpt2', ['gpt2'], [['figure-5']]), ('figure-6', 'JSD of opt', ['opt'], [['figure-6']])]
    """
    if "by_model" not in entry:
        yield entry
        return
    stem, _, first = entry["name"].rpartition("-")
    for number, model in enumerate(entry["by_model"], int(first)):
        name = f"{stem}-{number}"
        figure = dict(entry)
        figure["models"] = [model]
        figure["name"] = name
        for key in ("title", "caption", "reason"):
            if key in entry:
                figure[key] = entry[key].format(model=model, name=name)
        rows = []
        for row in entry["how"]:
            rows.append([text.format(model=model, name=name) for text in row])
        figure["how"] = rows
        yield figure


def _table(name: str, entry: Mapping[str, Any]) -> PrintedTable:
    """The table or figure of a paper that an entry describes, with its printed numbers where it has a CSV file."""
    cells: tuple[PrintedCell, ...] = ()
    if (FOLDER / f"{name}-{entry['name']}.csv").is_file():
        cells = tuple(_cells(name, entry))
    panels = []
    for panel in entry.get("panel", ()):
        # A panel has all that the entry has, and what it says itself counts first.
        panels.append({"kind": "dots", "unit": "", **entry, **panel})
    return PrintedTable(
        paper=name,
        name=entry["name"],
        title=entry["title"],
        how=tuple((part, command, where, reached) for part, command, where, reached in entry["how"]),
        unit=entry.get("unit", ""),
        runs=paper(name).get("runs", {}),
        cells=cells,
        panels=tuple(panels),
        caption=entry.get("caption", ""),
    )


def _cells(name: str, entry: Mapping[str, Any]) -> Iterator[PrintedCell]:
    """The printed numbers of a table, column by column; the first ``keys`` columns are labels of the rows."""
    rows = rows_of(f"{name}-{entry['name']}.csv")
    columns = list(rows[0])
    count = entry.get("keys", 1)
    keys = columns[:count]
    for column in columns[count:]:
        numbered_rows = [row for row in rows if _is_number(row[column])]
        # The digits of a column bound what rounding can explain.
        digits = max((len(row[column].partition(".")[2]) for row in numbered_rows), default=0)
        for row in numbered_rows:
            labels = {key: row[key] for key in keys}
            place, notes = _place(name, entry, labels, column)
            yield PrintedCell(place["row"], column, row[column], digits, place, notes)


def _is_number(text: str) -> bool:
    """Whether a cell has a number; a paper leaves others empty or prints a dash."""
    return text.strip("-") != ""


def _place(
    name: str, entry: Mapping[str, Any], labels: Mapping[str, str], column: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Where a number is in our results, and notes on it.

    The terms of a label add to the place of the table, later ones over earlier ones; then texts such as
    ``{style}{debias}, {jobs} jobs`` are filled with the other parts.
    """
    terms = paper(name).get("terms", {}) | entry.get("terms", {})
    row = ", ".join(labels.values())
    place: dict[str, Any] = dict(labels)
    place["row"] = row
    place["column"] = column
    place.update(paper(name).get("spec", {}))
    place.update(entry.get("spec", {}))
    if "source" in entry:
        place["source"] = entry["source"]
    # The reason of a figure says what its drawing needs.
    if "reason" in entry and "panel" not in entry:
        place["reason"] = entry["reason"]
    notes: dict[str, None] = {}
    if "note" in entry:
        notes[entry["note"]] = None
    # A label is one term, or several that are joined, such as a data set and a threshold.
    pieces = []
    for label, separator in ((row, ", "), (column, "_")):
        if label in terms:
            pieces.append(label)
        else:
            pieces += label.split(separator)
    for piece in pieces:
        for key, value in terms.get(piece, {}).items():
            if key == "note":
                notes[value] = None
            else:
                place[key] = value
    for key in place:
        # A text may name another field that itself names one, so it is filled until no brace is left.
        while isinstance(place[key], str) and "{" in place[key] and "reason" not in place:
            place[key] = place[key].format_map(place)
    return place, tuple(notes)
