"""The file of a run: each run writes one, and ``probes score --config`` makes the same run again of it."""

import pytest
import yaml
from typer.testing import CliRunner

import scoring
from scoring.commands.score import app
from scoring.inputs.prompts import Prompt
from scoring.inputs.run_file import NAME, text
from scoring.options import Sampling
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return data_set(tmp_path_factory.mktemp("data"), "occugender", {("explicit", "test"): list(job_rows())})


def run(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output


def test_the_file_of_a_run_makes_the_same_run_again_and_options_go_before_it(data, tmp_path):
    (tmp_path / "mine.csv").write_text("man,woman\nMr. Hill says,Mrs. Hill says\nHe is,She is\n")
    first = tmp_path / "first"
    about = ["--benchmarks", "occugender", "--prompts", tmp_path / "mine.csv", "--resamples", 50, "--limit", 4]
    run("tiny-causal", "--data", data, *about, "--device", "cpu", "--truncate", "--out", first)
    content = yaml.safe_load((first / NAME).read_text())
    assert content == {
        "model": "tiny-causal",
        "benchmarks": "occugender",
        "data": str(data),
        "limit": 4,
        "truncate": True,
        "resamples": 50,
        "prompts": str(tmp_path / "mine.csv"),
        "device": "cpu",
    }
    run("--config", first / NAME, "--out", tmp_path / "second")
    assert (tmp_path / "second" / NAME).read_text() == (first / NAME).read_text()
    again = scoring.load(tmp_path / "second")
    assert again.headlines().equals(scoring.load(first).headlines())
    run("--config", first / NAME, "--limit", 3, "--out", tmp_path / "third")
    assert yaml.safe_load((tmp_path / "third" / NAME).read_text()) == {**content, "limit": 3}


def test_a_value_of_zero_is_in_the_file():
    content = yaml.safe_load(text("tiny-causal", [Sampling(temperature=0.0)]))
    assert content == {"model": "tiny-causal", "temperature": 0.0}


def test_names_may_be_those_of_options_and_lists_may_be_lists(data, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(f"--benchmarks: [occugender]\nmodels: [tiny-causal]\ndata: {data}\nbatch-tokens: 500\n")
    run("--config", file, "--resamples", 20, "--out", tmp_path / "out")
    content = yaml.safe_load((tmp_path / "out" / NAME).read_text())
    assert content["batch-tokens"] == 500


def test_a_run_of_objects_of_python_has_no_file(data, tmp_path):
    about = {"data": data, "benchmarks": "occugender", "resamples": 20, "device": "cpu"}
    scoring.evaluate("tiny-causal", prompt=Prompt("mine", version="1"), out=tmp_path / "one", **about)
    assert (tmp_path / "one" / "results.json").is_file()
    assert not (tmp_path / "one" / NAME).exists()
