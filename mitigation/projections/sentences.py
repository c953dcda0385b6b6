"""The sentences that a projection is fitted on: classes of sentences, and sentences with a word replaced.

``published`` functions draw the same sentences as bias-bench (Meade et al., 2022) does from the same lines, as far as
sentences are split alike.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from mitigation.errors import MitigationError
from mitigation.texts.attribute_words import WORD, AttributeWords, Swapper, replaced
from mitigation.texts.corpora import sentences

#: Shorter sentences are left out, in words.
SHORTEST = 5


@dataclass(frozen=True, slots=True)
class Classes:
    """Sentences by class: names of the classes, and their sentences in the same order."""

    names: tuple[str, ...]
    sentences: tuple[tuple[str, ...], ...]

    def check(self, least: int) -> Classes:
        """These classes, if each has at least so many sentences.

        Raises
        ------
        MitigationError
            With the number of sentences of each class.
        """
        if any(len(one) < least for one in self.sentences):
            counts = ", ".join(f"{len(own)} {name}" for name, own in zip(self.names, self.sentences, strict=True))
            raise MitigationError(
                f"The corpus has {counts} sentences, and a class needs at least {least}; give a larger corpus."
            )
        return self


def published_classes(lines: Iterable[str], words: AttributeWords, most: int, seed: int) -> Classes:
    """At most ``most`` sentences of each class, clipped and lower-case, as INLP in bias-bench reads them.

    A sentence with words of one class only belongs to that class, one without any to the neutral class. A
    sentence ends at a random word after the last kind of listed word in it (a neutral one anywhere after its
    fourth), because the end of a sentence says less of the class.
    """
    draw = random.Random(seed)
    draw.shuffle(ordered := list(lines))
    sides = [words.side(0), words.side(1)] if len(words.groups[0]) == 2 else [words.all]
    of_side: list[dict[str, str]] = [{} for _ in sides]  # sentence as written to clipped sentence
    neutral: list[str] = []
    for sentence in (sentence for line in ordered for sentence in sentences(line)):
        parts = [part.lower() for part in sentence.split(" ")]
        if len(parts) < SHORTEST:
            continue
        present: set[int] = set()
        last = -1
        for part in parts:
            for number, side in enumerate(sides):
                if part in side:
                    present.add(number)
                    last = parts.index(part)
            if len(present) == len(sides) > 1:
                break
        if not present and len(neutral) < most:
            neutral.append(" ".join(parts[: draw.randint(4, len(parts))]))
        elif len(present) == 1 and len(kind := of_side[min(present)]) < most and sentence not in kind:
            kind[sentence] = " ".join(parts[: draw.randint(last, len(parts)) + 1])
        if len(neutral) == most and all(len(one) == most for one in of_side):
            break
    names = ("male", "female") if len(sides) == 2 else ("biased",)
    return Classes((*names, "neutral"), (*(tuple(kind.values()) for kind in of_side), tuple(neutral)))


def classes(lines: Iterable[str], words: AttributeWords, most: int, seed: int) -> Classes:
    """At most ``most`` different whole sentences about one group of people each, in a random order of lines.

    A class is a place in the groups of words. Case and punctuation do not hide a listed word.
    """
    random.Random(seed).shuffle(ordered := list(lines))
    places = range(len(words.groups[0]))
    sides = [words.side(place) for place in places]
    of_side: list[dict[str, None]] = [{} for _ in places]
    for sentence in (sentence for line in ordered for sentence in sentences(line)):
        parts = word_set(sentence)
        # A sentence about both groups says nothing of their difference.
        present = [place for place in places if sides[place] & parts]
        if len(present) == 1 and len(of_side[present[0]]) < most and len(sentence.split()) >= SHORTEST:
            of_side[present[0]][sentence] = None
            if all(len(kind) == most for kind in of_side):
                break
    return Classes(("male", "female") if len(places) == 2 else words.groups[0], tuple(map(tuple, of_side)))


def word_set(sentence: str) -> set[str]:
    """The words of a sentence in lower case, those with a full stop also without it.

    >>> sorted(word_set("Mr. Hall met her."))
    ['hall', 'her', 'her.', 'met', 'mr', 'mr.']
    """
    words = set(map(str.lower, WORD.findall(sentence)))
    return words | {word.removesuffix(".") for word in words}


def published_tuples(lines: Iterable[str], words: AttributeWords, most: int) -> list[tuple[str, ...]]:
    """Lower-case sentences with each word of a group in one place, as SentenceDebias in bias-bench reads them.

    A sentence is used once for each listed word in it. ``most`` 0 is all of them.
    """
    made: list[tuple[str, ...]] = []
    for line in lines:
        for sentence in sentences(line.lower()):
            made += replaced(sentence.strip(), words)
            if most and len(made) >= most:
                return made[:most]
    return made


def tuples(lines: Iterable[str], words: AttributeWords, most: int, seed: int) -> list[tuple[str, ...]]:
    """Different sentences, each with all listed words replaced at the same time; ``most`` 0 is all of them."""
    random.Random(seed).shuffle(ordered := list(lines))
    swapper, others = Swapper(words), len(words.groups[0]) - 1
    made: dict[str, tuple[str, ...]] = {}
    for sentence in (sentence for line in ordered for sentence in sentences(line)):
        # Turn k replaces each word by the k-th other one of its group.
        swapped = [swapper.swap(sentence, turn) for turn in range(others)]
        if swapped[0] != sentence:
            made.setdefault(sentence, (sentence, *swapped))
        if most and len(made) >= most:
            break
    return list(made.values())
