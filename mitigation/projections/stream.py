"""The residual stream: the direction in which texts about two groups differ there, and what a change of it does.

The direction is the difference of means over pairs of sentences that differ only in their listed words, at the output
of a block. Held-out pairs say what a change does: by how much the model prefers one group, and at which loss.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mitigation.errors import MitigationError
from mitigation.projections import sentences
from mitigation.projections.fit import FITTED, LEAST, SentenceSettings, read_text
from mitigation.recipe import setting
from mitigation.texts.pairs_file import CHOICE, FEWEST, read_contrast
from mitigation.training.settings import CODE, OPEN
from scoring.adapters.attach import without_remarks
from scoring.types import Floats, Option, Request

if TYPE_CHECKING:
    from mitigation.training.data import TrainingData
    from scoring.inference.model import Model

#: The first and the second word of a group of the list: a sentence with one, and with the other.
Pair = tuple[str, str]


@dataclass(frozen=True)
class StreamSettings(SentenceSettings):
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
        names = ("held-out preference", "held-out absolute preference", "held-out loss")
        return {f"{name} {when}": value for name, value in zip(names, self, strict=True)}


def text_pairs(model: Model, settings: StreamSettings, data: TrainingData) -> tuple[list[Pair], list[Pair]]:
    """Pairs of sentences for fitting and held-out ones; in both, half of the sentences were written about each group.

    Sentences with more than ``most_tokens`` tokens, or more than the model's window has, are left out.

    Raises
    ------
    MitigationError
        If the groups of words are no pairs, or a group has too few sentences.
    """
    lines, words = read_text(settings, data)
    if len(words.groups[0]) != 2:
        raise MitigationError(
            f"The groups of words for {settings.domain!r} have {len(words.groups[0])} words, and a direction has two "
            "ends; give pairs of words."
        )
    chosen = sentences.tuples(lines, words, settings.sentences, settings.seed)
    # Words that are in both groups do not tell who a sentence is about.
    sides = words.side(0) - words.side(1), words.side(1) - words.side(0)
    written: tuple[list[Pair], list[Pair]] = ([], [])
    longest = min(settings.most_tokens, (model.tokens.window or settings.most_tokens) - 2)
    with without_remarks():  # transformers would warn of texts longer than the window, which are left out below
        encoded = model.tokens.tokenizer([text for pair in chosen for text in pair])["input_ids"] if chosen else []
    for number, (original, swapped) in enumerate(chosen):
        if max(map(len, encoded[2 * number : 2 * number + 2])) > longest:
            continue
        present = [bool(side & sentences.word_set(original)) for side in sides]
        if present == [True, False]:
            written[0].append((original, swapped))
        elif present == [False, True]:
            written[1].append((swapped, original))
    count = min(map(len, written))
    if count < LEAST:
        raise MitigationError(
            f"The corpus has {len(written[0])} sentences with words of the first group alone and {len(written[1])} "
            f"with words of the second, and at least {LEAST} of each are needed; give a larger corpus."
        )
    # Alternating, so that every part of the list has as many sentences about each group.
    pairs = [pair for both in zip(*written, strict=False) for pair in both]
    fitted = 2 * round(FITTED * count)
    return pairs[:fitted], pairs[fitted:][: settings.held]


def contrast_pairs(path: str) -> tuple[tuple[list[Pair], list[Pair]], list[Pair]]:
    """The texts of a contrast by kind, each with the word of its kind and with the other one; and held-out texts.

    Every fourth text of a kind is held out, with the first and with the second word.

    Raises
    ------
    MitigationError
        If the file cannot be read or is no such contrast.
    """
    given = read_contrast(path)
    # A text splits into what stands before the choice, its two words, and what stands after.
    both = [[re.split(CHOICE, text) for text in texts] for texts in (given["first"], given["second"])]
    first, second = ([(a + one + end, a + other + end) for a, one, other, end in texts] for texts in both)
    apart = zip(first[FEWEST - 1 :: FEWEST], second[FEWEST - 1 :: FEWEST], strict=False)
    held = [pair for both in apart for pair in both]
    # What is held out is never learned from.
    del first[FEWEST - 1 :: FEWEST], second[FEWEST - 1 :: FEWEST]
    return (first, [(other, one) for one, other in second]), held


def predicting_difference(model: Model, kinds: Sequence[Sequence[Pair]], block: str, most_tokens: int) -> Floats:
    """The mean state that predicts the word in the second kind of texts less that in the first [width].

    It is read at a block's output, or last where ``block`` is empty.
    """
    from mitigation.projections.states import predicting_states

    first, second = (predicting_states(model, texts, most_tokens, block).mean(0) for texts in kinds)
    return np.asarray(second - first, np.float64)


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
    return names, len(names) // 2 if number == -1 else number


def difference(model: Model, pairs: Sequence[Pair], block: str, most_tokens: int) -> Floats:
    """The mean over pairs of the second sentence's state less the first one's [width], at a block's output or last.

    Raises
    ------
    MitigationError
        If it is zero or not a number.
    """
    from mitigation.projections.states import mean_states

    first, second = (mean_states(model, column, most_tokens, block=block) for column in zip(*pairs, strict=True))
    direction: Floats = (second - first).mean(0)
    if not np.linalg.norm(direction) > 0:
        raise MitigationError(
            f"The states of both groups have the same mean at {block} of {model.name}, so there is no direction; "
            "choose another block."
        )
    return direction


def preference(model: Model, pairs: Sequence[Pair]) -> Preference:
    """What the model makes of pairs of sentences, each of which follows the beginning-of-sequence token."""
    requests = [Request(str(n), options=tuple(Option(text) for text in pair)) for n, pair in enumerate(pairs)]
    answers = [response.logprobs for response in model.answer(requests)]
    gaps = np.array([sum(second) - sum(first) for first, second in answers])
    tokens = [value for both in answers for side in both for value in side]
    return Preference(float(gaps.mean()), float(np.abs(gaps).mean()), -float(np.mean(tokens)))


def shifted(module: Any, vector: Any) -> AbstractContextManager[Any]:
    """Adds a vector [width] to the output of a module inside the block."""
    hook: AbstractContextManager[Any] = module.register_forward_hook(lambda _, __, output: output + vector.to(output))
    return hook


def spread_along(model: Model, blocks: Sequence[str], direction: Any) -> float:
    """By how much two texts of the same length differ along a direction at the outputs of blocks, at most."""
    import torch

    from mitigation.projections.states import outputs_of, probe_ids

    first = probe_ids(model)
    size = model.network.config.get_text_config().vocab_size
    bare = model.network.get_base_model() if hasattr(model.network, "get_base_model") else model.network
    rows = torch.cat([first, (first + size // 2) % size])
    with torch.inference_mode():
        inputs = {"input_ids": rows, "attention_mask": torch.ones_like(rows)}
        outputs = torch.stack([output.double() for output in outputs_of(bare, blocks, inputs)])
    along = outputs @ direction.to(outputs)  # [blocks, 2, tokens]
    return float((along[:, 0] - along[:, 1]).abs().max())
