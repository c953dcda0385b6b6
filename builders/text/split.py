"""Splits that share nothing: the key by which phrases are compared, and the leak check."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from builders.dataset import BuildError
from builders.text.words import normalise

_NOT_WORD = re.compile(r"[^\w']+|_")


def phrase_key(text: str) -> str:
    """A phrase without case, punctuation and spacing; equal keys mean the same phrase.

    >>> phrase_key("Is playing, a Flute.") == phrase_key("is playing a flute")
    True
    """
    return " ".join(_NOT_WORD.sub(" ", normalise(text)).split())


def leaks(splits: Mapping[str, Iterable[str]]) -> list[tuple[str, str, str]]:
    """Phrases that stand in more than one split.

    Returns triples (phrase as first seen, split where it was first seen, other split), in order.

    >>> leaks({"test": ["is here"], "train": ["Is here.", "is gone"]})
    [('is here', 'test', 'train')]
    """
    seen: dict[str, tuple[str, str]] = {}
    found = []
    for split, phrases in splits.items():
        for phrase in phrases:
            first, where = seen.setdefault(phrase_key(phrase), (phrase, split))
            if where != split:
                found.append((first, where, split))
    return found


def check_disjoint(name: str, splits: Mapping[str, Iterable[str]]) -> None:
    """Stops the build when splits share a phrase.

    Raises
    ------
    BuildError
        With the number of shared phrases and the first ten pairs.
    """
    found = leaks(splits)
    if found:
        shown = "; ".join(f"{phrase!r} in {a} and {b}" for phrase, a, b in found[:10])
        raise BuildError(
            f"{name}: {len(found)} phrases stand in more than one split ({shown}"
            f"{'; …' if len(found) > 10 else ''}); drop them from the later split before writing."
        )


# Words too common to tell two statements apart.
FUNCTION_WORDS = frozenset(
    "my friend is a an the to of in on at and for with has can from by be it its that this as or but not".split()
)


def overlap(a: str, b: str) -> float:
    """Jaccard similarity of the content words of two statements, between 0 and 1.

    >>> overlap("My friend likes the colour blue", "My friend likes blue")
    0.6666666666666666
    """
    one, two = (set(phrase_key(t).split()) - FUNCTION_WORDS for t in (a, b))
    return len(one & two) / len(one | two) if one | two else float(phrase_key(a) == phrase_key(b))


def near_duplicates(statements: Sequence[str], limit: float = 0.5) -> list[tuple[str, str]]:
    """Pairs of statements whose :func:`overlap` reaches the limit.

    >>> near_duplicates(["My friend likes blue", "My friend likes the blue", "My friend waits"])
    [('My friend likes blue', 'My friend likes the blue')]
    """
    return [(a, b) for a, b in combinations(statements, 2) if overlap(a, b) >= limit]
