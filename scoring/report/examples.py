"""The most decisive examples of a benchmark: those in which a model's preference is strongest."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

import numpy as np

from scoring.types import Contrast, Table

#: How many decisive examples of a benchmark the page shows.
SHOWN = 20


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


def decisive(table: Table, contrast: Contrast | None, count: int = SHOWN) -> list[Example]:
    """The examples with the largest absolute difference, ties in the order of the table."""
    if contrast is None or not table or not set(contrast.numbers) <= table.keys():
        return []  # sampled answers have no probabilities to compare
    first, second = (np.asarray(table[column], dtype=np.float64) for column in contrast.numbers)
    difference = np.where(np.isfinite(first) & np.isfinite(second), first - second, 0.0)
    order = np.argsort(-np.abs(difference), kind="stable")[:count]
    return [_example(table, contrast, row, float(difference[row])) for row in order if difference[row]]


def _example(table: Table, contrast: Contrast, row: int, difference: float) -> Example:
    sentences = [_short(table[column][row]) for column in contrast.sentences] or ["", ""]
    numbers = [float(table[column][row]) for column in contrast.numbers]
    texts = [] if contrast.sentences else [column for column in ("prompt", "text") if column in table]
    about = dict.fromkeys(_short(table[column][row], 80) for column in contrast.about)
    return Example(
        contrast.names[difference < 0],
        difference,
        tuple(zip(contrast.names, numbers, marked_differences(*sentences), strict=True)),
        " → ".join(_short(table[column][row]) for column in texts),
        " · ".join(filter(None, about)),
    )


def _short(value: object, limit: int = 400) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def marked_differences(first: str, second: str) -> tuple[Parts, Parts]:
    """Two sentences in parts, with what differs marked.

    >>> marked_differences("She ate.", "He ate.")[0]
    [('She', True), (' ate.', False)]
    """
    a, b = (re.findall(r"\s+|\S+", text) for text in (first, second))
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    left = [("".join(a[i:j]), tag != "equal") for tag, i, j, *_ in blocks if i < j]
    right = [("".join(b[i:j]), tag != "equal") for tag, _, _, i, j in blocks if i < j]
    return left, right
