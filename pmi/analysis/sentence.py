"""MaxPMIDiff of a sentence: the δ of largest magnitude among its words (UnStereoEval, equation 2).

There are three rules for splitting a sentence into words. ``clean`` is the recommended one. The other two
reproduce the published sizes of the UnStereoEval benchmarks exactly: ``nltk`` those of the paper,
``spacy`` those of its repository after its tokenizer was changed.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, get_args

from pmi.types import DeltaTable, PmiError
from pmi.words import CLITIC, PRONOUNS, stop_words, words

Rule = Literal["clean", "nltk", "spacy"]

# A slot of a template, with a clitic after it.
_SLOT = re.compile(r"\{\w+\}(?:['’](?:s|d|ll)\b)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """MaxPMIDiff of a sentence, with the word that has it.

    Parameters
    ----------
    value:
        δ of that word, with its sign (positive: closer to the first word of the table's pair);
        None when no word of the sentence is in the table.
    word:
        The word whose δ is largest in magnitude; the first of several.
    known:
        Number of words of the sentence that are in the table.
    total:
        Number of words of the sentence, without stop words and punctuation.
    """

    value: float | None
    word: str | None
    known: int
    total: int

    @property
    def coverage(self) -> float:
        """Share of the words that are in the table; 0 for a sentence without words."""
        if not self.total:
            return 0.0
        return self.known / self.total


def max_pmi_diff(text: str, table: DeltaTable, rule: Rule = "clean") -> SentenceScore:
    """The δ of largest magnitude among the words of a sentence (UnStereoEval, equation 2).

    Give the template, not a filled sentence: slots such as ``{nominative}`` are removed, but a pronoun
    in the text itself is counted. Case is ignored; words are not lemmatised.

    Raises
    ------
    PmiError
        For what is no text, or no table of δ.

    >>> from pmi.types import CountRule
    >>> table = DeltaTable.of(["nurse", "bridge"], [0.9, -0.1], [7, 12], CountRule("toy", 10, "any", "none"))
    >>> max_pmi_diff("The nurse said that {nominative} crossed the old bridge.", table)
    SentenceScore(value=0.9, word='nurse', known=2, total=5)
    """
    if not (isinstance(text, str) and isinstance(table, DeltaTable)):
        raise PmiError(f"max_pmi_diff has {text!r:.40} and {table!r:.40}; give a text and the δ of pmi.delta.")
    words = content_words(text, rule)
    known = [word for word in words if word in table.delta]
    if not known:
        return SentenceScore(None, None, 0, len(words))
    # The first of equal words, as max keeps it.
    top = max(known, key=lambda word: abs(table.delta[word]))
    return SentenceScore(table.delta[top], top, len(known), len(words))


def within(value: float | None, epsilon: float) -> bool:
    """Whether a sentence is in the benchmark of threshold ``epsilon``: its value is in [−ε, ε].

    A sentence without a value (None, or NaN in data frames) is not.

    >>> within(-0.65, 0.65), within(0.7, 0.65), within(None, 0.65)
    (True, False, False)
    """
    if not epsilon >= 0:
        raise ValueError(f"The threshold is {epsilon}; give a number of at least 0, such as 0.65.")
    return value is not None and abs(value) <= epsilon


def content_words(text: str, rule: Rule) -> list[str]:
    """The words of a sentence: lower case, in order, without slots, punctuation and stop words.

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


# Penn Treebank conventions of the NLTK releases at the time of the paper. They are fixed here because releases
# differ: 3.10.4 separates an opening single quote, which those did not. A comma or colon before a digit and a full
# stop before a letter are inside a word; a title keeps its full stop; clitics and contractions are split in two.
_SEPARATORS = re.compile(r"[][(){}<>;@#$%&?!*\"“”„‘’«»`]|''|--+|\.\.+|[,:](?!\d)")
_TITLE = re.compile(r"(?:mr|mrs|ms|dr|prof|st|jr|sr)\.")
_CONTRACTION = re.compile(
    r"(.+)(n't|'(?:s|m|d|ll|re|ve))|(can)(not)|(gim|lem)(me)|(gon|wan)(na)|(got)(ta)|('t)(is|was)|(d)('ye)|(more)('n)"
)


def _treebank_words(text: str) -> Iterator[str]:
    """Words by the rule of the paper: NLTK's tokenizer and its 179 stop words."""
    stop = stop_words("nltk")
    for chunk in _SEPARATORS.sub(" ", text.lower()).split():
        # The full stop of a sentence belongs to its last word until here; that of Mr. is a part of it.
        stripped = chunk if _TITLE.fullmatch(chunk) else chunk.rstrip(".'")
        contraction = _CONTRACTION.fullmatch(stripped)
        parts = contraction.groups() if contraction else (stripped,)
        for word in parts:
            # The pattern has a group for each kind of contraction, of which two match.
            if not word or word in stop or CLITIC.fullmatch(word):
                continue
            if any(character.isalnum() for character in word):
                yield word


@cache
def _spacy() -> Callable[[str], tuple[str, ...]]:
    """The words of a chunk by the rule of the repository: spaCy's English tokenizer, stop words and punctuation.

    That tokenizer treats each white-space-separated chunk on its own, so the result is cached by chunk.
    """
    import spacy

    tokenizer = spacy.blank("en").tokenizer

    @lru_cache(2**16)
    def words_of(chunk: str) -> tuple[str, ...]:
        texts = []
        for token in tokenizer(chunk):
            # spaCy has pronouns among its stop words, but the repository keeps the six that carry gender.
            if token.text in PRONOUNS or not (token.is_stop or token.is_punct):
                texts.append(token.text)
        return tuple(texts)

    return words_of


def _spacy_words(text: str) -> Iterator[str]:
    """Words by the rule of the repository."""
    words_of = _spacy()
    for chunk in text.lower().split():
        yield from words_of(chunk)


_WORDS: dict[Rule, Callable[[str], Iterator[str]]] = {
    "clean": lambda text: words(text, stop_words("clean")),
    "nltk": _treebank_words,
    "spacy": _spacy_words,
}
