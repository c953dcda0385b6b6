"""What a pipeline does with a chat model: its client, its rows and files, or its cost before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from typer import Option

from builders.generation import costs, output, pipelines
from builders.generation.clients import ChatRequest, DryRunClient, LiveClient, RecordingClient, ReplayClient
from builders.generation.costs import Budget, CostModel
from builders.generation.pipeline import FilterLog
from builders.generation.responses import OPENAI, ChatError, ResponseCache
from builders.generation.spending import Spending
from cards.common.answer_key import server_name
from cards.common.files import refuse_foreign
from cards.common.packages import required
from cards.common.progress import Progress
from cards.common.terminal import text_table

if TYPE_CHECKING:
    from builders.generation.endpoint import Endpoint

CACHE = "replies.jsonl"


@dataclass(frozen=True, slots=True)
class GenerationOptions(Spending):
    """The options that all pipelines have."""

    model: Annotated[str, Option(help="The model's name at the endpoint.")]
    out: Annotated[Path, Option(help="Folder for rows.jsonl, dropped.jsonl and manifest.json.")]
    base_url: Annotated[
        str | None, Option(help="OpenAI-compatible address, usually ending in /v1.", envvar="OPENAI_BASE_URL")
    ] = None
    replies: Annotated[Path | None, Option(help="File that replies are recorded in; default: in --out.")] = None
    also: Annotated[list[Path] | None, Option(help="More recorded replies, only read; may be repeated.")] = None
    prices: Annotated[
        Path | None, Option(help="TOML file with a table for each model: prompt and reply, prices of a million tokens.")
    ] = None
    concurrency: Annotated[int, Option(help="Number of requests in progress at the same time.", min=1)] = 4
    timeout: Annotated[float, Option(help="Seconds to wait for a reply.", min=0.1)] = 120.0
    attempts: Annotated[int, Option(help="Highest number of times that a request is sent.", min=1)] = 6
    review: Annotated[Path | None, Option(help="File with a reviewer's verdicts; default: review.tsv in --out.")] = None
    only_accepted: Annotated[bool, Option("--only-accepted", help="Leave out rows that were not accepted.")] = False


def generate(name: str, options: GenerationOptions, settings: Any, console: Console, errors: Console) -> None:
    """Runs a pipeline and writes its rows, or prints what a generation would cost (``options.dry_run``).

    Raises
    ------
    BuildError
        When something is wrong or missing. All responses are kept then, and the old rows stay.
    """
    with opened(options, errors) as client:
        if isinstance(client, DryRunClient):
            # The pipeline itself runs on made replies, so the requests that are counted are those of a real generation.
            pipelines.get(name).generate(settings, options.model, client, FilterLog())
            print_costs(client, options, console)
        else:
            _make_rows(name, options, settings, client, console)


@contextmanager
def opened(options: GenerationOptions, errors: Console) -> Iterator[RecordingClient | DryRunClient]:
    """The client that the options describe: a chat model, recorded responses, or a dry run.

    Raises
    ------
    ChatError
        When the responses cannot be read, or the budget cannot be kept.
    """
    prices = _prices(options)
    # Only a generation that sends requests locks the file and may repair its end.
    is_live = not (options.offline or options.dry_run)
    path = options.replies or options.out / CACHE
    address = options.base_url or os.environ.get("OPENAI_BASE_URL")
    # Without an address recorded replies of any one server serve, as nothing is sent.
    server = None
    if address or is_live:
        server = server_name(address or OPENAI)
    # Opened for the whole generation: its lock keeps a second one from sending the same requests.
    with ResponseCache(path, options.also or (), writable=is_live, server=server) as cache:
        for sentence in cache.damaged:
            errors.print(sentence)
        if cache.unnamed:
            errors.print(
                f"{cache.unnamed:,} replies in {path} do not say which server responded, as in earlier versions, and "
                "are not used; move the file and name it with --also to use them.",
                soft_wrap=True,
            )
        if options.dry_run:
            yield DryRunClient(cache)
        elif options.offline:
            yield RecordingClient(ReplayClient(cache))
        else:
            progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=errors,
                transient=True,
            )
            with progress, ExitStack() as opened_files:
                budget = _budget(options, prices, cache, opened_files)
                client = LiveClient(cache, partial(_connect, options), progress, budget, options.concurrency)
                try:
                    yield RecordingClient(client)
                finally:
                    client.close()


def _prices(options: GenerationOptions) -> CostModel | None:
    return costs.cost_model(options.model, options.price_prompt, options.price_reply, options.prices)


def _connect(options: GenerationOptions) -> Endpoint:
    """The endpoint; the HTTP client is only imported when a request is sent."""
    with required("Sending requests (without --offline)", "generate", ChatError):
        from builders.generation.endpoint import Endpoint
    return Endpoint(options.base_url, options.timeout, options.attempts, options.limit_name)


def _budget(
    options: GenerationOptions, prices: CostModel | None, cache: ResponseCache, opened_files: ExitStack
) -> Budget | None:
    if options.budget is None:
        return None
    limit = costs.parse_amount("The budget", options.budget, "give the highest cost of all replies")
    if prices is None:
        raise ChatError(
            f"The price of {options.model} is unknown, so --budget cannot be kept; give --price-prompt and "
            "--price-reply, or --prices."
        )
    # Opened before the first request, because each one is noted before it is sent.
    sent = opened_files.enter_context(costs.SentLog(cache.path, options.model, prices, cache.server))
    return Budget.after(prices, limit, cache.own.values(), sent)


def _make_rows(name: str, options: GenerationOptions, settings: Any, client: RecordingClient, console: Console) -> None:
    pipeline, log = pipelines.get(name), FilterLog()
    rows = pipeline.generate(settings, options.model, client, log)
    reviews = None
    if pipeline.review_columns:
        reviews = output.read_reviews(options.review or options.out / output.REVIEW)
        # The review file of the output folder is written anew, so a file of a user there must not be lost.
        if options.review and options.review.resolve() != (options.out / output.REVIEW).resolve():
            refuse_foreign(options.out, [output.REVIEW], ChatError)
        # Reviews come after all other filters, so that a reviewer sees only rows that pass.
        rows = output.apply_reviews(rows, reviews, log, options.only_accepted)
    if not rows:
        raise ChatError(
            f"No row of {name} passed; {_main_reason(log)}. The replies are kept; look at them, change the settings or "
            "give another --model."
        )
    manifest = output.generation_manifest(name, options.model, settings, client.responses, log)
    output.write_output(options.out, manifest, rows, log, pipeline.review_columns, reviews)
    for line in output.stage_lines(log) + log.remarks:
        console.print(line)
    console.print(f"{len(rows)} rows are in {options.out}.")


def _main_reason(log: FilterLog) -> str:
    """The reason for which most texts were dropped."""
    reasons = []
    for stage, counts in log.stages().items():
        for reason, count in counts["dropped"].items():
            reasons.append((count, stage, reason))
    if not reasons:
        return "; ".join(log.remarks) or "no reply had an entry"
    count, stage, reason = max(reasons)
    return f"stage {stage} dropped {count} texts, each of which {reason}"


def print_costs(client: DryRunClient, options: GenerationOptions, console: Console) -> None:
    """Prints the requests, tokens and costs of a dry run."""
    prices = _prices(options)
    console.print(cost_table(client, prices), soft_wrap=False)
    if prices is None:
        advice = "give --price-prompt and --price-reply, or --prices, for a million tokens"
        console.print(f"The price of {options.model} is unknown; {advice}.")
    console.print(
        "Tokens are estimated, one for four bytes, as if every reply were usable. The highest cost assumes one token a "
        "byte and replies of the greatest length. Replies that are not usable take more requests."
    )


def cost_table(client: DryRunClient, prices: CostModel | None) -> Table:
    """A table of the recorded responses, requests, tokens and costs of each stage of a dry run, with totals."""
    columns = ("stage", "recorded", "calls", "prompt tokens", "reply tokens", "at most", "price", "at most")
    rows = []
    total_counts = [0, 0, 0, 0, 0]
    total_costs = [Decimal(0), Decimal(0)]
    for stage, (recorded, requests) in client.stages.items():
        counts, stage_costs = _stage_costs(recorded, requests, prices)
        total_counts = [total + count for total, count in zip(total_counts, counts, strict=True)]
        if stage_costs:
            total_costs = [total + cost for total, cost in zip(total_costs, stage_costs, strict=True)]
        rows.append(_cost_row(stage, counts, stage_costs))
    rows.append(_cost_row("all", total_counts, total_costs if prices else []))
    return text_table(columns, rows)


def _cost_row(stage: str, counts: Sequence[int], stage_costs: Sequence[Decimal]) -> list[str]:
    """The cells of a stage; without prices both costs are unknown."""
    cells = [stage] + [f"{count:,}" for count in counts]
    if stage_costs:
        cells += [f"{cost:.4f}" for cost in stage_costs]
    else:
        cells += ["unknown", "unknown"]
    return cells


def _stage_costs(
    recorded: int, requests: Sequence[ChatRequest], prices: CostModel | None
) -> tuple[Sequence[int], Sequence[Decimal]]:
    """Recorded responses, requests and tokens of a stage; its expected and highest cost, or nothing without prices."""
    prompt_tokens = reply_tokens = longest = 0
    for request in requests:
        prompt_tokens += costs.estimate_tokens(costs.prompt_text(request.body))
        reply_tokens += costs.estimate_tokens(request.example)
        longest += request.body["max_tokens"]
    counts = (recorded, len(requests), prompt_tokens, reply_tokens, longest)
    if prices is None:
        return counts, ()
    highest = sum((prices.highest_cost(request.body) for request in requests), Decimal(0))
    return counts, (prices.cost(prompt_tokens, reply_tokens), highest)
