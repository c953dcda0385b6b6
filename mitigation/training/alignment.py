"""Aligns what a model says after paired words: the loss of Auto-Debias, and its search for prompts.

Source: *Auto-Debias: Debiasing Masked Language Models with Automated Biased Prompts* (Guo et al., 2022). After
"{word} {prompt}" a model predicts a distribution, at a mask or, in a causal model, of the next token. The loss is the
Jensen-Shannon divergence of the distributions after both words of a pair.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cards.common import progress, stored
from mitigation.editing.pairs import EditPair
from mitigation.recipe import Console, MitigationError, Model
from mitigation.training.train import LossTerms, logits_at, network_inputs
from scoring.types import Request

FOUND = stored.Stored("a search for prompts", "delete it, and the search begins again")
#: Prompts that the search measures together, after one pair.
SEARCHED = 64
#: The least letters of a word that the search tries.
_LEAST_LETTERS = 2


class Prompted(NamedTuple):
    """Token ids of a prompt after a word, and the position at which a prediction is read."""

    ids: list[int]
    at: int


#: The same prompt after both words of a pair.
PromptedPair = tuple[Prompted, Prompted]


def whole_pairs(model: Model, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs whose words are one token each, as in the published code.

    Raises
    ------
    MitigationError
        If there is none.
    """
    whole: dict[str, bool] = {}
    possible = []
    for pair in pairs:
        for word in pair:
            if word not in whole:
                (token,) = model.tokens.words([word])
                whole[word] = token is not None
        if all(whole[word] for word in pair):
            possible.append(pair)
    if not possible:
        raise MitigationError(
            f"In none of the {len(pairs)} pairs are both words one token of {model.name}; give other words."
        )
    return possible


def token_numbers(model: Model, words: Sequence[str]) -> torch.Tensor:
    """The tokens [words] of the words that are one token each.

    Raises
    ------
    MitigationError
        If fewer than two words are one token, so that there is no distribution to compare.
    """
    numbers = [number for number in model.tokens.words(list(dict.fromkeys(words))) if number is not None]
    if len(numbers) < 2:
        raise MitigationError(
            f"{len(numbers)} of {len(words)} stereotype words are one token of {model.name}, and 2 are needed; give "
            "other words."
        )
    return torch.tensor(numbers)


def prompted(model: Model, word: str, prompt: str) -> Prompted:
    """A prompt after a word: "{word} {prompt} [MASK]." for a masked model, "{word} {prompt}" for a causal one.

    Raises
    ------
    MitigationError
        If a masked model's tokenizer does not keep the mask as one token.
    """
    tokens = model.tokens
    if tokens.kind == "causal":
        text = f"{word} {prompt}"
        ids = tokens.prompt(Request(text, text, max_new=1), tokens.encode([text])[0])
        return Prompted(list(ids), len(ids) - 1)
    mask = tokens.tokenizer
    ids = mask(f"{word} {prompt} {mask.mask_token}.")["input_ids"]
    if ids.count(mask.mask_token_id) != 1:
        raise MitigationError(f"The prompt {prompt!r} has no single mask in {model.name}; give other prompts.")
    return Prompted(ids, ids.index(mask.mask_token_id))


