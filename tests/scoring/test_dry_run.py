"""What a dry run says of a model here: the rows and requests of the run, and time and memory of the measured work."""

import re

import pytest

from scoring.asking import dry_run
from scoring.asking.workload import Split
from scoring.inference.load_options import FETCHED
from scoring.types import Option, Request
from tests.scoring.made import data_set
from tests.scoring.test_run import command, job_rows
from tests.support import real


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return data_set(tmp_path_factory.mktemp("data"), "occugender", {("explicit", "test"): list(job_rows())})


def test_a_dry_run_counts_the_rows_and_requests_and_keeps_nothing(data, tmp_path):
    out = tmp_path / "run"
    done = command("tiny-causal", "--data", data, "--benchmarks", "occugender", "--out", out, "--dry-run")
    assert not done.exit_code, done.output
    rows = len(list(job_rows()))
    assert re.search(rf"^occugender +explicit +test +{rows} +{rows} +0\.\d$", done.stdout, re.MULTILINE)
    assert re.search(
        rf"^{rows} rows with {rows} requests take about 0\.\d minutes and \d\.\d GiB", done.stdout, re.MULTILINE
    )
    assert not out.exists()


def test_options_of_a_chat_api_are_still_refused_for_a_model_here(data):
    done = command("tiny-causal", "--data", data, "--samples", "3", "--dry-run")
    assert done.exit_code
    assert "--samples is of answers that a chat API samples" in done.output


def test_minutes_are_the_work_of_all_rows_at_the_measured_speed(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(dry_run, "monotonic", lambda: clock[0])
    sample = [Request(f"{n}", f"{n:06}", (Option("she"),)) for n in range(96)]
    work = dry_run.workload.work_of(sample[:1])[0]

    def answer(requests):
        clock[0] += 0.25 * dry_run.workload.work_of(requests)[0]

    assert dry_run.seconds_of_work(sample, answer) == pytest.approx(0.25)
    split = Split("made", "all", "test", 600, 1.0, (work, 0.0), tuple(sample))
    monkeypatch.setattr(dry_run, "seconds_of_work", lambda requests, *_: 0.25 if requests else 0.0)
    engine = type("Engine", (), {"environment": {"device": "cpu"}, "revision": ""})()
    prompt = type("Prompt", (), {"decoding": {}})()
    told = dry_run.forecast(engine, [split], prompt)
    assert told.minutes == [pytest.approx(600 * work * 0.25 / 60)]


def test_a_model_that_is_not_fetched_is_refused_with_the_command_that_fetches_it(data, tmp_path, monkeypatch):
    monkeypatch.setenv("PROBES_REAL", str(tmp_path))
    done = command("smollm2", "--data", data)
    assert done.exit_code == 1
    assert (
        f"The model smollm2 ({FETCHED['smollm2']}, 93 MB) is not on this machine; run `make real-weights`"
        in " ".join(done.output.split())
    )


@pytest.mark.real
@pytest.mark.parametrize("folder", [real.smollm2, real.gemma])
def test_a_dry_run_of_a_real_model_says_rows_minutes_and_memory(folder, data):
    done = command(folder(), "--data", data, "--benchmarks", "occugender", "--dry-run")
    assert not done.exit_code, done.output
    said = re.search(r"take about (\d+\.\d) minutes and (\d+\.\d) GiB", done.stdout)
    # The weights alone take half a GiB, in float32.
    assert said
    assert 0.5 < float(said[2]) < 20


@pytest.mark.real
def test_a_fetched_model_is_scored_by_its_name(data, tmp_path):
    real.smollm2()
    done = command("smollm2", "--data", data, "--benchmarks", "occugender", "--limit", "2", "--out", tmp_path / "run")
    assert not done.exit_code, done.output
    assert "smollm2" in (tmp_path / "run" / "results.json").read_text()
