"""One run: the requests of benchmarks, the responses of one model, tables of records, and estimates."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from cards.common.answer_key import shown_key
from cards.common.memory import give_back
from cards.common.progress import say_lines, stage
from cards.results import NAMED_REVISION, PARAMETERS
from scoring.asking import answering, language, ways, workload
from scoring.asking.answering import Question
from scoring.asking.estimates import estimate
from scoring.asking.result import RunResult
from scoring.inference.chat import Chat
from scoring.inference.parallel import ALONE, Processes, ended, together
from scoring.inputs import tables
from scoring.inputs.columns import Columns
from scoring.inputs.prompts import Prompt
from scoring.options import Settings, recorded
from scoring.types import Benchmark, Estimate, Line, Report, Request, Response, ScoringError, Table

if TYPE_CHECKING:
    from scoring.inference.engine import Engine
    from scoring.inference.store import Store


@dataclass(frozen=True, slots=True)
class Part:
    """A benchmark with the splits that were read; ``lacking`` names the splits that do not exist."""

    benchmark: Benchmark
    splits: tuple[tables.Loaded, ...] = ()
    lacking: tuple[tables.DataMissing, ...] = ()


@dataclass(frozen=True, slots=True)
class Shared:
    """What the models of one call share: the data, and where there are several models the questions."""

    parts: Sequence[Part]
    questions: answering.SharedQuestions | None = None


def read(
    benchmarks: Sequence[Benchmark],
    source: str,
    profile: str,
    limit: int | None = None,
    *,
    named: bool = False,
    groups: Literal["headline", "all"] = "all",
) -> list[Part]:
    """The data of benchmarks; each part names the splits that are missing.

    With ``groups`` as ``headline`` the rows beyond the headline are left out (:attr:`Benchmark.beyond`).

    Raises
    ------
    ScoringError
        When no benchmark has data, when a benchmark that the user ``named`` has none, or when a file is not
        the one of its manifest.
    """
    parts = []
    for benchmark in benchmarks:
        splits, lacking = [], []
        for place in benchmark.configs_of(profile):
            try:
                splits.append(tables.of_benchmark(benchmark, source, *place, limit, groups))
            except tables.DataMissing as error:
                # A user may have built some of the data sets alone, so the others are scored.
                lacking.append(error)
        parts.append(Part(benchmark, tuple(splits), tuple(lacking)))
    empty = [part for part in parts if not part.splits]
    if empty and (named or len(empty) == len(parts)):
        raise empty[0].lacking[0]
    return parts


def score(
    model: Engine,
    parts: Sequence[Part],
    store: Store,
    settings: Settings,
    prompt: Prompt,
    chat: Chat | None = None,
    console: Console | None = None,
    processes: Processes = ALONE,
    shared: answering.SharedQuestions | None = None,
) -> RunResult:
    """Gets the responses to all requests, from the store or the model, and computes every metric.

    Parameters
    ----------
    parts:
        From :func:`read`; each benchmark must suit the kind of the model.
    settings:
        Of which the profile, the resamples, ``batch_tokens`` and ``truncate`` are used.
    prompt:
        That of the settings, with the system text.
    chat:
        Applies the model's chat template to each request; without it the model reads plain text.
    store:
        Has the responses of earlier runs with the same model and settings. New responses are written as
        they arrive, so an interrupted run can continue.
    console:
        Shows the progress.
    processes:
        The processes that share the requests; all but the first end here.
    shared:
        Makes or has the questions, where several models are asked them.

    Raises
    ------
    SystemExit
        In the other processes, when all requests are answered.
    ScoringError
        When the model cannot answer a request, or produces NaN or infinity.
    """
    if prompt.self_debias:
        from scoring.inference.self_debias import with_prompt

        model = with_prompt(model, prompt)
    # A prompt with two turns needs a chat; without one its first turn would never be asked.
    prompt.refuse(chat is not None)
    how = {
        "batch_tokens": settings.batch_tokens,
        "truncate": settings.truncate,
        "decoding": answering.decoding(prompt),
    }

    outlooks: list[workload.Outlook] = []

    def answered(some: Sequence[Request]) -> dict[str, Response]:
        return answering.answer(model, some, store, how, outlooks[0].note_answers if outlooks else None)

    asker = answering.Asker(settings.profile, prompt, chat)
    questions = _questions(asker, parts, model, shared)
    columns = {part.benchmark.name: Columns() for part in parts}
    skipped: list[str] = []

    def ask(piece: Sequence[Question]) -> None:
        for shown in outlooks:
            shown.begin_piece(piece)
        if prompt.first and chat:
            piece = _after_first_turn(piece, asker, model, answered)
        # A token that lies half in what is scored has no probability of that half, so such a row is left out; so is
        # one beyond the headline that is too long.
        fit, left_out = answering.scorable(piece, model, truncate=settings.truncate)
        skipped.extend(left_out)
        requests: list[Request] = []
        for question in fit:
            requests += question.requests.values()
        if processes.count > 1:
            together(processes, requests, store, answered)
            # The first process has all responses and makes the tables alone.
            if not processes.first:
                return
        responses = answered(requests)
        cut = None
        if settings.truncate:
            cut = answering.truncated(model, requests)
        for question in fit:
            columns[question.benchmark.name].add(line(settings.profile, question, responses, cut))

    every = []
    if console and not console.quiet:
        every = workload.splits(asker, [(part.benchmark, part.splits) for part in parts], model)
        from scoring.asking.dry_run import most_memory  # with it comes torch

        # A recipe without built data measures its own sentences alone.
        if every:
            say_lines(console, workload.plan(every, settings.groups, most_memory()))
    with workload.outlook(every, console) as shown:
        outlooks.append(shown)
        # One piece after the other is asked and becomes lines of the tables, so that memory does not grow with the
        # rows.
        for piece in answering.pieces(questions, model.piece):
            ask(piece)
            # The next piece is made when nothing of this one is left.
            del piece
    outlooks.clear()
    # The other processes end in there.
    if processes.count > 1:
        ended(processes, model, store)
    # Statistics need the memory that the network has worked in.
    give_back()

    records: dict[str, Table] = {}
    estimates: list[Estimate] = []
    with stage(console or Console(quiet=True), "Computing scores and intervals …"):
        for part in parts:
            name = part.benchmark.name
            if part.benchmark.joined:
                records[name] = part.benchmark.joined(records)
            else:
                # Popped, so that only the table is kept in memory.
                records[name] = columns.pop(name).table()
            estimates += estimate(part.benchmark, settings.profile, records[name], settings.resamples)
    give_back()
    report = model_report(model, parts, settings, prompt, chat, estimates)
    # The tests of language compare probabilities of sentences, so an engine that only writes has none.
    if "logprobs" in model.capabilities and (model.kind == "causal" or "masked" in model.capabilities):
        report = replace(report, language=language.measured(model, answered(language.requests())))
    if skipped:
        environment = dict(report.environment)
        environment["rows skipped"] = skipped
        report = replace(report, environment=environment)
    return RunResult(report, records, remarks=_skipped(skipped))


def _questions(
    asker: answering.Asker, parts: Sequence[Part], model: Engine, shared: answering.SharedQuestions | None
) -> Iterator[Question]:
    """The questions of all parts in order, which several models may share."""
    if shared is not None:
        yield from shared.of(asker, [(part.benchmark, part.splits) for part in parts], model)
        return
    for part in parts:
        yield from asker.questions(part.benchmark, part.splits, model)


def _skipped(sentences: Sequence[str]) -> tuple[str, ...]:
    """A remark on rows that the model's tokens do not allow to score; the report names all of them.

    >>> _skipped(["a: 'x.' lies half in the span 'x'"])
    ("1 row is skipped, because the model's tokens do not allow to score it (a: 'x.' lies half in the span 'x').",)
    """
    if not sentences:
        return ()
    rows, it, more = "1 row is", "it", ""
    if len(sentences) > 1:
        rows, it, more = f"{len(sentences)} rows are", "them", ", and so on; report.html names all"
    return (f"{rows} skipped, because the model's tokens do not allow to score {it} ({sentences[0]}{more}).",)


def _after_first_turn(
    piece: Sequence[Question],
    asker: answering.Asker,
    model: Engine,
    answered: Callable[[Sequence[Request]], Mapping[str, Response]],
) -> list[Question]:
    """The questions of a piece after the model's first turn, which is asked here."""

    def asked(around: Callable[[str], Sequence[str]]) -> list[Question]:
        return [asker.question(question.benchmark, question.row, question.context, around) for question in piece]

    assert asker.chat
    return asked(answering.after_first_turn(model, asked, asker.prompt, asker.chat, answered))


