"""``python -m pmi count``: a corpus becomes a table of counts."""

from __future__ import annotations

import shutil
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from pmi.counting.counts import Summary
from pmi.types import TableError

if TYPE_CHECKING:
    from pmi.counting.local import Runner


class Engine(StrEnum):
    """Where files are counted."""

    local = "local"
    ray = "ray"
    slurm = "slurm"


class Held(StrEnum):
    """What a file may hold."""

    text = "text"
    json = "json"
    parquet = "parquet"


class Crossed(StrEnum):
    """What windows may be kept from crossing."""

    record = "record"
    line = "line"
    none = "none"


def main(
    corpus: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS...", help="Files, folders, globs or addresses (hf://datasets/ORG/NAME/FILE, s3://…)."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The table, as Parquet.")] = Path("counts.parquet"),
    window: Annotated[int, typer.Option(min=1, help="Words to each side that are company.")] = 10,
    words: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Gendered words, where not the usual ones.")
    ] = None,
    stop: Annotated[
        str, typer.Option("--stop-words", metavar="NAME|FILE", help="clean, nltk, none, or a file of words.")
    ] = "clean",
    boundary: Annotated[Crossed, typer.Option(help="What no window crosses.")] = Crossed.record,
    name: Annotated[str, typer.Option(help="What the corpus is called in the table.")] = "",
    field: Annotated[str, typer.Option(help="The field with the text, in JSON lines and Parquet.")] = "text",
    form: Annotated[Held | None, typer.Option("--format", help="What files hold whose names do not tell.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one a core by default.")] = None,
    engine: Annotated[Engine, typer.Option(help="Count on this machine, or on those of a cluster.")] = Engine.local,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="What a task of a cluster is given: memory (GB), workers, tries, time, partition; address of Ray; any "
            "other goes to sbatch. May be repeated.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at what cannot be read or is no UTF-8, instead of telling of it.")
    ] = False,
) -> None:
    """Count every word of CORPUS, and every word near a gendered word, in one pass.

    What is finished is kept beside the table until all is, so that an interrupted count goes on when it is
    started again. Exit status: 1 when something cannot be done, 130 for an interruption.
    """
    from pmi.counting.counts import merge_files
    from pmi.counting.local import GENDERED, parts

    console, errors = Console(), Console(stderr=True)
    work = out.with_name(f"{out.name}.parts")
    columns = (TextColumn("counting"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task("counting", total=None)
        counting = parts(
            corpus,
            words=_words(words) if words else GENDERED,
            window=window,
            stop=_words(Path(stop)) if Path(stop).suffix else stop,
            boundary=boundary.value,
            name=name,
            field=field,
            format=form.value if form else None,
            strict=strict,
            jobs=jobs,
            run=_elsewhere(engine, cluster or []),
            work=work,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        with counting as tables:
            found = merge_files(tables, out)
    shutil.rmtree(work)
    for loss in found.totals.losses:
        errors.print(loss, markup=False, highlight=False, soft_wrap=True)
    console.print(_told(found, out), markup=False, highlight=False, soft_wrap=True)


def _elsewhere(engine: Engine, options: list[str]) -> Runner | None:
    """What counts on a cluster; nothing for this machine."""
    if engine is Engine.local:
        if options:
            raise TableError(f"{options[0]!r} is for a cluster; name one by --engine ray or slurm.")
        return None
    from pmi.counting.cluster import runner

    return runner(engine.value, options)


def _words(path: Path) -> tuple[str, ...]:
    """The words of a file, separated by white space; what follows a # is a remark."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"The words in {path} cannot be read ({error}); give a text file in UTF-8.") from None
    found = tuple(dict.fromkeys(word.lower() for line in lines for word in line.partition("#")[0].split()))
    if not found:
        raise TableError(f"{path} has no word; give a file with at least one.")
    return found


def _told(found: Summary, out: Path) -> str:
    """What was counted, in a sentence or two."""
    totals = found.totals
    told = (
        f"{found.words:,} words, {totals.words:,} times in all, in {totals.documents:,} records of "
        f"{totals.bytes:,} bytes; the table is {out}."
    )
    if totals.invalid_bytes:
        told += f" {totals.invalid_bytes:,} bytes are no UTF-8."
    if totals.long_runs:
        told += f" {totals.long_runs:,} runs of letters are too long for a word and were passed over."
    if found.never:
        told += f" Never seen: {', '.join(found.never)}."
    return told
