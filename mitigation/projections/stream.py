"""The residual stream: the direction in which texts about two groups differ there, and what a change of it does.

The direction is the difference of means over pairs of sentences that differ only in their listed words, at the output
of a block. Held-out pairs say what a change does: by how much the model prefers one group, and at which loss.
"""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mitigation.projections import sentences
from mitigation.recipe import MitigationError, Model, setting
from mitigation.texts.pairs_file import CHOICE, FEWEST, read_contrast
from mitigation.training.settings import CODE, OPEN
from scoring.adapters.attach import without_remarks
from scoring.types import Option, Request

#: The share of the pairs that a direction is fitted on, as in the code of bias-bench; the rest is held out.
FITTED = 0.49
#: The first and the second word of a group of the list: a sentence with one, and with the other.
Pair = tuple[str, str]


@dataclass(frozen=True)
class StreamSettings(sentences.SentenceSettings):
    """Which text the direction is from, and where it is read."""

    sentences: int = setting(10_000, "Sentences with a listed word.", CODE, above=0)
    block: int = setting(-1, "The block whose output is read, from 0; -1 for the middle one.", OPEN)
    held: int = setting(200, "Held-out pairs of sentences that are scored, at most.", OPEN, above=0)


class Preference(NamedTuple):
    """The mean and the mean size of log p(second) - log p(first) over pairs, and the loss per token, in nats."""

    gap: float
    size: float
    loss: float

    def measures(self, when: str) -> dict[str, float]:
        """The three numbers by their names among the measures of an adapter."""
        return {
            f"held-out preference {when}": self.gap,
            f"held-out absolute preference {when}": self.size,
            f"held-out loss {when}": self.loss,
        }


def text_pairs(model: Model, settings: StreamSettings) -> tuple[list[Pair], list[Pair]]:
    """Pairs of sentences for fitting and held-out ones; in both, half of the sentences were written about each group.

    Sentences with more than ``most_tokens`` tokens, or more than the model's window has, are left out.

    Raises
    ------
    MitigationError
        If the groups of words are no pairs, or a group has too few sentences.
    """
    lines, words = settings.texts(), settings.listed
    if len(words.groups[0]) != 2:
        raise MitigationError(
            f"The groups of words for {settings.domain!r} have {len(words.groups[0])} words, and a direction has two "
            "ends; give pairs of words."
        )
    chosen = sentences.tuples(lines, words, settings.sentences, settings.seed)
    # Words that are in both groups do not show whom a sentence is about.
    sides = words.side(0) - words.side(1), words.side(1) - words.side(0)
    written: tuple[list[Pair], list[Pair]] = ([], [])
    # Two tokens are kept for the special ones around a text.
    longest = min(settings.most_tokens, (model.tokens.window or settings.most_tokens) - 2)
    lengths = _token_counts(model, chosen)
    for (original, swapped), length in zip(chosen, lengths, strict=True):
        if length > longest:
            continue
        words_of_sentence = sentences.word_set(original)
        about_first = bool(sides[0] & words_of_sentence)
        about_second = bool(sides[1] & words_of_sentence)
        if about_first and not about_second:
            written[0].append((original, swapped))
        elif about_second and not about_first:
            written[1].append((swapped, original))
    count = min(len(written[0]), len(written[1]))
    if count < sentences.LEAST:
        raise MitigationError(
            f"The corpus has {len(written[0])} sentences with words of the first group alone and {len(written[1])} "
            f"with words of the second, and at least {sentences.LEAST} of each are needed; give a larger corpus."
        )
    # Alternating, so that every part of the list has as many sentences about each group.
    pairs = _alternating(written[0], written[1])
    fitted = 2 * round(FITTED * count)
    return pairs[:fitted], pairs[fitted:][: settings.held]


def _token_counts(model: Model, pairs: Sequence[Sequence[str]]) -> list[int]:
    """The number of tokens of the longer text of each pair."""
    texts: list[str] = []
    for pair in pairs:
        texts += pair
    if not texts:
        return []
    with without_remarks():  # transformers would warn of texts longer than the window, which the caller leaves out
        encoded = model.tokens.tokenizer(texts)["input_ids"]
    counts = []
    for start in range(0, len(texts), 2):
        counts.append(max(len(encoded[start]), len(encoded[start + 1])))
    return counts


def _alternating(first: Sequence[Pair], second: Sequence[Pair]) -> list[Pair]:
    """The pairs of two lists by turns, up to the end of the shorter one."""
    pairs: list[Pair] = []
    for both in zip(first, second, strict=False):
        pairs += both
    return pairs


def contrast_pairs(path: str) -> tuple[tuple[list[Pair], list[Pair]], list[Pair]]:
    """The texts of a contrast by kind, each with the word of its kind and with the other one; and held-out texts.

    Every fourth text of a kind is held out, with the first and with the second word.

    Raises
    ------
    MitigationError
        If the file cannot be read or is no such contrast.
    """
    contrast = read_contrast(path)
    first = [_both_texts(text) for text in contrast["first"]]
    second = [_both_texts(text) for text in contrast["second"]]
    held = _alternating(first[FEWEST - 1 :: FEWEST], second[FEWEST - 1 :: FEWEST])
    # What is held out is never learned from.
    del first[FEWEST - 1 :: FEWEST], second[FEWEST - 1 :: FEWEST]
    # The word of its kind comes first: that is the second word of a choice in texts of the second kind.
    return (first, [(with_second, with_first) for with_first, with_second in second]), held


def _both_texts(text: str) -> Pair:
    """The text of a contrast with the first word of its choice, and with the second one.

    >>> _both_texts("The nurse said [he|she] left.")
    ('The nurse said he left.', 'The nurse said she left.')
    """
    before, first, second, after = re.split(CHOICE, text)
    return before + first + after, before + second + after


def block_names(model: Model, number: int) -> tuple[list[str], int]:
    """The names of all blocks, and the number of the chosen one; -1 is the middle one.

    Raises
    ------
    MitigationError
        If the network has no such block.
    """
    from scoring.adapters.feed_forward import blocks

    names = [name for name, _ in blocks(model.network)]
    if not -1 <= number < len(names):
        raise MitigationError(
            f"The block is {number} and {model.name} has {len(names)}; give one from 0 to {len(names) - 1}, or -1 for "
            "the middle one."
        )
    if number == -1:
        number = len(names) // 2
    return names, number


def preference(model: Model, pairs: Sequence[Pair]) -> Preference:
    """The preference of the model for the second sentences of pairs; each follows the beginning-of-sequence token."""
    requests = []
    for number, (first, second) in enumerate(pairs):
        requests.append(Request(str(number), options=(Option(first), Option(second))))
    differences: list[float] = []
    tokens: list[float] = []
    for response in model.answer(requests):
        logprobs_first, logprobs_second = response.logprobs
        differences.append(sum(logprobs_second) - sum(logprobs_first))
        tokens += logprobs_first
        tokens += logprobs_second
    gaps = np.array(differences)
    return Preference(float(gaps.mean()), float(np.abs(gaps).mean()), -float(np.mean(tokens)))


def shifted(module: Any, vector: Any) -> AbstractContextManager[Any]:
    """Adds a vector [width] to the output of a module inside the block."""
    hook: AbstractContextManager[Any] = module.register_forward_hook(lambda _, __, output: output + vector.to(output))
    return hook
