"""Splits text into words by this package's own rule, for sentences and corpora alike, without another library.

A word consists of letters, digits and combining marks; an apostrophe between letters and a ``.`` or ``,``
between digits belong to it, a hyphen does not. Text is normalised (NFKC), invisible characters are removed,
words are lower-cased, and a clitic is cut off the word before it. The published counts have such words too.
"""

import re
import unicodedata
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path

#: Never stop words, although every stop-word list has them.
PRONOUNS = frozenset("she her hers he his him".split())

#: The rule in one phrase. Which characters are letters depends on the release of Unicode.
TOKENIZER = (
    "NFKC, runs of letters, marks and digits with apostrophes inside words and . , inside numbers, clitics cut off, "
    f"Unicode {unicodedata.unidata_version}"
)

#: A clitic at the end of a word, which is cut off.
CLITIC = re.compile(r"(?:n't|['’](?:s|m|d|ll|re|ve))$")

#: Replacements before and after normalisation: other apostrophes become straight, invisible characters are removed.
FOLD: dict[int, str] = {}
for _character in "\u2018\u2019\u02bc\uff07\u2032`\u00b4":
    FOLD[ord(_character)] = "'"
for _character in "\u00ad\u200b\u200c\u200d\u2060\ufeff":
    FOLD[ord(_character)] = ""

# The ranges of Unicode that contain combining marks.
_MARK_RANGES = (range(0x300, 0x20000), range(0xE0100, 0xE01F0))


@cache
def stop_words(name: str) -> frozenset[str]:
    """The list ``clean`` or ``nltk`` without :data:`PRONOUNS`."""
    return frozenset((Path(__file__).parent / "data" / f"stopwords-{name}.txt").read_text("utf-8").split()) - PRONOUNS


def normalise(text: str) -> str:
    """Text in NFKC with straight apostrophes and without invisible characters.

    >>> normalise("the ﬁancé’s co\u00adoperation")
    "the fiancé's cooperation"
    """
    if text.isascii():
        return text.replace("`", "'")
    # Twice: some characters become an apostrophe only by NFKC, and others would be changed by it before.
    return unicodedata.normalize("NFKC", text.translate(FOLD)).translate(FOLD)


def words(text: str, stop: Container[str]) -> Iterator[str]:
    """The words of a text in order, lower-cased, without those of ``stop``.

    >>> list(words("The nurse's well-worn map of 1,000 İslands", {"the", "of"}))
    ['nurse', 'well', 'worn', 'map', '1,000', 'i̇slands']
    """
    for match in _word().findall(normalise(text)):
        word = match.lower()
        if word not in stop:  # tested with its clitic too, because a list may have "n't" or "she's"
            word = CLITIC.sub("", word)
        if word and word not in stop:
            yield word


@cache
def _word() -> re.Pattern[str]:
    """The pattern of a word: a letter or digit, then letters, digits and marks, which many scripts need."""
    rest = rf"(?:[^\W_]|[{marks()}])*"
    return re.compile(rf"[^\W_]{rest}(?:'[^\W_]{rest}|(?<=\d)[.,](?=\d){rest})*")


@cache
def marks() -> str:
    """All combining marks, as ranges of a regular-expression character class."""
    ranges: list[list[int]] = []
    for codes in _MARK_RANGES:
        for code in codes:
            if unicodedata.category(chr(code))[0] != "M":
                continue
            # A mark directly after the last one extends its range; all marks one by one would make a slow pattern.
            if ranges and code == ranges[-1][1] + 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
