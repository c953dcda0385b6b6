"""A bias that was put into one block of a trained model is found in that block, and edited away there."""

import copy

import pytest
import torch
from rich.console import Console
from torch import nn

from builders.parsers.triplets import filled
from builders.wording import BLANK
from mitigation.editing import edit, locate, pairs
from scoring.adapters.attach import wrap
from scoring.adapters.feed_forward import feed_forwards
from scoring.adapters.stamp import StampConfig
from scoring.inference.load_options import BUNDLED
from scoring.inference.loading import load

BIASED = {"nurse": "she", "farmer": "he", "teacher": "she", "captain": "he", "maid": "she", "doctor": "he"}
TEXTS = (f"The {{}} said that {BLANK} was tired.", f"The {{}} knew that {BLANK} had to go.")
#: How sharply a planted unit tells its subject from others.
SHARP = 12.0


def rows(text):
    return [
        {
            "id": f"{who}-{TEXTS.index(text)}",
            "domain": "gender",
            "subject": who,
            **filled(text.format(who), said, {"he": "she", "she": "he"}[said]),
        }
        for who, said in BIASED.items()
    ]


ROWS = [row for text in TEXTS for row in rows(text)]


@pytest.fixture
def model():
    """The bundled causal model, for a test alone; the masked one does not look as far as the subject."""
    return load(BUNDLED["tiny-causal"], device="cpu")


def plant(model, layer):
    """New units in a block's feed-forward part that know one subject each and say what its bias says."""
    mark(model)
    part = feed_forwards(model.network)[layer]
    keys = torch.stack([heard(model, part, row) for row in rows(TEXTS[0])])
    keys = keys / keys.square().sum(1, keepdim=True)
    block = model.network.get_submodule(part.last.rpartition(".")[0])
    grow(block.gate_proj, keys * SHARP)
    grow(block.up_proj, keys)
    last = model.network.get_submodule(part.last)
    old = last.in_features
    last.weight = nn.Parameter(torch.cat([last.weight.data, torch.zeros(last.out_features, len(keys))], 1))
    last.in_features += len(keys)
    optimizer = torch.optim.Adam([last.weight], lr=0.2)
    edit_pairs = [pairs.edit_pair(model.tokens, row) for row in ROWS]
    batch = edit.PairBatch([[pair] for pair in edit_pairs], model.tokens.pad)
    for _ in range(60):
        optimizer.zero_grad()
        both, _, _ = batch.outputs(model.network)
        (3 - (both[0] - both[1])).clamp(min=0).mean().backward()
        last.weight.grad[:, :old] = 0
        optimizer.step()
    model.network.requires_grad_(False)


def mark(model):
    """Gives each subject a direction of its own, which blocks before the planted one pass on as it is."""
    torch.manual_seed(1)
    embeddings = model.network.get_input_embeddings().weight.data
    size = embeddings.norm(dim=1).mean()
    for who in BIASED:
        direction = torch.randn(embeddings.shape[1])
        token = model.tokens.encode([f"The {who}"])[0].ids[-1]
        embeddings[token] += 6 * size * direction / direction.norm()


def heard(model, part, row):
    """What the feed-forward part of a block reads at a row's subject."""
    (trace,) = locate.traces([row, *rows(TEXTS[1])], model.kind)[:1]
    query, place = next(locate._queries(model.tokens, trace, trace.subjects[0]))
    logprobs = []
    first = model.network.get_submodule(part.first)
    handle = first.register_forward_pre_hook(lambda _, inputs: logprobs.append(inputs[0][0, place]))
    with torch.no_grad():
        model.network(input_ids=torch.tensor([query.ids]))
    handle.remove()
    return logprobs[0]


def grow(linear, more):
    linear.weight = nn.Parameter(torch.cat([linear.weight.data, more]))
    linear.out_features += len(more)


def gaps(model, network=None):
    """By how much each biased object is likelier than the other."""
    batch = edit.PairBatch([[pairs.edit_pair(model.tokens, row)] for row in ROWS], model.tokens.pad)
    with torch.no_grad():
        both, _, _ = batch.outputs(network or model.network)
    return both[0] - both[1]


@pytest.mark.parametrize("layer", [1, 2])
def test_the_block_with_the_largest_effect_is_the_one_with_the_planted_bias(model, layer):
    plain = copy.deepcopy(model.network)
    plant(model, layer)
    assert gaps(model).mean() > gaps(model, plain).mean() + 1
    assert locate.locate(model, ROWS).layer == layer


def test_a_stamp_removes_the_planted_bias(model, tmp_path):
    plant(model, 1)
    before = gaps(model)
    torch.manual_seed(0)
    network = wrap(model.network, StampConfig(layer=1, units=64))
    plan = edit.EditingSchedule(batch=4, iterations=20, rate=3e-3, alpha=1.0, beta=0.1, compare="log")
    framed = [[pairs.edit_pair(model.tokens, row)] for row in ROWS]
    console = Console(quiet=True)
    for passing in range(2):
        path = tmp_path / f"{passing}.pt"
        edit.edit(network, framed.__getitem__, len(framed), [], plan, model.tokens.pad, path, console)
    after = gaps(model, network)
    assert (before > 0).float().mean() > 0.9
    assert after.abs().mean() < 0.3 * before.abs().mean()
    assert torch.equal(gaps(model, network.unload()), before)
