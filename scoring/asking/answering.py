"""Requests of the rows of benchmarks, and their responses: cached ones from the store, the others from the model."""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from cards.common.answer_key import answer_key
from cards.common.stored import digest
from cards.common.text import for_files, grouped
from scoring.inference.chat import Chat
from scoring.inputs.prompts import Prompt
from scoring.inputs.tables import Loaded
from scoring.types import Benchmark, BenchmarkContext, Option, Request, Response, Row, ScoringError

if TYPE_CHECKING:
    from scoring.inference.engine import Engine
    from scoring.inference.store import Store

PACKAGE = "gender-neutral-probes"


@dataclass(frozen=True, slots=True)
class Question:
    """A row of a benchmark with its context and requests.

    ``requests`` are by their id within the benchmark; each request has an id that is unique in the run.
    """

    benchmark: Benchmark
    row: Row
    context: BenchmarkContext
    requests: Mapping[str, Request]


@dataclass(frozen=True, slots=True)
class Asker:
    """Makes the requests of rows: with a profile and a prompt, and through the chat template if there is a chat."""

    profile: str
    prompt: Prompt
    chat: Chat | None = None

    def question(
        self,
        benchmark: Benchmark,
        row: Row,
        context: BenchmarkContext,
        around: Callable[[str], Sequence[str]] | None = None,
    ) -> Question:
        """The requests of a row.

        ``around`` makes the turns up to the response from a question, by default those of the prompt before the model
        has said anything.
        """
        place = f"{benchmark.name}/{row['config']}/{row['split']}"
        requests = {}
        for request in benchmark.requests(self.profile, row, context):
            prompted = self.prompt.put(replace(request, id=f"{place}/{request.id}"), benchmark.name)
            if self.chat:
                prompted = self.chat.put(prompted, around or self.prompt.turns)
            requests[request.id] = prompted
        return Question(benchmark, row, context, requests)

    def questions(self, benchmark: Benchmark, splits: Iterable[Loaded], model: Engine) -> Iterator[Question]:
        """The questions of a benchmark in the order of its rows; rows without requests are left out."""
        for loaded in splits:
            context = context_of(model, loaded)
            for row in loaded.rows:
                question = self.question(benchmark, row, context)
                if question.requests:
                    yield question


class SharedQuestions:
    """The questions of a call with several models: made for the first model of a tokenizer and format, read for others.

    They are in a temporary file without a name, so their number takes no memory. Requests are stored as plain tuples,
    which are read three times as fast as they are made.
    """

    #: Questions that are written and read together.
    BLOCK = 256

    def __init__(self) -> None:
        # Only this process writes and reads it, so its blocks may be pickles.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)  # when the call ends
        #: By what the questions depend on: the name of the model where they do on that, and the places of blocks.
        self._stored: dict[str, list[tuple[str | None, list[tuple[int, int]]]]] = {}

    def of(
        self, asker: Asker, parts: Sequence[tuple[Benchmark, Sequence[Loaded]]], model: Engine
    ) -> Iterator[Question]:
        """The questions of all benchmarks with their splits, in order."""
        key = self._key(asker, [benchmark for benchmark, _ in parts], model)
        for name, stored in self._stored.get(key, ()):
            if name in (None, model.name):
                yield from self._read(stored, parts, model)
                return
        noted: set[str] = set()
        blocks: list[tuple[int, int]] = []
        waiting: list[Any] = []
        for number, (benchmark, splits) in enumerate(parts):
            for place, loaded in enumerate(splits):
                context = context_of(model, loaded)
                noting = _Noting(**{field.name: getattr(context, field.name) for field in fields(context)})
                object.__setattr__(noting, "noted", noted)  # the context is frozen
                for row in loaded.rows:
                    question = asker.question(benchmark, row, noting)
                    if not question.requests:
                        continue
                    requests = [(name, _plain(request)) for name, request in question.requests.items()]
                    waiting.append((number, place, row, requests))
                    if len(waiting) == self.BLOCK:
                        blocks.append(self._write(waiting))
                        waiting.clear()
                    yield replace(question, context=context)
        blocks.append(self._write(waiting))
        # Only here, because the questions of a model that failed are not all there.
        name = None
        if "model" in noted:
            name = model.name
        self._stored.setdefault(key, []).append((name, blocks))

    def _key(self, asker: Asker, benchmarks: Sequence[Benchmark], model: Engine) -> str:
        from scoring.inference.checkpoint import digest_of_tokenizer

        about = facts(model)
        chat = []
        if asker.chat:
            chat = [asker.chat.template, asker.chat.system]
        return digest(
            {
                "profile": asker.profile,
                "prompt": asker.prompt.json(),
                "chat": chat,
                "benchmarks": [[benchmark.name, benchmark.version] for benchmark in benchmarks],
                "model": [about.kind, about.family, about.padding_side],
                "tokenizer": digest_of_tokenizer(model.tokens.tokenizer),
            }
        )

    def _write(self, questions: Sequence[Any]) -> tuple[int, int]:
        content = pickle.dumps(questions)
        place = self._file.seek(0, os.SEEK_END)
        self._file.write(content)
        return place, len(content)

    def _read(
        self, blocks: Sequence[tuple[int, int]], parts: Sequence[tuple[Benchmark, Sequence[Loaded]]], model: Engine
    ) -> Iterator[Question]:
        contexts: dict[tuple[int, int], BenchmarkContext] = {}
        for start, size in blocks:
            self._file.seek(start)
            for number, place, row, requests in pickle.loads(self._file.read(size)):
                benchmark, splits = parts[number]
                if (number, place) not in contexts:
                    contexts[number, place] = context_of(model, splits[place])
                by_name = {name: _request(plain) for name, plain in requests}
                yield Question(benchmark, row, contexts[number, place], by_name)


