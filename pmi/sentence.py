"""MaxPMIDiff: the word of a sentence that leans most to one gender, and how far.

Three rules say what the words of a sentence are. ``clean`` is the one to use; the other two give the
published sizes of the UnStereoEval benchmarks to the last sentence: ``nltk`` those of the paper,
``spacy`` those of its repository after the tokenizer was changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from pmi.table import DeltaTable

Rule = Literal["clean", "nltk", "spacy"]

#: Counted wherever they stand literally, although every stop-word list has them.
PRONOUNS = frozenset("she her hers he his him".split())

# A clitic is no word of its own, and goes with the slot or the word that it leans on.
_CLITIC = re.compile(r"(?:n't|['’](?:s|m|d|ll|re|ve))$")
_SLOT = re.compile(r"\{\w+\}(?:['’](?:s|d|ll)\b)?")


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

    >>> from pmi.table import CountRule
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
    return list(_WORDS[rule](_SLOT.sub("", text.lower())))


@cache
def _stop_words(name: str) -> frozenset[str]:
    """A shipped list, without the pronouns that are always counted."""
    return frozenset((Path(__file__).parent / "data" / f"stopwords-{name}.txt").read_text("utf-8").split()) - PRONOUNS


# A word is letters and digits; an apostrophe between letters and a separator between digits belong to it, a
# hyphen does not. The published counts were made of such words.
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+|(?<=\d)[.,](?=\d)[^\W_]+)*")
_FOLD = dict.fromkeys(map(ord, "\u2018\u2019\u02bc\uff07\u2032`\u00b4"), "'") | dict.fromkeys(
    map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"), ""
)


def _clean_words(text: str) -> Iterator[str]:
    """Words by our own rule, which depends on no installed library."""
    stop = _stop_words("clean")
    for word in _WORD.findall(unicodedata.normalize("NFKC", text.translate(_FOLD)).translate(_FOLD)):
        bare = word if word in stop else _CLITIC.sub("", word)
        if bare not in stop:
            yield bare


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
    stop = _stop_words("nltk")
    for chunk in _APART.sub(" ", text).split():
        whole = chunk if _TITLE.fullmatch(chunk) else chunk.rstrip(".'")
        cut = _SPLIT.fullmatch(whole)
        for word in filter(None, cut.groups() if cut else (whole,)):
            if word not in stop and not _CLITIC.fullmatch(word) and any(map(str.isalnum, word)):
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
    for chunk in text.split():
        yield from _spacy_chunk(chunk)


_WORDS: dict[Rule, Callable[[str], Iterator[str]]] = {
    "clean": _clean_words,
    "nltk": _treebank_words,
    "spacy": _spacy_words,
}
