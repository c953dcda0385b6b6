"""Asks what is not yet recorded, a few requests at a time, and gives every reply in the order of its request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from rich.progress import Progress

from builders.generation.chat import Book, ModelGone, NoReply, Record, key, record
from builders.generation.price import Price, Purse, about_tokens, most, prompt_text

if TYPE_CHECKING:  # a replay does without the client
    from builders.generation.endpoint import Endpoint

Request = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and what a good reply to it would look like: a dry run goes on with that."""

    request: Request
    imagined: str

    @property
    def key(self) -> str:
        """What the request is known by."""
        return key(self.request)


class Asker(Protocol):
    """Something that pipelines ask."""

    def __call__(self, stage: str, questions: Sequence[Question]) -> list[Record]:
        """The record of each question, in their order."""


@dataclass
class Replay:
    """Replies that are recorded, and no others.

    >>> from pathlib import Path
    >>> Replay(Book(Path("none.jsonl"), writable=False))("ask", [])
    []
    """

    book: Book

    def __call__(self, stage: str, questions: Sequence[Question]) -> list[Record]:
        """The recorded replies.

        Raises
        ------
        NoReply
            When one is not there.
        """
        keys = [question.key for question in questions]
        lacking = {k: q.request for k, q in zip(keys, questions, strict=True) if k not in self.book}
        if lacking:
            models = ", ".join(f"{count} of {name}" for name, count in self.book.models().items()) or "none"
            raise NoReply(
                f"Stage {stage} needs {len(lacking)} replies of {next(iter(lacking.values()))['model']} that are not "
                f"recorded (there are {models}); run without --offline, or with the --model and settings of the "
                "recorded run."
            )
        return [self.book[k] for k in keys]


@dataclass
class Rehearsal:
    """A dry run: counts what would be asked, and goes on with imagined replies.

    ``stages`` has for each stage how many replies are recorded, and the questions that have none.
    """

    book: Book
    stages: dict[str, tuple[int, list[Question]]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def __call__(self, stage: str, questions: Sequence[Question]) -> list[Record]:
        """Recorded replies where they are, imagined ones elsewhere."""
        known, new = self.stages.get(stage, (0, []))
        given = []
        for question in questions:
            is_known = (name := question.key) in self.book
            given.append(self.book[name] if is_known else record(question.request, question.imagined))
            if name not in self._seen:
                self._seen.add(name)
                known, new = (known + 1, new) if is_known else (known, [*new, question])
        self.stages[stage] = known, new
        return given


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a stage would take; money is None where the price is unknown."""

    stage: str
    recorded: int
    calls: int
    prompt_tokens: int
    reply_tokens: int
    longest_reply_tokens: int
    price: Decimal | None
    highest_price: Decimal | None


def estimates(rehearsal: Rehearsal, price: Price | None) -> list[Estimate]:
    """What the stages of a dry run would take, if every reply were like the imagined one."""
    found = []
    for stage, (known, new) in rehearsal.stages.items():
        prompt = sum(about_tokens(prompt_text(q.request)) for q in new)
        reply = sum(about_tokens(q.imagined) for q in new)
        longest = sum(q.request["max_tokens"] for q in new)
        about = price.of(prompt, reply) if price else None
        highest = sum((most(q.request, price) for q in new), Decimal(0)) if price else None
        found.append(Estimate(stage, known, len(new), prompt, reply, longest, about, highest))
    return found


@dataclass
class Live:
    """A model behind an endpoint; each reply is recorded before it is used, and none is asked for twice.

    Parameters
    ----------
    connect:
        Makes the endpoint, when the first reply is lacking.
    purse:
        The budget, if there is one.
    concurrency:
        How many requests are under way at once. What comes out does not depend on it.
    """

    book: Book
    connect: Callable[[], Endpoint]
    progress: Progress
    purse: Purse | None = None
    concurrency: int = 4
    _endpoint: Endpoint | None = None

    def __call__(self, stage: str, questions: Sequence[Question]) -> list[Record]:
        """The recorded replies, after asking for those that were lacking.

        Raises
        ------
        ChatError
            When a request fails for good or the budget is reached. Calls that are under way then are
            waited for and their replies kept, as they are paid for.
        """
        keys = [question.key for question in questions]
        lacking = {k: q.request for k, q in zip(keys, questions, strict=True) if k not in self.book}
        if lacking:
            self._endpoint = self._endpoint or self.connect()
            try:
                self._get(stage, list(lacking.values()), self._endpoint)
            except ModelGone as gone:
                raise ModelGone(f"{gone}; {self._still_works(lacking)}") from None
        return [self.book[k] for k in keys]

    def close(self) -> None:
        """Ends the connection."""
        if self._endpoint:
            self._endpoint.close()

    def _get(self, stage: str, requests: Sequence[Request], endpoint: Endpoint) -> None:
        task = self.progress.add_task(stage, total=len(requests))
        with ThreadPoolExecutor(self.concurrency) as pool:
            calls = [pool.submit(self._one, request, endpoint) for request in requests]
            try:
                for call in as_completed(calls):
                    call.result()
                    self.progress.advance(task)
            except BaseException:
                endpoint.stop.set()  # also for what comes from outside, such as an interruption
                pool.shutdown(cancel_futures=True)
                raise
            finally:
                self.progress.remove_task(task)

    def _one(self, request: Request, endpoint: Endpoint) -> None:
        try:
            self._pay(request, endpoint)
        except BaseException:
            if not endpoint.stop.is_set():  # what fails later fails for the first failure, which is the one to tell
                endpoint.stop.set()  # at once: this thread would take the next request
                raise

    def _pay(self, request: Request, endpoint: Endpoint) -> None:
        paying: AbstractContextManager[list[Record]] = self.purse.paying(request) if self.purse else nullcontext([])
        with paying as paid:
            if endpoint.stop.is_set():
                return
            paid.append(made := endpoint.ask(request))
            self.book.put(made)

    def _still_works(self, lacking: Mapping[str, Request]) -> str:
        """What can be done without the model."""
        kept = ", ".join(f"{count} of {name}" for name, count in self.book.models().items())
        left = sum(k not in self.book for k in lacking)
        if not kept:
            return "no reply of it is recorded, so give another --model."
        return (
            f"this stage lacks {left} replies of it. The recorded replies still work ({kept}): the same command "
            "replays them as far as they reach, and another --model starts afresh beside them."
        )