class _Noting(BenchmarkContext):
    """A context that notes which facts the requests of a benchmark depend on."""

    noted: set[str]

    def __getattribute__(self, name: str) -> Any:
        if name == "model":
            self.noted.add(name)
        return super().__getattribute__(name)


def _plain(request: Request) -> tuple[Any, ...]:
    """A request as a tuple of plain values."""
    options = [(option.text, option.spans, option.mask, option.width, option.start) for option in request.options]
    return request.id, request.context, options, request.candidates, request.max_new


def _request(plain: tuple[Any, ...]) -> Request:
    name, context, options, candidates, max_new = plain
    return Request(name, context, tuple(Option(*option) for option in options), candidates, max_new)


def questions(
    benchmark: Benchmark, splits: Sequence[Loaded], profile: str, prompt: Prompt, model: Engine
) -> list[Question]:
    """All questions of a benchmark as :meth:`Asker.questions` gives them, for a few rows."""
    return list(Asker(profile, prompt).questions(benchmark, splits, model))


def pieces(every: Iterable[Question], size: int) -> Iterator[list[Question]]:
    """Questions in pieces of about ``size`` characters, in their order.

    Only one piece is in memory, with its tokens and its responses. A piece may have questions of several benchmarks, so
    that small benchmarks fill the batches of a model together.

    >>> some = [Question(None, {}, None, {"a": Request("a", "x" * length)}) for length in (5, 5, 20, 1)]
    >>> [len(piece) for piece in pieces(some, size=10)]
    [2, 1, 1]
    """
    piece: list[Question] = []
    characters = 0
    for question in every:
        piece.append(question)
        for request in question.requests.values():
            characters += _size(request)
        if characters >= size:
            whole, piece, characters = piece, [], 0
            yield whole
            # Whoever asks has it alone, so that it ends when it is answered.
            del whole
    if piece:
        yield piece


def after_first_turn(
    model: Engine,
    ask: Callable[[Callable[[str], Sequence[str]]], object],
    prompt: Prompt,
    chat: Chat,
    answered: Callable[[Sequence[Request]], Mapping[str, Response]],
) -> Callable[[str], Sequence[str]]:
    """The turns of a question after the model's first turn, which is asked here for all questions of a piece.

    ``ask(around)`` makes all requests of the piece, ``answered`` gives the responses to some.

    Raises
    ------
    ScoringError
        When the engine does not write.
    """
    first = prompt.first
    assert first
    if "generation" not in model.capabilities:
        raise ScoringError(f"The prompt {prompt.name!r} asks the model to write first, which this engine cannot do.")
    requests: dict[str, Request] = {}

    def opening(question: str) -> Sequence[str]:
        turns = prompt.turns(question)
        requests[question] = Request(f"first turn/{question}", chat.text(*turns), max_new=first["tokens"])
        return turns

    # The requests of the piece are made once only to learn which questions there are; what it returns is not used.
    ask(opening)
    replies = answered(list(requests.values()))
    return lambda question: prompt.turns(question, replies[f"first turn/{question}"].text)


def scorable(every: Sequence[Question], model: Engine, *, truncate: bool = False) -> tuple[list[Question], list[str]]:
    """The questions that this model's tokens allow to score, and a sentence for each other one.

    An object needs tokens of its own. A row beyond the headline (:attr:`Benchmark.beyond`) that is longer than the
    context window is left out too, so that the headline has a value; a row of the headline ends the run.
    """
    from scoring.inference.tokens import SharedToken, TooLong

    fit, skipped = [], []
    for question in every:
        is_beyond = question.benchmark.beyond and question.benchmark.beyond(question.row)
        # Only options with spans are scored in part.
        looked_at = []
        for request in question.requests.values():
            has_spans = any(option.spans for option in request.options)
            if has_spans or (is_beyond and request.options and not truncate):
                looked_at.append(request)
        # The control rows may have been cut before this.
        cuts = model.tokens.truncate
        model.tokens.truncate = cuts and not is_beyond
        try:
            for _ in model.tokens.queries(looked_at):
                pass
        except SharedToken as error:
            skipped.append(str(error).partition(";")[0])
        except TooLong as error:
            if not is_beyond:
                raise
            skipped.append(str(error).partition(";")[0])
        else:
            fit.append(question)
        finally:
            model.tokens.truncate = cuts
    return fit, skipped


