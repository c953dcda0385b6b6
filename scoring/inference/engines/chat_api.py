"""Benchmarks through a chat API, which answers in words: each question several times, and shares of answers.

The requests, their recording, the budget and the dry run are those of :mod:`builders.generation`. The answers are
samples, so the numbers are shares of answers and not probabilities, and every report says so.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console

from builders.dataset import BuildError
from builders.generation.clients import ChatClient, DryRunClient
from builders.generation.clients import Request as ChatRequest
from builders.generation.responses import Response, request_body
from builders.generation.run import RunOptions, opened, print_costs
from builders.generation.spending import Spending
from cards.common.answer_key import answer_key, shown_key
from cards.common.files import locked
from cards.common.text import grouped
from scoring import report
from scoring.asking.result import RunResult, runs_beside
from scoring.asking.run import Part, estimate, read, report_of, without
from scoring.declared import SAMPLED as SAMPLED_DTYPE
from scoring.inference.chat import messages
from scoring.inference.engines import Call, EngineKind, NoModel, refuse_loading
from scoring.inference.parallel import Processes
from scoring.inputs.prompts import Prompt
from scoring.inputs.tables import as_table
from scoring.options import Sampling, Settings, recorded
from scoring.report.terminal import want
from scoring.types import Benchmark, Estimate, Report, Request, Row, Sampled, ScoringError, Table

#: The most tokens of the answer to an opening.
OPENING = 64
_NEEDS = "The benchmark {} needs log-probabilities, which a chat API does not give"
#: What a report says of the numbers.
SAMPLED = "These are sampled answers, not probabilities: the numbers are shares of what the model wrote."


def sample(options: RunOptions, sampling: Sampling, settings: Settings, console: Console) -> RunResult:
    """Asks a chat API and writes the report to ``settings.out``; or prints what that would cost, without scores.

    Raises
    ------
    ScoringError
        For data that is missing, a benchmark that needs probabilities, and a failure of the API; all replies are kept.
    """
    prompt, others = settings.full_prompt(), runs_beside(settings.beside, settings.profile)
    if prompt.decoding:
        raise ScoringError(
            f"The prompt {prompt.name!r} has decoding settings, and a chat API takes --temperature alone; give another "
            "one."
        )
    parts, lacking, remarks = sampled_parts(settings)
    how = options.model, sampling, settings, prompt
    out = settings.out
    try:
        if out and not options.dry_run:
            with locked(out, ScoringError):
                # Refused before anything is paid for; who answers is known only then.
                planned = report_of_answers({}, parts, *how)
                report.check_finished(out, planned, overwrite=settings.overwrite, unknown=("revision", "server"))
        with opened(options, console) as client:
            answers = ask(client, parts, *how)
            if isinstance(client, DryRunClient):
                print_costs(client, options, console)
                return result({}, (), *how)
    except BuildError as error:
        failure = ScoringError(str(error))
        failure.exit_code = error.exit_code  # as in probes generate
        raise failure from None
    scored = with_notes(result(answers, parts, *how), parts, remarks, lacking, str(sampling), settings.data)
    if out:
        with locked(out, ScoringError):
            report.check_finished(out, scored.report, overwrite=settings.overwrite)
            report.write(out, scored.report, scored.tables, scored.validity, others)
    return scored


def sampled_parts(settings: Settings) -> tuple[list[Part], list[str], list[str]]:
    """The benchmarks that are asked in words with their data, the splits that are missing, and remarks.

    Raises
    ------
    ScoringError
        When a benchmark that the user named needs log-probabilities or has no data.
    """
    named = bool(settings.benchmarks)
    parts, remarks = without(
        [Part(benchmark) for benchmark in settings.chosen()],
        lambda part: "" if part.benchmark.sampled or part.benchmark.joined else _NEEDS.format(part.benchmark.name),
        "use a server that gives them",
        "; it is left out.",
        named=named,
        unread=True,
    )
    benchmarks = [part.benchmark for part in parts]
    parts = read(benchmarks, settings.data, settings.profile, settings.limit, named=named)
    lacking = [missing.name for part in parts for missing in part.lacking]
    return [part for part in parts if part.splits], lacking, remarks


def with_notes(
    scored: RunResult, parts: Sequence[Part], remarks: Sequence[str], lacking: Sequence[str], how: str, data: str
) -> RunResult:
    """A result that says of each benchmark that its answers were sampled, and what was left out."""
    notes = {part.benchmark.name: f"{SAMPLED}\n\n{part.benchmark.validity}" for part in parts}
    all_remarks = (*remarks, *want(lacking, data), f"{how}. {SAMPLED}")
    return replace(scored, validity=notes, remarks=all_remarks)


Answers = Mapping[str, tuple[list[Row], list[Response]]]


def ask(
    client: ChatClient, parts: Sequence[Part], model: str, sampling: Sampling, settings: Settings, prompt: Prompt
) -> Answers:
    """The rows that are asked and their answers, ``sampling.samples`` for each row in order, by benchmark.

    Raises
    ------
    ChatError
        When an answer cannot be had; those before it are recorded.
    """
    answers_by_benchmark = {}
    for part in (part for part in parts if not part.benchmark.joined):
        task, name = _sampled(part.benchmark), part.benchmark.name
        asked_rows = questions(part, settings.profile, prompt)
        numbered = [(text, number) for _, text in asked_rows for number in range(sampling.samples)]
        # What stands before the question: nothing, or for two turns a neutral question and the answer to it.
        turns: list[tuple[str, ...]] = [()] * sampling.samples
        if task.opening:
            turns = [(task.opening[n % len(task.opening)],) for n in range(sampling.samples)]
            bodies = [_body(model, prompt.system, turn, OPENING, sampling, n) for n, turn in enumerate(turns)]
            opened = client(f"{name}, opening", [ChatRequest(body, task.example) for body in bodies])
            # A turn without text is refused by some servers.
            turns = [(*turn, reply.text or "…") for turn, reply in zip(turns, opened, strict=True)]
        answers = list[Response]()
        replies: Sequence[str | None] = [None] * len(numbered)
        # A prompt that has the model think first takes two stages; the second has the text of the first in its turns.
        first = {f"{name}, first turn": prompt.first["tokens"]} if prompt.first else {}
        for stage, longest in {**first, name: task.longest}.items():
            bodies = [
                _body(model, prompt.system, (*turns[number], *prompt.turns(text, reply)), longest, sampling, number)
                for (text, number), reply in zip(numbered, replies, strict=True)
            ]
            answers = client(stage, [ChatRequest(body, task.example) for body in bodies])
            replies = [answer.text for answer in answers]
        answers_by_benchmark[name] = [row for row, _ in asked_rows], answers
    return answers_by_benchmark


def result(
    answers: Answers, parts: Sequence[Part], model: str, sampling: Sampling, settings: Settings, prompt: Prompt
) -> RunResult:
    """The table of answers of each benchmark, and the report with every metric."""
    tables: dict[str, Table] = {}
    estimates: list[Estimate] = []
    for part in parts:
        name = part.benchmark.name
        if part.benchmark.joined:
            tables[name] = part.benchmark.joined(tables)
            estimates += estimate(part.benchmark, settings.profile, tables[name], settings.resamples)
            continue
        task = _sampled(part.benchmark)
        (rows, replies), size = answers[name], sampling.samples
        texts = [reply.text for reply in replies]
        # A row with several questions has a line for each of them here, one after the other; its answers are a slice.
        by_row = grouped(enumerate(rows), lambda numbered: id(numbered[1])).values()
        slices = ((own[0][1], own[0][0] * size, (own[-1][0] + 1) * size) for own in by_row)
        lines = (task.to_records(row, texts[start:end]) for row, start, end in slices)
        tables[name] = as_table(chain.from_iterable(lines))
        of_answers = replace(
            part.benchmark, metrics=task.metrics, groups=task.groups, cluster=task.cluster, headline=None
        )
        estimates += estimate(of_answers, settings.profile, tables[name], settings.resamples)
    return RunResult(report_of_answers(answers, parts, model, sampling, settings, prompt, estimates), tables)


def report_of_answers(
    answers: Answers,
    parts: Sequence[Part],
    model: str,
    sampling: Sampling,
    settings: Settings,
    prompt: Prompt,
    estimates: Sequence[Estimate] = (),
) -> Report:
    """The report of a run; before anything is asked there are no ``answers``, and it says not who gave them."""
    given = [answer for _, some in answers.values() for answer in some]
    servers = " ".join(sorted({answer.server for answer in given}))
    key = answer_key(
        model,
        server=servers,
        prompt=prompt.json(),
        system=prompt.system,
        samples=sampling.samples,
        temperature=sampling.temperature,
        seed=sampling.seed,
    )
    engine = {"engine": "chat API", "answers": f"{sampling}. {SAMPLED}", "settings": recorded(settings, sampling)}
    return report_of(
        parts,
        settings,
        prompt,
        estimates,
        {**engine, "response key": shown_key(key)},
        {f"prompt {prompt.name}": prompt.version, "system": prompt.system},
        model=model,
        revision=", ".join(sorted({answer.model for answer in given})),
        adapter="",
        dtype=SAMPLED_DTYPE,
    )


def _sampled(benchmark: Benchmark) -> Sampled:
    assert benchmark.sampled, f"{benchmark.name} is not for sampled answers"
    return benchmark.sampled


def questions(part: Part, profile: str, prompt: Prompt) -> list[tuple[Row, str]]:
    """The rows that are asked, each with the user's turn; an instruction of the prompt stands before it."""
    task, asked_rows = _sampled(part.benchmark), []
    for loaded in part.splits:
        for row in loaded.rows:
            # An instruction after "Q:" is at the beginning of the user's turn.
            where = replace(prompt, placement={n: p for n, p in prompt.placement.items() if p == "none"})
            given = task.question(profile, row)
            texts = filter(None, [given] if isinstance(given, str) else given)
            asked_rows += [(row, where.put(Request(row["id"], text), part.benchmark.name).context) for text in texts]
    return asked_rows


