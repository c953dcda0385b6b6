"""The losses of debias tuning, as functions of next-token probabilities.

Source: *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024), section 5. L_d makes paired
female and male forms (she/he, her/him …) equally probable, L_g makes all forms improbable, L_l gives both
genders the same total. Each loss is per prompt; the paper adds them up over a batch, this project averages.
The forms are those of scoring: single tokens after a space, no token twice.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from builders.text.words import PRONOUN_PAIRS
from mitigation.errors import MitigationError
from scoring.inference.tokens import Tokens
from scoring.metrics.add import EPSILON
from scoring.metrics.pronouns import FORMS


class FormTokens(NamedTuple):
    """Token ids of female and of male forms, and of the pairs [pairs, 2] in which both forms are one token."""

    female: list[int]
    male: list[int]
    pairs: list[list[int]]

    @property
    def all(self) -> list[int]:
        """Every token id once."""
        return self.female + self.male


def form_tokens(tokens: Tokens, model: str) -> FormTokens:
    """The forms that a model can predict as one token.

    Raises
    ------
    MitigationError
        If no pair has two such forms, so that nothing can be balanced.
    """
    token = dict(zip(FORMS, tokens.words(FORMS), strict=True))
    pairs = [[token[f], token[m]] for f, m in PRONOUN_PAIRS if token[f] is not None and token[m] is not None]
    if not pairs:
        raise MitigationError(
            f"In the vocabulary of {model} no female and male form are one token each, so its next token cannot be "
            "balanced; give a model with larger tokens."
        )
    female, male = ([i for pair in PRONOUN_PAIRS if (i := token[pair[side]]) is not None] for side in (0, 1))
    return FormTokens(female, male, [[int(i or 0) for i in pair] for pair in pairs])


def gender_mass(probabilities: torch.Tensor, forms: FormTokens) -> tuple[torch.Tensor, torch.Tensor]:
    """F and M: the total probability of female and of male forms, each [prompts]; takes [prompts, vocabulary]."""
    return probabilities[:, forms.female].sum(1), probabilities[:, forms.male].sum(1)


def divergence(
    probabilities: torch.Tensor, forms: FormTokens, epsilon: float = EPSILON, *, within: bool = False
) -> torch.Tensor:
    """L_d [prompts] of probabilities [prompts, vocabulary]: the printed expression of ADD, in nats.

    For a pair (f, m) it is half of f ln(2f / (f + m)) + m ln(2m / (f + m)), so at most half of ln 2 times
    F + M: its gradient is small where the forms are improbable. ``within`` first divides each form by the
    total of its gender. Only that variant fits the values that the paper prints for ADD without L_d.

    >>> p = torch.tensor([[0.5, 0.0, 0.5]], dtype=torch.float64)
    >>> round(divergence(p, FormTokens([0], [1], [[0, 1]])).item(), 6)
    0.173287
    >>> divergence(p, FormTokens([0], [1], [[0, 1]]), within=True).item()
    0.0
    """
    pairs = probabilities[:, forms.pairs] + epsilon
    if within:
        pairs = pairs / pairs.sum(1, keepdim=True)
    female, male = pairs.unbind(2)
    both = female + male
    return 0.5 * (female * (2 * female / both).log() + male * (2 * male / both).log()).sum(1)


def presence(probabilities: torch.Tensor, forms: FormTokens) -> torch.Tensor:
    """L_g [prompts] of probabilities [prompts, vocabulary]: F + M.

    >>> presence(torch.tensor([[0.5, 0.25, 0.25]]), FormTokens([0], [1], [[0, 1]])).item()
    0.75
    """
    female, male = gender_mass(probabilities, forms)
    return female + male


def imbalance(probabilities: torch.Tensor, forms: FormTokens, epsilon: float = EPSILON) -> torch.Tensor:
    """L_l [prompts] of probabilities [prompts, vocabulary]: |F − M| / (F + M).

    >>> round(imbalance(torch.tensor([[0.5, 0.25, 0.25]]), FormTokens([0], [1], [[0, 1]])).item(), 4)
    0.3333
    """
    female, male = gender_mass(probabilities, forms)
    return (female - male).abs() / (female + male + epsilon)


def retention(base: torch.Tensor, tuned: torch.Tensor, forms: FormTokens) -> torch.Tensor:
    """KL(base ‖ tuned) [positions] of logits [positions, vocabulary], with all gendered forms as one event.

    The tuned model may move probability between the forms, and has to keep their total and everything else.
    Not in the paper, whose optimum gives no probability to any form.

    >>> logits = torch.tensor([[0.9, 0.1, 1.0]]).log()
    >>> retention(logits, logits[:, [1, 0, 2]], FormTokens([0], [1], [[0, 1]])).abs().max().item() < 1e-6
    True
    """
    base_logs, tuned_logs = (_merge_forms(logits, forms) for logits in (base, tuned))
    return (base_logs.exp() * (base_logs - tuned_logs)).sum(1)


def _merge_forms(logits: torch.Tensor, forms: FormTokens) -> torch.Tensor:
    """Log-probabilities of all other tokens, followed by that of all forms together."""
    logs = logits.float().log_softmax(-1)
    others = torch.ones(logs.shape[1], dtype=torch.bool, device=logs.device)
    others[forms.all] = False
    return torch.cat([logs[:, others], logs[:, forms.all].logsumexp(1, keepdim=True)], 1)
