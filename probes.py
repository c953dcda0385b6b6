"""The command ``probes``: one command for everything that the ``python -m`` forms do.

A subcommand is imported when it is used, so each works without the packages that only others need.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import click
import typer
from rich.console import Console

from cards.common.options import NearestGroup, UsageError, start
from cards.common.packages import PACKAGE, extras, install_command, installed_version, missing_sentence


class Command(NamedTuple):
    """The module that has the Typer app of a subcommand, the extra it needs, and what it does."""

    module: str
    extra: str
    summary: str


COMMANDS = {
    "build": Command("builders.rebuild", "", "Build the data sets, or check built ones."),
    "score": Command("scoring.commands.score", "score", "Score a model on the benchmarks."),
    "rescore": Command("scoring.commands.rescore", "score", "Compute metrics from a file of existing scores."),
    "published": Command("scoring.commands.published", "score", "Make runs from responses that others published."),
    "reproduce": Command("scoring.commands.reproduce", "score", "Put printed numbers of the papers beside ours."),
    "compare": Command("scoring.commands.compare", "score", "Compare two runs over the same examples."),
    "power": Command("scoring.commands.power", "score", "Say the minimum detectable effects of a run (power 80 %)."),
    "export": Command("scoring.commands.export", "score", "Write the examples of a run for other packages."),
    "judge": Command("scoring.commands.judge", "score", "Have people judge texts, and read their answers."),
    "mitigate": Command("mitigation.__main__", "train", "Make a model less biased: an adapter or a prompt."),
    "publish": Command("mitigation.publish", "train", "Publish an adapter or a prompt on the Hub."),
    "pmi": Command("pmi.__main__", "pmi", "Count co-occurrence in a corpus, and analyse the counts."),
    "generate": Command("builders.generate", "generate", "Request new rows from a chat model, within a budget."),
    "push": Command("builders.push", "hub", "Publish data sets on the Hub."),
    "card": Command("scoring.commands.card", "", "Propose the scores of a run for a model page."),
    "leaderboard": Command("scoring.commands.leaderboard", "", "Make one page for many models."),
}

#: Subcommands of a command that another package has.
SUBCOMMANDS = {
    "pmi": {
        "compare-model": Command(
            "scoring.commands.corpus", "score", "Compare the counts of a corpus with a model's run."
        )
    },
}

#: What other programs call a command, with the name that it has here.
MEANT = {
    "benchmark": "score", "debias": "mitigate", "download": "build", "eval": "score", "evaluate": "score",
    "help": "--help", "merge": "mitigate merge", "report": "score", "run": "score", "train": "mitigate",
    "version": "--version",
}  # fmt: skip

#: The extra of the tests, which a user does not need.
DEVELOPMENT = "dev"


class LazyGroup(NearestGroup):
    """The subcommands of this module and those of :data:`COMMANDS`, which are imported when they are called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all subcommands."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A subcommand for the list in the help: its name and summary."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)

        def summary() -> None: ...

        summary.__doc__ = COMMANDS[cmd_name].summary
        single = typer.Typer(add_completion=False)
        single.command(cmd_name)(summary)
        return typer.main.get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The subcommand that the arguments name, imported."""
        if args[0] == "score":
            refuse_recipe(args[1:], ctx)
        if args[0] in COMMANDS:
            return args[0], imported(args[0]), args[1:]
        if args[0] in MEANT:
            raise UsageError(f"No command is called {args[0]!r} (did you mean {MEANT[args[0]]!r}?).", ctx)
        return super().resolve_command(ctx, args)


def refuse_recipe(words: Sequence[str], ctx: Any = None) -> None:
    """Refuses a recipe in the place of a model: the words after ``score`` up to the first option.

    >>> refuse_recipe(["gpt2", "--out", "fast"])
    """
    package = find_spec("mitigation")
    # By its file, because the packages that score do not import those that train.
    folder = Path(str(package.origin)).parent / "recipes" if package else Path()
    for word in takewhile(lambda word: not word.startswith(("-", "_")), words):
        if word.isidentifier() and (folder / f"{word}.py").is_file() and not Path(word).exists():
            raise UsageError(
                f"{word!r} is a recipe and no model; write probes mitigate {word} MODEL --out FOLDER.", ctx
            )


def _loaded(name: str, entry: Command) -> Any:
    """The command of an entry; a missing package ends the program with the line that installs it."""
    try:
        return typer.main.get_command(import_module(entry.module).app)
    except ModuleNotFoundError as error:
        print(f"error: {missing_sentence(f'probes {name}', error.name, entry.extra)}", file=sys.stderr)
        raise SystemExit(1) from None


def imported(name: str) -> Any:
    """The command of a subcommand, with the subcommands of its own."""
    command = _loaded(name, COMMANDS[name])
    command.name = name
    for subcommand, entry in SUBCOMMANDS.get(name, {}).items():
        command.add_command(_later(f"{name} {subcommand}", entry), subcommand)
    return command


def _later(name: str, entry: Command) -> click.Command:
    """A subcommand that is imported when it is called, with its own options and help."""

    @click.pass_context
    def call(context: click.Context, arguments: tuple[str, ...]) -> None:
        command = _loaded(name, entry)
        command.main(args=list(arguments), prog_name=context.command_path, standalone_mode=True)

    return click.Command(
        name.rpartition(" ")[2],
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        callback=call,
        help=entry.summary,
    )


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measure and reduce gender bias in language models. Each command has its own --help.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"{PACKAGE} {version(PACKAGE)}")
        except PackageNotFoundError:
            print(f"{PACKAGE}, not installed (source tree)")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options before the name of the command."""


