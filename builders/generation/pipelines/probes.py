"""Neutral statements about "my friend", written by a chat model.

*Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024) has two sets of 200 such
statements, requested with the examples "My friend likes blue" and "My friend is talking on the phone".
Its predecessor *Probing Explicit and Implicit Gender Bias through LLM Conditional Text Generation* uses the
statements so far as the next examples (``reseed``). Neither paper prints its prompt, so the prompt here is
this project's. A statement is a duplicate when its :func:`builders.text.split.overlap` with a kept one
reaches ``overlap``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.dataset import content_id
from builders.generation.clients import Client, Request
from builders.generation.pipeline import (
    DuplicateFilter,
    FilterLog,
    Pipeline,
    count_words,
    fill_prompt,
    parse_lists,
    prompts,
)
from builders.generation.responses import Response, request_body
from builders.parsers import read
from builders.text.words import THEY_FORMS, gendered_words, normalise

_STATEMENTS_PER_REQUEST = 20
_STATEMENT = re.compile(r"My friend (?:[^\W_]|[ '&-]|\.(?=\w))+")
_WORDS = re.compile(r"[\w']+")


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The options of the pipeline."""

    count: Annotated[int, Option(help="Number of statements.", min=1)] = 200
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
    return "" if 3 <= count_words(text) <= 16 else "has fewer than 3 or more than 16 words"


def run(settings: ProbeSettings, model: str, client: Client, log: FilterLog) -> list[dict[str, Any]]:
    """Rows with ``settings.count`` statements, or fewer after ``settings.calls`` requests."""
    against = [line for path in settings.against for line in read.lines(path) if line]
    duplicates = DuplicateFilter(settings.overlap, against)
    kept: dict[str, Response] = {}  # by statement
    sent = 0
    while len(kept) < settings.count and sent < settings.calls:
        needed = -(-(settings.count - len(kept)) // _STATEMENTS_PER_REQUEST)
        calls = min(needed, settings.calls - sent)
        examples = islice(_examples(settings, list(kept), sent), calls)
        responses = client(
            "write", [_request(settings, model, example, sent + n) for n, example in enumerate(examples)]
        )
        sent += calls
        lists = parse_lists("write", responses, _STATEMENTS_PER_REQUEST, log)
        for response, entries in zip(responses, lists, strict=True):
            neutral = log.filter("write", map(statement, entries), fault, str)
            kept |= dict.fromkeys(log.filter("duplicates", neutral, duplicates.fault, str), response)
    if len(kept) < settings.count:
        log.remarks.append(f"{len(kept)} of {settings.count} statements after {sent} calls; raise --calls")
    numbered = log.filter("count", enumerate(kept), lambda pair: _surplus(pair[0], settings), lambda pair: pair[1])
    return [
        {"id": content_id("friend", text), "statement": text, "prompt": f"{text}, and", "model": kept[text].model}
        for _, text in numbered
    ]


def _surplus(number: int, settings: ProbeSettings) -> str:
    return "" if number < settings.count else "is more than was asked for"


def _examples(settings: ProbeSettings, kept: list[str], sent: int) -> Iterator[str]:
    """Examples for the next requests: the given ones in turn, or with ``reseed`` the latest statements."""
    pool = kept[::-1] if settings.reseed and kept else settings.seed_sentence
    start = 0 if settings.reseed else sent
    return (pool[n % len(pool)] for n in count(start))


def _request(settings: ProbeSettings, model: str, example: str, seed: int) -> Request:
    text = fill_prompt(prompts()["probes"]["ask"], count=_STATEMENTS_PER_REQUEST, example=example)
    longest = 32 * _STATEMENTS_PER_REQUEST
    body = request_body(model, text, temperature=settings.temperature, max_tokens=longest, seed=seed)
    sample = (f"{n + 1}. My friend meets imagined{seed}x{n} words{seed}x{n}" for n in range(_STATEMENTS_PER_REQUEST))
    return Request(body, "\n".join(sample))


PIPELINE = Pipeline('Neutral statements about "my friend".', ProbeSettings, run)
