"""The losses of MABEL over entailment pairs and their copies with the words of the other gender.

Source: *MABEL: Attenuating Gender Bias using Textual Entailment Data* (He et al., 2022), section 3. A sentence is
represented by the last hidden state of its first token, or by what a network of two layers makes of it, which the
authors train and throw away (``MLPLayer`` of their code).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from mitigation.texts.attribute_words import Swapper
from mitigation.training.language import LanguageLoss
from mitigation.training.train import LossTerms, network_inputs
from scoring.inference.model import Model

#: The token ids of a premise, its hypothesis, and both with swapped words.
EntailmentRow = tuple[list[int], list[int], list[int], list[int]]


def entailment_rows(
    model: Model, pairs: Iterable[tuple[str, str]], swapper: Swapper, length: int
) -> list[EntailmentRow]:
    """The pairs with a listed word in either sentence, as rows of at most ``length`` token ids a sentence.

    A pair whose swapped copy has the same tokens, because the listed word is cut off, is left out.
    """
    # A pair without a listed word would be its own swapped copy and teach nothing.
    texts: list[str] = []
    for premise, hypothesis in pairs:
        swapped = swapper.swap(premise), swapper.swap(hypothesis)
        if swapped != (premise, hypothesis):
            texts += (premise, hypothesis)
            texts += swapped
    if not texts:
        return []
    window = min(length, model.tokens.window or length)
    # All texts at once: a tokenizer is much faster with one long list.
    ids = model.tokens.tokenizer(texts, truncation=True, max_length=window)["input_ids"]
    rows = []
    for start in range(0, len(ids), 4):
        premise_ids, hypothesis_ids, swapped_premise, swapped_hypothesis = ids[start : start + 4]
        if (premise_ids, hypothesis_ids) != (swapped_premise, swapped_hypothesis):
            rows.append((premise_ids, hypothesis_ids, swapped_premise, swapped_hypothesis))
    return rows


def similarities(premises: torch.Tensor, hypotheses: torch.Tensor, temperature: float) -> torch.Tensor:
    """Cosines of all premises with all hypotheses [premises, hypotheses], divided by the temperature."""
    unit_premises = torch.nn.functional.normalize(premises, dim=-1)
    unit_hypotheses = torch.nn.functional.normalize(hypotheses, dim=-1)
    return unit_premises @ unit_hypotheses.T / temperature


def contrastive(states: torch.Tensor, temperature: float) -> torch.Tensor:
    """The cross-entropy of finding the hypothesis of each premise among all of the batch, equations 1 and 2.

    ``states`` [4, rows, width] has the sentences in the order of :data:`EntailmentRow`. Swapped pairs are rows like
    the others, so the batch has twice as many.

    >>> states = torch.eye(4)[torch.tensor([[0, 1], [0, 1], [2, 3], [2, 3]])]
    >>> round(contrastive(states, 1.0).item(), 4)
    0.7437
    """
    premise, hypothesis, swapped_premise, swapped_hypothesis = states
    # The right hypothesis of each premise is on the diagonal; all others of the batch are wrong ones.
    table = similarities(
        torch.cat([premise, swapped_premise]), torch.cat([hypothesis, swapped_hypothesis]), temperature
    )
    return torch.nn.functional.cross_entropy(table, torch.arange(len(table), device=table.device))


def alignment(states: torch.Tensor, temperature: float) -> torch.Tensor:
    """How much the similarities of premises and hypotheses change when the words are swapped, as in the code.

    The squared differences of all similarities of a premise are added up, and their mean over premises is taken.

    >>> states = torch.eye(4)[torch.tensor([[0, 1], [0, 1], [2, 3], [3, 2]])]
    >>> alignment(states, 1.0).item()
    2.0
    """
    premise, hypothesis, swapped_premise, swapped_hypothesis = states
    difference = similarities(premise, hypothesis, temperature)
    difference = difference - similarities(swapped_premise, swapped_hypothesis, temperature)
    return difference.square().sum(1).mean()


class EntailmentLoss:
    """The contrastive loss, and the weighted losses of alignment and of masked tokens; ``loss`` is their sum."""

    def __init__(self, model: Model, temperature: float, aligned: float, masked: float, share: float) -> None:
        self.pad = model.tokens.pad
        self.temperature, self.aligned, self.masked = temperature, aligned, masked
        self.head: torch.nn.Module | None = None
        self.language = LanguageLoss(model, share)

    def __call__(self, network: Any, rows: Sequence[EntailmentRow]) -> LossTerms:
        """The terms of a batch of rows."""
        states = self.states(network, rows)
        sentences: list[list[int]] = []
        for row in rows:
            sentences += row
        terms = {
            "contrastive": contrastive(states, self.temperature),
            "alignment": alignment(states, self.temperature),
            "masked": self.language(network, sentences)["loss"],
        }
        total = terms["contrastive"] + self.aligned * terms["alignment"] + self.masked * terms["masked"]
        return {"loss": total, **terms}

    def states(self, network: Any, rows: Sequence[EntailmentRow]) -> torch.Tensor:
        """The states [4, rows, width] of the sentences, in the order of :data:`EntailmentRow`."""
        device = next(network.parameters()).device
        # All premises first, then all hypotheses, and so on.
        sentences = [row[which] for which in range(4) for row in rows]
        hidden = network(**network_inputs(sentences, self.pad, device), output_hidden_states=True).hidden_states[-1]
        first = torch.as_tensor(hidden[:, 0]).float()
        if self.head:
            first = self.head(first)
        return first.view(4, len(rows), -1)

    @contextmanager
    def trained_head(self, network: Any, wanted: bool) -> Iterator[None]:
        """Within the block, if it is ``wanted``, a network above the first token is trained with the other weights.

        It is a part of ``network`` there, so that the optimizer and checkpoints have it; afterwards nothing has it.
        """
        if not wanted:
            yield
            return
        width = network.config.hidden_size
        layers = [torch.nn.Linear(width, width) for _ in range(2)]
        for layer in layers:  # as BERT begins its own
            torch.nn.init.normal_(layer.weight, std=0.02)
            torch.nn.init.zeros_(layer.bias)
        device = next(network.parameters()).device
        self.head = network.sentence_head = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1]).to(device)
        try:
            yield
        finally:
            self.head = None
            del network.sentence_head
