"""The results of several models in a data set of the Hub."""

import shutil

import pytest

import scoring
from cards.common.files import LOCK
from scoring.inference.load_options import LoadOptions
from scoring.many.sweep import FINISHED
from scoring.types import ScoringError
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


def test_only_files_of_a_run_of_the_models_that_are_asked_come_from_the_hub(hub, data, tmp_path):
    swept(data, tmp_path / "here")
    tree = hub.repos["dataset", "team/sweep"].at("main").tree
    marker = tree[f"tiny-causal/{FINISHED}"]
    for name in ["notes/README.md", f"notes/{FINISHED}", "tiny-causal/.git/hooks/post-commit", "tiny-causal/README.md"]:
        tree[name] = marker
    there = tmp_path / "there"
    (there / "notes").mkdir(parents=True)
    (there / "notes" / "README.md").write_text("my notes")
    assert not swept(data, there).failed
    assert (there / "tiny-causal" / "results.json").is_file()
    assert [path.name for path in (there / "notes").iterdir()] == ["README.md"]
    assert (there / "notes" / "README.md").read_text() == "my notes"
    assert not (there / "tiny-causal" / ".git").exists()
    assert not (there / "tiny-causal" / "README.md").exists()


def test_a_file_of_the_user_is_not_replaced_by_one_of_the_hub(hub, data, tmp_path):
    swept(data, tmp_path / "here")
    mine = tmp_path / "there" / "tiny-causal" / "results.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("my notes")
    with pytest.raises(ScoringError, match=r"results\.md was not written by this program"):
        swept(data, tmp_path / "there")
    assert {path.name for path in mine.parent.iterdir()} == {"results.md", LOCK}
    assert mine.read_text() == "my notes"


def test_a_folder_that_is_a_link_gets_no_file(hub, data, tmp_path):
    swept(data, tmp_path / "here")
    there = tmp_path / "there"
    there.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (there / "tiny-causal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ScoringError, match="symbolic link"):
        swept(data, there)
    assert not list((tmp_path / "elsewhere").iterdir())
