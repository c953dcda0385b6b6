"""The command ``python -m scoring MODEL``: options, one run, and what is printed."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cards.text import split_list
from scoring import DATA, benchmarks
from scoring.commands.compare import show_comparison
from scoring.commands.servers import ServedOptions, connect_to, served_as
from scoring.inference.load_options import LoadOptions
from scoring.inference.parallel import Processes, own_device
from scoring.report.clean import redactor
from scoring.report.terminal import catalogue, details, ended, speed, summary, tell
from scoring.statistics.stats import RESAMPLES
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.result import RunResult

SERVERS, CHAT_API = "Inference servers", "Chat API"


class Profile(StrEnum):
    """Definitions that a run follows."""

    clean = "clean"
    paper = "paper"


class Quantize(StrEnum):
    """Bits of quantized weights."""

    four = "4bit"
    eight = "8bit"


def default_folder(model: str, *settings: str) -> Path:
    """The default folder of a run: below ``runs``, with a name that is safe on every system.

    >>> default_folder("org/a model", "clean").as_posix(), default_folder("../x|y", "clean").as_posix()
    ('runs/a-model-clean-a229caf1', 'runs/x-y-clean-fe6e64f1')
    """
    whole = "\x1f".join((model, *settings))
    mark = hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:8]
    last = re.split(r"[\\/]", model.rstrip("/\\"))[-1]
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(filter(None, (last, *settings))))
    return Path("runs") / f"{safe.strip('-.')[:80]}-{mark}"


def show_run(result: RunResult, folder: Path, console: Console, *, verbose: bool = False) -> None:
    """Prints a summary of a run whose files are in a folder; with ``verbose`` every score."""
    console.print(summary(result.report, console.width))
    for name in result.validity if verbose else ():
        console.print()
        console.print(details(name, result.report))
    console.print()
    tell(
        console,
        [
            *result.remarks,
            speed(result.report),
            *filter(None, [result.report.environment.get("batching")]),
            f"The report is {folder / 'report.html'}; all numbers are in the same folder.",
        ],
    )


def main(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder or a name on the Hub; tiny-causal and tiny-masked come with the project. With --compare "
            "also the folder of a run.",
        ),
    ] = "",
    names: Annotated[
        str, typer.Option("--benchmarks", metavar="A,B", help="Benchmarks (see --list); all that suit by default.")
    ] = "",
    data: Annotated[
        str, typer.Option(metavar="FOLDER|ORG", help="Built data sets: a folder, or an organisation of the Hub.")
    ] = DATA,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; below runs by default.")] = None,
    profile: Annotated[Profile, typer.Option(help="Our own definitions, or the published ones.")] = Profile.clean,
    prompt: Annotated[
        str, typer.Option(metavar="NAME|FILE.json", help="How questions are put: a name (see --list) or a file.")
    ] = "plain",
    chat: Annotated[
        bool, typer.Option("--chat", help="Put each question through the model's chat template, as a user's turn.")
    ] = False,
    system: Annotated[str, typer.Option(metavar="TEXT", help="A system text before it, with --chat.")] = "",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a model on the Hub.")] = None,
    adapter: Annotated[str | None, typer.Option(help="A PEFT adapter, as a folder or a name on the Hub.")] = None,
    adapter_revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit of an adapter on the Hub.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, float16 or float64.")] = "auto",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …, or auto for all there are.")] = None,
    quantize: Annotated[Quantize | None, typer.Option(help="Load weights in 4 or 8 bits (bitsandbytes).")] = None,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="The most tokens of a batch.")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="float32, one sequence at a time: bit for bit repeatable, and slow.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Take so many rows of each split only.")] = None,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Cut texts longer than the context window, and mark their rows.")
    ] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model (pin its --revision).")
    ] = False,
    allow_pickle: Annotated[
        bool,
        typer.Option("--allow-pickle", help="Read pickled weights, which can run code, where there are no others."),
    ] = False,
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap resamples.")] = RESAMPLES,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Ask an inference server (vLLM, SGLang, llama-cpp-python) at this address, usually ending in /v1; "
            "repeat it to share the load between servers.",
            rich_help_panel=SERVERS,
        ),
    ] = None,
    model_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model's name there, if it serves several.", rich_help_panel=SERVERS),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The model's tokenizer: a folder or a name on the Hub; by default what the server tells.",
            rich_help_panel=SERVERS,
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Requests to one server at the same time.", rich_help_panel=SERVERS)
    ] = 4,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds to wait for a reply.", rich_help_panel=SERVERS)
    ] = 600.0,
    chat_api: Annotated[
        bool,
        typer.Option(
            "--chat-api",
            help="Sample answers in words from a chat API (--base-url, --model-name; the key in OPENAI_API_KEY).",
            rich_help_panel=CHAT_API,
        ),
    ] = False,
    samples: Annotated[int, typer.Option(min=1, help="Answers to each question.", rich_help_panel=CHAT_API)] = 5,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Temperature of the answers.", rich_help_panel=CHAT_API)
    ] = 1.0,
    offline: Annotated[
        bool, typer.Option("--offline", help="Use recorded replies only.", rich_help_panel=CHAT_API)
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; print requests and cost.", rich_help_panel=CHAT_API)
    ] = False,
    budget: Annotated[str | None, typer.Option(help="Highest cost of all replies.", rich_help_panel=CHAT_API)] = None,
    price_prompt: Annotated[
        str | None, typer.Option(help="Price of a million tokens of prompts.", rich_help_panel=CHAT_API)
    ] = None,
    price_reply: Annotated[
        str | None, typer.Option(help="Price of a million tokens of replies.", rich_help_panel=CHAT_API)
    ] = None,
    limit_name: Annotated[
        str,
        typer.Option(help="The API's name for max_tokens; newer: max_completion_tokens.", rich_help_panel=CHAT_API),
    ] = "max_tokens",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the results of a run with other settings in --out.")
    ] = False,
    include: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.py", help="Add the BENCHMARK of a Python file; repeat it for several files."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Print paired differences from an earlier run.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print every score or difference, not the headlines alone.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print results.json, or with --compare compare.json, and nothing else."),
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="Print each benchmark and prompt in a line, and stop.")] = False,
) -> None:
    """Score MODEL on the benchmarks and write a report with intervals.

    Start an interrupted run again with the same options, and it continues where it stopped.
    Exit status: 1 when something cannot be done, 2 when data is missing or an option is wrong.
    """
    processes = Processes.launched()
    console, errors = Console(quiet=not processes.first), Console(stderr=True, quiet=not processes.first)
    if as_json and not (show or dry_run):
        console = errors
    elif not console.is_terminal:
        console = Console(width=160, quiet=not processes.first)
    options = LoadOptions(
        model,
        revision,
        adapter,
        adapter_revision,
        dtype,
        device,
        "4bit" if quantize == "4bit" else "8bit" if quantize else None,
        trust_remote_code,
        allow_pickle,
        exact=exact,
    )
    with ended(errors):
        for path in include or ():
            benchmarks.include(path)
        if show:
            tell(console, catalogue())
            return
        if compare and not (compare / "results.json").is_file():
            raise ScoringError(f"{compare} has no results.json to compare with; give --compare the folder of a run.")
        remote = bool(base_url or chat_api)
        if chat_api and (not model_name or len(base_url or ()) > 1):
            raise typer.BadParameter("A chat API needs the name of a model (--model-name), and at most one --base-url.")
        if remote and not processes.first:
            return  # one process asks servers; they do the work
        name = served_as(base_url or (), model_name, options) if remote else model
        if not name:
            raise typer.BadParameter("Name a model, or give --base-url, or use --list.")
        folder = Path(model)
        if not (compare and not remote and (folder / "results.json").is_file()):
            said = ("chat" * chat, system, adapter or "", adapter_revision or "", dtype, quantize or "", revision or "")
            more = ("chat-api" * chat_api, tokenizer or "") if remote else ()
            folder = out or default_folder(*map(redactor(os.environ), (name, profile, prompt, *said, *more)))
            from scoring.api import Settings, score  # imports what a list of benchmarks does not need

            known = Settings(
                split_list(names),
                data,
                folder,
                profile,
                prompt,
                chat or chat_api,
                system,
                batch_tokens,
                limit,
                truncate,
                resamples,
                overwrite,
            )
            if chat_api:
                from builders.generation.run import RunOptions
                from scoring.chat_api import Sampling
                from scoring.commands.chat_api import sample

                asked = RunOptions(
                    name,
                    folder,
                    base_url[0] if base_url else None,
                    offline=offline,
                    dry_run=dry_run,
                    budget=budget,
                    price_prompt=price_prompt,
                    price_reply=price_reply,
                    concurrency=concurrency,
                    timeout=timeout,
                    limit_name=limit_name,
                )
                sample(asked, Sampling(samples, temperature), known, console, errors)
            elif remote:
                servers = ServedOptions(base_url or (), model_name, tokenizer, revision, concurrency, timeout)
                show_run(score(name, partial(connect_to, servers), known, errors), folder, console, verbose=verbose)
            else:
                options = replace(options, device=own_device(processes, device))
                result = score(model, options.load, known, errors, processes)
                show_run(result, folder, console, verbose=verbose)
            if dry_run:
                return
        if compare:
            show_comparison(folder, compare, out or folder, resamples, console, verbose=verbose)
        if as_json and processes.first:
            file = (out or folder) / "compare.json" if compare else folder / "results.json"
            typer.echo(file.read_text(encoding="utf-8"), nl=False)


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(main)
