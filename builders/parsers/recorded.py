"""The recorded generation of UnStereoEval: its prompts and replies, and the reply behind each published sentence.

The authors' development repository has one file for each length (5, 10 or 20 words), sample of seed words and
pronoun. Its rows are prompts with replies, 100 to a file. A reply is a numbered list of sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations, groupby
from typing import Any

from builders.dataset import BuildError, Fetched, Origin, content_id
from builders.parsers import read
from pmi.vocabulary import SEEDS

#: The lengths of the published sets, in words.
LENGTHS = (5, 10, 20)
#: The samples of seed words, from 1, each with its two pronouns, in the order of the published files.
PARTS = tuple((draw, pronoun) for draw in range(1, len(SEEDS) + 1) for pronoun in ("he", "she"))

_PROMPTS = ("word", "target_word", "prompt", "response", "generation_configs")
_NUMBER = re.compile(r"^[0-9]{1,2}[.)] ")


@dataclass(frozen=True, slots=True)
class Reply:
    """A recorded reply to the prompt that asks for sentences with a word and a pronoun.

    ``draw`` is the number of the sample that the word was drawn in, from 1.
    """

    origin: Origin
    length: int
    draw: int
    pronoun: str
    word: str
    prompt: str
    text: str

    @property
    def id(self) -> str:
        """The identifier of the reply: a hash of the length, the draw, the prompt and the text."""
        return content_id("reply", str(self.length), str(self.draw), self.prompt, self.text)

    @property
    def seed(self) -> int:
        """The seed of the sample of words."""
        return SEEDS[self.draw - 1]


@dataclass(frozen=True, slots=True)
class ReplySentence:
    """A sentence of a reply; ``entry`` is its place in the list, from 1."""

    reply: Reply
    entry: int
    text: str


def numbered_entries(text: str) -> list[str]:
    r"""List entries by the rule of the published code: lines that begin with a number and "." or ")".

    >>> numbered_entries("Sure:\n1. He sings.\n2) He waits.\n- He left.")
    ['He sings.', 'He waits.']
    """
    return [_NUMBER.sub("", line).strip() for line in text.split("\n") if _NUMBER.match(line)]


def replies(fetched: Fetched, length: int) -> list[Reply]:
    """The recorded replies of one length, in the order of :data:`PARTS` and of the files.

    Raises
    ------
    BuildError
        When a file has another form.
    """
    results = []
    for number, ((draw, pronoun), path) in enumerate(zip(PARTS, fetched.paths, strict=True)):
        for row, fields in enumerate(read.table(path, _PROMPTS)):
            origin = fetched.origin(row, number)
            if fields["target_word"] != pronoun:
                raise BuildError(
                    f"{origin.file} record {row} has a prompt for {fields['target_word']!r}, not {pronoun!r}."
                )
            results.append(Reply(origin, length, draw, pronoun, fields["word"], fields["prompt"], fields["response"]))
    return results


def sentences(recorded: Sequence[Reply]) -> list[ReplySentence]:
    """The sentences of replies, in their order."""
    return [
        ReplySentence(reply, entry, text)
        for reply in recorded
        for entry, text in enumerate(numbered_entries(reply.text), 1)
    ]


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of a published file: a sentence, as written or as revised."""

    word: str
    pronoun: str
    sentence: str
    revised: bool

    @classmethod
    def of(cls, fields: dict[str, str]) -> PublishedRow:
        """The row of a record of the file."""
        return cls(fields["word"], fields["target_word"], fields["sentence"], fields["is_revised"] == "True")


def places(rows: Sequence[PublishedRow], written: Sequence[ReplySentence]) -> list[int]:
    """For each published row the place in ``written`` of the sentence that it is, or was revised from.

    Both are in the generation's order; sentences that no revision helped are not among the rows. A row that was not
    revised has the text of its sentence. Among the up to five sentences of one reply, revised rows go to those
    whose texts are nearest (:class:`difflib.SequenceMatcher`) and whose order is that of the rows. The published
    files of 10 and 20 words state the places, and these are the same for all rows.

    Raises
    ------
    BuildError
        When a row has no sentence, so that the files are not those of one generation.
    """
    blocks = _blocks([(sentence.reply.word, sentence.reply.pronoun) for sentence in written])
    results: list[int] = []
    for key, first, last in _blocks([(row.word, row.pronoun) for row in rows]):
        # The blocks are taken one after another, so a word that two samples share finds its own block.
        block = next((block for block in blocks if block[0] == key), None)
        best = block and _nearest(rows[first:last], written, range(block[1], block[2]))
        if not best:
            raise BuildError(
                f"Published row {first} ({key[0]!r} with {key[1]}) has no sentence in the recorded replies."
            )
        results += best
    return results


def _blocks(keys: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], int, int]]:
    """The blocks of equal keys, each with its first place and the place after its last."""
    first = 0
    for key, group in groupby(keys):
        last = first + sum(1 for _ in group)
        yield key, first, last
        first = last


def _nearest(rows: Sequence[PublishedRow], written: Sequence[ReplySentence], block: range) -> tuple[int, ...]:
    """The places of a block, in order, whose sentences are nearest to the rows; empty if none are possible."""

    def nearness(chosen: Sequence[int]) -> float:
        ratios = [_nearness(row, written[place].text) for row, place in zip(rows, chosen, strict=True)]
        # One impossible pair makes the whole choice impossible.
        return sum(ratios) if min(ratios) >= 0 else -1.0

    best: tuple[Any, ...] = max(combinations(block, len(rows)), key=nearness, default=())
    return best if best and nearness(best) >= 0 else ()


def _nearness(row: PublishedRow, text: str) -> float:
    if row.revised:
        # By default the characters that are frequent in a long text count as junk and are not compared.
        return SequenceMatcher(None, row.sentence, text, autojunk=False).ratio()
    return 1.0 if row.sentence == text else -1.0
