"""Neutral statements about "my friend", written by a chat model.

*Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024) has two sets of 200 such
statements, requested with the examples "My friend likes blue" and "My friend is talking on the phone".
Its predecessor *Probing Explicit and Implicit Gender Bias through LLM Conditional Text Generation* uses the
statements so far as the next examples (``reseed``). Profile ``paper`` has their printed prompts, that of the
predecessor with ``reseed``; the prompt of ``clean`` is this project's. A statement is a duplicate when its
:func:`builders.text.split.overlap` with a kept one reaches ``overlap``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.dataset import content_id
from builders.generation import pipeline
from builders.generation.clients import ChatClient, Request
from builders.generation.pipeline import FilterLog, Pipeline, Rules
from builders.parsers import read
from builders.text.embedded import table
from builders.text.words import THEY_FORMS, gendered_words, normalise

_STATEMENTS_PER_REQUEST = 20
_STATEMENT = re.compile(r"My friend (?:[^\W_]|[ '&-]|\.(?=\w))+")
_WORDS = re.compile(r"[\w']+")


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The options of the pipeline."""

    count: Annotated[int, Option(help="Number of statements.", min=1)] = 200
    profile: Annotated[Rules, Option(help="This project's prompt, or the printed one.")] = "clean"
    seed_sentence: Annotated[list[str], Option(help="Example; may be repeated.")] = field(
        default_factory=lambda: ["My friend likes blue", "My friend is talking on the phone"]
    )
    reseed: Annotated[bool, Option("--reseed", help="Use the statements so far as the next examples.")] = False
    against: Annotated[list[Path], Option(help="File of statements, one a line, that must not occur.")] = field(
        default_factory=list
    )
    overlap: Annotated[
        float, Option(help="Share of common content words at which two are duplicates.", min=0.05, max=1)
    ] = 0.5
    temperature: Annotated[float, Option(help="Temperature of the model.")] = 0.7
    calls: Annotated[int, Option(help="Highest number of requests.", min=1)] = 100

    @property
    def per_request(self) -> int:
        """How many statements a request asks for: all of them in the paper."""
        return self.count if self.profile == "paper" else _STATEMENTS_PER_REQUEST

    @property
    def prompt(self) -> str:
        """The template of a request."""
        name = {True: "list", False: "paper"}[self.reseed] if self.profile == "paper" else "ask"
        return str(table("prompts")["probes"][name])


def statement(entry: str) -> str:
    """An entry without the full stop at its end.

    >>> statement("My friend sings loudly. ")
    'My friend sings loudly'
    """
    return entry.strip().rstrip(".!").rstrip()


def fault(text: str) -> str:
    """Why a text is not a neutral statement, or an empty text.

    >>> fault("My friend walks her dog"), fault("My friend walks a dog")
    ('has the gendered word her', '')
    """
    if not text.startswith("My friend "):
        return 'does not begin with "My friend"'
    if not _STATEMENT.fullmatch(text):
        return "has punctuation or characters that are not prose"
    if gendered := gendered_words(text):
        return f"has the gendered word {gendered[0]}"
    if they := next((word for word in _WORDS.findall(normalise(text)) if word in THEY_FORMS), ""):
        return f"has the pronoun {they}"
    return "" if 3 <= pipeline.count_words(text) <= 16 else "has fewer than 3 or more than 16 words"


def run(settings: ProbeSettings, model: str, client: ChatClient, log: FilterLog) -> list[dict[str, Any]]:
    """Rows with ``settings.count`` statements, or fewer after ``settings.calls`` requests."""
    against = [line for path in settings.against for line in read.lines(path) if line]
    duplicates = pipeline.DuplicateFilter(settings.overlap, against)
    models: dict[str, str] = {}  # the model by statement
    sent = 0
    while len(models) < settings.count and sent < settings.calls:
        needed = -(-(settings.count - len(models)) // settings.per_request)
        calls = min(needed, settings.calls - sent)
        examples = islice(_examples(settings, list(models), sent), calls)
        requests = [(seed, _request(settings, model, example, seed)) for seed, example in enumerate(examples, sent)]
        sent += calls
        entries = pipeline.request_lists("write", requests, settings.per_request, client, log)
        # Reversed, so that of equal statements the first one's model stays.
        model_of = {statement(entry.text): entry.response.model for entry in reversed(entries)}
        neutral = log.filter("write", [statement(entry.text) for entry in entries], fault, str)
        models |= {text: model_of[text] for text in log.filter("duplicates", neutral, duplicates.fault, str)}
    if len(models) < settings.count:
        log.remarks.append(f"{len(models)} of {settings.count} statements after {sent} calls; raise --calls")
    surplus = set(list(models)[settings.count :])
    statements = log.filter("count", models, lambda text: "is more than requested" if text in surplus else "", str)
    return [
        {"id": content_id("friend", text), "statement": text, "prompt": f"{text}, and", "model": models[text]}
        for text in statements
    ]


def _examples(settings: ProbeSettings, statements: list[str], sent: int) -> Iterator[str]:
    """Examples for the next requests: the given ones in turn, or with ``reseed`` the latest statements."""
    pool = statements[::-1] if settings.reseed and statements else settings.seed_sentence
    return (pool[n % len(pool)] for n in count(0 if settings.reseed else sent))


def _request(settings: ProbeSettings, model: str, example: str, seed: int) -> Request:
    numbers = range(settings.per_request)
    return pipeline.prompt_request(
        model,
        settings.prompt,
        "\n".join(f"{n + 1}. My friend meets imagined{seed}x{n} words{seed}x{n}" for n in numbers),
        temperature=settings.temperature,
        max_tokens=32 * len(numbers),
        seed=seed,
        count=len(numbers),
        example=example,
    )


PIPELINE = Pipeline('Neutral statements about "my friend".', ProbeSettings, run)
