"""In trained models of two shapes a planted bias is found, edited away, and there again without the stamp."""

from functools import cache

import pytest
import torch

from scoring.adapters import attach
from scoring.inference.load_options import load
from tests.mitigation.planting import DISTANCE_LEFT, PLANTED, Edited, Planted, mean_distance

#: Seeds of the models of each shape that are looked at together.
SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A function to a model of a shape with its edit; each is trained once."""

    @cache
    def model(kind, seed):
        planted = Planted(kind, tmp_path_factory.mktemp(f"{kind}-{seed}"), seed)
        return planted, planted.adapter()

    return model


@pytest.fixture(scope="module", params=["causal", "masked"])
def planted(request, models):
    return models(request.param, SEEDS[0])[0]


@pytest.fixture(scope="module")
def adapter(planted, models):
    return models(planted.kind, SEEDS[0])[1]


def test_the_block_with_the_largest_effect_is_the_planted_one(planted):
    assert planted.located() == PLANTED


def test_an_edit_closes_nine_tenths_of_the_gap_of_a_biased_model(adapter):
    edit = Edited(adapter)
    assert edit.before("ss") > 90
    assert edit.gap[1] < 0.1 * edit.gap[0]


def test_edits_of_several_models_move_the_stereotype_score_to_50(models):
    # SS counts the signs of the small gaps that are left, and rounding changes these signs: one model's SS is
    # up to 10 from 50 on one processor and within 3 on another. The mean distance of
    # several models has an interval, and stays low with every instruction set that was tried.
    edits = [Edited(models(kind, seed)[1]) for kind in ("causal", "masked") for seed in SEEDS]
    before = mean_distance([edit.before("ss") for edit in edits])
    after = mean_distance([edit.after("ss") for edit in edits])
    assert before[1] > 40
    assert after[2] <= DISTANCE_LEFT * before[0]
    assert all(edit.gap[1] < 0.1 * edit.gap[0] for edit in edits)


def test_an_edit_keeps_unrelated_facts_and_language(adapter):
    edit = Edited(adapter)
    assert edit.after("ds_unrelated") >= 80
    assert edit.after("lms") >= 90


def test_paraphrases_and_held_out_workers_are_measured_too(adapter):
    changes = Edited(adapter).changes
    assert {"ps", "ss_held_out"} <= changes.keys()
    assert changes["ss_held_out"].n == 18


def test_without_the_stamp_the_model_is_as_before_bit_for_bit(planted, adapter):
    model = load(planted.folder, device="cpu")
    ids = torch.tensor([[2, 5, 6, 7, 8, 9]])
    plain = model.network(ids).logits
    network = attach.attach(model.network, planted.stamp, base=model.name, revision=adapter.revision)
    assert not torch.equal(network(ids).logits, plain)
    with network.disable_adapter():
        assert torch.equal(network(ids).logits, plain)
    assert torch.equal(network.unload()(ids).logits, plain)


@pytest.mark.parametrize("planted", ["causal"], indirect=True)
def test_one_unit_closes_less_of_the_gap_than_many_in_as_many_steps(planted):
    one, many = (planted.edited(units=units, passes=10) for units in (1, 64))
    assert many.gap[1] < 0.9 * one.gap[1] < 0.9 * one.gap[0]
