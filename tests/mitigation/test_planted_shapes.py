"""In trained models of two shapes a planted bias is found, edited away, and there again without the stamp."""

import pytest
import torch

from mitigation import attach
from scoring.model import load
from tests.mitigation.planting import MARGIN, Edited, Planted


@pytest.fixture(scope="module", params=["causal", "masked"])
def planted(request, tmp_path_factory):
    return Planted(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def adapter(planted):
    return planted.adapter()


@pytest.mark.parametrize("layer", [0, 1])
def test_the_block_with_the_largest_effect_is_the_planted_one(planted, layer):
    assert planted.located(layer)["found"] == layer


def test_the_last_block_has_no_effect_at_a_subject_beside_the_answer(planted):
    assert planted.located(1)["effects"][-1] == pytest.approx(0, abs=1e-4)


def test_an_edit_moves_the_stereotype_score_towards_50(planted, adapter):
    edit = Edited(adapter)
    assert edit.before("ss") > 90
    assert abs(edit.after("ss") - 50) <= MARGIN[planted.kind]
    assert edit.gap[1] < 0.15 * edit.gap[0]


def test_an_edit_keeps_unrelated_facts_and_language(adapter):
    edit = Edited(adapter)
    assert edit.after("ds_unrelated") >= 80
    assert edit.after("lms") >= 90


def test_paraphrases_and_held_out_workers_are_measured_too(adapter):
    figures = Edited(adapter).figures
    assert {"ps", "ss_held_out"} <= figures.keys()
    assert figures["ss_held_out"]["n"] == 12


def test_without_the_stamp_the_bias_is_back_bit_for_bit(planted, adapter):
    model = load(planted.folder, device="cpu")
    ids = torch.tensor([[2, 5, 6, 7, 8, 9]])
    plain = model.network(ids).logits
    folder = planted.bench.folder / f"stamp-{planted.bench.made}"
    network = attach.attach(model.network, folder, base=model.name, revision=adapter.revision)
    assert not torch.equal(network(ids).logits, plain)
    with network.disable_adapter():
        assert torch.equal(network(ids).logits, plain)
    assert torch.equal(network.unload()(ids).logits, plain)
