"""Benchmarks through a chat API, which answers in words: each question several times, and shares of answers.

The requests, their recording, the budget and the dry run are those of :mod:`builders.generation`. The answers are
samples, so the numbers are shares of answers and not probabilities, and every report says so.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from builders.dataset import BuildError
from builders.generation.clients import ChatClient, ChatRequest, DryRunClient, LiveClient, RecordingClient
from builders.generation.responses import ChatResponse, request_body
from builders.generation.session import GenerationOptions, opened, print_costs
from builders.generation.spending import Spending
from cards.common.answer_key import answer_key, shown_key
from cards.common.files import locked
from scoring import report
from scoring.asking.estimates import SAMPLED as SAMPLED_DTYPE
from scoring.asking.estimates import estimate
from scoring.asking.result import RunResult, runs_beside
from scoring.asking.run import Part, read, report_of, without
from scoring.inference.chat import messages
from scoring.inference.control import CONTINUED, CONTROL
from scoring.inference.engines import Call, EngineKind, NoModel, refuse_loading
from scoring.inference.parallel import Processes
from scoring.inputs.prompts import Prompt
from scoring.inputs.tables import as_table
from scoring.options import Sampling, Settings, recorded
from scoring.report.terminal import want
from scoring.types import Answer, Benchmark, Estimate, Line, Report, Request, Row, Sampled, ScoringError, Table

#: The most tokens of the answer to an opening.
OPENING = 64
#: How many tokens a server is asked for at each place of an answer with a letter: most give so many at least.
TOP_LOGPROBS = 5
_NEEDS = "The benchmark {} needs log-probabilities, which a chat API does not give"
#: What a report counts of the replies: the name of the fact, and the field of a reply.
REPLIES = {
    "models that replied": "model",
    "finish reasons": "finish_reason",
    "system fingerprints": "system_fingerprint",
}
#: The sentence of a report about its numbers.
SAMPLED = "These are sampled answers, not probabilities: the numbers are shares of what the model wrote."


def sample(options: GenerationOptions, sampling: Sampling, settings: Settings, console: Console) -> RunResult:
    """Asks a chat API and writes the report to ``settings.out``; or prints what that would cost, without scores.

    Raises
    ------
    ScoringError
        For data that is missing, a benchmark that needs probabilities, and a failure of the API; all replies are kept.
    """
    prompt = settings.full_prompt()
    others = runs_beside(settings.beside, settings.profile)
    if prompt.decoding:
        raise ScoringError(
            f"The prompt {prompt.name!r} has decoding settings, and a chat API takes --temperature alone; give another "
            "one."
        )
    parts, lacking, remarks = sampled_parts(settings)
    out = settings.out
    try:
        if out and not options.dry_run:
            with locked(out, ScoringError):
                # Refused before anything is paid for; the names of model and server are known only after that.
                planned = report_of_answers({}, parts, options.model, sampling, settings, prompt)
                report.check_finished(out, planned, overwrite=settings.overwrite, unknown=("revision", "server"))
        with opened(options, console) as client:
            # Replies that are kept for this call alone need no recognition.
            if out:
                remarks += recognise(client, options.model, finished=(out / "results.json").is_file())
            answers = ask(client, parts, options.model, sampling, settings, prompt)
            if isinstance(client, DryRunClient):
                print_costs(client, options, console)
                return result({}, (), options.model, sampling, settings, prompt)
    except BuildError as error:
        # Commands of scoring end by errors of their own.
        failure = ScoringError(str(error))
        failure.exit_code = error.exit_code  # as in probes generate
        raise failure from None
    scored = result(answers, parts, options.model, sampling, settings, prompt)
    remarks += said_of_replies(scored.report.environment)
    scored = with_notes(scored, parts, remarks, lacking, str(sampling), settings.data)
    if out:
        with locked(out, ScoringError):
            report.check_finished(out, scored.report, overwrite=settings.overwrite)
            report.write(out, scored.report, scored.tables, scored.validity, others)
    return scored


def recognise(client: RecordingClient | DryRunClient, model: str, *, finished: bool) -> list[str]:
    """Asks the control rows, so that recorded replies are used only for a model that answers them as before.

    The first call with a file of replies asks the eight rows, at temperature 0 and with a reply of :data:`CONTINUED`
    tokens. Each later one asks them again, with another seed. They count in the budget and in a dry run. Servers
    compute several requests together, so the same model may answer some rows in other words. One that answers more
    than half of them otherwise is asked once more, because some APIs sample at any temperature.

    A model that cannot be recognised may go on with an interrupted run, and a remark of the report says so.

    Raises
    ------
    ScoringError
        When more than half of the rows have other answers than in the first call, or the model cannot be recognised
        and the replies are those of a ``finished`` run.
    """
    if isinstance(client, DryRunClient):
        client("control rows", _control_rows(model, 0))
        return []
    live = client.client
    # Without a connection only recorded replies are used, as the user asked for.
    if not isinstance(live, LiveClient):
        return []
    cache = live.cache
    is_used = any(
        one.request["model"] == model
        and one.server == cache.server
        and one.request["messages"][-1]["content"] not in CONTROL
        for one in cache.own.values()
    )
    number = 0
    while all(cache.key(row.body) in cache for row in _control_rows(model, number)):
        number += 1
    now = live.try_all("control rows", _control_rows(model, number))
    if not is_used:
        return []
    if now is None:
        reason = f"{cache.server} refuses the control rows"
    elif number == 0:
        reason = f"the replies in {cache.path} have no control rows"
    else:
        before = [cache[cache.key(row.body)] for row in _control_rows(model, 0)]
        others = _others(before, now)
        if 2 * others <= len(CONTROL):
            return []
        again = live.try_all("control rows", _control_rows(model, number + 1))
        if again is not None and 2 * _others(now, again) <= len(CONTROL):
            raise ScoringError(
                f"{cache.server} answers {others} of {len(CONTROL)} control rows otherwise than when the replies in "
                f"{cache.path} were recorded, so it is another model; give another --out, or --offline to use the "
                "recorded replies."
            )
        reason = f"{cache.server} answers the control rows in other words each time"
    if finished:
        raise ScoringError(
            f"Whether the replies in {cache.path} are of the same model is not known, because {reason}; give another "
            "--out, or --offline to use the recorded replies."
        )
    return [f"Replies from before an interruption may be of another model of the same name, because {reason}."]


def _control_rows(model: str, number: int) -> list[ChatRequest]:
    """The control rows of a call by its number, which is their seed, so that each call has replies of its own."""
    requests = []
    for text in CONTROL:
        body = request_body(model, text, temperature=0, max_tokens=CONTINUED, seed=number)
        requests.append(ChatRequest(body, text))
    return requests


def _others(one: Sequence[ChatResponse], other: Sequence[ChatResponse]) -> int:
    """How many control rows have another answer."""
    return sum(first.text != second.text for first, second in zip(one, other, strict=True))


def _unsuited(part: Part) -> str:
    """Why a chat API cannot answer a benchmark; empty where it can."""
    # A joined benchmark asks nothing: it is computed from the answers to others.
    if part.benchmark.sampled or part.benchmark.joined:
        return ""
    return _NEEDS.format(part.benchmark.name)


def sampled_parts(settings: Settings) -> tuple[list[Part], list[str], list[str]]:
    """The benchmarks that are asked in words with their data, the splits that are missing, and remarks.

    Raises
    ------
    ScoringError
        When a benchmark that the user named needs log-probabilities or has no data.
    """
    if settings.start:
        raise ScoringError("--start is of models that are asked with tokens, and this one gets texts; leave it out.")
    named = bool(settings.benchmarks)
    chosen, remarks = without(
        [Part(benchmark) for benchmark in settings.chosen()],
        _unsuited,
        "use a server that gives them",
        "; it is left out.",
        named=named,
        unread=True,
    )
    benchmarks = [part.benchmark for part in chosen]
    parts = []
    lacking = []
    for part in read(benchmarks, settings.data, settings.profile, settings.limit, named=named, groups=settings.groups):
        lacking += [missing.name for missing in part.lacking]
        if part.splits:
            parts.append(part)
    return parts, lacking, remarks


def with_notes(
    scored: RunResult, parts: Sequence[Part], remarks: Sequence[str], lacking: Sequence[str], how: str, data: str
) -> RunResult:
    """A result that says of each benchmark that its answers were sampled, and what was left out."""
    notes = {part.benchmark.name: f"{SAMPLED}\n\n{part.benchmark.validity}" for part in parts}
    all_remarks = list(remarks)
    all_remarks += want(lacking, data)
    all_remarks.append(f"{how}. {SAMPLED}")
    return replace(scored, validity=notes, remarks=tuple(all_remarks))


Answers = Mapping[str, tuple[list[Row], list[ChatResponse]]]


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
    for part in parts:
        if part.benchmark.joined:
            continue
        task = _sampled(part.benchmark)
        name = part.benchmark.name
        rows = questions(part, settings.profile, prompt)
        asked = [(text, number) for _, text in rows for number in range(sampling.samples)]
        # The turns before the question: none, or two, a neutral question and the answer to it.
        turns: list[tuple[str, ...]] = [()] * sampling.samples
        if task.opening:
            turns = _opened(client, task, name, model, sampling, prompt)
        # A prompt that has the model think first takes two stages; the second has the text of the first in its turns.
        stages = {}
        if prompt.first:
            stages[f"{name}, first turn"] = prompt.first["tokens"]
        stages[name] = task.longest
        answers: list[ChatResponse] = []
        replies: Sequence[str | None] = [None] * len(asked)
        for stage, longest in stages.items():
            requests = []
            for (text, number), reply in zip(asked, replies, strict=True):
                turns_of_request = turns[number] + tuple(prompt.turns(text, reply))
                body = _body(model, prompt.system, turns_of_request, longest, sampling, number)
                if stage == name and task.letters:
                    body |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
                requests.append(ChatRequest(body, task.example))
            answers = client(stage, requests)
            replies = [answer.text for answer in answers]
        answers_by_benchmark[name] = [row for row, _ in rows], answers
    return answers_by_benchmark


def _opened(
    client: ChatClient, task: Sampled, name: str, model: str, sampling: Sampling, prompt: Prompt
) -> list[tuple[str, ...]]:
    """The opening of each sample with the model's answer; the samples have the openings in turn."""
    openings = []
    requests = []
    for number in range(sampling.samples):
        opening = task.opening[number % len(task.opening)]
        openings.append(opening)
        body = _body(model, prompt.system, (opening,), OPENING, sampling, number)
        requests.append(ChatRequest(body, task.example))
    replies = client(f"{name}, opening", requests)
    # A turn without text is refused by some servers.
    return [(opening, reply.text or "…") for opening, reply in zip(openings, replies, strict=True)]


