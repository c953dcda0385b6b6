"""Sentences on their way to a template: the word and the pronoun they need, the slots that the pronoun leaves."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.datasets.unstereo import mend
from builders.generation.chat import ChatError, Record
from builders.parsers import read
from builders.text.words import PRONOUNS, THEY_FORMS, Gender, fill, fill_they, normalise
from pmi.files import read_rows
from pmi.types import PmiError

#: Forms of each pronoun as prompts name them.
FORMS: dict[Gender, str] = {
    "male": "he/his/him/himself",
    "female": "she/her/hers/herself",
    "they": "they/their/them/themself",
}
#: The published prompts name these.
PUBLISHED_FORMS: dict[Gender, str] = {"male": "he/his/him/himself", "female": "she/her/her/herself"}

_HIS_SLOT = {"he": "{nominative}", "his": "{possessive}", "him": "{accusative}", "himself": "{reflexive}"}
_HE = re.compile(r"\b(?:he|his|him|himself)\b", re.IGNORECASE)
# The published pattern knows two spellings of each form.
_PUBLISHED_HE = re.compile(r"\b[Hh](?:e|is|im|imself)\b")
_WORD = re.compile(r"[\w'-]+")
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")


@dataclass(frozen=True, slots=True)
class Draft:
    """A sentence around a seed word.

    Parameters
    ----------
    gender:
        Whose pronoun it was written with.
    sentence:
        As it was written or revised.
    reply:
        The reply that it stands in.
    template:
        With slots in place of the pronoun, once it is converted.
    revisions:
        How many attempts it took to get word and pronoun into it.
    natural:
        Whether it was judged likely with every pronoun; None before that.
    """

    word: str
    gender: Gender
    sentence: str
    reply: Record
    template: str = ""
    revisions: int = 0
    natural: bool | None = None


def has_word(word: str, sentence: str) -> bool:
    """Whether a word stands in a sentence in exactly this form, whatever the case.

    >>> has_word("map", "The Map was old."), has_word("map", "Two maps were old.")
    (True, False)
    """
    return re.search(rf"(?<!\w){re.escape(word.lower())}(?!\w)", sentence.lower()) is not None


def has_pronoun(gender: Gender, sentence: str) -> bool:
    """Whether a form of the pronoun stands in a sentence.

    >>> has_pronoun("female", "It was hers."), has_pronoun("male", "This is here.")
    (True, False)
    """
    forms = PRONOUNS[gender]
    known = THEY_FORMS if gender == "they" else {normalise(getattr(forms, name)) for name in forms.__slots__}
    words = _WORD.findall(normalise(sentence))
    return any(word in known or word.partition("'")[0] in known for word in words)


def templated(sentence: str) -> str:
    """A sentence about a man with slots for his pronoun.

    >>> templated("He said the map was his, so he's glad.")
    "{nominative} said the map was {possessive_absolute}, so {nominative}'s glad."
    """
    return mend(_HE.sub(lambda found: _HIS_SLOT[found[0].lower()], sentence))


def templated_published(sentence: str) -> str:
    """:func:`templated` by the rule of the published code, in which *his* is always the same slot.

    Nothing for a sentence that has braces already, which no slot could be told from.
    """
    if "{" in sentence or "}" in sentence:
        return ""
    return _PUBLISHED_HE.sub(lambda found: _HIS_SLOT[found[0].lower()], sentence)


def says_the_same(template: str, gender: Gender, sentence: str) -> bool:
    """Whether a template filled with the pronoun a sentence was written with gives the sentence.

    >>> says_the_same("{nominative} is here.", "they", "They are here.")
    True
    >>> says_the_same("{nominative} was there.", "female", "She is here.")
    False
    """
    filled = fill_they(template) if gender == "they" else fill(template, gender)
    return filled is not None and _compared(filled) == _compared(sentence)


def _compared(sentence: str) -> str:
    return normalise(sentence).replace("themselves", "themself")


def seed_words(path: Path) -> list[str]:
    """Words to write sentences around, each once.

    From a table (CSV, TSV, JSON lines, Parquet), such as ``python -m pmi vocabulary`` writes, its column
    ``word`` or else its first; from other files a JSON list, the names of a JSON object, or a line a word.

    Raises
    ------
    ChatError
        When there is none, or one is no word.
    """
    try:
        found = _column(path) if path.suffix.lower() in _TABLES else _listed(read.text(path))
    except (OSError, ValueError, PmiError) as error:
        raise ChatError(f"The words in {path} cannot be read ({error}); give a line a word, or a JSON list.") from None
    wrong = [word for word in found if not (isinstance(word, str) and _WORD.fullmatch(word))]
    if wrong or not found:
        what = f"has {wrong[0]!r}, which is no word" if wrong else "has no word"
        raise ChatError(f"{path.name} {what}; give a line a word, or a JSON list.")
    return list(dict.fromkeys(found))


def _column(path: Path) -> list[Any]:
    rows = read_rows(path)
    names: list[str] = rows.column_names
    found: list[Any] = rows["word" if "word" in names else names[0]].to_pylist()
    return found


def _listed(body: str) -> list[Any]:
    if body.lstrip().startswith(("[", "{")):
        return list(json.loads(body))
    return [line.strip() for line in body.splitlines() if line.strip()]
