"""A share of what `make trust` draws: nothing that a user meets is silent or a traceback."""

import pytest

from tests.faults.met import KINDS, measure

#: Cases of a kind in the tests; those that load a model each time are fewer.
SHARE, OF_A_MODEL = 10, 3


@pytest.mark.fault(69)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KINDS)
def test_what_a_user_meets_ends_right_or_in_a_sentence(tmp_path, name):
    number = OF_A_MODEL if name in ("objects and hooks", "answers", "checkpoints") else SHARE
    assert measure(name, tmp_path, number)[1] == []


def test_a_case_that_is_wrong_or_ends_otherwise_is_a_fault(tmp_path, monkeypatch):
    def wrong(draw, _folder):
        assert draw.random() > 1, "silent"

    def broken(_draw, _folder):
        raise KeyError("head")

    monkeypatch.setitem(KINDS, "wrong", wrong)
    monkeypatch.setitem(KINDS, "broken", broken)
    assert measure("wrong", tmp_path, 2)[0]["silent"] == 2
    assert measure("broken", tmp_path, 2)[0]["traceback"] == 2
