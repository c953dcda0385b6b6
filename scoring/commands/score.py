"""The command ``probes score MODEL``: its options, the call of :mod:`scoring.api`, and what is printed."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from cards.common.options import ended, single
from cards.common.sentences import say
from cards.common.terminal import show, terminal
from cards.common.text import redactor, split_list
from scoring import benchmarks
from scoring.catalogue import catalogue
from scoring.commands.compare import show_comparison
from scoring.inference.load_options import LoadOptions, ModelNames
from scoring.inference.parallel import Processes
from scoring.inputs import run_file
from scoring.options import OF_SEVERAL, RUN, ManyModels, Sampling, ServedOptions, Settings, Verbose
from scoring.report import read
from scoring.report.conditions import failed, holding, parsed
from scoring.report.context import next_steps
from scoring.report.headlines import few_examples
from scoring.report.numbers import few_texts
from scoring.report.summary import markdown
from scoring.report.terminal import details, speed, summary
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.asking.result import RunResult
    from scoring.inference.engines import Call, EngineKind

#: Options of which another value makes another folder by default, in the order of its name.
NAMING = ("profile", "prompt", "chat", "system", "adapter", "adapter_revision", "dtype", "quantize", "revision")


def default_folder(model: str, *settings: str) -> Path:
    """The default folder of a run: below ``runs``, with a name that is safe on every system.

    >>> default_folder("org/a model", "clean").as_posix(), default_folder("../x|y", "clean").as_posix()
    ('runs/a-model-clean-a229caf1', 'runs/x-y-clean-fe6e64f1')
    """
    # A separator that no setting has in it, so that other settings never make the same text.
    whole = "\x1f".join((model, *settings))
    mark = hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:8]
    last = re.split(r"[\\/]", model.rstrip("/\\"))[-1]
    name = last
    for setting in settings:
        if setting:
            name += f"-{setting}"
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    return Path("runs") / f"{safe.strip('-.')[:80]}-{mark}"


def show_run(result: RunResult, folder: Path, console: Console, *, verbose: bool = False) -> None:
    """Prints a summary of a run whose files are in a folder; with ``verbose`` every score."""
    report = result.report
    console.print(summary(report, console.width))
    if verbose:
        for name in result.validity:
            console.print()
            console.print(details(name, report))
    console.print()
    sentences = list(result.remarks)
    few = few_examples(report)
    if few:
        sentences.append(few)
    for table in result.tables.values():
        same = few_texts(table)
        if same:
            sentences.append(same)
    if report.speed:
        sentences.append(speed(report))
    if report.environment.get("batching"):
        sentences.append(report.environment["batching"])
    sentences.append(say("run.written", file=folder / "report.html"))
    # Commands are marked as code for pages, and a terminal shows them plainly.
    commands = " ".join(next_steps(report, str(folder))).replace("`", "")
    sentences.append(f"Next: {commands}")
    show(console, sentences)


def run_folder(call: Call, kind: EngineKind, values: Mapping[str, Any]) -> Path:
    """The folder of a run: ``--out``, or by default one for the model and the settings that make it another run."""
    name = kind.name(call)  # also with --out, because it refuses contradictions
    if call.settings.out:
        return call.settings.out
    settings = []
    for option in NAMING:
        value = values[option]
        if value is True:
            # A switch is named by its own name.
            value = option
        settings.append(value or "")
    # Last, so that runs without it keep the names of their folders.
    settings += kind.folder(call)
    if values["start"]:
        settings.append(f"start {values['start']}")
    # A name or a system text may have a token of the Hub in it.
    redact = redactor(os.environ)
    return default_folder(redact(name), *(redact(setting) for setting in settings))


def _of_file(file: Path) -> list[str]:
    """The models of a file of ``--models``."""
    from scoring.many.sweep import names

    if not file.is_file():
        raise ScoringError(f"There is no file {file}; give --models a text file with a model a line.")
    try:
        models = names(file.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError:
        raise ScoringError(f"{file} is not UTF-8 text; give a text file with a model a line.") from None
    if not models:
        raise ScoringError(f"{file} names no model; write one a line.")
    return models


def _score_all(
    models: Sequence[str], revisions: Sequence[str], values: Mapping[str, Any], console: Console, errors: Console
) -> None:
    """Scores several models and prints a line for each; those that failed are named again at the end.

    Raises
    ------
    SomeFailed
        When one of them could not be scored.
    """
    from scoring.inference.engines import Call
    from scoring.many.cluster import outcomes
    from scoring.many.sweep import SomeFailed, calls

    if not models:
        raise ScoringError("--revisions needs a model; name one.")
    call = Call.of(models[0], values)
    root = call.settings.out or Path("runs")
    every = calls(call, models, revisions, root)
    failed = []
    for number, outcome in enumerate(outcomes(every, root, errors), 1):
        if outcome.sentence:
            failed.append(outcome)
            remark = outcome.sentence
        elif outcome.known:
            remark = f"known, {outcome.folder}"
        else:
            remark = f"scored in {outcome.seconds:.0f} s, {outcome.folder}"
        console.print(f"{number}/{len(every)} {outcome.name}: {remark}", markup=False, highlight=False)
    if len(failed) < len(every):
        show(console, [f"Next: probes leaderboard {root}/*/ --out leaderboard.html"])
    if failed:
        # Only now, so that the others are scored and listed first; the reasons stand there.
        listed = ", ".join(f"{outcome.name} (exit status {outcome.status})" for outcome in failed)
        raise SomeFailed(f"{len(failed)} of {len(every)} models could not be scored: {listed}.")


def main(
    models: ModelNames = None,
    models_file: Annotated[
        Path | None,
        typer.Option("--models", metavar="FILE", rich_help_panel=RUN, help="File with NAME or NAME@REV on each line."),
    ] = None,
    revisions: Annotated[
        str, typer.Option(metavar="A,B", rich_help_panel=RUN, help="Score these revisions of each model.")
    ] = "",
    config: Annotated[  # noqa: ARG001  # its callback fills in the others
        Path | None,
        typer.Option(metavar="FILE", is_eager=True, callback=run_file.fill_in, help="Options from a run.yaml."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Show differences from RUN; MODEL may be a run too.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Print benchmarks and prompts, and stop.")] = False,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=RUN, help='Exit status 3 if true: "occugender.gap > 20".'),
    ] = None,
    verbose: Verbose = False,
    as_summary: Annotated[
        bool, typer.Option("--summary", rich_help_panel=RUN, help="Print only the summary, as Markdown.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", rich_help_panel=RUN, help="Print only the results, as JSON.")
    ] = False,
    **values: Any,
) -> None:
    """Score models and write reports with intervals.

    The same command continues an interrupted run. Exit status: 1 error, 2 data or
    option, 3 --fail-if holds, 4 some models failed.
    """
    # Under a launcher every process runs this function, and only the first one may print.
    processes = Processes.launched()
    quiet = not processes.first
    console, errors = terminal(160, quiet=quiet), Console(stderr=True, quiet=quiet)
    # With --json only the results file goes to standard output, so that it can be piped.
    if (as_json or as_summary) and not (listing or values["dry_run"]):
        console = errors
    with ended(errors, ScoringError):
        if listing:
            benchmarks.include(*values["include"])
            show(console, catalogue())
            return
        if compare and not (compare / "results.json").is_file():
            raise ScoringError(f"{compare} has no results.json to compare with; give --compare the folder of a run.")
        # A benchmark of an included file is not known yet.
        limits = [parsed(text, only_known=not values["include"]) for text in fail_if or ()]
        from scoring.inference.engines import Call, chosen

        named: list[str] = []
        for name in models or ():
            # A folder may have a comma in its name.
            whole = "," not in name or Path(name).exists()
            named += [name] if whole else [part.strip() for part in name.split(",") if part.strip()]
        if models_file:
            named += _of_file(models_file)
        cluster_options = [f"--{name}" for name in OF_SEVERAL if values[name]]
        # A file lists models, also where it names one: what reads the results finds a folder for each.
        if len(named) > 1 or models_file or revisions or (named and cluster_options):
            # These need one result at the end, and several models have one each.
            alone = {
                "--compare": compare,
                "--json": as_json,
                "--summary": as_summary,
                "--fail-if": fail_if,
                "--dry-run": values["dry_run"],
            }
            for option, value in alone.items():
                if value:
                    raise ScoringError(f"{option} is of one model; leave it out, or score the models one by one.")
            if processes.count > 1:
                raise ScoringError("Several models are scored by one process; start the command without a launcher.")
            _score_all(named, split_list(revisions), values, console, errors)
            return
        if cluster_options:
            raise ScoringError(f"{cluster_options[0]} needs models by name; name one, or give --models.")
        model = ""
        if named:
            model = named[0]
        call = Call.of(model, values).with_base()
        # The folder of an adapter names both the adapter and its base model.
        values |= {"adapter": call.loading.adapter, "revision": call.loading.revision}
        kind = chosen(call)
        if kind.remote and not processes.first:
            # One process asks the servers, which do the work.
            return
        folder = Path(model)
        # With --compare the model may be a stored run, which is not scored again.
        if not (compare and not kind.remote and (folder / "results.json").is_file()):
            from scoring.api import evaluated

            folder = run_folder(call, kind, values)
            call = replace(call, settings=replace(call.settings, out=folder))
            result = evaluated(call, console if values["dry_run"] else errors, processes)
            if values["dry_run"]:
                return
            show_run(result, folder, console, verbose=verbose)
        out = values["out"] or folder
        if compare:
            show_comparison(folder, compare, out, values["resamples"], console, verbose=verbose)
        if as_json and processes.first:
            file = out / "compare.json" if compare else folder / "results.json"
            typer.echo(file.read_text(encoding="utf-8"), nl=False)
        if as_summary and processes.first:
            typer.echo(markdown(read(folder)), nl=False)
        if limits and processes.first:
            # Last, so that all files are there when the exit status says that a condition holds.
            failed(holding(limits, read(folder)))


app = single(main, Settings, LoadOptions, Several_models=ManyModels, Inference_servers=ServedOptions, Chat_API=Sampling)
