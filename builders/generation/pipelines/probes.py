"""Neutral statements about "my friend", written by a chat model.

*Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024) has two sets of 200 such
statements, asked for with the examples "My friend likes blue" and "My friend is talking on the phone";
its predecessor *Probing Explicit and Implicit Gender Bias through LLM Conditional Text Generation* takes
statements that it got as the next examples (``reseed``). Neither prints its prompt: the wording here is
this project's. A statement is a duplicate when :func:`builders.text.split.overlap` with one that is kept
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
from builders.generation.asking import Asker, Question
from builders.generation.chat import Record, request
from builders.generation.pipeline import Account, Distinct, Pipeline, count_words, listed, prompts, worded
from builders.parsers import read
from builders.text.words import THEY_FORMS, gendered_words, normalise

_ASK = 20
_STATEMENT = re.compile(r"My friend (?:[^\W_]|[ '&-]|\.(?=\w))+")
_WORDS = re.compile(r"[\w']+")


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be chosen."""

    count: Annotated[int, Option(help="How many statements to make.", min=1)] = 200
    seed_sentence: Annotated[list[str], Option(help="Example; may be given several times.")] = field(
        default_factory=lambda: ["My friend likes blue", "My friend is talking on the phone"]
    )
    reseed: Annotated[bool, Option("--reseed", help="Take statements that were kept as the next examples.")] = False
    against: Annotated[list[Path], Option(help="File of statements, one a line, not to be repeated.")] = field(
        default_factory=list
    )
    overlap: Annotated[
        float, Option(help="Share of common content words at which two are duplicates.", min=0.05, max=1)
    ] = 0.5
    temperature: Annotated[float, Option(help="Temperature of the model.")] = 0.7
    calls: Annotated[int, Option(help="How often to ask at most.", min=1)] = 100


def statement(entry: str) -> str:
    """An entry as a statement, without the full stop at its end.

    >>> statement("My friend sings loudly. ")
    'My friend sings loudly'
    """
    return entry.strip().rstrip(".!").rstrip()


def fault(text: str) -> str:
    """Why a text is no neutral statement; empty when it is.

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


def run(settings: Settings, model: str, ask: Asker, account: Account) -> list[dict[str, Any]]:
    """Statements until there are enough, each with the reply it stands in."""
    distinct = Distinct(settings.overlap, [line for path in settings.against for line in read.lines(path) if line])
    kept: dict[str, Record] = {}
    asked = 0
    while len(kept) < settings.count and asked < settings.calls:
        calls = min(-(-(settings.count - len(kept)) // _ASK), settings.calls - asked)
        examples = list(islice(_examples(settings, list(kept), asked), calls))
        questions = [_question(settings, model, example, asked + n) for n, example in enumerate(examples)]
        asked += calls
        replies = ask("write", questions)
        for reply, entries in zip(replies, listed("write", replies, _ASK, account), strict=True):
            neutral = account.keep("write", map(statement, entries), fault, str)
            kept |= dict.fromkeys(account.keep("duplicates", neutral, distinct.fault, str), reply)
    if len(kept) < settings.count:
        account.remarks.append(f"{len(kept)} of {settings.count} statements after {asked} calls; raise --calls")
    wanted = account.keep("count", enumerate(kept), lambda each: _surplus(each[0], settings), lambda each: each[1])
    return [
        {"id": content_id("friend", text), "statement": text, "prompt": f"{text}, and", "model": kept[text].model}
        for _, text in wanted
    ]


def _surplus(place: int, settings: Settings) -> str:
    return "" if place < settings.count else "is more than was asked for"


def _examples(settings: Settings, kept: list[str], asked: int) -> Iterator[str]:
    """Examples for the next calls: the given ones in turn or, to re-seed, the latest that were kept."""
    pool = kept[::-1] if settings.reseed and kept else settings.seed_sentence
    start = 0 if settings.reseed else asked
    return (pool[n % len(pool)] for n in count(start))


def _question(settings: Settings, model: str, example: str, number: int) -> Question:
    prompt = worded(prompts()["probes"]["ask"], count=_ASK, example=example)
    asked = request(model, prompt, temperature=settings.temperature, max_tokens=32 * _ASK, seed=number)
    imagined = "\n".join(f"{n + 1}. My friend meets imagined{number}x{n} words{number}x{n}" for n in range(_ASK))
    return Question(asked, imagined)


PIPELINE = Pipeline('Neutral statements about "my friend".', Settings, run)