def prompted_pairs(model: Model, prompts: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[PromptedPair]:
    """Each prompt after each pair of words."""
    rows = []
    for prompt in prompts:
        for one, other in pairs:
            rows.append((prompted(model, one, prompt), prompted(model, other, prompt)))
    return rows


def before_object(model: Model, pair: EditPair) -> Prompted:
    """The tokens at whose end a causal model predicts the object, or all of them with a mask in its place."""
    query = pair.biased[pair.prompt.query]
    at = query.at[pair.prompt.answer]
    ids = list(query.ids)
    if model.kind == "causal":
        ids = ids[: at + 1]
    return Prompted(ids, at)


def divergence(one: torch.Tensor, other: torch.Tensor, *, reverse: bool = False) -> torch.Tensor:
    """The Jensen-Shannon divergence [rows] in nats of log-probabilities [rows, tokens].

    With ``reverse`` it is the mean of KL(m ‖ p) and KL(m ‖ q) instead of KL(p ‖ m) and KL(q ‖ m), where m is the mean
    of p and q. That is what the published code computes.

    >>> p, q = torch.tensor([[[0.5, 0.5]], [[0.9, 0.1]]]).log()
    >>> [round(divergence(p, q, reverse=reverse).item(), 4) for reverse in (False, True)]
    [0.1017, 0.118]
    """
    # The logarithm of the mean of both, without leaving logarithms, where small probabilities would be zero.
    middle = torch.stack([one, other]).logsumexp(0) - torch.log(torch.tensor(2.0, device=one.device))
    if reverse:
        first = middle.exp() * (middle - one)
        second = middle.exp() * (middle - other)
    else:
        first = one.exp() * (one - middle)
        second = other.exp() * (other - middle)
    return 0.5 * (first.sum(1) + second.sum(1))


class AlignmentLoss:
    """The mean divergence of the predictions after both words of a pair, as ``loss``, over some tokens or all."""

    def __init__(self, model: Model, tokens: torch.Tensor | None, *, reverse: bool) -> None:
        self.pad, self.tokens, self.reverse = model.tokens.pad, tokens, reverse

    def __call__(self, network: Any, rows: Sequence[PromptedPair]) -> LossTerms:
        """The loss of a batch of rows."""
        return {"loss": self.divergences(network, rows).mean()}

    def divergences(self, network: Any, rows: Sequence[PromptedPair]) -> torch.Tensor:
        """The divergence of each row [rows]."""
        device = next(network.parameters()).device
        # Both sides of all pairs are one batch: first all of the one word, then all of the other.
        both = [first for first, _ in rows]
        both += [second for _, second in rows]
        inputs = network_inputs([query.ids for query in both], self.pad, device)
        at = torch.tensor([query.at for query in both])
        read = logits_at(network, inputs, torch.arange(len(both)), at).float()
        if self.tokens is not None:
            read = read[:, self.tokens.to(device)]
        one, other = read.log_softmax(-1).view(2, len(rows), -1)
        return divergence(one, other, reverse=self.reverse)


def candidates(model: Model, count: int) -> list[str]:
    """The first ``count`` tokens of a vocabulary that are lower-case words of letters; frequent words come first.

    Raises
    ------
    MitigationError
        If there is none.
    """
    tokenizer = model.tokens.tokenizer
    tried: dict[str, None] = {}  # each word once: a vocabulary may have it with and without a space before
    for number in range(len(tokenizer)):
        if len(tried) == count:
            break
        word = tokenizer.decode([number]).strip()
        plain = word.isascii() and word.isalpha() and word.islower()
        if not plain or len(word) < _LEAST_LETTERS or word in tried:
            continue
        (token,) = model.tokens.words([word])
        if token is not None:
            tried[word] = None
    if not tried:
        raise MitigationError(f"No token of {model.name} is a lower-case word; give prompts of your own.")
    return list(tried)


@torch.no_grad()
def search(
    model: Model,
    loss: AlignmentLoss,
    pairs: Sequence[tuple[str, str]],
    words: Sequence[str],
    length: int,
    beam: int,
    path: Path,
    console: Console,
) -> list[str]:
    """Prompts after which the predictions of a model differ most between the words of pairs, by beam search.

    Prompts of one word are measured first; the ``beam`` prompts with the largest mean divergence are kept and
    continued with each of ``words``. All kept prompts of 1 to ``length`` words are returned. The prompts of a finished
    length are written to ``path``, from which an interrupted search goes on.
    """

    def measure(prompts: Sequence[str]) -> list[float]:
        """The mean divergence of each prompt over the pairs."""
        # One pair at a time, with all prompts in one batch: they have the same length, and so need no padding.
        sums = torch.zeros(len(prompts), dtype=torch.float64)
        for pair in pairs:
            sums += loss.divergences(model.network, prompted_pairs(model, prompts, [pair])).double().cpu()
        return [float(value) for value in sums / len(pairs)]

    by_length: list[list[str]] = FOUND.read(path, lambda content: content["prompts"], MitigationError) or []
    while len(by_length) < length:
        # A length continues the kept prompts of the length before, not all prompts.
        tried = list(words)
        if by_length:
            tried = [f"{prompt} {word}" for prompt in by_length[-1] for word in words]
        what = f"prompts of {len(by_length) + 1} words"
        means: list[float] = []
        for start in progress.track(range(0, len(tried), SEARCHED), what, console=console):
            means += measure(tried[start : start + SEARCHED])
        # Of equal means the prompt that was tried first comes first: sorting is stable.
        best = sorted(range(len(tried)), key=lambda number: -means[number])[:beam]
        by_length.append([tried[number] for number in best])
        FOUND.write(path, {"prompts": by_length})
    prompts: list[str] = []
    for prompts_of_length in by_length:
        prompts += prompts_of_length
    return prompts