@app.command("list")
def list_names() -> None:
    """List data sets, benchmarks, prompts, recipes and bundled models."""
    console = Console(soft_wrap=True, markup=False, highlight=False)
    for line in catalogue():
        console.print(line)


def catalogue() -> Iterator[str]:
    """The lines of ``probes list``."""
    from builders import datasets

    yield "Data sets (probes build):"
    yield from (f"  {name}" for name in datasets.names())
    try:
        from mitigation.summaries import summaries
        from scoring.catalogue import catalogue as benchmarks_and_prompts
        from scoring.inference.load_options import BUNDLED
    except ModuleNotFoundError as error:
        yield missing_sentence("The list of benchmarks and recipes", error.name, "score")
        return
    yield from benchmarks_and_prompts()
    yield "Recipes (probes mitigate):"
    recipes = summaries()
    width = max(map(len, recipes))
    yield from (f"  {name:{width}}  {summary}" for name, summary in recipes.items())
    yield "Models that come with the project (far too small for any claim):"
    yield from (f"  {name}" for name in BUNDLED)


@app.command()
def doctor(
    data: Annotated[Path, typer.Option(help="Folder of built data sets.")] = Path("output"),
) -> None:
    """Show what is installed and built, the device, and the command for each part that is missing."""
    console = Console(soft_wrap=True, markup=False, highlight=False)
    if data.is_file():
        raise typer.BadParameter(f"--data is the file {data}; give the folder that probes build --out wrote.")
    for line in (*packages(), *machine(), *built(data)):
        console.print(line)


def packages() -> Iterator[str]:
    """Lines with the version of this project and, per extra, the packages that are installed or missing."""
    yield f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    try:
        requirements_by_extra = extras()
    except PackageNotFoundError:
        yield f"{PACKAGE} is not installed, so its packages are not known. Install: {install_command('score')}"
        return
    for extra, requirements in requirements_by_extra.items():
        if extra == DEVELOPMENT:
            continue
        missing = []
        installed = []
        for requirement in requirements:
            found = installed_version(requirement)
            if found:
                installed.append(f"{requirement.name} {found}")
            else:
                missing.append(f"{requirement.name}{requirement.specifier}")
        if missing:
            yield f"[{extra}] missing: {', '.join(missing)}. Install: {install_command(extra)}"
        else:
            yield f"[{extra}] installed: {', '.join(installed)}"


def machine() -> Iterator[str]:
    """Lines with processor cores, memory, free disk space, and the GPUs that torch can use."""
    yield f"Processor: {os.cpu_count()} cores"
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        yield f"Memory: {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB"
    yield f"Free disk space here: {shutil.disk_usage('.').free / 2**30:.1f} GiB"
    if find_spec("torch") is None:
        return
    import torch

    count = torch.cuda.device_count()
    for index in range(count):
        properties = torch.cuda.get_device_properties(index)
        yield f"GPU {index}: {properties.name}, {properties.total_memory / 2**30:.1f} GiB"
    if not count:
        yield "GPU: none that torch can use; models run on the processor."


def built(data: Path) -> Iterator[str]:
    """Lines with the state of each data set in a folder, and the command that builds the missing ones."""
    from builders import datasets
    from builders.dataset import BuildError
    from builders.files.manifest import read_manifest

    lacking = []
    for name in datasets.names():
        try:
            manifest = read_manifest(data / name)
        except BuildError as error:
            yield f"Data set {name}: {error}"
            continue
        if manifest is None:
            lacking.append(name)
        else:
            yield f"Data set {name} {manifest.version}: {len(manifest.configs)} configs in {data / name}"
    if lacking:
        yield f"Data sets not in {data}: {', '.join(lacking)}. Build: probes build {' '.join(lacking)} --out {data}"
    if mirror := os.environ.get("PROBES_MIRROR"):
        there = "exists" if Path(mirror).is_dir() else "does not exist"
        yield f"Mirror of the sources (PROBES_MIRROR): {mirror}, which {there}"


def main() -> None:
    """Runs the subcommand that the arguments name."""
    start(app, "probes")


if __name__ == "__main__":
    main()