def result(
    answers: Answers, parts: Sequence[Part], model: str, sampling: Sampling, settings: Settings, prompt: Prompt
) -> RunResult:
    """The table of answers of each benchmark, and the report with every metric."""
    tables: dict[str, Table] = {}
    estimates: list[Estimate] = []
    for part in parts:
        benchmark = part.benchmark
        if benchmark.joined:
            tables[benchmark.name] = benchmark.joined(tables)
        else:
            task = _sampled(benchmark)
            rows, replies = answers[benchmark.name]
            tables[benchmark.name] = as_table(_lines(task, rows, replies, sampling.samples))
            benchmark = replace(
                benchmark, metrics=task.metrics, groups=task.groups, cluster=task.cluster, headline=None
            )
        estimates += estimate(benchmark, settings.profile, tables[benchmark.name], settings.resamples)
    return RunResult(report_of_answers(answers, parts, model, sampling, settings, prompt, estimates), tables)


def _lines(task: Sampled, rows: Sequence[Row], replies: Sequence[ChatResponse], samples: int) -> Iterator[Line]:
    """The lines of the table: those of each row, of all its questions together."""
    texts = [Answer(reply.text, reply.finish_reason, reply.logprobs) for reply in replies]
    first = 0
    # A row with several questions is here once for each of them, one after the other; its answers are a slice.
    for _, same_row in groupby(rows, key=id):
        questions_of_row = list(same_row)
        last = first + len(questions_of_row) * samples
        yield from task.to_records(questions_of_row[0], texts[first:last])
        first = last


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
    replies = [answer for _, of_benchmark in answers.values() for answer in of_benchmark]
    servers = {answer.server for answer in replies}
    models = {answer.model for answer in replies}
    key = answer_key(
        model,
        server=" ".join(sorted(servers)),
        prompt=prompt.json(),
        system=prompt.system,
        samples=sampling.samples,
        temperature=sampling.temperature,
        seed=sampling.seed,
    )
    environment: dict[str, Any] = {
        "engine": "chat API",
        "answers": f"{sampling}. {SAMPLED}",
        "settings": recorded(settings, sampling),
        "response key": shown_key(key),
    }
    for name, field_of_reply in REPLIES.items():
        counts = Counter(str(getattr(answer, field_of_reply)) for answer in replies)
        # Not every server gives a fingerprint.
        if counts.keys() - {""}:
            environment[name] = dict(sorted(counts.items()))
    with_logprobs = sum(bool(answer.logprobs) for answer in replies)
    if with_logprobs:
        environment["replies with log-probabilities"] = with_logprobs
    return report_of(
        parts,
        settings,
        prompt,
        estimates,
        environment,
        {f"prompt {prompt.name}": prompt.version, "system": prompt.system},
        model=model,
        # The name in the replies is more exact than the one that was asked for, such as one with a date.
        revision=", ".join(sorted(models)),
        adapter="",
        dtype=SAMPLED_DTYPE,
        headlines={part.benchmark.name: part.benchmark.headline for part in parts if part.benchmark.headline},
    )


