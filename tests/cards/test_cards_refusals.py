"""What ``python -m cards`` refuses, and how, against a Hub on this machine."""

import pytest

from cards.hub import sending
from tests.cards.made import DIGEST, PROBES, RUN, cards, data, estimate, run
from tests.hub import CUT, File, Hub

README = b"---\nlicense: mit\n---\n# Mine\n\nWords.\n"


@pytest.fixture
def hub(tmp_path):
    with Hub(cache=tmp_path / "cache") as found:
        found.add("model", "org/model", {"README.md": File(README), "config.json": File(b"{}")})
        yield found


def model(hub):
    return hub.repos["model", "org/model"]


@pytest.mark.fault(49)
def test_a_wrong_token_is_one_sentence_without_it(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_" + "mistaken" * 4)
    told = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert told.returncode == 2
    assert "The Hub refuses this (401); log in with `hf auth login` or set HF_TOKEN" in told.stderr
    assert "mistaken" not in told.stdout + told.stderr
    assert not model(hub).pulls


@pytest.mark.fault(49)
def test_a_run_that_holds_a_token_is_not_published(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "planted-secret")
    made = run(tmp_path / "run", environment={"system": "key planted-secret"})
    told = cards("org/model", made, "--data", data(tmp_path / "data"), "--push")
    assert told.returncode == 1
    assert "README.md would hold an access token; remove it from the run or the folder first." in told.stderr
    assert "planted-secret" not in told.stdout + told.stderr
    assert not model(hub).pulls
    assert not (made / "card").exists()


@pytest.mark.fault(57)
def test_a_dry_run_shows_the_difference_and_writes_and_sends_nothing(hub, tmp_path):
    told = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--dry-run", "--push")
    assert told.returncode == 0, told.stderr
    assert "+++ .eval_results/neutral.yaml" in told.stdout
    assert "Nothing was written or sent (--dry-run)." in told.stdout
    assert not (tmp_path / "run" / "card").exists()
    assert {request.method for request in hub.requests} <= {"GET", "HEAD"}


@pytest.mark.fault(57)
def test_a_file_of_another_benchmark_on_the_hub_stops_everything(hub, tmp_path):
    there = File(b"- dataset: {id: cais/hle, task_id: default}\n  value: 20.9\n")
    model(hub).commit("main", model(hub).at("main").tree | {".eval_results/neutral.yaml": there})
    told = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert told.returncode == 1
    assert ".eval_results/neutral.yaml exists with results of cais/hle, and is not replaced by those of" in told.stderr
    assert not model(hub).pulls


@pytest.mark.fault(57)
def test_a_value_outside_the_range_of_its_metric_is_not_published(hub, tmp_path):
    made = run(tmp_path / "run", estimates=(estimate(value=1.5),))
    told = cards("org/model", made, "--data", data(tmp_path / "data"), "--push")
    assert told.returncode == 1
    assert "the value of gas is 1.5, but the metric ranges from 0 to 1" in told.stderr
    assert not model(hub).pulls


def test_what_the_run_left_out_is_remarked(hub, tmp_path):
    part = RUN.data | {f"{PROBES}/stsb/test": f"1.2.0 sha256:{DIGEST}, 30 of 40 rows"}
    told = cards("org/model", run(tmp_path / "run", data=part), "--data", data(tmp_path / "data"))
    assert "remark: neutral, stsb: only 30 of 40 rows of stsb/test" in told.stdout


@pytest.mark.parametrize("name", ["org/none", "../x", "a|b", "CON<", "n" * 300])
@pytest.mark.fault(15)
def test_a_model_that_is_not_there_is_one_sentence(hub, tmp_path, name):
    told = cards(name, run(tmp_path / "run"), "--data", data(tmp_path / "data"))
    assert told.returncode == 1
    assert "is neither a folder nor a model of the Hub that you may read; create the repository first" in told.stderr
    assert "Traceback" not in told.stderr


def test_data_sets_that_are_not_published_are_named(hub, tmp_path):
    told = cards("org/model", run(tmp_path / "run"))
    assert told.returncode == 1
    assert f"The Hub has no data set org/{PROBES} at v1.2.0; publish it with python -m builders.push" in told.stderr


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (500, "The Hub answers 500 (HfHubHTTPError); try again later."),
        (CUT, "check the network and try again."),
    ],
)
def test_a_hub_that_breaks_while_it_is_written_to_is_one_sentence_and_nothing_is_half_done(hub, tmp_path, status, told):
    hub.faults["POST .*/commit/main"] = status
    found = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert found.returncode == 2
    assert told in found.stderr
    assert "Traceback" not in found.stderr
    assert not model(hub).pulls
    hub.faults.clear()
    assert cards("org/model", tmp_path / "run", "--data", tmp_path / "data", "--push").returncode == 0
    assert len(model(hub).pulls) == 1


def test_what_breaks_while_a_large_file_is_sent_is_told_as_what_it_is_and_nothing_else_is_hidden():
    with pytest.raises(ConnectionError, match="cut"), sending():
        raise RuntimeError("Error while uploading") from ConnectionError("cut")
    with pytest.raises(RuntimeError, match="ours"), sending():
        raise RuntimeError("ours") from KeyError("a")
    with pytest.raises(RuntimeError, match="ours"), sending():
        raise RuntimeError("ours")
