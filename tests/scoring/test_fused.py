"""Activations in the way that is quickest: the same numbers, and the network as it was afterwards."""

import pytest
import torch
from torch import nn
from transformers.activations import ACT2FN, NewGELUActivation

from scoring.inference.fused import TANH, TanhGELU, fused
from scoring.types import Option, Request
from tests.scoring.models import model as made

ASK = Request("a", "My friend is", (Option(" a nurse."), Option(" here.")))


def activations(network):
    return [module for module in network.modules() if type(module) in TANH]


@pytest.mark.parametrize("module", TANH)
def test_the_quickest_way_gives_what_each_does(module):
    plain = nn.Sequential(module())
    x = torch.linspace(-8, 8, 1001, dtype=torch.float64)
    expected = plain(x)
    with fused(plain):
        assert not activations(plain)
        torch.testing.assert_close(plain(x), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_it_is_as_near_to_the_function_as_the_operation_of_torch(dtype):
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([-6e4, -300.0, 0.0, 300.0, 6e4])]).to(dtype)
    exact = nn.functional.gelu(x.double(), approximate="tanh")
    near, torch_near = (
        (each.double() - exact).abs() for each in (TanhGELU()(x), nn.functional.gelu(x, approximate="tanh"))
    )
    assert (near <= torch_near.max() + 4 * torch.finfo(dtype).eps * (1 + exact.abs())).all()


@pytest.mark.parametrize("name", ["gelu", "quick_gelu", "silu", "relu"])
def test_another_function_stays(name):
    plain = nn.Sequential(ACT2FN[name])
    own = plain[0]
    with fused(plain):
        assert plain[0] is own


def test_an_activation_that_somebody_watches_stays():
    plain = nn.Sequential(ACT2FN["gelu_new"])
    seen = []
    plain[0].register_forward_hook(lambda *_: seen.append(1))
    with fused(plain):
        plain(torch.ones(1))
    assert seen == [1]


@pytest.fixture
def written(monkeypatch):
    """Calls of an activation as it is written out."""
    calls, forward = [], NewGELUActivation.forward
    monkeypatch.setattr(NewGELUActivation, "forward", lambda self, x: calls.append(self) or forward(self, x))
    return calls


def test_a_model_answers_the_same_without_them_and_has_them_back(written, monkeypatch):
    model = made("gpt2")
    before = activations(model.network)
    written.clear()
    (found,) = model.answer([ASK])
    assert before
    assert not written
    assert activations(model.network) == before
    monkeypatch.setattr("scoring.inference.fused.TANH", ())
    (expected,) = model.answer([ASK])
    assert written
    for one, other in zip(found.logprobs, expected.logprobs, strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_a_run_that_breaks_off_gives_the_network_back(monkeypatch):
    model = made("gpt2")
    before = activations(model.network)
    monkeypatch.setattr(model, "_score", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.answer([ASK])
    assert activations(model.network) == before


def test_an_exact_model_computes_them_as_they_are_written(written):
    model = made("gpt2", exact=True)
    written.clear()
    model.answer([ASK])
    assert written
