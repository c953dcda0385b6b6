"""Prompts with one blank and two objects for it, as in BiasKE (BiaScope), and checks of those that models write."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders.generation.pipeline import contains_phrase, read_rows, sentence_fault
from builders.text.split import phrase_key
from builders.text.wording import BLANK

#: Columns of biased pairs that the pipelines read: those of every config of the data set ``biaske``.
COLUMNS = ("id", "domain", "prompt", "object_biased", "object_unbiased")


def biased_pairs(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The rows of files of biased pairs, in their order."""
    return [row for path in paths for row in read_rows(path, COLUMNS)]


def normalise_blank(entry: str) -> str:
    """An entry with ``[BLANK]`` for its blank; models also write underscores, dots and lower case.

    >>> normalise_blank("The nurse is ____ here."), normalise_blank("The nurse is [blank] here.")
    ('The nurse is [BLANK] here.', 'The nurse is [BLANK] here.')
    """
    return re.sub(
        r"\[\s*blank\s*\]|\bBLANK\b(?!\])|(?<!\w)_{2,}(?!\w)|\[\s*\.{3}\s*\]", BLANK, entry, flags=re.IGNORECASE
    )


@dataclass(frozen=True)
class PromptFilter:
    """Checks prompts: their form, and that none repeats a biased prompt or an earlier one with the same objects.

    ``biased`` has the :func:`builders.text.split.phrase_key` of each biased prompt.
    """

    biased: frozenset[str] = frozenset()
    seen: set[tuple[str, ...]] = field(default_factory=set)

    def fault(self, prompt: str, objects: Sequence[str]) -> str:
        """Why a prompt cannot be used with these objects, or an empty text; then it is an earlier one from now on.

        >>> prompts = PromptFilter(frozenset({"the nurse is blank"}))
        >>> prompts.fault("The nurse is [BLANK].", ("kind", "rude")), prompts.fault("[BLANK] is it.", ("A", "The"))
        ('is a prompt of the biased set', '')
        """
        if prompt.count(BLANK) != 1:
            return f"has {prompt.count(BLANK)} blanks"
        if reason := sentence_fault(prompt):
            return reason
        if any(contains_phrase(prompt.replace(BLANK, " "), phrase) for phrase in objects):
            return "has an object outside its blank"
        key = phrase_key(prompt)
        if key in self.biased:
            return "is a prompt of the biased set"
        if (key, *objects) in self.seen:
            return "is there already"
        self.seen.add((key, *objects))
        return ""
