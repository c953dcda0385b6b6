"""The losses of debias tuning, as pure functions of probabilities of the next token.

From *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024), section 5: L_d draws the
probabilities of paired female and male forms together, L_g all of them to zero, L_l the two genders to
the same sum. A loss is given per prompt; the paper adds them up over a batch, here they are averaged.
The forms are those that scoring watches: one token each after a space, no token twice.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from builders.text.words import PAIRS
from mitigation.adapters.adapter import MitigationError
from scoring.inference.tokens import Tokens
from scoring.metrics.add import EPSILON
from scoring.metrics.pronouns import FORMS


class Forms(NamedTuple):
    """Tokens of the female and of the male forms, and of the pairs [pairs, 2] whose both forms are one token."""

    female: list[int]
    male: list[int]
    pairs: list[list[int]]

    @property
    def all(self) -> list[int]:
        """Every token once."""
        return self.female + self.male


def forms(tokens: Tokens, model: str) -> Forms:
    """The forms that can be the next token of a model.

    Raises
    ------
    MitigationError
        When no pair of forms is one token each, so that there is nothing to balance.
    """
    token = dict(zip(FORMS, tokens.words(FORMS), strict=True))
    pairs = [[token[f], token[m]] for f, m in PAIRS if token[f] is not None and token[m] is not None]
    if not pairs:
        raise MitigationError(
            f"In the vocabulary of {model} no female and male form are one token each, so its next token cannot be "
            "balanced; give a model with larger tokens."
        )
    female, male = ([i for pair in PAIRS if (i := token[pair[side]]) is not None] for side in (0, 1))
    return Forms(female, male, [[int(i or 0) for i in pair] for pair in pairs])


def mass(chances: torch.Tensor, forms: Forms) -> tuple[torch.Tensor, torch.Tensor]:
    """F and M, each [prompts], of probabilities [prompts, vocabulary]."""
    return chances[:, forms.female].sum(1), chances[:, forms.male].sum(1)


def divergence(chances: torch.Tensor, forms: Forms, epsilon: float = EPSILON, *, within: bool = False) -> torch.Tensor:
    """L_d [prompts]: the printed expression of ADD, natural logarithm.

    It is at most half of ln 2 times F + M, so its slope goes with the forms themselves. ``within``
    compares the shares of the forms within each gender instead, whatever the genders' sums are; only
    that form fits what the paper prints for ADD, and for leaving L_d out.

    >>> p = torch.tensor([[0.5, 0.0, 0.5]], dtype=torch.float64)
    >>> round(divergence(p, Forms([0], [1], [[0, 1]])).item(), 6)
    0.173287
    >>> divergence(p, Forms([0], [1], [[0, 1]]), within=True).item()
    0.0
    """
    pairs = chances[:, forms.pairs] + epsilon
    if within:
        pairs = pairs / pairs.sum(1, keepdim=True)
    one, other = pairs.unbind(2)
    both = one + other
    return 0.5 * (one * (2 * one / both).log() + other * (2 * other / both).log()).sum(1)


def presence(chances: torch.Tensor, forms: Forms) -> torch.Tensor:
    """L_g [prompts]: F + M.

    >>> presence(torch.tensor([[0.5, 0.25, 0.25]]), Forms([0], [1], [[0, 1]])).item()
    0.75
    """
    female, male = mass(chances, forms)
    return female + male


def imbalance(chances: torch.Tensor, forms: Forms, epsilon: float = EPSILON) -> torch.Tensor:
    """L_l [prompts]: |F − M| / (F + M).

    >>> round(imbalance(torch.tensor([[0.5, 0.25, 0.25]]), Forms([0], [1], [[0, 1]])).item(), 4)
    0.3333
    """
    female, male = mass(chances, forms)
    return (female - male).abs() / (female + male + epsilon)


def retention(base: torch.Tensor, tuned: torch.Tensor, forms: Forms) -> torch.Tensor:
    """KL(base ‖ tuned) [positions] of logits [positions, vocabulary], where all gendered forms count as one event.

    So the tuned model may give the probability of the forms to other forms, and has to keep how much
    of it there is and everything else. Not in the paper, whose optimum has no gendered form at all.

    >>> logits = torch.tensor([[0.9, 0.1, 1.0]]).log()
    >>> retention(logits, logits[:, [1, 0, 2]], Forms([0], [1], [[0, 1]])).abs().max().item() < 1e-6
    True
    """
    kept, learnt = (_events(logits, forms) for logits in (base, tuned))
    return (kept.exp() * (kept - learnt)).sum(1)


def _events(logits: torch.Tensor, forms: Forms) -> torch.Tensor:
    """Log-probabilities of every other token, then of the forms together."""
    logs = logits.float().log_softmax(-1)
    others = torch.ones(logs.shape[1], dtype=torch.bool, device=logs.device)
    others[forms.all] = False
    return torch.cat([logs[:, others], logs[:, forms.all].logsumexp(1, keepdim=True)], 1)
