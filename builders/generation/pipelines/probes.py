"""Neutral statements about "my friend", written by a chat model.

*Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024) has two sets of 200 such
statements, requested with the examples "My friend likes blue" and "My friend is talking on the phone".
Its predecessor *Probing Explicit and Implicit Gender Bias through LLM Conditional Text Generation* uses the
statements so far as the next examples (``reseed``). Profile ``paper`` has their printed prompts, that of the
predecessor with ``reseed``; the prompt of ``clean`` is this project's. A statement is a duplicate when its
:func:`builders.text.split.overlap` with a kept one reaches ``overlap``.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.dataset import content_id
from builders.generation import pipeline
from builders.generation.clients import ChatClient, ChatRequest
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
        if self.profile == "paper":
            return self.count
        return _STATEMENTS_PER_REQUEST

    @property
    def prompt(self) -> str:
        """The template of a request."""
        if self.profile != "paper":
            name = "ask"
        elif self.reseed:
            name = "list"
        else:
            name = "paper"
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
    # A pronoun in the statement would give the friend a gender, or take the place of the one that is asked for.
    for word in _WORDS.findall(normalise(text)):
        if word in THEY_FORMS:
            return f"has the pronoun {word}"
    if not 3 <= pipeline.count_words(text) <= 16:
        return "has fewer than 3 or more than 16 words"
    return ""


def statement_rows(settings: ProbeSettings, model: str, client: ChatClient, log: FilterLog) -> list[dict[str, Any]]:
    """Rows with ``settings.count`` statements, or fewer after ``settings.calls`` requests."""
    against: list[str] = []
    for path in settings.against:
        against.extend(line for line in read.lines(path) if line)
    duplicates = pipeline.DuplicateFilter(settings.overlap, against)
    models: dict[str, str] = {}  # the model by statement
    sent = 0
    while len(models) < settings.count and sent < settings.calls:
        # Rounded up: a request for a part of a list is a whole request.
        needed = -(-(settings.count - len(models)) // settings.per_request)
        calls = min(needed, settings.calls - sent)
        requests = []
        for number, example in enumerate(_examples(settings, list(models), sent, calls)):
            # The seed makes each prompt differ, so that a stored response answers only one of them.
            seed = sent + number
            requests.append((seed, _request(settings, model, example, seed)))
        sent += calls
        entries = pipeline.request_lists("write", requests, settings.per_request, client, log)
        texts = []
        model_of: dict[str, str] = {}
        for entry in entries:
            text = statement(entry.text)
            texts.append(text)
            # Of equal statements the first is kept, with its model.
            model_of.setdefault(text, entry.response.model)
        neutral = log.filter("write", texts, fault, str)
        for text in log.filter("duplicates", neutral, duplicates.fault, str):
            models[text] = model_of[text]
    if len(models) < settings.count:
        log.remarks.append(f"{len(models)} of {settings.count} statements after {sent} calls; raise --calls")
    surplus = set(list(models)[settings.count :])
    statements = log.filter("count", models, lambda text: "is more than requested" if text in surplus else "", str)
    return [
        {"id": content_id("friend", text), "statement": text, "prompt": f"{text}, and", "model": models[text]}
        for text in statements
    ]


def _examples(settings: ProbeSettings, statements: list[str], sent: int, calls: int) -> list[str]:
    """Examples for the next requests: those of the user in turn, or with ``reseed`` the latest statements."""
    pool = settings.seed_sentence
    first = sent
    if settings.reseed:
        first = 0
        # Before the first statements there are only the examples of the user.
        if statements:
            pool = statements[::-1]
    return [pool[number % len(pool)] for number in range(first, first + calls)]


def _request(settings: ProbeSettings, model: str, example: str, seed: int) -> ChatRequest:
    size = settings.per_request
    lines = [f"{n + 1}. My friend meets imagined{seed}x{n} words{seed}x{n}" for n in range(size)]
    return pipeline.prompt_request(
        model,
        settings.prompt,
        "\n".join(lines),
        temperature=settings.temperature,
        max_tokens=32 * size,
        seed=seed,
        count=size,
        example=example,
    )


PIPELINE = Pipeline('Neutral statements about "my friend".', ProbeSettings, statement_rows)
