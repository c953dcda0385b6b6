"""A page that compares models: ``python -m cards.leaderboard RUN… --out leaderboard.html``.

It is made from runs of scoring and from ``.eval_results``, and needs nothing outside itself.
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
from cards.eval_results import FOLDER, Noted, noted, parsed
from cards.evaluation import headlines
from cards.files import put
from cards.text import CardError, refuse_secrets, template


@dataclass(frozen=True, slots=True)
class Line:
    """The score of a model on a task.

    ``told`` has its metric, interval and setting, ``remark`` what to know of it, and ``reading`` how to read
    the metric, where a run says so.
    """

    model: str
    dataset: str
    task: str
    value: float
    told: Noted
    remark: str = ""
    reading: str = ""

    @property
    def interval(self) -> str:
        """The interval for people; nothing where there is none."""
        return f"{results.shown(self.told.low)} to {results.shown(self.told.high)}" if self.bounded else ""

    @property
    def bounded(self) -> bool:
        """Whether it has an interval."""
        return math.isfinite(self.told.low) and math.isfinite(self.told.high)

    @property
    def distance(self) -> float:
        """How far it is from the ideal; the value itself where there is no ideal."""
        return self.value if self.told.ideal is None else abs(self.value - self.told.ideal)


@dataclass(frozen=True, slots=True)
class Board:
    """The scores of one metric of one task, best first, and the range that they are shown on."""

    dataset: str
    task: str
    metric: str
    ideal: float | None
    lines: list[Line]
    low: float
    high: float

    @property
    def reading(self) -> str:
        """How to read the metric, as the first run that says so puts it."""
        return next((each.reading for each in self.lines if each.reading), "")

    def place(self, value: float) -> float:
        """Where a value stands, in percent of the range."""
        width = self.high - self.low
        return round(100 * (value - self.low) / width, 2) if width else 50.0


def lines(place: Path) -> Iterator[Line]:
    """The scores in the folder of a run, or of a model with ``.eval_results``, or in that folder itself.

    Raises
    ------
    CardError
        When there are none, or a file is not what it should be.
    """
    folder = place if place.name == FOLDER else place / FOLDER
    yield from _published(folder) if folder.is_dir() else _scored(results.read(place))


def _scored(run: results.Run) -> Iterator[Line]:
    partial = {name.rpartition("/")[0] for name, told in run.data.items() if ", " in told}
    for benchmark in dict.fromkeys(score.benchmark for score in run.scores if score.benchmark in run.headlines):
        dataset = run.headlines[benchmark].dataset
        for config, _, score in headlines(run, benchmark):
            if math.isfinite(score.value):
                told = Noted(score.metric, score.low, score.high, score.n, score.ideal, run.setting)
                remark = "only a part of the rows" if f"{dataset}/{config}" in partial else ""
                yield Line(run.name, dataset, config, score.value, told, remark, score.reading)


def _published(folder: Path) -> Iterator[Line]:
    files = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    if not files:
        raise CardError(f"{folder} has no results; give the folder of a run, or of a model with {FOLDER}.")
    for file in files:
        try:
            entries = parsed(file.read_text(encoding="utf-8"), str(file))
        except UnicodeDecodeError:
            raise CardError(f"{file} is not UTF-8 text; mend it first.") from None
        for entry in entries:
            if isinstance(entry.value, bool) or not isinstance(entry.value, (int, float)):
                raise CardError(f"{file} has the value {entry.value!r:.40} for {entry.task_id}; give a number.")
            told = noted(entry.notes) or Noted("value", math.nan, math.nan, 0, None, entry.notes or "")
            dataset = str(entry.dataset_id).rpartition("/")[2]
            yield Line(folder.resolve().parent.name, dataset, str(entry.task_id), float(entry.value), told)


def boards(found: Iterable[Line]) -> list[Board]:
    """The lines by data set, task and metric, nearest to the ideal first."""
    groups: dict[tuple[str, str, str], list[Line]] = {}
    for line in found:
        groups.setdefault((line.dataset, line.task, line.told.metric), []).append(line)
    return [_board(key, groups[key]) for key in sorted(groups)]


def _board(key: tuple[str, str, str], own: list[Line]) -> Board:
    ideal = own[0].told.ideal
    numbers = [n for each in own for n in (each.value, each.told.low, each.told.high, ideal) if n is not None]
    finite = [number for number in numbers if math.isfinite(number)]
    return Board(*key, ideal, sorted(own, key=lambda each: (each.distance, each.model)), min(finite), max(finite))


def page(found: list[Board]) -> str:
    """The text of the page."""
    models = {line.model for board in found for line in board.lines}
    return template("leaderboard.html.j2", html=True).render(boards=found, models=len(models), shown=results.shown)


def main(
    places: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or of models with .eval_results.")
    ],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("leaderboard.html"),
) -> None:
    """Make a page that compares models, from any number of runs and published results."""
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    try:
        found = boards(line for place in places for line in lines(place))
        if not found:
            raise CardError("None of these has a score of a published task; score models with python -m scoring.")
        content = page(found).encode()
        refuse_secrets({out.name: content})
        put(out, content)
        console.print(f"Written: {out}", markup=False, highlight=False)
    except CardError as error:
        errors.print(f"error: {error}", markup=False, highlight=False)
        raise typer.Exit(1) from None
    except OSError as error:
        told = f"{error.filename or out} cannot be used ({error.strerror or type(error).__name__})"
        errors.print(f"error: {told}; name a file that can be written.", markup=False, highlight=False)
        raise typer.Exit(1) from None


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)

if __name__ == "__main__":
    start(app, "python -m cards.leaderboard")