def line(
    profile: str, question: Question, responses: Mapping[str, Response], cut: frozenset[str] | None = None
) -> Line:
    """The record of a question; with ``cut`` (ids of requests) ``truncated`` marks one with cut text."""
    of_row = {name: responses[request.id] for name, request in question.requests.items()}
    record = question.benchmark.to_record(profile, question.row, of_row, question.context)
    if cut is not None:
        record["truncated"] = any(request.id in cut for request in question.requests.values())
    return record


def table(profile: str, asked: Iterable[Question], responses: Mapping[str, Response]) -> Table:
    """One record per question."""
    return tables.as_table(line(profile, question, responses) for question in asked)


def model_report(
    model: Engine,
    parts: Sequence[Part],
    settings: Settings,
    prompt: Prompt,
    chat: Chat | None,
    estimates: Sequence[Estimate] = (),
) -> Report:
    """The report of a run of a model with these settings."""
    # A digest says whether two runs had the same text, which is all that a comparison asks.
    asked: dict[str, Any] = {f"prompt {prompt.name}": f"{prompt.version} sha256:{_sha256(prompt.json())}"}
    if chat:
        asked["chat template"] = f"sha256:{_sha256(chat.template)}"
        asked["system"] = chat.system
    else:
        asked["chat template"] = ""
        asked["system"] = ""
    if model.named_revision:
        asked[NAMED_REVISION] = model.named_revision
    if model.parameters:
        asked[PARAMETERS] = model.parameters
    headlines = {part.benchmark.name: part.benchmark.headline for part in parts if part.benchmark.headline}
    environment = {
        **model.environment,
        "start of a text": model.tokens.begins,
        "settings": recorded(settings),
        "response key": shown_key(answering.key(model, prompt, truncate=settings.truncate, chat=chat)),
    }
    return report_of(
        parts,
        settings,
        prompt,
        estimates,
        environment,
        asked,
        revision=model.revision,
        adapter=model.adapter,
        dtype=model.dtype,
        model=model.name,
        speed=model.stats.speed(),
        headlines=headlines,
    )


