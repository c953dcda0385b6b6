"""The gendered words whose co-occurrence is counted, and the pairs of them that are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pmi.types import GenderedPair, TableError

#: The pairs that UnStereoEval compares in its appendix (Figure 6), in the order of the authors' notebook.
PUBLISHED_PAIRS = tuple(
    GenderedPair(first, second)
    for first, _, second in (
        pair.partition(":")
        for pair in (
            "she:he her:his her:him hers:his herself:himself grandmother:grandfather grandma:grandpa "
            "stepmother:stepfather stepmom:stepdad mother:father mom:dad aunt:uncle aunts:uncles mummy:daddy "
            "sister:brother sisters:brothers daughter:son daughters:sons female:male females:males feminine:masculine "
            "woman:man women:men madam:sir matriarchy:patriarchy girl:boy lass:lad girls:boys girlfriend:boyfriend "
            "girlfriends:boyfriends wife:husband wives:husbands queen:king queens:kings princess:prince "
            "princesses:princes lady:lord ladies:lords"
        ).split()
    )
)

#: Forms of singular they, which are in none of those pairs.
THEY_FORMS = ("they", "them", "their", "theirs", "themself", "themselves")

_PAIR = re.compile(r"([^\s:=,]+):([^\s:=,]+)(?:=(\d+(?:\.\d+)?))?")


def words_of(pairs: Iterable[GenderedPair] = PUBLISHED_PAIRS) -> tuple[str, ...]:
    """The words of pairs, each once, in order of appearance.

    >>> words_of(parse_pairs("her:his,her:him"))
    ('her', 'his', 'him')
    """
    return tuple(dict.fromkeys(word for pair in pairs for word in (pair.first, pair.second)))


def parse_pairs(text: str) -> tuple[GenderedPair, ...]:
    """Pairs from a list such as ``she:he,her:his=0.5``, where 0.5 is the weight of a pair.

    Raises
    ------
    TableError
        When an entry is not a pair of two words, a pair occurs twice, or there is none.

    >>> parse_pairs("She:he, her:his=0.5")
    (GenderedPair(first='she', second='he', weight=1.0), GenderedPair(first='her', second='his', weight=0.5))
    """
    pairs: dict[tuple[str, str], GenderedPair] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        parts = _PAIR.fullmatch(entry)
        if not parts or parts[1].lower() == parts[2].lower():
            raise TableError(f"{entry!r} is not a pair of words; give pairs such as she:he,her:his=0.5.")
        pair = GenderedPair(parts[1].lower(), parts[2].lower(), float(parts[3] or 1))
        if pairs.setdefault((pair.first, pair.second), pair) is not pair:
            raise TableError(f"The pair {pair.first}:{pair.second} is given more than once; give each once.")
    if not pairs:
        raise TableError("There is no pair of words; give one such as she:he.")
    return tuple(pairs.values())
