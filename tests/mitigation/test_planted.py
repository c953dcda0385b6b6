"""A bias that was put into one block of a trained model is found in that block, and edited away there."""

import copy
from dataclasses import replace

import peft
import pytest
import torch
from rich.console import Console
from torch import nn

from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from mitigation.editing import edit, locate, pairs
from mitigation.editing.settings import EditingSchedule
from mitigation.editing.stamped import StampedNetwork
from mitigation.recipes import get
from mitigation.training.data import TrainingData
from mitigation.training.train import network_inputs
from scoring.adapters.attach import quiet, wrap
from scoring.adapters.feed_forward import feed_forwards
from scoring.adapters.stamp import StampConfig
from scoring.inference.load_options import BUNDLED, load
from tests.scoring.made import data_set

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
    last = layer == len(feed_forwards(model.network)) - 1
    keys = torch.stack([heard(model, part, row, at_answer=last) for row in rows(TEXTS[0])])
    # At the answer all states are alike, and only the pseudo-inverse tells the subjects apart.
    keys = torch.linalg.pinv(keys).T if last else keys / keys.square().sum(1, keepdim=True)
    block = model.network.get_submodule(part.last.rpartition(".")[0])
    grow(block.gate_proj, keys * SHARP)
    grow(block.up_proj, keys)
    down = model.network.get_submodule(part.last)
    old = down.in_features
    down.weight = nn.Parameter(torch.cat([down.weight.data, torch.zeros(down.out_features, len(keys))], 1))
    down.in_features += len(keys)
    optimizer = torch.optim.Adam([down.weight], lr=0.2)
    edit_pairs = [pairs.edit_pair(model.tokens, row, profile="clean") for row in ROWS]
    for _ in range(60):
        optimizer.zero_grad()
        biased, unbiased = sentences(model, model.network, edit_pairs)
        # At the answer alone, an effect on probabilities needs a probable object.
        loss = (3 - (biased - unbiased)).clamp(min=0).mean() - (0.3 * biased.mean() if last else 0)
        loss.backward()
        down.weight.grad[:, :old] = 0
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


def heard(model, part, row, *, at_answer):
    """What the feed-forward part of a block reads at a row's subject, or where its answer is predicted."""
    (trace,) = locate.traces([row, *rows(TEXTS[1])], model.kind)[:1]
    reading = next(locate._readings(model.tokens, trace, trace.subjects[0]))
    query, place = reading.query, reading.query.at[0] if at_answer else reading.end - 1
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


def sentences(model, network, edit_pairs):
    """The log-probabilities of both sentences of pairs [2, pairs], in nats, with gradients."""
    queries = [query for pair in edit_pairs for side in pair.sides for query in side]
    logs = network(**network_inputs([query.ids for query in queries], model.tokens.pad, model.device)).logits
    sums = torch.stack(
        [
            own[list(query.at)].log_softmax(-1).gather(1, torch.tensor(query.want)[:, None]).sum()
            for own, query in zip(logs, queries, strict=True)
        ]
    )
    return sums.view(-1, 2).T


def gaps(model, network=None):
    """By how much each biased object is likelier than the other."""
    with torch.no_grad():
        biased, unbiased = sentences(
            model, network or model.network, [pairs.edit_pair(model.tokens, r, profile="clean") for r in ROWS]
        )
        return biased - unbiased


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_the_block_with_the_largest_effect_is_the_one_with_the_planted_bias(model, layer):
    plain = copy.deepcopy(model.network)
    plant(model, layer)
    assert gaps(model).mean() > gaps(model, plain).mean() + 1
    effects = locate.locate(model, ROWS)
    assert effects.layer == layer
    read = "answer" if layer == 3 else "subject"
    assert int(effects.average(read).argmax()) == layer


def test_a_stamp_removes_the_planted_bias(model, tmp_path):
    plant(model, 1)
    before = gaps(model)
    torch.manual_seed(0)
    network = wrap(model.network, StampConfig(layer=1, units=64))
    # Many small steps with a falling rate: every pair is near 0 long before the end, on any processor.
    plan = EditingSchedule(batch=6, rate=2e-3, alpha=1.0, beta=0.1, passes=40, seed=0)
    # The scores that were planted and are measured: the words after an object tell the genders apart as well.
    framed = [[pairs.edit_pair(model.tokens, row, profile="clean")] for row in ROWS]
    console, parts = Console(quiet=True), StampedNetwork(network, 1, model.kind, model.tokens.pad)
    edit.edit(parts, lambda number, _: framed[number], len(framed), [], plan, tmp_path / "edit.pt", console)
    after = gaps(model, network)
    assert (before > 0).float().mean() > 0.9
    assert after.abs().mean() < 0.3 * before.abs().mean()
    assert torch.equal(gaps(model, network.unload()), before)


def test_fine_tuning_removes_the_planted_bias_and_plain_peft_loads_it(model, tmp_path, undrawn):
    plant(model, 1)
    before = gaps(model)
    source = data_set(tmp_path / "data", "biaske", {("winobias", "test"): ROWS})
    out = tmp_path / "work" / "made"
    out.mkdir(parents=True)
    few = {"steps": 0, "passes": 60, "batch": 4, "rate": 3e-3, "held_out": 0.34, "sets": "winobias"}
    # The scores of whole sentences are what was planted, and what is measured below. A random network has learned no
    # language and no gender that a text could state, so neither is kept.
    settings = replace(get("fine_tuning").profiles["clean"], score="clean", gamma=0.0, delta=0.0, **few)
    adapter = get("fine_tuning").apply(model, settings, TrainingData(str(source)), out, Console(quiet=True))
    assert torch.equal(gaps(model), before), "the model is as it was"
    with quiet():
        network = peft.PeftModel.from_pretrained(model.network, out)
    edited = gaps(model, network)
    changes = {change.group: change for change in adapter.changes if change.metric == "gap"}
    low, high = changes["edited subjects"].difference[1:]
    assert high < 0, (low, high)
    assert adapter.measures["gap_edited_after"][0] < 0.5 * adapter.measures["gap_edited_before"][0]
    assert edited.abs().mean() < 0.8 * before.abs().mean()
    assert adapter.measures["pairs_held_out"][0] == 4
