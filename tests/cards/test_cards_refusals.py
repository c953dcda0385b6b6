"""What ``probes card`` refuses, and how, against a Hub on this machine."""

import pytest
from huggingface_hub import HfApi, constants

from cards.hub import HubModel, HubRefusal, downloaded, model_digest, sending
from scoring.inference.checkpoint import identity
from tests.cards.made import DIGEST, PROBES, RUN, cards, data, estimate, run
from tests.support import commands
from tests.support.hub import CUT, File, Hub

README = b"---\nlicense: mit\n---\n# Mine\n\nWords.\n"


@pytest.fixture
def hub(tmp_path):
    with Hub(cache=tmp_path / "cache") as hub:
        hub.add("model", "org/model", {"README.md": File(README), "config.json": File(b"{}")})
        yield hub


def model(hub):
    return hub.repos["model", "org/model"]


@pytest.mark.fault(49)
def test_a_wrong_token_is_one_sentence_without_it(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_" + "mistaken" * 4)
    result = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert result.returncode == 2
    assert "(401: Invalid username or password)" in result.stderr
    assert "mistaken" not in result.stdout + result.stderr
    assert not model(hub).pulls


def test_a_file_that_is_missing_is_told_apart_from_a_hub_that_cannot_be_asked(hub, monkeypatch):
    api = HfApi(endpoint=hub.url)
    assert downloaded(api, "org/model", "eval.yaml", "main") is None
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubRefusal, match="OfflineModeIsEnabled"):
        downloaded(api, "org/model", "eval.yaml", "main")


@pytest.mark.fault(49)
def test_a_run_that_holds_a_token_is_not_published(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "planted-secret")
    made = run(tmp_path / "run", environment={"system": "key planted-secret"})
    result = cards("org/model", made, "--data", data(tmp_path / "data"), "--push")
    assert result.returncode == 1
    assert "README.md would hold an access token; remove it from the run or the folder first." in result.stderr
    assert "planted-secret" not in result.stdout + result.stderr
    assert not model(hub).pulls
    assert not (made / "card").exists()


@pytest.mark.fault(57)
def test_a_dry_run_shows_the_difference_and_writes_and_sends_nothing(hub, tmp_path):
    result = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--dry-run", "--push")
    assert result.returncode == 0, result.stderr
    assert "add    .eval_results/neutral.yaml" in result.stdout
    assert "Nothing was written or sent (--dry-run)." in result.stdout
    assert not (tmp_path / "run" / "card").exists()
    assert {request.method for request in hub.requests} <= {"GET", "HEAD"}


@pytest.mark.fault(57)
def test_a_file_of_another_benchmark_on_the_hub_stops_everything(hub, tmp_path):
    there = File(b"- dataset: {id: cais/hle, task_id: default}\n  value: 20.9\n")
    model(hub).commit("main", model(hub).at("main").tree | {".eval_results/neutral.yaml": there})
    result = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert result.returncode == 1
    assert (
        ".eval_results/neutral.yaml exists with results of cais/hle, and is not replaced by those of" in result.stderr
    )
    assert not model(hub).pulls


@pytest.mark.fault(57)
def test_a_value_outside_the_range_of_its_metric_is_not_published(hub, tmp_path):
    made = run(tmp_path / "run", estimates=(estimate(value=1.5),))
    result = cards("org/model", made, "--data", data(tmp_path / "data"), "--push")
    assert result.returncode == 1
    assert "gas: the value is 1.5, but the metric ranges from 0 to 1" in result.stderr
    assert not model(hub).pulls


def test_what_the_run_left_out_is_remarked(hub, tmp_path):
    part = RUN.data | {f"{PROBES}/stsb/test": f"1.2.0 sha256:{DIGEST}, 30 of 40 rows"}
    made = run(tmp_path / "run", data=part)
    result = cards("org/model", made, "--data", data(tmp_path / "data"))
    assert result.returncode == 1
    assert f"The run is partial (1 gaps, the first is {PROBES}/stsb/test: 30 of 40 rows); score all" in result.stderr
    result = cards("org/model", made, "--data", tmp_path / "data", "--partial")
    assert "remark: neutral, stsb: only 30 of 40 rows of stsb/test" in result.stdout


