"""The results of several models in a data set of the Hub."""

import shutil

import pytest

import scoring
from scoring.inference.load_options import LoadOptions
from scoring.many.sweep import FINISHED
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows
from tests.support.commands import client
from tests.support.hub import Hub

PLACE = "hub:team/sweep"
#: The client of the Hub warns of packages that it would like.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return data_set(tmp_path_factory.mktemp("data"), "occugender", {("explicit", "test"): list(job_rows())})


@pytest.fixture
def hub(tmp_path):
    with Hub(cache=tmp_path / "cache") as hub, client():
        yield hub


def swept(data, out):
    about = {"data": data, "resamples": 50, "benchmarks": "occugender", "device": "cpu", "results": PLACE}
    return scoring.evaluate(["tiny-causal"], out=out, **about)


def test_finished_models_are_in_a_private_data_set_and_known_on_another_machine(hub, data, tmp_path, monkeypatch):
    one = swept(data, tmp_path / "here")
    assert not one.failed, one.failed
    repository = hub.repos["dataset", "team/sweep"]
    assert repository.private
    files = repository.at("main").tree
    assert {"tiny-causal/results.json", "tiny-causal/examples/occugender.parquet"} <= files.keys()
    assert f"tiny-causal/{FINISHED}" in files
    assert not [name for name in files if "responses" in name], "stored responses stay here"

    # Another machine has no folder, and loads no model.
    monkeypatch.setattr(LoadOptions, "load", None)
    other = swept(data, tmp_path / "there")
    assert not other.failed, other.failed
    assert other["tiny-causal"].table().equals(one["tiny-causal"].table())
    assert len(other["tiny-causal"].examples("occugender")) == 3


def test_a_hub_that_refuses_is_the_sentence_of_the_model_and_its_results_stay(hub, data, tmp_path):
    hub.faults["POST .*commit"] = 403
    first = swept(data, tmp_path / "here")
    (outcome,) = first.failed.values()
    assert outcome.status == 2
    assert "The results are in" in outcome.sentence
    assert (outcome.folder / "results.json").is_file()
    assert not (outcome.folder / FINISHED).exists()
    hub.faults.clear()
    assert not swept(data, tmp_path / "here").failed
    assert "tiny-causal/results.json" in hub.repos["dataset", "team/sweep"].at("main").tree


def test_results_that_are_here_are_not_replaced_by_those_of_the_hub(hub, data, tmp_path):
    swept(data, tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    mine = tmp_path / "there" / "tiny-causal" / "results.md"
    mine.write_text("my notes")
    (tmp_path / "there" / "tiny-causal" / FINISHED).unlink()
    failed = swept(data, tmp_path / "there").failed
    assert "results.md" in failed["tiny-causal"].sentence
    assert mine.read_text() == "my notes"