def said_of_replies(environment: Mapping[str, Any]) -> list[str]:
    """Sentences about replies of several models or configurations, and texts that did not end by themselves.

    >>> said_of_replies({"models that replied": {"m-1": 9, "m-2": 1}})
    ['The replies name 2 models: m-1 (9), m-2 (1). The scores mix them; give --model-name the exact name of one.']
    """
    sentences = []
    models, ends, fingerprints = (environment.get(name, {}) for name in REPLIES)
    if len(models) > 1:
        sentences.append(
            f"The replies name {len(models)} models: {_counts(models)}. The scores mix them; give --model-name "
            "the exact name of one."
        )
    if len(fingerprints) > 1:
        sentences.append(
            f"The replies have {len(fingerprints)} system fingerprints: {_counts(fingerprints)}. The configuration of "
            "the server changed between them."
        )
    if "replies with log-probabilities" in environment:
        sentences.append(
            f"The server gave log-probabilities with {environment['replies with log-probabilities']:,} replies. Where "
            "a reply begins with its letter, the probabilities of the letters count and not the letter alone."
        )
    others = {reason: count for reason, count in ends.items() if reason != "stop"}
    if others:
        sentences.append(
            f"{sum(others.values()):,} of {sum(ends.values()):,} replies did not end by themselves: the finish_reason "
            f"is {_counts(others)}."
        )
    return sentences


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name or 'none'} ({count:,})" for name, count in counts.items())


