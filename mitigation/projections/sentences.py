"""The sentences that a projection is fitted on, and their settings: classes, and sentences with a word replaced.

``published`` functions draw the same sentences as bias-bench (Meade et al., 2022) does from the same lines, as far as
sentences are split alike.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from mitigation.recipe import MitigationError, setting
from mitigation.texts import attribute_words, corpora, swaps
from mitigation.training.settings import CODE, CorpusSettings, WordSettings

#: Shorter sentences are left out, in words.
SHORTEST = 5
#: The least sentences of a class, and the least sentences with a listed word.
LEAST = 20


@dataclass(frozen=True)
class SentenceSettings(CorpusSettings, WordSettings):
    """Which sentences with listed words a recipe reads."""

    sentences: int = setting(
        10_000, "Sentences of a class, or with a listed word; 0 for all of the latter.", CODE, least=0
    )
    most_tokens: int = setting(512, "Tokens after which a sentence is cut.", CODE, above=0)
    seed: int = setting(0, "Of the order of lines, the clipping and the split into parts.", CODE)


@dataclass(frozen=True)
class ProjectionSettings(SentenceSettings):
    """Which text a projection is fitted on."""

    published: bool = setting(
        True, "Read sentences as bias-bench does: clipped, lower-case, words between spaces.", CODE
    )


@dataclass(frozen=True, slots=True)
class Classes:
    """Sentences by class: names of the classes, and their sentences in the same order."""

    names: tuple[str, ...]
    sentences: tuple[tuple[str, ...], ...]

    def check(self, least: int) -> Self:
        """These classes, if each has at least so many sentences.

        Raises
        ------
        MitigationError
            With the number of sentences of each class.
        """
        sizes = [len(sentences_of_class) for sentences_of_class in self.sentences]
        if min(sizes) < least:
            counts = ", ".join(f"{size} {name}" for name, size in zip(self.names, sizes, strict=True))
            raise MitigationError(
                f"The corpus has {counts} sentences, and a class needs at least {least}; give a larger corpus."
            )
        return self


def published_classes(lines: Iterable[str], words: attribute_words.AttributeWords, most: int, seed: int) -> Classes:
    """At most ``most`` sentences of each class, clipped and lower-case, as INLP in bias-bench reads them.

    A sentence with words of one class only belongs to that class, one without any to the neutral class. A
    sentence ends at a random word after the last kind of listed word in it (a neutral one anywhere after its
    fourth), because the end of a sentence says less of the class.
    """
    # One generator for the order of lines and for the clipping, as in the published code.
    draw = random.Random(seed)
    names: tuple[str, ...] = ("biased",)
    sides = [words.all]
    if len(words.groups[0]) == 2:
        names = ("male", "female")
        sides = [words.side(0), words.side(1)]
    clipped: list[dict[str, str]] = [{} for _ in sides]  # sentence as written to clipped sentence
    neutral: list[str] = []
    for sentence in _shuffled_sentences(lines, draw):
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
        elif len(present) == 1:
            sentences_of_side = clipped[min(present)]
            if len(sentences_of_side) < most and sentence not in sentences_of_side:
                sentences_of_side[sentence] = " ".join(parts[: draw.randint(last, len(parts)) + 1])
        if len(neutral) == most and all(len(sentences_of_side) == most for sentences_of_side in clipped):
            break
    sentences_by_class = [tuple(sentences_of_side.values()) for sentences_of_side in clipped]
    sentences_by_class.append(tuple(neutral))
    return Classes((*names, "neutral"), tuple(sentences_by_class))


def _shuffled_sentences(lines: Iterable[str], draw: random.Random) -> Iterator[str]:
    """The sentences of lines, in a random order of lines."""
    ordered = list(lines)
    draw.shuffle(ordered)
    for line in ordered:
        yield from corpora.sentences(line)


def classes(lines: Iterable[str], words: attribute_words.AttributeWords, most: int, seed: int) -> Classes:
    """At most ``most`` different whole sentences about one group of people each, in a random order of lines.

    A class is a place in the groups of words. Case and punctuation do not hide a listed word.
    """
    places = range(len(words.groups[0]))
    sides = [words.side(place) for place in places]
    # The keys are the sentences: a dictionary keeps their order and has each once.
    by_place: list[dict[str, None]] = [{} for _ in places]
    for sentence in _shuffled_sentences(lines, random.Random(seed)):
        parts = word_set(sentence)
        # A sentence about both groups says nothing of their difference.
        present = [place for place in places if sides[place] & parts]
        if len(present) != 1 or len(sentence.split()) < SHORTEST:
            continue
        sentences_of_place = by_place[present[0]]
        if len(sentences_of_place) < most:
            sentences_of_place[sentence] = None
            if all(len(sentences_of_place) == most for sentences_of_place in by_place):
                break
    names = words.groups[0]
    if len(places) == 2:
        names = ("male", "female")
    return Classes(names, tuple(tuple(sentences_of_place) for sentences_of_place in by_place))


def word_set(sentence: str) -> set[str]:
    """The words of a sentence in lower case, also without a full stop and without a possessive or contracted verb.

    >>> sorted(word_set("Mr. Hall met her."))
    ['hall', 'her', 'her.', 'met', 'mr', 'mr.']
    """
    words: set[str] = set()
    for word in swaps.WORD.findall(sentence):
        words.update(swaps.stems(word.lower()))
    return words


def published_tuples(lines: Iterable[str], words: attribute_words.AttributeWords, most: int) -> list[tuple[str, ...]]:
    """Lower-case sentences with each word of a group in one place, as SentenceDebias in bias-bench reads them.

    A sentence is used once for each listed word in it. ``most`` 0 is all of them.
    """
    with_each_word: list[tuple[str, ...]] = []
    for line in lines:
        for sentence in corpora.sentences(line.lower()):
            with_each_word += attribute_words.replaced(sentence.strip(), words)
            if most and len(with_each_word) >= most:
                return with_each_word[:most]
    return with_each_word


def tuples(lines: Iterable[str], words: attribute_words.AttributeWords, most: int, seed: int) -> list[tuple[str, ...]]:
    """Different sentences, each with all listed words replaced at the same time; ``most`` 0 is all of them."""
    swapper, others = swaps.Swapper(words), len(words.groups[0]) - 1
    tuples_by_sentence: dict[str, tuple[str, ...]] = {}
    for sentence in _shuffled_sentences(lines, random.Random(seed)):
        # Turn k replaces each word by the k-th other one of its group.
        swapped = [swapper.swap(sentence, turn) for turn in range(others)]
        if swapped[0] != sentence:
            tuples_by_sentence.setdefault(sentence, (sentence, *swapped))
        if most and len(tuples_by_sentence) >= most:
            break
    return list(tuples_by_sentence.values())
