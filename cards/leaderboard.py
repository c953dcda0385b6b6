"""Renders a page that compares models: ``python -m cards.leaderboard RUN… --out leaderboard.html``.

The input is runs of scoring and ``.eval_results``. The page loads nothing from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cards import results
from cards.command import start
from cards.eval_results import FOLDER, Notes, parse_entries, parse_notes
from cards.evaluation import headline_scores
from cards.files import put
from cards.text import CardError, refuse_secrets, template


@dataclass(frozen=True, slots=True)
class Entry:
    """The score of a model on a task.

    ``notes`` has its metric, interval and setting, ``remark`` a restriction such as a part of the rows, and
    ``reading`` how to read the metric, which only a run says.
    """

    model: str
    dataset: str
    task: str
    value: float
    notes: Notes
    remark: str = ""
    reading: str = ""

    @property
    def interval(self) -> str:
        """The interval as text; empty when there is none."""
        low, high = map(results.four_digits, (self.notes.low, self.notes.high))
        return f"{low} to {high}" if self.has_interval else ""

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the interval are known."""
        return math.isfinite(self.notes.low) and math.isfinite(self.notes.high)

    @property
    def distance(self) -> float:
        """The distance from the ideal; the value itself when there is no ideal."""
        return self.value if self.notes.ideal is None else abs(self.value - self.notes.ideal)


@dataclass(frozen=True, slots=True)
class TaskTable:
    """The scores of all models by one metric of one task, best first, and the range of the plot."""

    dataset: str
    task: str
    metric: str
    ideal: float | None
    entries: list[Entry]
    low: float
    high: float

    @property
    def reading(self) -> str:
        """How to read the metric; empty when no run says it."""
        return next((entry.reading for entry in self.entries if entry.reading), "")

    def percent(self, value: float) -> float:
        """The position of a value on the plot, in percent of the range."""
        width = self.high - self.low
        return round(100 * (value - self.low) / width, 2) if width else 50.0


def entries_of(path: Path) -> Iterator[Entry]:
    """The scores of a run, or of a model with ``.eval_results``; the path may also be that folder itself.

    Raises
    ------
    CardError
        When there are no scores, or a file cannot be read.
    """
    folder = path if path.name == FOLDER else path / FOLDER
    yield from _published_entries(folder) if folder.is_dir() else _run_entries(results.read(path))


def _run_entries(run: results.Run) -> Iterator[Entry]:
    partial = {name.rpartition("/")[0] for name, version in run.data.items() if ", " in version}
    for benchmark in dict.fromkeys(score.benchmark for score in run.estimates if score.benchmark in run.headlines):
        dataset = run.headlines[benchmark].dataset
        for config, _, score in headline_scores(run, benchmark):
            if math.isfinite(score.value):
                notes = Notes(score.metric, score.low, score.high, score.n, score.ideal, run.setting)
                remark = "only a part of the rows" if f"{dataset}/{config}" in partial else ""
                yield Entry(run.name, dataset, config, score.value, notes, remark, score.reading)


def _published_entries(folder: Path) -> Iterator[Entry]:
    files = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    if not files:
        raise CardError(f"{folder} has no results; give the folder of a run, or of a model with {FOLDER}.")
    for file in files:
        try:
            entries = parse_entries(file.read_text(encoding="utf-8"), str(file))
        except UnicodeDecodeError:
            raise CardError(f"{file} is not UTF-8 text; correct it first.") from None
        for entry in entries:
            if isinstance(entry.value, bool) or not isinstance(entry.value, (int, float)):
                raise CardError(f"{file} has the value {entry.value!r:.40} for {entry.task_id}; give a number.")
            notes = parse_notes(entry.notes) or Notes("value", math.nan, math.nan, 0, None, entry.notes or "")
            dataset = str(entry.dataset_id).rpartition("/")[2]
            yield Entry(folder.resolve().parent.name, dataset, str(entry.task_id), float(entry.value), notes)


def task_tables(entries: Iterable[Entry]) -> list[TaskTable]:
    """The entries by data set, task and metric, nearest to the ideal first."""
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.dataset, entry.task, entry.notes.metric), []).append(entry)
    return [_task_table(key, groups[key]) for key in sorted(groups)]


def _task_table(key: tuple[str, str, str], entries: list[Entry]) -> TaskTable:
    ideal = entries[0].notes.ideal
    numbers = [n for entry in entries for n in (entry.value, entry.notes.low, entry.notes.high, ideal) if n is not None]
    finite = [number for number in numbers if math.isfinite(number)]
    ordered = sorted(entries, key=lambda entry: (entry.distance, entry.model))
    return TaskTable(*key, ideal, ordered, min(finite), max(finite))


def page(tables: list[TaskTable]) -> str:
    """The HTML of the page."""
    models = {entry.model for table in tables for entry in table.entries}
    return template("leaderboard.html.j2", html=True).render(
        tables=tables, models=len(models), four_digits=results.four_digits
    )


def main(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or of models with .eval_results.")
    ],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("leaderboard.html"),
) -> None:
    """Make a page that compares models, from any number of runs and published results."""
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    try:
        tables = task_tables(entry for path in paths for entry in entries_of(path))
        if not tables:
            raise CardError("None of these has a score of a published task; score models with python -m scoring.")
        content = page(tables).encode()
        refuse_secrets({out.name: content})
        put(out, content)
        console.print(f"Written: {out}", markup=False, highlight=False)
    except CardError as error:
        errors.print(f"error: {error}", markup=False, highlight=False)
        raise typer.Exit(1) from None
    except OSError as error:
        problem = f"{error.filename or out} cannot be used ({error.strerror or type(error).__name__})"
        errors.print(f"error: {problem}; name a file that can be written.", markup=False, highlight=False)
        raise typer.Exit(1) from None


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)

if __name__ == "__main__":
    start(app, "python -m cards.leaderboard")
