"""The command ``probes published``: runs from responses of real models that others put on the web."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from cards.common.files import locked
from cards.common.numbers import counted
from cards.common.options import completing, ended, single
from cards.common.terminal import show, terminal, text_table
from cards.common.text import slug, split_list
from scoring import DATA, published, report
from scoring.asking.result import RunResult
from scoring.options import Resamples
from scoring.report.headlines import headline_scores
from scoring.statistics.stats import RESAMPLES
from scoring.types import ScoringError


def listed() -> Grid:
    """All sources: their benchmark, the number of models, and what they are."""
    rows = []
    for name in published.names():
        source = published.get(name)
        rows.append((name, source.benchmark, str(len(published.models(name))), source.summary))
    return text_table(["source", "benchmark", "models", "what"], rows, numbers=["models"])


def folder_of(out: Path, source: str, model: str) -> Path:
    """The folder of the run of a model.

    >>> folder_of(Path("runs"), "gest", "gpt2").as_posix()
    'runs/gest/gpt2'
    """
    return out / source / slug(model)


def chosen(source: str, models: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The sources and models that are asked for; all models of a source where none is named.

    Raises
    ------
    ScoringError
        When no source has a model of that name.
    """
    pairs = []
    for name in _sources(source):
        for model in published.models(name):
            if not models or model in models:
                pairs.append((name, model))
    # Without a source a model may be in some of the sources alone.
    known = {model for _, model in pairs}
    for model in models:
        if model not in known:
            where = f"{source} has" if source else "The sources have"
            raise ScoringError(f"{where} no model {model!r}; probes published SOURCE lists the models of a source.")
    # Only now, so that a wrong name is refused before the first model is read.
    yield from pairs


def _sources(source: str) -> Sequence[str]:
    """The source that is named, or all."""
    if source:
        return [source]
    return published.names()


def written(result: RunResult, folder: Path) -> None:
    """Writes the files of a run, unless the folder has a run of something else."""
    with locked(folder, ScoringError):
        # The folder may be of a run that the user made, which is not replaced.
        report.check_finished(folder, result.report)
        result.save(folder)


def line(model: str, result: RunResult) -> str:
    """A model with the number of its headline."""
    numbers = []
    for score in headline_scores(result.report):
        estimate, brief = score.estimate, score.scale.brief
        numbers.append(
            f"{estimate.short_name} {brief(estimate.value)} ({brief(estimate.low)} to {brief(estimate.high)})"
        )
    return f"{model}: {', '.join(numbers)}"


def main(
    source: Annotated[
        str,
        typer.Argument(
            metavar="[SOURCE]",
            help="A source; without one, all are listed.",
            # A function, because the sources are imported where they are completed.
            autocompletion=completing(lambda: published.names()),
        ),
    ] = "",
    model: Annotated[str, typer.Option(metavar="A,B", help="These models alone.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All models of all sources, or of SOURCE.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the runs: OUT/SOURCE/MODEL.")] = Path("runs/published"),
    data: Annotated[Path, typer.Option(help="Folder of the built data sets; missing ones are built.")] = Path(DATA),
    offline: Annotated[bool, typer.Option("--offline", help="Use no network: mirror and cache only.")] = False,
    resamples: Resamples = RESAMPLES,
) -> None:
    """Make runs from published responses of real models: metrics, intervals and pages, without a model.

    Without SOURCE, --model and --all: the list of sources; with SOURCE alone: its models. The command names a broken
    file and leaves it out. Exit status: 1 when it makes no run or a file is not available.
    """
    console, errors = terminal(160), Console(stderr=True)
    with ended(errors, ScoringError):
        models = split_list(model)
        if source:
            # An unknown source is refused before anything is built.
            published.get(source)
        if not models and not every:
            if source:
                show(console, published.models(source))
            else:
                console.print(listed())
            return
        # A monotonic clock, because the system's may be set while files are read.
        begin, made, left_out, failed = time.monotonic(), 0, 0, 0
        for name, chosen_model in chosen(source, models):
            try:
                result = published.score(name, chosen_model, data, resamples=resamples, offline=offline)
            except published.BrokenFileError as error:
                # A file that its authors broke stays broken, so it is no failure of this command.
                left_out += 1
                show(errors, [f"{name}, {chosen_model} is left out: {error}"])
                continue
            except published.UnavailableError as error:
                # The next try may have the file, so the exit status asks for one.
                failed += 1
                show(errors, [f"error: {error}"])
                continue
            written(result, folder_of(out, name, chosen_model))
            made += 1
            show(console, [line(f"{name}, {chosen_model}", result)])
        for name in _sources(source):
            show(errors, absences(name, models))
        seconds = time.monotonic() - begin
        summary = f"{counted(made, 'run')} in {out} ({seconds:.0f} s), {left_out} left out."
        show(console, [summary])
        if failed or not made:
            raise typer.Exit(1)


def absences(source: str, models: Sequence[str]) -> Iterator[str]:
    """Why models of a source are absent, of those that are asked for."""
    # A source may name models whose files it does not have.
    for model, reason in published.get(source).absent.items():
        if not models or model in models:
            yield f"{source}, {model} is absent: {reason}"


app = single(main)
