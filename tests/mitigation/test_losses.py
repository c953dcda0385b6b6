"""The losses against values worked out by hand, finite differences, and the metrics of scoring."""

import doctest
import math

import numpy as np
import pytest
import torch

from mitigation.errors import MitigationError
from mitigation.training import losses
from mitigation.training.losses import FormTokens, divergence, form_tokens, imbalance, presence, retention
from scoring.inference.tokens import Tokens
from scoring.metrics import add, pronouns
from scoring.types import Request
from tests.mitigation.made import bundled, statements
from tests.scoring.models import folder, real, tokenizer

#: Two female forms, three male ones, two pairs, one token that is no form.
FORMS = FormTokens([0, 1], [2, 3, 4], [[0, 2], [1, 3]])
CHANCES = torch.tensor([[0.3, 0.1, 0.1, 0.1, 0.05, 0.35], [0.0, 0.0, 0.2, 0.0, 0.0, 0.8]], dtype=torch.float64)


def js(pairs, epsilon=1e-8):
    """The printed formula, term by term."""
    terms = [(f + epsilon, m + epsilon) for f, m in pairs]
    return 0.5 * sum(f * math.log(2 * f / (f + m)) + m * math.log(2 * m / (f + m)) for f, m in terms)


def test_the_divergence_is_the_printed_sum_over_pairs():
    expected = [js([(0.3, 0.1), (0.1, 0.1)]), js([(0.0, 0.2), (0.0, 0.0)])]
    assert divergence(CHANCES, FORMS).tolist() == pytest.approx(expected, rel=1e-12)
    # By hand: 0.3 ln 1.5 + 0.1 ln 0.5 = 0.052325, half of it is 0.026162; the equal pair adds nothing.
    assert expected[0] == pytest.approx(0.0261624, abs=1e-6)


def test_presence_and_imbalance_are_by_hand():
    assert presence(CHANCES, FORMS).tolist() == pytest.approx([0.65, 0.2])
    assert imbalance(CHANCES, FORMS).tolist() == pytest.approx([0.15 / 0.65, 1.0], abs=1e-6)


def test_a_prompt_without_any_form_has_finite_losses_and_gradients():
    logits = torch.tensor([[-200.0, -200.0, -200.0, -200.0, -200.0, 0.0]], requires_grad=True)
    for loss in (divergence, presence, imbalance):
        value = loss(logits.softmax(-1), FORMS).sum()
        (gradient,) = torch.autograd.grad(value, logits, retain_graph=True)
        assert value.item() == pytest.approx(0, abs=1e-6)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("loss", [divergence, presence, imbalance])
def test_gradients_equal_finite_differences(loss):
    logits = CHANCES[:1].log().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(logits.softmax(-1), FORMS).sum(), logits)
    step, nudged = 1e-6, []
    for place in range(logits.shape[1]):
        values = []
        for sign in (1, -1):
            other = logits.detach().clone()
            other[0, place] += sign * step
            values.append(loss(other.softmax(-1), FORMS).item())
        nudged.append((values[0] - values[1]) / (2 * step))
    assert gradient[0].tolist() == pytest.approx(nudged, abs=1e-8)
    assert max(map(abs, nudged)) > 1e-3


def test_retention_allows_shifts_between_gendered_forms_only():
    base = torch.tensor([[0.2, 0.1, 0.1, 0.05, 0.05, 0.5]]).log()
    traded = torch.tensor([[0.1, 0.1, 0.1, 0.1, 0.1, 0.5]]).log()
    taken = torch.tensor([[0.2, 0.1, 0.0, 0.05, 0.05, 0.6]]).log()
    assert retention(base, traded, FORMS).item() == pytest.approx(0, abs=1e-6)
    expected = 0.5 * math.log(0.5 / 0.4) + 0.5 * math.log(0.5 / 0.6)
    assert retention(base, taken, FORMS).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["bundled", pytest.param("stories260K", marks=pytest.mark.mirror)])
def test_the_losses_are_the_metrics_of_scoring_on_the_same_prompts(name):
    model = bundled() if name == "bundled" else real(name)
    prompts = [f"{statement}, and" for statement in statements("test")]
    responses = model.answer([Request(p, p, candidates=pronouns.FORMS) for p in prompts])
    lines = [pronouns.to_record(response.candidate_logprobs) for response in responses]
    table = {column: np.array([line[column] for line in lines]) for column in lines[0]}
    metrics = (add.add_raw(), pronouns.pronoun_mass(), pronouns.gld())
    expected = [metric.value(table, np.ones((1, len(prompts)))).item() for metric in metrics]
    known, rows = form_tokens(model.tokens, name), []
    for prompt in prompts:
        ids = model.tokens.prompt(Request(prompt, prompt, max_new=1), model.tokens.encode([prompt])[0])
        with torch.no_grad():
            rows.append(model.network(torch.tensor([ids])).logits[0, -1].softmax(-1))
    chances = torch.stack(rows).double()
    values = [loss(chances, known).mean().item() for loss in (divergence, presence, imbalance)]
    assert values == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_no_token_counts_twice_and_pairs_are_of_single_tokens():
    known = form_tokens(bundled().tokens, "m")
    assert len(set(known.all)) == len(known.all)
    assert {token for pair in known.pairs for token in pair} <= set(known.all)
    words = [bundled().tokens.tokenizer.decode(token).strip() for token in known.pairs[0]]
    assert words == ["she", "he"]


@pytest.mark.mirror
def test_a_vocabulary_of_characters_has_nothing_to_balance():
    folder("babyllama105")
    with pytest.raises(MitigationError) as error:
        form_tokens(real("babyllama105").tokens, "babyllama105")
    assert str(error.value) == (
        "In the vocabulary of babyllama105 no female and male form are one token each, so its next token cannot be "
        "balanced; give a model with larger tokens."
    )


def test_a_form_without_its_partner_counts_in_the_mass_alone():
    known = form_tokens(Tokens(tokenizer("gpt2"), "causal"), "made")
    pairs = {token for pair in known.pairs for token in pair}
    alone = set(known.all) - pairs
    chances = torch.zeros(1, 400, dtype=torch.float64)
    chances[0, list(alone)[:1]] = 0.5
    assert alone
    assert presence(chances, known).item() == 0.5
    assert divergence(chances, known).item() == pytest.approx(0, abs=1e-7)


def test_the_doctests_of_the_losses_pass():
    assert doctest.testmod(losses).failed == 0
