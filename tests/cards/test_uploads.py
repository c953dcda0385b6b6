"""Uploads of others: own ideal values, impossible numbers, long names, and runs that nobody can check."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from cards import results, uploads
from cards.evaluation import FOLDER
from cards.leaderboard import app, entries_of
from cards.stored import signed
from cards.text import CardError
from scoring import report
from tests.cards.made import RUN
from tools.declared_scores import declared_scores

ROWS = 1000
NOTES = "gas of stsb (test): 0.2, 95 % interval 0.1 to 0.25, n 364, ideal 0, range 0 to 1; profile clean; the model"


@pytest.fixture
def run(tmp_path):
    """The folder of a run with its examples."""
    table = {"id": np.array([f"e{n}" for n in range(ROWS)], dtype=object)}
    report.write(tmp_path, RUN, dict.fromkeys(RUN.benchmarks, table), {})
    return tmp_path


def uploaded(folder, **changes):
    """Has somebody change a field of every score, with a right checksum."""
    path = folder / "results.json"
    content = json.loads(path.read_text())
    for score in content["estimates"]:
        score.update(changes)
    path.write_text(json.dumps(signed(content)))


def refused(folder):
    done = CliRunner().invoke(app, [str(folder), "--out", str(folder / "page.html")])
    assert done.exit_code == 1, done.output
    assert done.output.count("\n") == 1
    assert not (folder / "page.html").exists()
    return done.output


def test_what_is_declared_is_what_the_registry_has():
    assert uploads.DECLARED.read_text() == declared_scores(), "run python -m tools.declared_scores"
    by_dataset = {}
    for entry in json.loads(declared_scores()):
        of_metric = by_dataset.setdefault((entry["dataset"], entry["metric"]), entry)
        same = [of_metric[name] == entry[name] for name in ("ideal", "least", "most")]
        assert all(same) or not entry["dataset"], entry


def test_a_run_with_its_examples_is_shown_as_it_is(run):
    shown = list(entries_of(run))
    assert shown
    assert not any(entry.reported for entry in shown)


@pytest.mark.fault(92)
def test_a_run_without_its_examples_is_reported_by_its_owner(run):
    for file in (run / "examples").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert all(entry.reported for entry in entries_of(run))
    CliRunner().invoke(app, [str(run), "--out", str(run / "page.html")])
    assert "reported by its owner" in (run / "page.html").read_text()


@pytest.mark.fault(92)
def test_range_and_direction_are_those_of_this_project(run):
    before = [(entry.ideal, entry.least, entry.most) for entry in entries_of(run)]
    uploaded(run, least=-5.0, most=500.0, reading="higher is better")
    assert [(entry.ideal, entry.least, entry.most) for entry in entries_of(run)] == before


@pytest.mark.fault(92)
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ideal": 0.77}, "is given the ideal value 0.77, and this project declares"),
        ({"n": -3}, "counts -3 examples or clusters, and 0 is the least"),
        ({"clusters": -1}, "counts -1 examples or clusters"),
        ({"n": 10**9}, f"is of 1000000000 examples, and there are {ROWS}"),
        ({"low": 0.9, "high": 0.1, "value": 0.5}, "has an interval from 0.9 to 0.1"),
        ({"group": "x" * 100_000}, "has a name of 100,000 characters, and 300 are the most"),
        ({"title": "x" * 100_000}, "has a name of 100,000 characters"),
    ],
)
def test_impossible_values_of_an_upload_are_one_sentence(changes, sentence, run):
    uploaded(run, **changes)
    assert sentence in refused(run)


@pytest.mark.fault(92)
@pytest.mark.parametrize(
    ("notes", "sentence"),
    [
        (NOTES.replace("ideal 0", "ideal 1"), "is given the ideal value 1.0, and this project declares 0"),
        (NOTES.replace("n 364", "n 364").replace("0.1 to 0.25", "0.25 to 0.1"), "has an interval from 0.25 to 0.1"),
        (NOTES.replace(": 0.2", ": 7"), "is 7, and ranges from 0 to 1"),
        (NOTES.replace("gas of", "g" * 400 + " of"), "has a name of 400 characters"),
    ],
)
def test_impossible_values_of_published_results_are_one_sentence(notes, sentence, tmp_path):
    entry = {"dataset": {"id": "org/gender-neutral-probes", "task_id": "stsb"}, "value": 80.0, "notes": notes}
    folder = tmp_path / "model" / FOLDER
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(json.dumps([entry | {"notes": NOTES}]))
    (shown,) = entries_of(tmp_path / "model")
    assert shown.reported
    (folder / "a.yaml").write_text(json.dumps([entry]))
    with pytest.raises(CardError) as raised:
        list(entries_of(tmp_path / "model"))
    assert sentence in str(raised.value)


def test_a_benchmark_of_another_name_does_not_bring_its_own_ideal_value(run):
    path = run / "results.json"
    content = json.loads(path.read_text())
    name = content["estimates"][0]["benchmark"]
    content["headlines"] = {"mine": content["headlines"][name]}
    content["estimates"] = [score for score in content["estimates"] if score["benchmark"] == name]
    for score in content["estimates"]:
        score.update(benchmark="mine", ideal=0.77)
    path.write_text(json.dumps(signed(content)))
    assert "is given the ideal value 0.77" in refused(run)


def test_results_of_a_long_name_are_refused_before_anything_is_shown(tmp_path):
    (tmp_path / "results.json").write_text(results.text(replace(RUN, model="m" * 301), {}))
    with pytest.raises(CardError, match="has a name of 301 characters"):
        results.read(tmp_path)
