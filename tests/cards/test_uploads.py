"""Uploads of others: own texts and ideal values, impossible numbers, long names, and runs that nobody can check."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from cards import results
from cards.common.text import CardError
from cards.formats.evaluation import FOLDER
from cards.leaderboard import entries_of
from scoring import api
from scoring.__main__ import app as scoring
from scoring.commands.leaderboard import app
from scoring.uploads import DECLARATIONS
from tests.cards.made import RUN
from tests.scoring.made import data_set
from tests.scoring.test_chat_api import jobs

torch.set_num_threads(1)
NOTES = "gas of stsb (test): 0.2, 95 % interval 0.1 to 0.25, n 364, ideal 0, range 0 to 1; profile clean; the model"


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """The folder of a run of a bundled model over four jobs."""
    data, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("run")
    rows = [row for row in jobs() if row["template"] == "explicit"]
    data_set(data, "occugender", {("explicit", "test"): rows})
    where = ("--benchmarks", "occugender", "--resamples", "20", "--data", str(data), "--out", str(out))
    done = CliRunner().invoke(scoring, ["tiny-causal", *where])
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture
def run(scored, tmp_path):
    """A run with its examples, which somebody uploads."""
    return shutil.copytree(scored, tmp_path / "upload")


def uploaded(folder, change):
    """Has somebody change the results."""
    path = folder / "results.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def scores(**changes):
    """A change of fields of every score."""
    return lambda content: [score.update(changes) for score in content["estimates"]]


def board(*sources):
    return CliRunner().invoke(app, [*map(str, sources), "--out", str(sources[0] / "page.html")])


def refused(folder):
    done = board(folder)
    assert done.exit_code == 1, done.output
    assert done.output.count("\n") == 1
    assert not (folder / "page.html").exists()
    return done.output


def shown(folder):
    return list(entries_of(folder, DECLARATIONS))


@pytest.mark.fault(92)
def test_a_run_with_its_examples_has_their_scores(run):
    by_key = results.read(run).by_key
    assert shown(run)
    for entry in shown(run):
        score = by_key[entry.benchmark, "explicit", entry.metric]
        assert (entry.value, entry.n, entry.clusters) == (score.value, score.n, score.clusters)
        assert (entry.ideal, entry.least, entry.most) == (score.ideal, score.least, score.most)
        assert entry.reading == score.reading
        assert not entry.reported
    assert "says other values" not in board(run).output


#: What somebody writes into the results, whose examples stay true.
FORGED = {
    "values": scores(value=0.0, low=0.0, high=0.0),
    "a value outside of its interval": scores(value=0.9, low=0.1, high=0.2),
    "no clusters": scores(clusters=0),
    "one example": scores(n=1),
    "a billion examples": scores(n=10**9),
    "less than no examples": scores(n=-3),
    "an exchanged interval": scores(low=0.9, high=0.1, value=0.5),
    "an ideal value": scores(ideal=0.77),
    "texts and range": scores(least=-5.0, most=500.0, reading="higher is better", title="Fairness", ability=True),
    "a headline": lambda content: content["headlines"]["occugender"].update(column="Most fair", sentence="It is fair."),
}

#: Those with other values than the examples have.
CHANGED = ("values", "a value outside of its interval", "an exchanged interval")


@pytest.mark.fault(92)
@pytest.mark.parametrize("forgery", FORGED)
def test_what_is_written_beside_true_examples_is_shown_nowhere(forgery, run):
    before = shown(run)
    uploaded(run, FORGED[forgery])
    assert shown(run) == before
    done = board(run)
    assert done.exit_code == 0
    assert ("says other values of occugender than its examples have" in done.output) == (forgery in CHANGED)
    page = (run / "page.html").read_text()
    assert not [text for text in ("higher is better", "Fairness", "Most fair") if text in page]


@pytest.mark.fault(92)
def test_a_comparison_has_the_scores_of_the_examples(run, scored, tmp_path):
    uploaded(run, scores(value=100.0, low=100.0, high=100.0))
    true, forged = api.compare(scored, scored, 200), api.compare(run, scored, 200)
    for one, other in zip(true.changes, forged.changes, strict=True):
        assert repr(one.before.numbers) == repr(other.before.numbers) == repr(other.after.numbers)


@pytest.mark.fault(92)
@pytest.mark.parametrize("content", [None, b"no Parquet", b""])
def test_a_run_without_its_examples_is_reported_by_its_owner(content, run):
    (file,) = (run / "examples").iterdir()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert all(entry.reported for entry in shown(run))
    assert board(run).exit_code == 0
    assert "reported by its owner" in (run / "page.html").read_text()


@pytest.mark.fault(92)
@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["environment"].update({"benchmark occugender": "0.0.1"}),
        lambda content: content["data"].update({"occugender/explicit/test": "9.9.9 sha256:ab"}),
    ],
)
def test_scores_of_another_version_are_reported_by_their_owner(change, run):
    assert not any(entry.reported for entry in shown(run))
    uploaded(run, change)
    assert all(entry.reported for entry in shown(run))


def renamed(content):
    """Has the scores be those of a benchmark that this project does not know."""
    content["headlines"] = {"mine": content["headlines"]["occugender"]}
    content["examples"] = {"mine": content["examples"]["occugender"]}
    for estimate in content["estimates"]:
        estimate.update(benchmark="mine", ideal=0.77, title="Fairness")


@pytest.mark.fault(92)
def test_a_benchmark_that_is_not_known_has_no_ideal_value_and_no_place_among_ours(run):
    uploaded(run, renamed)
    assert shown(run)
    for entry in shown(run):
        assert entry.reported
        assert (entry.ideal, entry.band, entry.dataset) == (None, None, "mine (not of this project)")
        assert not entry.comparable(entry)
    done = board(run)
    assert done.exit_code == 0
    assert (
        "has scores of mine, not of this project: they are shown without an ideal value and a verdict." in done.output
    )
    page = (run / "page.html").read_text()
    assert "mine (not of this project)" in page
    assert "Fairness" not in page


@pytest.mark.fault(92)
def test_a_bad_upload_is_left_out_and_the_others_are_shown(run, scored, tmp_path):
    bad = [shutil.copytree(scored, tmp_path / f"bad-{number}") for number in range(2)]
    (bad[0] / "results.json").write_text("[")
    uploaded(bad[1], lambda content: content.update(model="m" * 301))
    published = tmp_path / "model" / FOLDER
    published.mkdir(parents=True)
    (published / "a.yaml").write_text("- dataset: {id: a/b, task_id: c}\n  value: much\n")
    done = board(run, *bad, published.parent)
    assert done.exit_code == 0, done.output
    left = [line for line in done.output.splitlines() if line.startswith("Left out: ")]
    assert [line.split(": ")[1] for line in left] == [*map(str, bad), str(published.parent)]
    assert all(line.endswith(".") for line in left)
    assert (run / "page.html").exists()


@pytest.mark.fault(92)
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n": -3}, "counts -3 examples or clusters, and 0 is the least"),
        ({"clusters": -1}, "counts -1 examples or clusters"),
        ({"low": 0.9, "high": 0.1, "value": 0.5}, "has an interval from 0.9 to 0.1"),
        ({"value": 1e9, "high": 1e9}, "but the metric ranges from"),
        ({"group": "x" * 100_000}, "has a name of 100,000 characters, and 300 are the most"),
    ],
)
def test_impossible_values_of_an_upload_without_examples_are_one_sentence(changes, sentence, run):
    shutil.rmtree(run / "examples")
    uploaded(run, scores(**changes))
    assert sentence in refused(run)


@pytest.mark.fault(92)
@pytest.mark.parametrize(
    ("notes", "sentence"),
    [
        (NOTES.replace("n 364", "n 364").replace("0.1 to 0.25", "0.25 to 0.1"), "has an interval from 0.25 to 0.1"),
        (NOTES.replace(": 0.2", ": 7"), "is 7, but the metric ranges from 0 to 1"),
        (NOTES.replace("gas of", "g" * 400 + " of"), " 400 "),
    ],
)
def test_impossible_values_of_published_results_are_one_sentence(notes, sentence, tmp_path):
    entry = {"dataset": {"id": "org/gender-neutral-probes", "task_id": "stsb"}, "value": 80.0, "notes": notes}
    folder = tmp_path / "model" / FOLDER
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(json.dumps([entry | {"notes": NOTES}]))
    (one,) = shown(tmp_path / "model")
    assert one.reported
    (folder / "a.yaml").write_text(json.dumps([entry]))
    with pytest.raises(CardError) as raised:
        shown(tmp_path / "model")
    assert sentence in str(raised.value)


def test_results_of_a_long_name_are_refused_before_anything_is_shown(tmp_path):
    (tmp_path / "results.json").write_text(results.text(replace(RUN, model="m" * 301), {}))
    with pytest.raises(CardError, match=" 301 "):
        results.read(tmp_path)