@pytest.mark.parametrize("name", ["org/none", "../no-such-x", "a|b", "CON<", "n" * 300])
@pytest.mark.fault(15)
def test_a_model_that_is_not_there_is_one_sentence(hub, tmp_path, name):
    result = cards(name, run(tmp_path / "run"), "--data", data(tmp_path / "data"))
    assert result.returncode == 1
    assert "is neither a folder nor a model of the Hub that you may read; create the repository first" in result.stderr
    assert "Traceback" not in result.stderr


def test_data_sets_that_are_not_published_are_named(hub, tmp_path):
    result = cards("org/model", run(tmp_path / "run"))
    assert result.returncode == 1
    assert f"The Hub has no data set org/{PROBES} at v1.2.0; publish it with probes push" in result.stderr


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (500, "The Hub refuses this (500: Internal error); run the same command again later."),
        (409, "(409: Internal error); it has been changed at the same time"),
        (429, "(429: Internal error); it has had too many requests; wait some minutes"),
        (CUT, "Error)"),
    ],
)
def test_a_hub_that_breaks_while_it_is_written_to_is_one_sentence_and_nothing_is_half_done(
    hub, tmp_path, status, sentence
):
    hub.faults["POST .*/commit/main"] = status
    result = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert not model(hub).pulls
    hub.faults.clear()
    assert cards("org/model", tmp_path / "run", "--data", tmp_path / "data", "--push").returncode == 0
    assert len(model(hub).pulls) == 1


def test_a_run_of_another_model_is_refused(hub, tmp_path):
    places = "--data", data(tmp_path / "data"), "--push"
    result = cards("org/model", run(tmp_path / "run", model="org/other"), *places)
    assert result.returncode == 1
    assert "error: The run is of org/other, not of org/model; score org/model, or name the other card." in result.stderr
    result = cards("org/model", run(tmp_path / "run", model="/home/x/model", revision="ab" * 32), *places)
    assert result.returncode == 1
    assert "The run is of model at abababababab, and org/model now has other configuration or weights;" in result.stderr
    result = cards("org/model", run(tmp_path / "run", revision="cd" * 20), *places)
    assert result.returncode == 1
    assert "org/model has no commit cdcdcdcdcdcd, of which the run is; score it again." in result.stderr
    result = cards("org/model", run(tmp_path / "run", revision=""), *places)
    assert result.returncode == 1
    assert "The run does not say which revision of org/model was scored; score the model again." in result.stderr
    assert not model(hub).pulls


def test_other_weights_than_those_of_the_run_are_refused_and_a_new_readme_is_not(hub, tmp_path):
    tree = model(hub).at("main").tree
    model(hub).commit("main", tree | {"README.md": File(b"# New\n")})
    places = "--data", data(tmp_path / "data")
    assert cards("org/model", run(tmp_path / "run"), *places).returncode == 0
    model(hub).commit("main", tree | {"model.safetensors": File(b"new", large=True)})
    result = cards("org/model", tmp_path / "run", *places)
    assert result.returncode == 1
    assert "and org/model now has other configuration or weights; score it again." in result.stderr


def test_a_folder_with_the_files_of_the_repository_has_its_digest(hub, tmp_path):
    model(hub).commit("main", {"config.json": File(b"{}"), "model.safetensors": File(b"weights", large=True)})
    for name, file in model(hub).at("main").tree.items():
        (tmp_path / name).write_bytes(file.data)
    with commands.client():
        assert model_digest(HubModel("org/model", HfApi())) == identity(tmp_path)


def test_without_a_network_it_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    result = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert result.returncode == 2
    assert result.stderr == (
        "error: The Hub cannot be reached (ConnectError); check the network and run the same command again.\n"
    )


def test_a_hub_that_goes_away_is_not_taken_for_one_without_the_file(hub, tmp_path):
    hub.faults["HEAD .*/resolve/"] = CUT
    result = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert result.returncode == 2
    assert "Error)" in result.stderr
    assert not model(hub).pulls


def test_what_breaks_while_a_large_file_is_sent_is_told_as_what_it_is_and_nothing_else_is_hidden():
    with pytest.raises(ConnectionError, match="cut"), sending():
        raise RuntimeError("Error while uploading") from ConnectionError("cut")
    with pytest.raises(RuntimeError, match="ours"), sending():
        raise RuntimeError("ours") from KeyError("a")
    with pytest.raises(RuntimeError, match="ours"), sending():
        raise RuntimeError("ours")
