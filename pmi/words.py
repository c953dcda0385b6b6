"""What a word is by our own rule: the same for sentences and for whole corpora, and for every installed library.

A word is letters, digits and the marks upon them; an apostrophe between letters and a separator between
digits belong to it, a hyphen does not. Text is normalised (NFKC), invisible characters are taken out, words
are lower-cased one by one, and a clitic goes from the word that it leans on. The published counts were made
of such words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path

#: Counted wherever they stand literally, although every stop-word list has them.
PRONOUNS = frozenset("she her hers he his him".split())

#: The rule in a phrase. What a letter is depends on the release of Unicode.
TOKENIZER = (
    "NFKC, runs of letters, marks and digits with apostrophes inside words and . , inside numbers, clitics cut off, "
    f"Unicode {unicodedata.unidata_version}"
)

# A clitic is no word of its own, and goes with the word that it leans on.
CLITIC = re.compile(r"(?:n't|['’](?:s|m|d|ll|re|ve))$")

#: What stands for an apostrophe, and what is not there at all.
FOLD = dict.fromkeys(map(ord, "\u2018\u2019\u02bc\uff07\u2032`\u00b4"), "'") | dict.fromkeys(
    map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"), ""
)

# Marks live in the first two planes and among the variation selectors.
_MARKED = (range(0x300, 0x20000), range(0xE0100, 0xE01F0))


@cache
def stop_words(name: str) -> frozenset[str]:
    """A shipped list, ``clean`` or ``nltk``, without the pronouns that are always counted."""
    return frozenset((Path(__file__).parent / "data" / f"stopwords-{name}.txt").read_text("utf-8").split()) - PRONOUNS


def normalise(text: str) -> str:
    """Text in which one character is written one way, apostrophes are straight and nothing is invisible.

    >>> normalise("the ﬁancé’s co\u00adoperation")
    "the fiancé's cooperation"
    """
    if text.isascii():
        return text.replace("`", "'")
    return unicodedata.normalize("NFKC", text.translate(FOLD)).translate(FOLD)


def words(text: str, stop: Container[str]) -> Iterator[str]:
    """The words of a text in order, lower-cased, without those of ``stop``.

    >>> list(words("The nurse's well-worn map of 1,000 İslands", {"the", "of"}))
    ['nurse', 'well', 'worn', 'map', '1,000', 'i̇slands']
    """
    for found in _word().findall(normalise(text)):
        word = found.lower()
        bare = word if word in stop else CLITIC.sub("", word)
        if bare and bare not in stop:
            yield bare


@cache
def _word() -> re.Pattern[str]:
    """A word begins with a letter or digit; what may follow includes marks, without which many scripts fall apart."""
    more = rf"(?:[^\W_]|[{marks()}])*"
    return re.compile(rf"[^\W_]{more}(?:'[^\W_]{more}|(?<=\d)[.,](?=\d){more})*")


@cache
def marks() -> str:
    """All combining marks, as ranges of a character class."""
    found = [c for part in _MARKED for c in part if unicodedata.category(chr(c))[0] == "M"]
    starts = [c for c, before in zip(found, [-2, *found], strict=False) if c != before + 1]
    ends = [c for c, after in zip(found, [*found[1:], -2], strict=True) if c != after - 1]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))
