"""The most decisive examples of a benchmark: those in which a model's preference is strongest."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

import numpy as np

from scoring.types import Table

#: How many decisive examples of a benchmark the page shows.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Pair:
    """Two numbers of an example whose difference says what the model prefers, and their sentences."""

    names: tuple[str, str]
    numbers: tuple[str, str]
    sentences: tuple[str, ...]


PAIRS = (
    Pair(("female", "male"), ("female_logprob", "male_logprob"), ("sentence_female", "sentence_male")),
    Pair(
        ("stereotype", "anti-stereotype"), ("score_biased", "score_unbiased"), ("sentence_biased", "sentence_unbiased")
    ),
    Pair(("female", "male"), ("p_female", "p_male"), ()),
    Pair(("female", "male"), ("female_mass", "male_mass"), ()),
)
_ABOUT = (
    "dataset",
    "config",
    "topic",
    "task",
    "domain",
    "subject",
    "job",
    "template",
    "debiasing",
    "gender_class",
    "id",
)
#: Parts of a sentence, each with whether the other sentence has something else there.
Parts = list[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class Example:
    """An example for the page: who is preferred, by how much, what was compared."""

    preferred: str
    difference: float
    sides: tuple[tuple[str, float, Parts], ...]
    text: str
    about: str


def decisive(table: Table, count: int = SHOWN) -> list[Example]:
    """The examples with the largest absolute difference, ties in the order of the table."""
    pair = next((p for p in PAIRS if {*p.numbers, *p.sentences} <= table.keys()), None)
    if pair is None:
        return []
    first, second = (np.asarray(table[c], dtype=np.float64) for c in pair.numbers)
    difference = np.where(np.isfinite(first) & np.isfinite(second), first - second, 0.0)
    order = np.argsort(-np.abs(difference), kind="stable")[:count]
    return [_example(table, pair, i, float(difference[i])) for i in order if difference[i]]


def _example(table: Table, pair: Pair, row: int, difference: float) -> Example:
    sentences = [_short(table[c][row]) for c in pair.sentences] or ["", ""]
    numbers = [float(table[c][row]) for c in pair.numbers]
    asked = " → ".join(_short(table[c][row]) for c in ("prompt", "text") if c in table and not pair.sentences)
    about = dict.fromkeys(_short(table[c][row], 80) for c in _ABOUT if c in table)
    return Example(
        pair.names[difference < 0],
        difference,
        tuple(zip(pair.names, numbers, contrast(*sentences), strict=True)),
        asked,
        " · ".join(filter(None, about)),
    )


def _short(value: object, limit: int = 400) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def contrast(first: str, second: str) -> tuple[Parts, Parts]:
    """Two sentences in parts, with what differs marked.

    >>> contrast("She ate.", "He ate.")[0]
    [('She', True), (' ate.', False)]
    """
    a, b = (re.findall(r"\s+|\S+", text) for text in (first, second))
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    left = [("".join(a[i:j]), tag != "equal") for tag, i, j, *_ in blocks if i < j]
    right = [("".join(b[i:j]), tag != "equal") for tag, _, _, i, j in blocks if i < j]
    return left, right
