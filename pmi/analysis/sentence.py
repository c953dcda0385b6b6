"""MaxPMIDiff: the word of a sentence that leans most to one gender, and how far.

Three rules say what the words of a sentence are. ``clean`` is the one to use; the other two give the
published sizes of the UnStereoEval benchmarks to the last sentence: ``nltk`` those of the paper,
``spacy`` those of its repository after the tokenizer was changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal, get_args

from pmi.types import DeltaTable
from pmi.words import CLITIC, PRONOUNS, stop_words, words

Rule = Literal["clean", "nltk", "spacy"]

# A clitic is no word of its own, and goes with the slot that it leans on.
_SLOT = re.compile(r"\{\w+\}(?:['’](?:s|d|ll)\b)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Score:
    """How far a sentence leans, and on what grounds.

    Parameters
    ----------
    value:
        δ of the deciding word, sign kept (positive leans to the first word of the table's pair);
        None when no word of the sentence is in the table.
    word:
        The deciding word: the first of those whose δ is largest in magnitude.
    known:
        How many words of the sentence are in the table.
    total:
        How many there are, stop words and punctuation not counted.
    """

    value: float | None
    word: str | None
    known: int
    total: int

    @property
    def coverage(self) -> float:
        """Share of the words that are in the table; 0 when there are none."""
        return self.known / self.total if self.total else 0.0


def max_pmi_diff(text: str, table: DeltaTable, rule: Rule = "clean") -> Score:
    """The δ of largest magnitude among the words of a sentence (UnStereoEval, equation 2).

    Give the template rather than a filled sentence: slots such as ``{nominative}`` are taken out,
    but a pronoun that stands in the text literally is counted. Case is ignored, words are not
    lemmatised.

    >>> from pmi.types import CountRule
    >>> table = DeltaTable.of(["nurse", "bridge"], [0.9, -0.1], [7, 12], CountRule("toy", 10, "any", "none"))
    >>> max_pmi_diff("The nurse said that {nominative} crossed the old bridge.", table)
    Score(value=0.9, word='nurse', known=2, total=5)
    """
    words = content_words(text, rule)
    known = [word for word in words if word in table.delta]
    top = max(known, key=lambda word: abs(table.delta[word]), default=None)
    return Score(None if top is None else table.delta[top], top, len(known), len(words))


def within(value: float | None, epsilon: float) -> bool:
    """Whether a sentence stays in the benchmark of threshold ``epsilon``: its value is in [−ε, ε].

    A sentence without a value (None, or NaN as data frames have it) does not stay.

    >>> within(-0.65, 0.65), within(0.7, 0.65), within(None, 0.65)
    (True, False, False)
    """
    if not epsilon >= 0:
        raise ValueError(f"The threshold is {epsilon}; give a number of at least 0, such as 0.65.")
    return value is not None and abs(value) <= epsilon


def content_words(text: str, rule: Rule) -> list[str]:
    """The words of a sentence by a rule: lower case, in order, without slots, punctuation and stop words.

    Raises
    ------
    ValueError
        When there is no such rule.

    >>> content_words("{nominative} couldn't find {possessive} well-worn map.", "clean")
    ['find', 'worn', 'map']
    >>> content_words("{nominative} couldn't find {possessive} well-worn map.", "nltk")
    ['could', 'find', 'well-worn', 'map']
    """
    if rule not in _WORDS:
        raise ValueError(f"The rule is {rule!r}; give one of {', '.join(get_args(Rule))}.")
    return list(_WORDS[rule](_SLOT.sub("", text)))


def _clean_words(text: str) -> Iterator[str]:
    """Words by our own rule, which depends on no installed library."""
    return words(text, stop_words("clean"))


# Penn Treebank conventions, frozen: releases of NLTK differ in them (3.10.4 cuts an opening single quote off,
# the releases of the paper's time left it on). A comma or colon before a digit and a full stop before a letter
# are inside a word; a title keeps its full stop; clitics and the fused words are cut in two.
_APART = re.compile(r"[][(){}<>;@#$%&?!*\"“”„‘’«»`]|''|--+|\.\.+|[,:](?!\d)")
_TITLE = re.compile(r"(?:mr|mrs|ms|dr|prof|st|jr|sr)\.")
_SPLIT = re.compile(
    r"(.+)(n't|'(?:s|m|d|ll|re|ve))|(can)(not)|(gim|lem)(me)|(gon|wan)(na)|(got)(ta)|('t)(is|was)|(d)('ye)|(more)('n)"
)


def _treebank_words(text: str) -> Iterator[str]:
    """Words by the rule of the paper: NLTK's tokenizer and its list of 179 stop words."""
    stop = stop_words("nltk")
    for chunk in _APART.sub(" ", text.lower()).split():
        whole = chunk if _TITLE.fullmatch(chunk) else chunk.rstrip(".'")
        cut = _SPLIT.fullmatch(whole)
        for word in filter(None, cut.groups() if cut else (whole,)):
            if word not in stop and not CLITIC.fullmatch(word) and any(map(str.isalnum, word)):
                yield word


@cache
def _spacy() -> Any:
    import spacy

    return spacy.blank("en").tokenizer


@lru_cache(2**16)
def _spacy_chunk(chunk: str) -> tuple[str, ...]:
    tokens = _spacy()(chunk)
    return tuple(t.text for t in tokens if t.text in PRONOUNS or not (t.is_stop or t.is_punct))


def _spacy_words(text: str) -> Iterator[str]:
    """Words by the rule of the repository: spaCy's English tokenizer, stop words and punctuation.

    That tokenizer works on what stands between white space, piece by piece, so no piece is cut twice.
    """
    for chunk in text.lower().split():
        yield from _spacy_chunk(chunk)


_WORDS: dict[Rule, Callable[[str], Iterator[str]]] = {
    "clean": _clean_words,
    "nltk": _treebank_words,
    "spacy": _spacy_words,
}
