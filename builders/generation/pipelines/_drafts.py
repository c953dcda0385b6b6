"""Draft sentences of the UnStereo pipeline: their seed word and pronoun, and their conversion to a template."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from builders.datasets.unstereo import mend
from builders.generation.responses import ChatError
from builders.parsers import read
from builders.text.words import PRONOUNS, THEY_FORMS, Gender, fill, fill_they, normalise
from pmi.files import read_rows
from pmi.types import PmiError

#: The forms of each pronoun, as prompts list them.
FORMS: dict[Gender, str] = {
    "male": "he/his/him/himself",
    "female": "she/her/hers/herself",
    "they": "they/their/them/themself",
}
#: The same in the published prompts.
PUBLISHED_FORMS: dict[Gender, str] = {"male": "he/his/him/himself", "female": "she/her/her/herself"}

_HIS_SLOT = {"he": "{nominative}", "his": "{possessive}", "him": "{accusative}", "himself": "{reflexive}"}
_HE = re.compile(r"\b(?:he|his|him|himself)\b", re.IGNORECASE)
# The published pattern has two spellings of each form.
_PUBLISHED_HE = re.compile(r"\b[Hh](?:e|is|im|imself)\b")
_WORD = re.compile(r"[\w'-]+")
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")


@dataclass(frozen=True, slots=True)
class Draft:
    """A sentence with a seed word.

    Parameters
    ----------
    gender:
        The gender of the pronoun that it was written with.
    sentence:
        The sentence as written or revised.
    model:
        The model that wrote or revised it.
    reply_id:
        The key of the response that it was written in.
    template:
        The sentence with slots in place of the pronoun; empty before the conversion.
    revisions:
        Number of revisions until it had the word and the pronoun.
    natural:
        Whether it was judged likely with every pronoun; None before the judgement.
    """

    word: str
    gender: Gender
    sentence: str
    model: str
    reply_id: str = ""
    template: str = ""
    revisions: int = 0
    natural: bool | None = None


def has_pronoun(gender: Gender, sentence: str) -> bool:
    """Whether a sentence contains a form of the pronoun.

    >>> has_pronoun("female", "It was hers."), has_pronoun("male", "This is here.")
    (True, False)
    """
    forms = PRONOUNS[gender]
    known = THEY_FORMS if gender == "they" else {normalise(getattr(forms, name)) for name in forms.__slots__}
    words = _WORD.findall(normalise(sentence))
    return any(word in known or word.partition("'")[0] in known for word in words)


def to_template(sentence: str) -> str:
    """A sentence with *he*, with slots for the forms of the pronoun.

    >>> to_template("He said the map was his, so he's glad.")
    "{nominative} said the map was {possessive_absolute}, so {nominative}'s glad."
    """
    return mend(_HE.sub(lambda match: _HIS_SLOT[match[0].lower()], sentence))


def to_template_published(sentence: str) -> str:
    """:func:`to_template` by the rule of the published code, in which *his* is always the same slot.

    The result is empty for a sentence with braces, which would look like slots.
    """
    if "{" in sentence or "}" in sentence:
        return ""
    return _PUBLISHED_HE.sub(lambda match: _HIS_SLOT[match[0].lower()], sentence)


def restores_sentence(template: str, gender: Gender, sentence: str) -> bool:
    """Whether a template, filled with the pronoun of the original sentence, gives the sentence.

    >>> restores_sentence("{nominative} is here.", "they", "They are here.")
    True
    >>> restores_sentence("{nominative} was there.", "female", "She is here.")
    False
    """
    filled = fill_they(template) if gender == "they" else fill(template, gender)
    return filled is not None and _without_variants(filled) == _without_variants(sentence)


def _without_variants(sentence: str) -> str:
    return normalise(sentence).replace("themselves", "themself")


def seed_words(path: Path) -> list[str]:
    """The seed words of a file, each once.

    A table (CSV, TSV, JSON lines, Parquet), such as ``probes pmi vocabulary`` writes, has them in its column
    ``word``, or else in the first one. Another file has a JSON list, a JSON object whose names are the words, or
    one word a line.

    Raises
    ------
    ChatError
        When there are no words, or an entry is not a word.
    """
    advice = "give one word a line, or a JSON list"
    try:
        if path.suffix.lower() in _TABLES:
            rows = read_rows(path)
            words = rows["word" if "word" in rows.column_names else 0].to_pylist()
        elif (text := read.text(path)).lstrip().startswith(("[", "{")):
            words = list(json.loads(text))
        else:
            words = [line.strip() for line in text.splitlines() if line.strip()]
    except (OSError, ValueError, PmiError) as error:
        raise ChatError(f"The words in {path} cannot be read ({error}); {advice}.") from None
    faults = [word for word in words if not (isinstance(word, str) and _WORD.fullmatch(word))]
    if faults:
        raise ChatError(f"{path.name} has {faults[0]!r}, which is not a word; {advice}.")
    if not words:
        raise ChatError(f"{path.name} has no word; {advice}.")
    return list(dict.fromkeys(words))
