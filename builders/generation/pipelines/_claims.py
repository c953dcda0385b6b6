"""Prompts with one blank and two objects for it, as BiasKE has them, and what is checked of those that models write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders.generation.pipeline import no_sentence, records
from builders.parsers.triplets import BLANK
from builders.text.split import phrase_key
from builders.text.words import normalise

#: Columns of biased pairs that the pipelines read: those of every config of the data set ``biaske``.
COLUMNS = ("id", "domain", "prompt", "object_biased", "object_unbiased")


def biased_pairs(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Rows of the biased set in files, in their order."""
    return [row for path in paths for row in records(path, COLUMNS)]


def blanked(entry: str) -> str:
    """An entry with its blank spelt as it should be, whatever a model makes of it: lines, dots, other cases.

    >>> blanked("The nurse is ____ here."), blanked("The nurse is [blank] here.")
    ('The nurse is [BLANK] here.', 'The nurse is [BLANK] here.')
    """
    return re.sub(
        r"\[\s*blank\s*\]|\bBLANK\b(?!\])|(?<!\w)_{2,}(?!\w)|\[\s*\.{3}\s*\]", BLANK, entry, flags=re.IGNORECASE
    )


def stands_in(phrase: str, text: str) -> bool:
    """Whether a phrase stands in a text as whole words, whatever the case.

    >>> stands_in("he", "The map was there."), stands_in("the map", "The map was there.")
    (False, True)
    """
    return re.search(rf"(?<!\w){re.escape(normalise(phrase))}(?!\w)", normalise(text)) is not None


@dataclass(frozen=True)
class Prompts:
    """Prompts that may not be repeated: those of the biased set, and with the same objects those seen here.

    ``biased`` has them by :func:`builders.text.split.phrase_key`.
    """

    biased: frozenset[str] = frozenset()
    seen: set[tuple[str, ...]] = field(default_factory=set)

    def fault(self, prompt: str, objects: Sequence[str]) -> str:
        """Why a prompt cannot be used with these objects; empty, and seen from now on, when it can.

        >>> prompts = Prompts(frozenset({"the nurse is blank"}))
        >>> prompts.fault("The nurse is [BLANK].", ("kind", "rude")), prompts.fault("[BLANK] is it.", ("A", "The"))
        ('is a prompt of the biased set', '')
        """
        if reason := _form(prompt, objects):
            return reason
        key = phrase_key(prompt)
        if key in self.biased:
            return "is a prompt of the biased set"
        if (key, *objects) in self.seen:
            return "is there already"
        self.seen.add((key, *objects))
        return ""


def _form(prompt: str, objects: Sequence[str]) -> str:
    if prompt.count(BLANK) != 1:
        return f"has {prompt.count(BLANK)} blanks"
    if reason := no_sentence(prompt):
        return reason
    around = prompt.replace(BLANK, " ")
    return "has an object outside its blank" if any(stands_in(each, around) for each in objects) else ""
