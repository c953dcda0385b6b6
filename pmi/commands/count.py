"""``probes pmi count``: counts a corpus."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from cards.common.files import LOCK, locked, refuse_strays, strays
from cards.common.progress import Progress
from cards.common.terminal import show
from cards.common.text import without_home
from pmi.counting.corpus import Format, shards
from pmi.counting.counts import CountsSummary, absent_text, check_target, merge_files
from pmi.types import Boundary, TableError

if TYPE_CHECKING:
    from pmi.counting.local import Runner

#: Files of the folder of finished files: their tables, also unfinished ones, logs of a cluster, and the lock.
_PART = re.compile(rf"\.?[0-9a-f]{{64}}\.parquet(\.\w+)?|logs-[0-9a-f]{{12}}/.*|{re.escape(LOCK)}", re.DOTALL)

_EACH_LINE = (
    "Each line of a text file is a record, which no window crosses; with --format document a file is one record."
)


def main(
    corpus: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS...", help="Files, folders, globs or addresses (hf://datasets/ORG/NAME/FILE, s3://…)."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The counts, as Parquet.")] = Path("counts.parquet"),
    window: Annotated[int, typer.Option(min=1, help="The largest distance of two words that co-occur.")] = 10,
    words: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of gendered words, instead of the default list.")
    ] = None,
    stop: Annotated[
        str, typer.Option("--stop-words", metavar="NAME|FILE", help="clean, nltk, none, or a file of words.")
    ] = "clean",
    boundary: Annotated[Boundary, typer.Option(help="What a window does not cross.")] = "record",
    name: Annotated[str, typer.Option(help="The name of the corpus in the table.")] = "",
    field: Annotated[str, typer.Option(help="The field with the text, in JSON lines and Parquet.")] = "text",
    form: Annotated[
        Format | None,
        typer.Option("--format", help="The format of all files: text has a record a line, a document is one record."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of processes; by default one per core.")] = None,
    engine: Annotated[
        Literal["local", "ray", "slurm"], typer.Option(help="Count on this machine or on a cluster.")
    ] = "local",
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Options of a cluster: memory (GB), workers, tries, time, partition; address of Ray; any other is "
            "passed to sbatch. May be repeated.",
        ),
    ] = None,
    max_window: Annotated[
        int,
        typer.Option(
            min=1, max=2048, metavar="MB", help="The largest window of a zstd frame; zstd --long=N needs 2^(N-20)."
        ),
    ] = 128,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Stop at what cannot be read or is not UTF-8, instead of reporting it."),
    ] = False,
) -> None:
    """Count every word of CORPUS, and its co-occurrence with gendered words, in one pass.

    The tables of finished files are kept in FILE.parts until all files are finished, so an interrupted count
    continues when the same command is given again. Exit status: 1 for an error, 75 when a job was submitted
    to Slurm, 130 for an interruption.
    """
    # Before numba is imported, which takes half a second.
    files = shards(corpus, form)
    from pmi.counting.local import GENDERED_WORDS, CountingJob, count_parts, rule_of

    errors = Console(stderr=True)
    work_folder = out.with_name(f"{out.name}.parts")
    check_target(out)
    parts = [file for file in strays(work_folder, ()) if _PART.fullmatch(file)]
    refuse_strays(work_folder, parts, TableError)
    gendered = _read_words(words) if words else GENDERED_WORDS
    stopped = _read_words(Path(stop)) if Path(stop).suffix else stop
    rule = rule_of(name or without_home(", ".join(corpus)), gendered, window, stopped, boundary)
    progress = Progress(
        TextColumn("counting"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
    )
    with progress as bar, locked(work_folder, TableError):
        task = bar.add_task("counting", total=None)
        job = CountingJob(rule, work_folder, field, strict, max_window << 20)
        runner = _cluster_runner(engine, cluster or [])

        def show_progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        summary = merge_files(count_parts(corpus, job, form, jobs, runner, show_progress), out)
    # Somebody may have put a file of their own there in the meantime.
    if all(_PART.fullmatch(file) for file in strays(work_folder, ())):
        shutil.rmtree(work_folder)
    show(errors, summary.totals.losses)
    show(Console(), [_summary_text(summary, out)])
    if any(shard.format == "text" for shard in files):
        show(Console(), [_EACH_LINE])


def _cluster_runner(engine: str, options: list[str]) -> Runner | None:
    """A runner for a cluster; None for this machine."""
    if engine == "local":
        if options:
            raise TableError(f"{options[0]!r} is for a cluster; name one by --engine ray or slurm.")
        return None
    from pmi.counting.cluster import runner

    return runner(engine, options)


def _read_words(path: Path) -> tuple[str, ...]:
    """The words of a file, separated by white space; a # begins a comment."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"The words in {path} cannot be read ({error}); give a text file in UTF-8.") from None
    words: dict[str, None] = {}
    for line in lines:
        for word in line.partition("#")[0].split():
            words[word.lower()] = None
    if not words:
        raise TableError(f"{path} has no word; give a file with at least one.")
    return tuple(words)


def _summary_text(summary: CountsSummary, out: Path) -> str:
    """What was counted, in a few sentences."""
    totals = summary.totals
    text = (
        f"{summary.words:,} different words, {totals.words:,} word tokens, in {totals.documents:,} records of "
        f"{totals.bytes:,} bytes; the table is {out}."
    )
    if totals.invalid_bytes:
        text += f" {totals.invalid_bytes:,} bytes are not valid UTF-8."
    if totals.long_tokens:
        text += f" {totals.long_tokens:,} sequences of letters are too long for a word and were skipped."
    if summary.absent:
        text += f" {absent_text(summary.absent)}"
    return text
