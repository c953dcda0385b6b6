"""The printed tables of the papers, from ``scoring/data/printed``.

``PAPER.toml`` says for each table of a paper what it is and where its numbers are in our results, and
``PAPER-TABLE.csv`` has the numbers as printed. The place of a number follows from its labels: the row
``STS-B, Original`` and the column ``LLaMA2-7B_GAS`` consist of four terms, each of which adds a part, such as the model
or the metric, to what holds for the whole table. Figures and tables without numbers have no CSV file; ``figures.toml``
says what the figures show.
"""

import csv
import re
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

    A figure of several that are one entry is found by its own number too, ``figure-3`` as ``figures-1-4``.

    Raises
    ------
    ScoringError
        When there is no such paper or table.

    >>> [len(table.cells) for table in printed_tables("occugender/table-7")]
    [80]
    """
    figures = [one for entry in paper("figures")["figure"] for one in _by_model(entry)]
    every = [
        _table(name, entry)
        for name in PAPERS
        for entry in (*paper(name).get("table", ()), *(figure for figure in figures if figure["paper"] == name))
    ]
    found = tuple(table for table in every if target in ("", table.paper, table.id, *_numbered(table)))
    if not found:
        meant = did_you_mean(target, [*PAPERS, *(table.id for table in every)])
        raise ScoringError(f"There is no table {target!r}{meant}; give a paper of {', '.join(PAPERS)}, or PAPER/TABLE.")
    return found


def _by_model(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The entry of a figure, or one for each model of ``by_model`` with that model and the next number.

    >>> entry = {"name": "figure-5", "title": "JSD of {model}", "how": [["{name}"]], "by_model": ["gpt2", "opt"]}
    >>> [(one["name"], one["title"], one["models"], one["how"]) for one in _by_model(entry)]
    [('figure-5', 'JSD of gpt2', ['gpt2'], [['figure-5']]), ('figure-6', 'JSD of opt', ['opt'], [['figure-6']])]
    """
    if "by_model" not in entry:
        yield entry
        return
    stem, _, first = entry["name"].rpartition("-")
    for number, model in enumerate(entry["by_model"], int(first)):
        name = f"{stem}-{number}"
        made = dict(entry) | {"models": [model]}
        for key in ("title", "caption", "reason"):
            if key in entry:
                made[key] = entry[key].format(model=model, name=name)
        made["how"] = [[text.format(model=model, name=name) for text in row] for row in entry["how"]]
        made["name"] = name
        yield made


def _numbered(table: PrintedTable) -> Iterator[str]:
    """The name of each figure of an entry that has several."""
    if ends := re.fullmatch(r"figures-(\d+)-(\d+)", table.name):
        yield from (f"{table.paper}/figure-{n}" for n in range(int(ends[1]), int(ends[2]) + 1))


def _table(name: str, entry: Mapping[str, Any]) -> PrintedTable:
    runs = paper(name).get("runs", {})
    how = tuple((of, command, where, reached) for of, command, where, reached in entry["how"])
    cells = tuple(_cells(name, entry)) if (FOLDER / f"{name}-{entry['name']}.csv").is_file() else ()
    panels = tuple({"kind": "dots", "unit": "", **entry, **panel} for panel in entry.get("panel", ()))
    unit, caption = entry.get("unit", ""), entry.get("caption", "")
    return PrintedTable(name, entry["name"], entry["title"], how, unit, runs, cells, panels, caption)


def _cells(name: str, entry: Mapping[str, Any]) -> Iterator[PrintedCell]:
    rows = rows_of(f"{name}-{entry['name']}.csv")
    keys = list(rows[0])[: entry.get("keys", 1)]
    for column in rows[0]:
        texts = [row[column] for row in rows if _is_number(row[column])]
        # The digits of a column bound what rounding can explain.
        digits = max((len(text.partition(".")[2]) for text in texts), default=0)
        for row in rows:
            if column not in keys and _is_number(row[column]):
                labels = {key: row[key] for key in keys}
                place, notes = _place(name, entry, labels, column)
                yield PrintedCell(place["row"], column, row[column], digits, place, notes)


def _is_number(text: str) -> bool:
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
    place: dict[str, Any] = {**labels, "row": row, "column": column}
    place |= {**paper(name).get("spec", {}), **entry.get("spec", {})}
    # The reason of a figure says what its drawing needs.
    own = ("source",) if "panel" in entry else ("source", "reason")
    place |= {key: entry[key] for key in own if key in entry}
    notes = [entry["note"]] if "note" in entry else []
    for label, separator in ((row, ", "), (column, "_")):
        # A label is one term, or several that are joined, such as a data set and a threshold.
        for piece in [label] if label in terms else label.split(separator):
            found = dict(terms.get(piece, {}))
            notes += [found.pop("note")] if "note" in found else []
            place |= found
    for key, value in place.items():
        # A text may name another field that itself names one, so it is filled until no brace is left.
        while isinstance(place[key], str) and "{" in place[key] and "reason" not in place:
            place[key] = value = value.format_map(place)
    return place, tuple(dict.fromkeys(notes))
