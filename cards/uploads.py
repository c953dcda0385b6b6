"""Results of others: what a page takes from them, and what from this project.

Whoever uploads a run can write any number into it, with a right checksum. So the ideal value and the range of a score
are those that this project declares (``data/declared.json``), impossible values are refused, and a run without the
examples that its scores were computed from is shown as reported by its owner.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cards.files import file_sha256
from cards.matrix import Cell
from cards.results import Estimate, Report, check_names, check_numbers
from cards.text import CardError

DECLARED = Path(__file__).parent / "data" / "declared.json"


class Declared(NamedTuple):
    """What this project declares of a metric: its ideal value, and the ends of its range."""

    ideal: float | None
    least: float
    most: float


@cache
def declared() -> Mapping[tuple[str, str], Declared]:
    """What is declared, by benchmark and metric, and also by data set and metric."""
    scores: dict[tuple[str, str], Declared] = {}
    for entry in json.loads(DECLARED.read_text(encoding="utf-8")):
        of_metric = Declared(entry["ideal"], float(entry["least"]), float(entry["most"]))
        for name in filter(None, (entry["benchmark"], entry["dataset"])):
            scores.setdefault((name, entry["metric"]), of_metric)
    return scores


def checked_run(run: Report, folder: Path) -> tuple[Report, frozenset[str]]:
    """A run with the ideal values and ranges of this project, and the benchmarks that nobody but its owner can check.

    Parameters
    ----------
    folder:
        Where the files with the examples are.

    Raises
    ------
    CardError
        When a score has an ideal value of its own, or counts more examples than there are.
    """
    numbers = {benchmark: _rows(run.examples.get(benchmark), folder) for benchmark in run.benchmarks}
    rows = {benchmark: number for benchmark, number in numbers.items() if number is not None}
    datasets = {benchmark: headline.dataset for benchmark, headline in run.headlines.items()}
    estimates = tuple(
        _checked(score, datasets.get(score.benchmark, ""), rows.get(score.benchmark)) for score in run.estimates
    )
    return replace(run, estimates=estimates), frozenset(numbers.keys() - rows.keys())


def _rows(about: Any, folder: Path) -> int | None:
    """The number of examples in a file that is as the results say; None where there is none."""
    if not isinstance(about, Mapping) or not isinstance(about.get("file"), str) or type(about.get("rows")) is not int:
        return None
    file = folder / about["file"]
    inside = folder.resolve() in file.resolve().parents
    whole = inside and file.is_file() and file_sha256(file) == about.get("sha256")
    return about["rows"] if whole else None


def _checked(score: Estimate, dataset: str, rows: int | None) -> Estimate:
    where = f"{score.benchmark}, {score.group}: {score.metric}"
    if rows is not None and score.n > rows:
        raise CardError(f"{where} is of {score.n} examples, and there are {rows}; these results are not shown.")
    # A benchmark of another name can have scores on the rows of a data set of this project.
    known = declared().get((score.benchmark, score.metric)) or declared().get((dataset, score.metric))
    if known is None:
        return score
    _check_ideal(where, score.ideal, known)
    return replace(score, ideal=known.ideal, least=known.least, most=known.most)


def checked_cell(cell: Cell, dataset: str, where: str) -> Cell:
    """A published score with the ideal value and range of this project; it is always one reported by its owner.

    Raises
    ------
    CardError
        When it has an ideal value of its own, or a number that cannot be.
    """
    check_names(where, (cell.metric, cell.setting, dataset))
    check_numbers(f"{where}: {cell.metric}", cell.numbers, cell.n)
    known = declared().get((dataset, cell.metric))
    if known is None:
        return replace(cell, reported=True)
    _check_ideal(f"{where}: {cell.metric}", cell.ideal, known)
    within = known.least <= cell.value <= known.most or math.isnan(cell.value)
    if not within:
        raise CardError(
            f"{where}: {cell.metric} is {cell.value:g}, and ranges from {known.least:g} to {known.most:g}; these "
            "results are not shown."
        )
    return replace(cell, ideal=known.ideal, least=known.least, most=known.most, reported=True)


def _check_ideal(where: str, given: float | None, known: Declared) -> None:
    same = given == known.ideal or (given is not None and known.ideal is not None and math.isclose(given, known.ideal))
    if not same:
        raise CardError(
            f"{where} is given the ideal value {given}, and this project declares {known.ideal}; these results are not "
            "shown."
        )