def _body(
    model: str, system: str, turns: Sequence[str], longest: int, sampling: Sampling, number: int
) -> dict[str, Any]:
    body = request_body(model, "", temperature=sampling.temperature, max_tokens=longest, seed=sampling.seed + number)
    return body | {"messages": messages(system, turns)}


def name(call: Call) -> str:
    """The name of the model at the API."""
    if not call.servers.model_name or len(call.servers.base_url) > 1:
        raise NoModel("A chat API needs the name of a model (--model-name), and at most one --base-url.")
    refuse_loading(call)
    return call.servers.model_name


def run(call: Call, console: Console, _processes: Processes) -> RunResult:
    """Asks the API, which records its replies in the folder of the run, or for this call alone."""
    with ExitStack() as stack:
        options = RunOptions(
            name(call),
            call.settings.out or Path(stack.enter_context(tempfile.TemporaryDirectory())),
            next(iter(call.servers.base_url), None),
            concurrency=call.servers.concurrency,
            timeout=call.servers.timeout,
            **{field.name: getattr(call.sampling, field.name) for field in fields(Spending)},
        )
        return sample(options, call.sampling, replace(call.settings, chat=True), console)


ENGINE = EngineKind(
    lambda call: call.sampling.chat_api and not call.in_memory,
    name,
    run,
    remote=True,
    folder=lambda call: ("chat-api", call.servers.tokenizer or ""),
)
