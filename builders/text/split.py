"""The leak check between splits, and the overlap of statements."""

import re
from collections.abc import Iterable, Mapping

from builders.dataset import BuildError
from builders.text.words import normalise

_NOT_WORD = re.compile(r"[^\w']+|_")


def phrase_key(text: str) -> str:
    """A phrase in lower case, without punctuation and with single spaces. Equal keys mean the same phrase.

    >>> phrase_key("Is playing, a Flute.") == phrase_key("is playing a flute")
    True
    """
    return " ".join(_NOT_WORD.sub(" ", normalise(text)).split())


def leaks(splits: Mapping[str, Iterable[str]]) -> list[tuple[str, str, str]]:
    """The phrases that occur in more than one split: (first phrase, its split, other split), in order.

    >>> leaks({"test": ["is here"], "train": ["Is here.", "is gone"]})
    [('is here', 'test', 'train')]
    """
    seen: dict[str, tuple[str, str]] = {}
    shared = []
    for split, phrases in splits.items():
        for phrase in phrases:
            # The first split stays the owner of a phrase, whatever splits follow.
            first, where = seen.setdefault(phrase_key(phrase), (phrase, split))
            if where != split:
                shared.append((first, where, split))
    return shared


def check_disjoint(name: str, splits: Mapping[str, Iterable[str]]) -> None:
    """Raises an error when splits share a phrase.

    Raises
    ------
    BuildError
        With the number of shared phrases and the first ten of them.
    """
    shared = leaks(splits)
    if shared:
        examples = "; ".join(f"{phrase!r} in {first} and {other}" for phrase, first, other in shared[:10])
        raise BuildError(
            f"{name}: {len(shared)} phrases occur in more than one split ({examples}"
            f"{'; …' if len(shared) > 10 else ''}); drop them from the later split before writing."
        )


# Words that are too common to distinguish two statements.
FUNCTION_WORDS = frozenset(
    "my friend is a an the to of in on at and for with has can from by be it its that this as or but not".split()
)


def overlap(a: str, b: str) -> float:
    """Jaccard similarity of the content words of two statements, between 0 and 1.

    >>> overlap("My friend likes the colour blue", "My friend likes blue")
    0.6666666666666666
    """
    first, second = (set(phrase_key(text).split()) - FUNCTION_WORDS for text in (a, b))
    return len(first & second) / len(first | second) if first | second else float(phrase_key(a) == phrase_key(b))
