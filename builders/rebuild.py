"""Rebuilds the data sets: ``python -m builders.rebuild [NAME…]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from builders import datasets
from builders.build import Profile, Result, rebuild
from builders.check import check
from builders.dataset import BuildError
from builders.sources.fetch import Fetcher, default_cache, default_mirror
from cards.command import start


def report(console: Console, results: Sequence[Result], offline: bool) -> None:
    """The closing table: every split with its rows and hash, then what was dropped or left out, and why.

    Offline there is one reason for all that was left out, so configs are only named.
    """
    table = Table("config", "split", "rows", "sha256", "dropped", "state", pad_edge=False, box=None)
    reasons, left_out = [], []
    for result in results:
        table.add_row(f"[bold]{result.name}[/bold]")
        for config, entry in (result.manifest.configs if result.manifest else {}).items():
            state = "built" if config in result.built else "unchanged"
            for split, made in entry.splits.items():
                dropped = sum(made.dropped.values())
                table.add_row(
                    f"  {config}", split, f"{made.rows:,}", made.sha256[:12], f"{dropped:,}" if dropped else "", state
                )
                reasons += [
                    f"dropped: {result.name} {config} {split}: {count:,} x {why}" for why, count in made.dropped.items()
                ]
        if result.left_out and offline:
            left_out.append(f"left out: {result.name}: {', '.join(result.left_out)}")
        else:
            left_out += [f"left out: {result.name} {config}: {reason}" for config, reason in result.left_out.items()]
    console.print(table)
    for line in (*reasons, *left_out):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def main(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help=f"Data sets: {', '.join(datasets.names())}.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder that gets one folder a data set.")] = Path("output"),
    mirror: Annotated[
        Path | None, typer.Option(help="Folder with the source files as HOST/PATH.", envvar="PROBES_MIRROR")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Use no network; leave out what is neither mirrored nor cached.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; prove the folders in --out row by row.")
    ] = False,
    profile: Annotated[Profile, typer.Option(help="Published definitions, our own, or all.")] = Profile.all,
) -> None:
    """Rebuild the data sets from pinned sources into OUT, one folder a data set, ready for load_dataset.

    Exit status: 0 when all that was asked for is there (with --offline also when configs were left out);
    1 when a source changed, a row is wrong or --check found a difference; 2 when sources could not be had.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without Unicode gets a mark
    console, errors = Console(), Console(stderr=True)
    try:
        code = _run(names or list(datasets.names()), out, mirror, offline, check, profile, console, errors)
    except BuildError as error:
        errors.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        code = error.exit_code
    except KeyboardInterrupt:
        errors.print("Interrupted; the old output is as it was.")
        code = 130
    raise typer.Exit(code)


def _run(
    names: list[str],
    out: Path,
    mirror: Path | None,
    offline: bool,
    check_only: bool,
    profile: Profile,
    console: Console,
    errors: Console,
) -> int:
    for name in names:
        datasets.get(name)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        fetcher = Fetcher(default_cache(), mirror or default_mirror(), offline, progress)
        if check_only:
            wrong, remarks = check(names, fetcher, out, progress)
        else:
            results = rebuild(names, fetcher, out, profile, progress)
    for note in fetcher.notes:
        errors.print(note, markup=False, highlight=False, soft_wrap=True)
    if check_only:
        for sentence in (*remarks, *wrong):
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)
        console.print(f"{len(wrong)} differences in {', '.join(names)}.")
        return 1 if wrong else 0
    report(console, results, offline)
    left_out = sum(len(result.left_out) for result in results)
    missing = [result.name for result in results if result.manifest is None]
    if left_out:
        advice = ": run without --offline, or give --mirror DIR, a folder with the files of sources.toml as HOST/PATH"
        errors.print(f"Left out for want of sources: {left_out} configs{advice if offline else ''}.", soft_wrap=True)
    console.print(f"The data sets are in {out}.", soft_wrap=True)
    named_in_vain = bool(missing) and len(names) < len(datasets.names())
    return 2 if named_in_vain or (left_out and not offline) else 0


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)

if __name__ == "__main__":
    start(app, "python -m builders.rebuild")
