"""Gendered words whose company is counted, and the pairs of them that are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pmi.types import Pair, TableError

#: The pairs that the authors of UnStereoEval compare in their appendix (Figure 6), in the order of their notebook.
PAIRS = tuple(
    Pair(found[1], found[2])
    for found in re.finditer(
        r"(\w+):(\w+)",
        "she:he her:his her:him hers:his herself:himself grandmother:grandfather grandma:grandpa "
        "stepmother:stepfather stepmom:stepdad mother:father mom:dad aunt:uncle aunts:uncles mummy:daddy "
        "sister:brother sisters:brothers daughter:son daughters:sons female:male females:males feminine:masculine "
        "woman:man women:men madam:sir matriarchy:patriarchy girl:boy lass:lad girls:boys girlfriend:boyfriend "
        "girlfriends:boyfriends wife:husband wives:husbands queen:king queens:kings princess:prince "
        "princesses:princes lady:lord ladies:lords",
    )
)

#: Forms of singular they, which have no other side in those pairs.
THEY = ("they", "them", "their", "theirs", "themself", "themselves")

_PAIR = re.compile(r"([^\s:=,]+):([^\s:=,]+)(?:=(\d+(?:\.\d+)?))?")


def gendered(pairs: Iterable[Pair] = PAIRS) -> tuple[str, ...]:
    """The words of pairs, each once, in the order in which they come.

    >>> gendered(parse("her:his,her:him"))
    ('her', 'his', 'him')
    """
    return tuple(dict.fromkeys(word for pair in pairs for word in (pair.first, pair.second)))


def parse(text: str) -> tuple[Pair, ...]:
    """Pairs from a list such as ``she:he,her:his=0.5``, where 0.5 is the weight of a pair.

    Raises
    ------
    TableError
        When an entry is no pair of two words or stands twice.

    >>> parse("She:he, her:his=0.5")
    (Pair(first='she', second='he', weight=1.0), Pair(first='her', second='his', weight=0.5))
    """
    found: dict[tuple[str, str], Pair] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        parts = _PAIR.fullmatch(entry)
        if not parts or parts[1].lower() == parts[2].lower():
            raise TableError(f"{entry!r} is no pair of words; give pairs such as she:he,her:his=0.5.")
        pair = Pair(parts[1].lower(), parts[2].lower(), float(parts[3] or 1))
        if found.setdefault((pair.first, pair.second), pair) is not pair:
            raise TableError(f"The pair {pair.first}:{pair.second} is given more than once; give each once.")
    if not found:
        raise TableError("There is no pair of words; give one such as she:he.")
    return tuple(found.values())
