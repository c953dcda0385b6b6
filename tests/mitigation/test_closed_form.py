"""The least-squares edit: its derivatives, its solution, and what the recipe does to planted leans."""

from dataclasses import replace

import numpy as np
import peft
import pytest
import torch
from rich.console import Console

from mitigation.editing import least_squares
from mitigation.errors import MitigationError
from mitigation.recipes import closed_form, get
from mitigation.training.data import TrainingData
from scoring.adapters.attach import quiet
from scoring.adapters.feed_forward import feed_forwards
from tests.mitigation.test_edit import ready
from tests.scoring import models

NAMES = ["tiny-masked", *models.CAUSAL, *models.MASKED]
FEW = {"kept": 0, "rank": 4}


def places_of(model, count):
    fitted, _ = closed_form.places_of_pairs(model, replace(get("closed_form").profiles["clean"], **FEW))
    return fitted[:count]


def maps_of(model):
    return [part.last for part in feed_forwards(model.network)]


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_a_changed_map(name, monkeypatch):
    monkeypatch.setattr(least_squares, "TOKENS", 1000)
    model = ready(name)
    places, maps = places_of(model, 6), maps_of(model)
    values, tokens = least_squares.derivatives(model, places, maps, 4)
    expected_values = least_squares.values(model, places)
    np.testing.assert_allclose(values, [*expected_values[:, 0], *expected_values[:4, 1]], atol=1e-5)
    torch.manual_seed(1)
    expected = np.zeros(values.size)
    changes = {}
    for map_name, (owners, gradients, inputs) in tokens.items():
        change = torch.randn(gradients.shape[1], inputs.shape[1]) * 1e-4
        changes[map_name] = change
        products = (gradients * (inputs @ change.T)).sum(1).double()
        expected += torch.zeros(values.size, dtype=torch.float64).index_add_(0, owners, products).numpy()
    moved = []
    for sign in (1, -1):
        with torch.no_grad():
            for map_name, change in changes.items():
                module = model.network.get_submodule(map_name)
                module.weight.add_(sign * (change.T if hasattr(module, "nf") else change))
            both = least_squares.values(model, places)
            moved.append(np.concatenate([both[:, 0], both[:4, 1]]))
            for map_name, change in changes.items():
                module = model.network.get_submodule(map_name)
                module.weight.sub_(sign * (change.T if hasattr(module, "nf") else change))
    found = (moved[0] - moved[1]) / 2
    assert np.corrcoef(found, expected)[0, 1] > 0.99
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max() + 2e-5


def test_the_solution_is_that_of_ordinary_least_squares():
    generator = torch.Generator().manual_seed(0)
    owners = torch.tensor([0, 0, 1, 2, 3])
    gradients, inputs = torch.randn(5, 3, generator=generator), torch.randn(5, 4, generator=generator)
    text = torch.randn(50, 4, generator=generator)
    weights = np.array([1.0, 0.0, 2.0, 0.5])
    problem = least_squares.Edit(
        {"map": least_squares.Tokens(owners, gradients, inputs)}, {"map": text}, weights, ridge=0.2
    )
    wanted = np.array([1.0, 5.0, -0.5, 0.3])
    change = problem.change("map", problem.coefficients(wanted)).double().numpy()

    covariance = (text.T @ text / len(text)).double().numpy()
    metric = 0.9 * covariance / np.diag(covariance).mean() + 0.1 * np.eye(4)
    jacobian = np.zeros((4, 12))
    for owner, gradient, entering in zip(owners.numpy(), gradients.numpy(), inputs.numpy(), strict=True):
        jacobian[owner] += np.outer(gradient, entering).ravel()
    whole = np.kron(np.eye(3), metric)
    used = [0, 2, 3]
    sizes = np.diag(jacobian[used] @ np.linalg.inv(whole) @ jacobian[used].T)
    left = (jacobian[used].T * weights[used]) @ jacobian[used] + 0.2 * sizes.mean() * whole
    right = (jacobian[used].T * weights[used]) @ wanted[used]
    np.testing.assert_allclose(change.ravel(), np.linalg.solve(left, right), rtol=1e-3, atol=1e-5)


def test_a_lora_has_the_nearest_product():
    torch.manual_seed(0)
    change = torch.randn(12, 3) @ torch.randn(3, 20)
    state = torch.random.get_rng_state()
    matrices = least_squares.of_rank(change, 3)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.testing.assert_close(matrices.b @ matrices.a, change, rtol=1e-4, atol=1e-4)
    assert matrices.a.shape == (3, 20)


@pytest.mark.parametrize("name", NAMES)
def test_leans_of_pairs_fall_and_the_network_is_as_before(name, tmp_path, monkeypatch, undrawn):
    model = ready(name)
    before = {key: tensor.clone() for key, tensor in model.network.state_dict().items()}
    out = tmp_path / "work" / "made"
    out.mkdir(parents=True)
    settings = replace(get("closed_form").profiles["clean"], **FEW)
    fitted, held = closed_form.places_of_pairs(model, settings)
    leans = least_squares.values(model, [*fitted, *held])[:, 0]
    adapter = get("closed_form").apply(model, settings, TrainingData(str(tmp_path)), out, Console(quiet=True))
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.network.state_dict().items())
    with quiet():
        model.network = peft.PeftModel.from_pretrained(model.network, out).eval()
    edited = least_squares.values(model, fitted)[:, 0]
    assert (edited**2).mean() < 0.8 * (leans[: len(fitted)] ** 2).mean()
    held_after = least_squares.values(model, held)[:, 0]
    assert adapter.measures["lean of held-out pairs after"][0] == pytest.approx(held_after.mean(), abs=1e-3)


def test_an_edit_that_helps_no_held_out_pair_is_refused(tmp_path, monkeypatch):
    model = ready("tiny-causal")
    monkeypatch.setattr(least_squares.Edit, "coefficients", lambda self, differences: np.zeros(len(differences)))
    out = tmp_path / "work" / "made"
    out.mkdir(parents=True)
    settings = replace(get("closed_form").profiles["clean"], **FEW)
    with pytest.raises(MitigationError, match="nats in size before"):
        get("closed_form").apply(model, settings, TrainingData(str(tmp_path)), out, Console(quiet=True))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"strength": 0.0}, "give a value above 0"),
        ({"first": 0.6, "last": 0.5}, "give --last above"),
        ({"held_out": 0.001}, "cannot be held out"),
    ],
)
def test_settings_that_cannot_work_are_refused(changed, said, tmp_path):
    model = ready("tiny-causal")

    def choose():
        settings = replace(get("closed_form").profiles["clean"], **changed)
        return closed_form.places_of_pairs(model, settings)

    with pytest.raises(MitigationError, match=said):
        choose()