def report_of(
    parts: Sequence[Part],
    settings: Settings,
    prompt: Prompt,
    estimates: Sequence[Estimate],
    engine: Mapping[str, Any],
    asked: Mapping[str, Any],
    **about: Any,
) -> Report:
    """The report of a run, with facts ``about`` the model; the environment has those of ``engine`` and prompt too."""
    environment = {
        answering.PACKAGE: answering.package_version(),
        "platform": platform.platform(),
        **engine,
    }
    for part in parts:
        environment[f"benchmark {part.benchmark.name}"] = part.benchmark.version
    environment.update(asked)
    environment["resamples"] = settings.resamples
    lacking, versions = [], {}
    for part in parts:
        lacking += [missing.name for missing in part.lacking]
        for loaded in part.splits:
            versions[loaded.name] = loaded.version
    environment["data lacking"] = lacking
    return Report(
        estimates=tuple(estimates),
        prompt=prompt.name,
        profile=settings.profile,
        environment=environment,
        data=versions,
        **about,
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def without(
    parts: Sequence[Part], reason: Callable[[Part], str], advice: str, end: str, *, named: bool, unread: bool = False
) -> tuple[list[Part], list[str]]:
    """The parts for which there is no ``reason`` to leave them out, and a remark for each other one.

    Of parts whose data are ``unread`` it is not known whether any is left.

    Raises
    ------
    ScoringError
        When there is one for a benchmark that the user named, or no part is left; with ``advice``.
    """
    left: list[Part] = []
    reasons: dict[str, str] = {}
    for part in parts:
        sentence = reason(part)
        if sentence:
            # Several parts may be of one benchmark, which has one remark.
            reasons[part.benchmark.name] = sentence
        else:
            left.append(part)
    # Of data that are not read yet a split may still turn out to be there.
    has_data = unread or any(part.splits for part in left)
    if reasons and (named or not has_data):
        first = next(iter(reasons.values()))
        raise ScoringError(f"{first}; leave the benchmark out, or {advice}.")
    return left, [f"{sentence}{end}" for sentence in reasons.values()]


def suited(parts: Sequence[Part], kind: str, model: str, *, named: bool) -> tuple[list[Part], list[str]]:
    """The parts that have data and suit a kind of model, and a remark for each benchmark that does not suit.

    The kind is ``causal``, ``masked``, or ``chat`` for a model that is asked through its chat template.

    Raises
    ------
    ScoringError
        When a benchmark that the user named does not suit, or no part is left.
    """

    def reason(part: Part) -> str:
        if kind in part.benchmark.kinds:
            return ""
        if kind == "chat":
            # A chat has turns, and a whole sentence without a context is neither a question nor an answer.
            return f"The benchmark {part.benchmark.name} scores whole sentences, which a chat template cannot hold"
        kinds = " or ".join(other for other in part.benchmark.kinds if other != "chat")
        return f"The benchmark {part.benchmark.name} is for {kinds} models, and {model} is a {kind} one"

    advice = "give another model"
    if kind == "chat":
        advice = "run without --chat"
    fit, remarks = without(parts, reason, advice, ".", named=named)
    return [part for part in fit if part.splits], remarks


def able(parts: Sequence[Part], engine: Engine, profile: str, *, named: bool) -> tuple[list[Part], list[str]]:
    """The parts whose needs an engine meets, and a remark for each other one.

    Raises
    ------
    ScoringError
        When the engine cannot do what a benchmark that the user named needs, or no part is left.
    """

    def reason(part: Part) -> str:
        lacking = sorted(part.benchmark.needs(profile, answering.facts(engine)) - engine.capabilities)
        if not lacking:
            return ""
        needs = f"The benchmark {part.benchmark.name} needs {' and '.join(lacking)}"
        if ways.TURNS in lacking:
            return f"{needs}, which only --chat-api has"
        return f"{needs}, which the engine of this run ({engine.revision}) does not have"

    advice = "score the model with the transformers engine"
    # No engine of networks keeps the turns of a chat: only a chat API does.
    if any(ways.TURNS in part.benchmark.needs(profile, answering.facts(engine)) for part in parts):
        advice = "score a chat model with --chat-api"
    return without(parts, reason, advice, "; it is left out.", named=named)