def context_of(model: Engine, loaded: Loaded) -> BenchmarkContext:
    """What a benchmark may know of the model and of the other rows of a split."""

    # Every row asks for it, and it is the same for all rows of a split.
    @cache
    def longest(column: str) -> int:
        texts = loaded.whole.column(column).drop_null().to_pylist()
        return max(len(encoding.ids) for encoding in model.tokens.encode(texts))

    return replace(facts(model), encode=model.tokens.encode, longest=longest)


def facts(model: Engine) -> BenchmarkContext:
    """What a benchmark may know of the model, without a split."""
    side = model.tokens.tokenizer.padding_side
    return BenchmarkContext(model.kind, model=model.name, family=model.family, padding_side=side)


def package_version() -> str:
    """The version of this package, where it is installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        # A checkout that is not installed has no metadata.
        return "source tree"


def decoding(prompt: Prompt) -> Any:
    """The decoding of a prompt, for :meth:`scoring.inference.engine.Engine.answer`."""
    from scoring.inference.generation import Decoding  # with it comes torch

    settings: dict[str, Any] = dict(prompt.decoding)
    for name, value in settings.items():
        # TOML has lists, and a decoding is hashed.
        if isinstance(value, list):
            settings[name] = tuple(value)
    return Decoding(**settings)


def key(model: Engine, prompt: Prompt, *, truncate: bool = False, chat: Chat | None = None) -> dict[str, str]:
    """What responses depend on besides the request, for :class:`scoring.inference.store.Store`, without secrets."""
    template, system = "", ""
    if chat:
        template, system = chat.template, chat.system
    facts = answer_key(
        model.name,
        weights=model.revision,
        files=model.files,
        adapter=model.adapter,
        answers=model.answers,
        kind=model.kind,
        dtype=model.dtype,
        exact=model.exact,
        start=" · ".join(model.tokens.begins.values()),
        prompt=prompt.json(),
        chat=template,
        system=system,
        decoding=decoding(prompt),
        truncate=truncate,
        **{PACKAGE: package_version()},
        **model.store_key,
    )
    # A name may hold a secret, such as a token in the address of a server, and the key is stored.
    hide = for_files(os.environ)
    return {name: hide(str(value)) for name, value in facts.items()}


def answer(
    model: Engine,
    requests: Sequence[Request],
    store: Store,
    settings: Mapping[str, Any],
    learn: Callable[..., None] | None = None,
) -> dict[str, Response]:
    """Responses by the id of the request: from the store, and for the rest from the model, into the store.

    The model gets requests that differ only in their ids once. ``learn`` gets the requests that have a
    response, and whether it was ``known`` before (:meth:`scoring.asking.workload.Outlook.note_answers`).
    """
    responses: dict[str, Response] = {}
    unknown = []
    for request in requests:
        response = store.get(request)
        if response is None:
            unknown.append(request)
        else:
            responses[request.id] = response
    if learn:
        learn([request for request in requests if request.id in responses], known=True)
    # Rows of different configs may ask the same question, which is then computed once.
    same = grouped(unknown, lambda request: replace(request, id=""))
    rest = {group[0].id: group for group in same.values()}

    def keep(response: Response) -> None:
        group = rest[response.id]
        store.put(group[0], response)
        for request in group:
            responses[request.id] = replace(response, id=request.id)
        if learn:
            learn(group)

    if rest:
        model.answer([group[0] for group in rest.values()], on_response=keep, **settings)
    return responses


def truncated(model: Engine, requests: Sequence[Request]) -> frozenset[str]:
    """Ids of the requests whose text is cut, including those whose responses were cached."""
    # Responses that were cached are not tokenised in this run, so all requests are encoded to see which are cut.
    model.tokens.truncate = True
    for _ in model.tokens.queries(requests):
        pass
    continued = [request for request in requests if request.max_new]
    contexts = model.tokens.encode([request.context for request in continued])
    for request, context in zip(continued, contexts, strict=True):
        model.tokens.prompt(request, context, request.max_new)
    return model.truncated


def _size(request: Request) -> int:
    # One more, so that a request without text counts too.
    return 1 + len(request.context) + sum(len(option.text) for option in request.options)