def _sampled(benchmark: Benchmark) -> Sampled:
    assert benchmark.sampled, f"{benchmark.name} is not for sampled answers"
    return benchmark.sampled


def questions(part: Part, profile: str, prompt: Prompt) -> list[tuple[Row, str]]:
    """The rows that are asked, each with the user's turn; an instruction of the prompt is put before it."""
    task = _sampled(part.benchmark)
    # An instruction after "Q:" is at the beginning of the user's turn.
    placement = {name: place for name, place in prompt.placement.items() if place == "none"}
    where = replace(prompt, placement=placement)
    asked = []
    for loaded in part.splits:
        for row in loaded.rows:
            texts = task.question(profile, row)
            if isinstance(texts, str):
                texts = [texts]
            for text in texts:
                # A benchmark gives an empty text for a row that it does not ask.
                if text:
                    asked.append((row, where.put(Request(row["id"], text), part.benchmark.name).context))
    return asked


def _body(
    model: str, system: str, turns: Sequence[str], longest: int, sampling: Sampling, number: int
) -> dict[str, Any]:
    """The body of a request; each sample of a question has a seed of its own."""
    # The body with one turn, whose messages are replaced by all turns.
    body = request_body(model, "", temperature=sampling.temperature, max_tokens=longest, seed=sampling.seed + number)
    body["messages"] = messages(system, turns)
    return body


def name(call: Call) -> str:
    """The name of the model at the API."""
    if not call.servers.model_name or len(call.servers.base_url) > 1:
        raise NoModel("A chat API needs the name of a model (--model-name), and at most one --base-url.")
    refuse_loading(call)
    return call.servers.model_name


def score_call(call: Call, console: Console, _processes: Processes) -> RunResult:
    """Asks the API, which records its replies in the folder of the run, or for this call alone."""
    with ExitStack() as stack:
        out = call.settings.out
        # Replies are recorded in any case; without a folder they are kept for this call alone.
        if out is None:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spending = {field.name: getattr(call.sampling, field.name) for field in fields(Spending)}
        options = GenerationOptions(
            name(call),
            out,
            next(iter(call.servers.base_url), None),
            concurrency=call.servers.concurrency,
            timeout=call.servers.timeout,
            **spending,
        )
        return sample(options, call.sampling, replace(call.settings, chat=True), console)


ENGINE = EngineKind(
    lambda call: call.sampling.chat_api and not call.in_memory,
    name,
    score_call,
    remote=True,
    folder=lambda call: ("chat-api", call.servers.tokenizer or ""),
)
