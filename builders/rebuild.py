"""Rebuilds the data sets: ``probes build [NAME…]``."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from builders import datasets
from builders.builder import BuildResult, Profile, build_datasets
from builders.check import check as check_datasets
from builders.check import diff as diff_datasets
from builders.dataset import BuildError
from builders.sources.fetch import Fetcher, default_cache, default_mirror
from cards.common.options import ended, single, start
from cards.common.progress import Progress
from cards.common.terminal import text_table
from cards.common.text import split_list

#: In the reason of a config that was left out because a Python package is missing.
PACKAGE = "the package"


def print_results(console: Console, results: Sequence[BuildResult], offline: bool) -> None:
    """Prints every split with its rows and hash, then the reasons of drops and of configs that were left out.

    With ``offline`` most sources are expected to be missing, so configs without their sources are only named.
    """
    rows, drops, left_out = [], [], []
    for result in results:
        rows.append([result.name])
        configs = result.manifest.configs if result.manifest else {}
        for config, entry in configs.items():
            state = "built" if config in result.built else "unchanged"
            for name, split in entry.splits.items():
                dropped = sum(split.dropped.values())
                count = f"{dropped:,}" if dropped else ""
                rows.append([f"  {config}", name, f"{split.rows:,}", split.sha256[:12], count, state])
                for reason, number in split.dropped.items():
                    drops.append(f"dropped: {result.name} {config} {name}: {number:,} x {reason}")
        without_source = []
        by_reason: dict[str, list[str]] = {}
        for config, reason in result.left_out.items():
            if offline and PACKAGE not in reason:
                without_source.append(config)
            else:
                by_reason.setdefault(reason, []).append(config)
        if without_source:
            left_out.append(f"left out: {result.name}: {', '.join(without_source)}")
        for reason, names in by_reason.items():
            left_out.append(f"left out: {result.name} {', '.join(names)}: {reason}")
    console.print(text_table(["config", "split", "rows", "sha256", "dropped", "state"], rows), soft_wrap=False)
    for line in drops + left_out:
        console.print(line)


def main(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help=f"Data sets: {', '.join(datasets.names())}.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder with one folder for each data set.")] = Path("output"),
    mirror: Annotated[
        Path | None, typer.Option(help="Folder with the source files as HOST/PATH.", envvar="PROBES_MIRROR")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Use no network; leave out configs without mirrored or cached sources.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; compare the folders in --out row by row.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Write nothing; print each row that a build would change in --out.")
    ] = False,
    shares: Annotated[
        Path | None,
        typer.Option(help="For occugender: a CSV of another labour market, columns job and women (in percent)."),
    ] = None,
    profile: Annotated[Profile, typer.Option(help="Published definitions (paper), our own (clean), or all.")] = (
        Profile.all
    ),
    include: Annotated[
        list[Path] | None,
        typer.Option(help="Python file that defines DATASET, a data set outside the project; may be repeated."),
    ] = None,
) -> None:
    """Rebuild the data sets from pinned sources into OUT, one folder for each, ready for load_dataset.

    Exit status: 0 when all requested configs are built (with --offline also when configs were left out);
    1 when a source changed, a row is wrong or --check or --diff found a difference; 2 when sources are not available.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # for terminals without Unicode
    console = Console(markup=False, highlight=False, soft_wrap=True)
    errors = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
    interrupted = "each data set is as it was, or complete and new"
    with ended(errors, BuildError, interrupted=interrupted), ExitStack() as stack:
        for path in include or ():
            datasets.include(path)
        names = split_list(",".join(names or [])) or list(datasets.names())
        if shares:
            if names != ["occugender"]:
                raise BuildError("--shares is of occugender alone; name it, and give another --out than for the rest.")
            from builders.datasets.occugender import labour_market

            datasets.REGISTRY.included["occugender"] = labour_market(shares), shares
            stack.callback(datasets.REGISTRY.included.pop, "occugender")
        for name in names:
            datasets.get(name)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        # On the error stream, so that the output holds only the table and can be compared.
        with Progress(*columns, console=errors, transient=True) as progress:
            fetcher = Fetcher(default_cache(), mirror or default_mirror(), offline, progress)
            if diff:
                lines = list(diff_datasets(names, fetcher, out, progress))
            elif check:
                wrong, remarks = check_datasets(names, fetcher, out, progress)
            else:
                results = build_datasets(names, fetcher, out, profile, progress)
        for note in fetcher.notes:
            errors.print(note)
        if diff:
            for line in lines or ["No row differs."]:
                console.print(line)
            raise typer.Exit(1 if lines else 0)
        if check:
            for sentence in remarks + wrong:
                console.print(sentence)
            console.print(f"{len(wrong)} differences in {', '.join(names)}.")
            raise typer.Exit(1 if wrong else 0)
        print_results(console, results, offline)
        left_out: list[str] = []
        for result in results:
            left_out.extend(result.left_out.values())
        if left_out:
            advice = ""
            # A package that is not installed is named in its own line, and no source would help.
            if offline and any(PACKAGE not in reason for reason in left_out):
                advice = (
                    ": run without --offline, or give --mirror DIR, a folder with the files of sources.toml as "
                    "HOST/PATH"
                )
            errors.print(f"Left out: {len(left_out)} configs{advice}.")
        console.print(f"The data sets are in {out}.")
        # Offline, sources are expected to be missing, unless nothing of a data set named by the user could be built.
        named_but_missing = len(names) < len(datasets.names()) and any(result.manifest is None for result in results)
        if named_but_missing or (left_out and not offline):
            raise typer.Exit(2)
        raise typer.Exit(0)


app = single(main)

if __name__ == "__main__":
    start(app, "python -m builders.rebuild")
