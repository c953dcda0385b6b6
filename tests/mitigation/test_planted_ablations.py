"""What the place and the width of a stamp do to a bias that was planted in a known block of a causal model."""

import pytest

from tests.mitigation.planting import Planted


@pytest.fixture(scope="module")
def edits(tmp_path_factory):
    planted = Planted("causal", tmp_path_factory.mktemp("ablations"), layers=(1,))
    changes = {"as it is": {}, "block 0": {"layer": 0}, "block 2": {"layer": 2}, "1 unit": {"units": 1}}
    return {name: planted.edited(**changed) for name, changed in changes.items()}


def test_a_stamp_in_the_planted_block_does_better_than_in_the_worst(edits):
    assert edits["as it is"].after("icat") > min(edits[name].after("icat") for name in ("block 0", "block 2"))


def test_a_wider_stamp_closes_more_of_the_gap_than_one_unit(edits):
    assert edits["as it is"].gap[1] < edits["1 unit"].gap[1] < edits["1 unit"].gap[0]
