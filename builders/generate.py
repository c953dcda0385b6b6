"""Makes rows with a chat model, or again from recorded replies: ``python -m builders.generate PIPELINE …``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from typer import Option

from builders.dataset import BuildError
from builders.generation import pipelines
from builders.generation.asking import Estimate, Live, Rehearsal, Replay, estimates
from builders.generation.chat import Book, ChatError
from builders.generation.pipeline import Account
from builders.generation.price import Price, Purse, amount, price
from builders.generation.review import apply, read_review
from builders.generation.rows import Witness, manifest, write
from cards.command import start

REPLIES = "replies.jsonl"


@dataclass(frozen=True, slots=True)
class Options:
    """What every pipeline is told."""

    model: Annotated[str, Option(help="The model's name, as the endpoint knows it.")]
    out: Annotated[Path, Option(help="Folder for rows.jsonl, manifest.json and what was left out.")]
    base_url: Annotated[
        str | None, Option(help="OpenAI-compatible address, usually ending in /v1.", envvar="OPENAI_BASE_URL")
    ] = None
    replies: Annotated[Path | None, Option(help="File that replies are added to; default: in --out.")] = None
    also: Annotated[list[Path] | None, Option(help="More recorded replies, only read; several may be given.")] = None
    offline: Annotated[bool, Option("--offline", help="Use recorded replies alone: no key, no network.")] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Ask nothing; print calls, tokens and price.")] = False
    budget: Annotated[str | None, Option(help="What all replies in the file may cost; stops before more.")] = None
    price_prompt: Annotated[str | None, Option(help="Price of a million tokens of prompts.")] = None
    price_reply: Annotated[str | None, Option(help="Price of a million tokens of replies.")] = None
    prices: Annotated[Path | None, Option(help="TOML with a table a model: prompt and reply, a million tokens.")] = None
    concurrency: Annotated[int, Option(help="Requests under way at once.", min=1)] = 4
    timeout: Annotated[float, Option(help="Seconds to wait for a reply.", min=0.1)] = 120.0
    attempts: Annotated[int, Option(help="How often a request is sent at most.", min=1)] = 6
    limit_name: Annotated[
        str, Option(help="What the endpoint calls the longest reply; newer models: max_completion_tokens.")
    ] = "max_tokens"
    review: Annotated[Path | None, Option(help="File with a person's verdicts; default: review.tsv in --out.")] = None
    only_accepted: Annotated[bool, Option("--only-accepted", help="Leave out rows that nobody accepted.")] = False


def generate(name: str, options: Options, settings: Any, console: Console, errors: Console) -> None:
    """One run of a pipeline.

    Raises
    ------
    BuildError
        When something is wrong or missing; all replies are kept then, and the old rows stay.
    """
    known = price(options.model, options.price_prompt, options.price_reply, options.prices)
    path = options.replies or options.out / REPLIES
    asks = not (options.offline or options.dry_run)
    with Book(path, options.also or (), writable=asks) as book:
        if options.dry_run:
            _rehearse(name, options, settings, book, known, console)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=errors, transient=True) as progress:
            purse = _purse(options, known, book) if asks else None
            live = Live(book, partial(_connect, options), progress, purse, options.concurrency)
            try:
                _make(name, options, settings, Witness(live if asks else Replay(book)), console)
            finally:
                live.close()


def _connect(options: Options) -> Any:
    """The endpoint; the client is loaded only where something is asked."""
    try:
        from builders.generation.endpoint import Endpoint
    except ModuleNotFoundError as error:
        raise ChatError(
            f"{error.name} is not installed, without which no model can be asked; pip install "
            "gender-neutral-probes[generate], or replay recorded replies by --offline."
        ) from None
    return Endpoint(options.base_url, options.timeout, options.attempts, options.limit_name)


def _purse(options: Options, known: Price | None, book: Book) -> Purse | None:
    if options.budget is None:
        return None
    budget = amount("The budget", options.budget, "it is what all replies together may cost")
    if known is None:
        raise ChatError(
            f"The price of {options.model} is unknown, so --budget cannot be kept; give --price-prompt and "
            "--price-reply, or --prices."
        )
    paid = [made for made in book.own.values() if made.request["model"] == options.model]
    return Purse.holding(known, budget, paid)


def _make(name: str, options: Options, settings: Any, ask: Witness, console: Console) -> None:
    pipeline, account = pipelines.get(name), Account()
    rows = pipeline.run(settings, options.model, ask, account)
    marks = None
    if pipeline.shown:
        marks = read_review(options.review or options.out / "review.tsv")
        rows = apply(rows, marks, account, options.only_accepted)
    if not rows:
        raise ChatError(
            f"No row of {name} passed; {_worst(account)}. The replies are kept; look at them, change the settings or "
            "give another --model."
        )
    facts = manifest(name, options.model, settings, ask.records, account)
    write(options.out, facts, rows, account, pipeline.shown, marks)
    for stage, told in account.stages().items():
        reasons = ", ".join(f"{count} x {why}" for why, count in told["dropped"].items())
        console.print(f"{stage}: {told['kept']} of {told['given']} kept{reasons and f' ({reasons})'}", **_AS_IS)
    for remark in account.remarks:
        console.print(remark, **_AS_IS)
    console.print(f"{len(rows)} rows are in {options.out}.", **_AS_IS)


_AS_IS: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}


def _worst(account: Account) -> str:
    """What most texts were left out for."""
    told = [(count, stage, why) for stage, s in account.stages().items() for why, count in s["dropped"].items()]
    if not told:
        return "; ".join(account.remarks) or "no reply had an entry"
    count, stage, why = max(told)
    return f"stage {stage} left {count} out, each of which {why}"


def _rehearse(name: str, options: Options, settings: Any, book: Book, known: Price | None, console: Console) -> None:
    """Prints what a run would take if every reply were usable."""
    rehearsal = Rehearsal(book)
    pipelines.get(name).run(settings, options.model, rehearsal, Account())
    console.print(_estimate_table(estimates(rehearsal, known)))
    if known is None:
        told = "give --price-prompt and --price-reply, or --prices, a million tokens"
        console.print(f"The price of {options.model} is unknown; {told}.", **_AS_IS)
    console.print(
        "Tokens are estimated, one for four bytes, as if every reply were usable; at most: no token shorter than a "
        "byte, and every reply as long as it may be. Replies that are not usable take more calls.",
        **_AS_IS,
    )


def _estimate_table(found: list[Estimate]) -> Table:
    table = Table(
        "stage", "recorded", "calls", "prompt tokens", "reply tokens", "at most", "price", "at most", box=None
    )
    for each in found:
        counts = (each.recorded, each.calls, each.prompt_tokens, each.reply_tokens, each.longest_reply_tokens)
        table.add_row(each.stage, *(f"{n:,}" for n in counts), *map(_money, (each.price, each.highest_price)))
    totals = [sum(getattr(each, name) for each in found) for name in _COUNTED]
    sums = [_sum([each.price for each in found]), _sum([each.highest_price for each in found])]
    table.add_row("all", *(f"{n:,}" for n in totals), *map(_money, sums))
    return table


_COUNTED = ("recorded", "calls", "prompt_tokens", "reply_tokens", "longest_reply_tokens")


def _sum(amounts: list[Decimal | None]) -> Decimal | None:
    known = [each for each in amounts if each is not None]
    return sum(known, Decimal(0)) if len(known) == len(amounts) else None


def _money(value: Decimal | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _command(name: str) -> Callable[..., None]:
    """The command of a pipeline: the fields of its settings and of :class:`Options` are its options."""
    kind = pipelines.get(name).settings

    def command(**given: Any) -> None:
        console, errors = Console(), Console(stderr=True)
        options, settings = (cls(**{f.name: given[f.name] for f in fields(cls)}) for cls in (Options, kind))
        try:
            _check_finite(given)
            generate(name, options, settings, console, errors)
        except BuildError as error:
            errors.print(f"error: {error}", style="red", **_AS_IS)
            raise typer.Exit(error.exit_code) from None
        except OSError as error:
            errors.print(f"error: {error.filename} cannot be read ({error.strerror}).", style="red", **_AS_IS)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            errors.print("Interrupted; every reply that came is kept, so run again to go on.")
            raise typer.Exit(130) from None

    parameters = [*_parameters(kind), *_parameters(Options)]
    command.__signature__ = inspect.Signature(sorted(parameters, key=lambda p: p.default is not p.empty))  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__ = f"""{pipelines.get(name).summary}

    Exit status: 0 when the rows are written; 1 when something is wrong; 2 when --offline lacks replies; 3 when
    --budget is reached. Whatever happens, replies that came are kept, and the same command goes on from there.
    """
    return command


def _check_finite(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ChatError(f"--{name.replace('_', '-')} is {value}; give a finite number.")


def _parameters(kind: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [_parameter(each, hints[each.name]) for each in fields(kind)]


def _parameter(each: Field[Any], hint: Any) -> inspect.Parameter:
    default = each.default if each.default_factory is MISSING else each.default_factory()
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False, no_args_is_help=True)
for _name in pipelines.names():
    app.command(_name, short_help=pipelines.get(_name).summary)(_command(_name))

if __name__ == "__main__":
    start(app, "python -m builders.generate")
