"""GRADIEND: gradients of words, a planted feature that the neuron finds, and a rewritten model."""

import json
from dataclasses import replace

import pytest
import torch

from mitigation.errors import MitigationError
from mitigation.projections import stream
from mitigation.recipes import get, gradiend
from mitigation.training.data import TrainingData
from scoring.adapters.facts import is_whole_model
from scoring.inference.load_options import BUNDLED, load
from tests.mitigation.made import silent

JOBS = {
    "first": ("guard", "driver", "sailor", "smith", "judge"),
    "second": ("nurse", "maid", "dancer", "cook", "singer"),
}


def contrast(folder):
    texts = {kind: [f"The {job} said that [he|she] was late." for job in jobs] for kind, jobs in JOBS.items()}
    (folder / "contrast.json").write_text(json.dumps(texts))
    return str(folder / "contrast.json")


def test_texts_of_each_kind_have_their_own_word_first_and_every_fourth_is_held_out(tmp_path):
    (first, second), held = stream.contrast_pairs(contrast(tmp_path))
    assert first[0] == ("The guard said that he was late.", "The guard said that she was late.")
    assert second[0] == ("The nurse said that she was late.", "The nurse said that he was late.")
    assert (len(first), len(second)) == (4, 4)
    assert held == [
        ("The smith said that he was late.", "The smith said that she was late."),
        ("The cook said that he was late.", "The cook said that she was late."),
    ]


@pytest.mark.parametrize("name", ["tiny-causal", "tiny-masked"])
def test_gradients_are_those_of_the_words_alone(name):
    model = load(BUNDLED[name], device="cpu")
    model.network.requires_grad_(True)
    weights = list(model.network.base_model.parameters())
    pair = ("The guard said that he was late.", "The guard said that she was late.")
    unequal = ("The guard said that he was late.", "The guard said that nobody here was late.")
    found = gradiend.gradients(model, [pair, unequal], weights, 128)
    tokenizer = model.tokens.tokenizer
    for text, word, gradient in zip(pair, ("he", "she"), found, strict=True):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        target = tokenizer(f" {word}", add_special_tokens=False)["input_ids"][0]
        at = ids[0].tolist().index(target)
        if name == "tiny-masked":
            ids[0, at] = tokenizer.mask_token_id
        model.network.zero_grad()
        logits = model.network(input_ids=ids).logits[0, at - (name == "tiny-causal")]
        (-logits.log_softmax(-1)[target] / 2).backward()
        own = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
        torch.testing.assert_close(gradient, torch.cat([one.flatten() for one in own]), atol=1e-6, rtol=1e-4)


def test_the_neuron_finds_a_planted_feature_and_the_decoder_its_direction():
    torch.manual_seed(0)
    learner, (u, v) = gradiend.Learner(400, 3e-3, 1e-2, "cpu"), torch.nn.functional.normalize(torch.randn(2, 400))
    draw, sides = torch.Generator().manual_seed(1), []
    for step in range(600):
        side = 1.0 if step % 2 else -1.0
        learner.step(5 * side * u + torch.randn(400, generator=draw) * 0.05, 5 * side * v + 0.2)
        sides.append(side * learner.encode(5 * side * u).item())
    assert abs(sum(sides[-20:])) > 19, "the two groups are at -1 and 1"
    with torch.no_grad():
        low, middle, high = (learner.decoder(torch.full((1,), h)) for h in (-1.0, 0.0, 1.0))
    assert torch.cosine_similarity(high - low, v, 0).abs() > 0.95
    assert torch.cosine_similarity(middle, torch.ones(400), 0) > 0.95


QUICK = {"steps": 6, "batch_size": 2, "learning_rate": 1e-4, "rates": "0.1,1", "loss_limit": 0.0}


@pytest.mark.parametrize("name", ["tiny-causal", "tiny-masked"])
def test_the_result_is_a_whole_model_with_a_smaller_preference_and_the_network_stays(name, tmp_path):
    model = load(BUNDLED[name], device="cpu")
    before = {key: weight.clone() for key, weight in model.network.state_dict().items()}
    settings = replace(get("gradiend").profiles["clean"], contrast=contrast(tmp_path), **QUICK)
    (out := tmp_path / "made").mkdir()
    facts = get("gradiend").apply(model, settings, TrainingData(str(tmp_path)), out, silent())
    sizes = [facts.measures[f"held-out absolute preference {when}"][0] for when in ("before", "after")]
    assert sizes[1] < sizes[0]
    assert all(torch.equal(weight, before[key]) for key, weight in model.network.state_dict().items())
    assert is_whole_model(out)
    made = load(out, device="cpu")
    _, held = stream.contrast_pairs(settings.contrast)
    assert stream.preference(made, held).size == pytest.approx(sizes[1], abs=1e-3)


def test_a_change_that_helps_nowhere_is_refused(tmp_path):
    settings = replace(get("gradiend").profiles["clean"], contrast=contrast(tmp_path), **QUICK | {"rates": "1e-30"})
    with pytest.raises(MitigationError, match="change of the weights"):
        get("gradiend").apply(
            load(BUNDLED["tiny-causal"], device="cpu"), settings, TrainingData(""), tmp_path, silent()
        )
