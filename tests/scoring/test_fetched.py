"""A real model by its name: the folder that was fetched, or the command that fetches it."""

import pytest

from scoring.inference.load_options import FETCHED, place_of
from scoring.types import ScoringError
from tests.support import real
from tools import real_weights


def test_a_model_that_is_not_fetched_is_refused_with_the_command_that_fetches_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBES_REAL", str(tmp_path))
    with pytest.raises(ScoringError, match="is not on this machine; run `make real-weights`"):
        place_of("smollm2")
    (tmp_path / FETCHED["smollm2"]).mkdir()
    assert place_of("smollm2") == str(tmp_path / FETCHED["smollm2"])


def test_a_folder_of_the_user_with_that_name_is_the_users(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").mkdir()
    assert place_of("smollm2") == "smollm2"


def test_every_fetched_model_has_pinned_packages():
    assert set(FETCHED.values()) <= set(real_weights.models())


@pytest.mark.real
def test_the_fetched_model_is_that_of_the_tests():
    assert place_of("smollm2") == str(real.smollm2())
