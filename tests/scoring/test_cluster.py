"""Several models on a cluster: Ray on this machine with a process that is killed, and a stand-in for Slurm."""

import json
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import scoring
from scoring import benchmarks
from scoring.__main__ import app
from scoring.inference.load_options import BUNDLED
from scoring.many.cluster import JOB, Resources
from scoring.many.sweep import FINISHED
from scoring.types import ScoringError
from tests.scoring.test_own_server import SERVER
from tests.support.commands import client
from tests.support.hub import Hub
from tests.support.ray_cluster import running
from tests.support.slurm import slurm

__all__ = ["slurm"]

#: A benchmark that ends the process that asks it of the model ``killed``, as often as the file beside it says.
BENCHMARK = """
import os
from pathlib import Path

import numpy as np

from scoring.types import Benchmark, Group, Option, Request
from scoring.metrics.sums import mean

FILE = Path(__file__).with_name("kills")


def requests(profile, row, context):
    if context.model.endswith("killed"):
        left = int(FILE.read_text())
        if left:
            FILE.write_text(str(left - 1))
            os.kill(os.getpid(), 9)
    yield Request(row["id"], options=(Option(row["text"]),))


BENCHMARK = Benchmark(
    name="mortal",
    version="1",
    summary="Sentences.",
    configs=(("mine", "all", "test"),),
    requests=requests,
    to_record=lambda profile, row, given, context: {"id": row["id"], "x": sum(given[row["id"]].logprobs[0])},
    groups=lambda table: [Group("all", np.ones(len(table["id"]), bool))],
    metrics=lambda profile: [mean("mean", lambda table: table["x"], None, -1000, 0, "Mean of log-probabilities.")],
    cluster="id",
    rows=lambda dataset, config, split: [{"id": f"r{n}", "text": f"The nurse said {n}."} for n in range(12)],
)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of three networks, of which one is killed, and one without weights."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("first", "killed", "last"):
        shutil.copytree(BUNDLED["tiny-causal"], folder / name)
    shutil.copytree(BUNDLED["tiny-causal"], folder / "empty", ignore=lambda _, files: [f for f in files if "safe" in f])
    return {name: str(folder / name) for name in ("first", "killed", "empty", "last")}


@pytest.fixture(scope="module")
def benchmark_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("included") / "mortal.py"
    file.write_text(BENCHMARK)
    return file


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with Hub(cache=tmp_path_factory.mktemp("cache")) as hub, client():
        yield hub


@pytest.fixture(scope="module")
def machines(hub):
    """Ray with two workers that know the Hub, on a machine that seems to have four GPUs."""
    with running(gpus=4) as ray:
        yield ray


@pytest.fixture
def mortal(benchmark_file, monkeypatch):
    """The file of the benchmark, which kills once."""
    monkeypatch.setattr(benchmarks.REGISTRY, "included", {})
    benchmark_file.with_name("kills").write_text("1")
    return benchmark_file


def options(mortal):
    return {"benchmarks": "mortal", "include": mortal, "resamples": 20, "device": "cpu", "exact": True, "data": "none"}


def test_a_process_of_ray_that_is_killed_is_started_again(machines, models, mortal, tmp_path):
    asked = options(mortal) | {"executor": "ray", "cluster": ["memory=0.5", "workers=2"], "out": tmp_path / "all"}
    swept = scoring.evaluate([models[name] for name in ("first", "killed", "empty")], **asked)
    assert mortal.with_name("kills").read_text() == "0", "the process was killed"
    assert set(swept.runs) == {models["first"], models["killed"]}
    assert list(swept.failed) == [models["empty"]]
    alone = scoring.evaluate(models["killed"], **options(mortal))
    ours, theirs = ([repr(score.value) for score in run.report.estimates] for run in (swept[models["killed"]], alone))
    assert ours == theirs


def test_a_lost_process_loses_no_finished_model(machines, models, mortal, tmp_path):
    some = [models[name] for name in ("first", "killed")]
    about = {"executor": "ray", "cluster": ["memory=0.5", "workers=1", "tries=0"], "out": tmp_path / "all"}
    swept = scoring.evaluate(some, **options(mortal), **about)
    assert set(swept.runs) == {models["first"]}
    assert "Its process on Ray died (tries: 1" in swept.failed[models["killed"]].sentence
    written = {name: (folder / "results.json").stat().st_mtime_ns for name, folder in swept.runs.items()}
    again = scoring.evaluate(some, **options(mortal), **about)
    assert not again.failed
    assert {name: (again.runs[name] / "results.json").stat().st_mtime_ns for name in written} == written


@pytest.mark.filterwarnings("ignore")  # the client of the Hub warns of packages that it would like
def test_tasks_of_ray_start_a_server_each_and_send_their_results_to_the_hub(machines, hub, models, mortal, tmp_path):
    script = tmp_path / "serve.py"
    script.write_text(SERVER)
    about = {name: value for name, value in options(mortal).items() if name not in ("device", "exact")}
    about |= {"executor": "ray", "cluster": ["memory=0.5", "workers=2", "gpus=2"], "results": "hub:team/ray"}
    about["server"] = f"{sys.executable} {script} {{model}} {{port}}"
    some = [models["first"], models["last"]]
    swept = scoring.evaluate(some, out=tmp_path / "here", **about)
    assert not swept.failed, swept.failed
    # Each model had a server, and each server two GPUs.
    gpus = [file.read_text().split(",") for file in tmp_path.glob("serve.2*")]
    assert [len(of_one) for of_one in gpus] == [2, 2]
    alone = scoring.evaluate(models["first"], **options(mortal))
    for name in some:
        for ours, theirs in zip(swept[name].report.estimates, alone.report.estimates, strict=True):
            assert ours.value == pytest.approx(theirs.value, abs=1e-3)
    sent = hub.repos["dataset", "team/ray"].at("main").tree
    assert len([name for name in sent if name.endswith("/results.json")]) == 2
    # Another machine has them from there, and starts no server.
    script.unlink()
    there = scoring.evaluate(some, out=tmp_path / "there", **about)
    assert not there.failed
    for name in some:
        assert there[name].report == swept[name].report


def test_an_array_of_slurm_has_a_task_a_model_and_the_same_command_goes_on(slurm, models, mortal, tmp_path):
    some = [models[name] for name in ("first", "killed", "empty")]
    given = ["--include", str(mortal), "--benchmarks", "mortal", "--resamples", "20", "--device", "cpu"]
    cluster = ["memory=3", "cpus=2", "gpus=1", "time=1:00:00", "partition=gpu", "account=me"]
    arguments = [*some, *given, "--out", str(tmp_path / "all"), "--executor", "slurm"]
    for option in cluster:
        arguments += ["--cluster", option]

    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 75, first.output
    assert "Slurm job 17 scores 3 of 3 models" in " ".join(first.output.split())
    script = (slurm / "job-0.sh").read_text()
    for line in ("array=0-2", "cpus-per-task=2", "time=1:00:00", "partition=gpu", "account=me", "gres=gpu:1"):
        assert f"#SBATCH --{line}" in script
    finished = [path.parent.name for path in (tmp_path / "all").glob(f"*/{FINISHED}")]
    assert len(finished) == 1
    (failure,) = (path.name for path in (tmp_path / "all" / JOB).glob("*empty*.json"))
    assert failure.removesuffix(".json") not in finished

    # The killed task said nothing, so it is submitted again; the finished one is not, nor the one that failed.
    second = CliRunner().invoke(app, arguments)
    assert second.exit_code == 75, second.output
    assert "scores 1 of 3 models" in " ".join(second.output.split())

    third = CliRunner().invoke(app, arguments)
    assert third.exit_code == 4, third.output
    words = " ".join(third.output.split())
    assert "1 of 3 models could not be scored" in words
    assert f"{models['empty']} (exit status 1)" in words
    assert words.count("known,") == 2
    # What was said is said once: the next call tries the model again.
    assert not list((tmp_path / "all" / JOB).glob("*.json"))


@pytest.mark.filterwarnings("ignore")  # the client of the Hub warns of packages that it would like
def test_results_of_tasks_are_in_a_data_set_of_the_hub(slurm, models, mortal, tmp_path):
    about = options(mortal) | {"executor": "slurm", "results": "hub:team/sweep"}
    with Hub(cache=tmp_path / "cache") as hub, client():
        with pytest.raises(ScoringError, match="scores 1 of 1 models"):
            scoring.evaluate([models["first"]], **about, out=tmp_path / "here")
        sent = hub.repos["dataset", "team/sweep"].at("main").tree
        (results,) = [name for name in sent if name.endswith("/results.json")]
        assert f"](<{results}>)" in sent["README.md"].data.decode()
        # A machine with another folder has nothing to submit.
        there = scoring.evaluate([models["first"]], **about, out=tmp_path / "there")
        assert not there.failed
        assert there[models["first"]].report.estimates


def test_a_job_that_slurm_still_has_is_not_submitted_twice(slurm, models, mortal, tmp_path):
    squeue = slurm.parent / "bin" / "squeue"
    squeue.write_text("#!/bin/bash\necho 17 gpu probes-sc me R\n")
    squeue.chmod(0o755)
    (slurm.parent / "bin" / "sbatch").write_text("#!/bin/bash\necho Submitted batch job 17\n")
    about = options(mortal) | {"executor": "slurm", "out": tmp_path / "all"}
    for told in ("scores 2 of 2 models", "Slurm job 17 is not done: 2 of 2 models are not scored"):
        with pytest.raises(ScoringError, match=told) as error:
            scoring.evaluate([models["first"], models["last"]], **about)
        assert error.value.exit_code == 75
    assert json.loads((tmp_path / "all" / JOB / "job.json").read_text()) == {"job": "17"}
    squeue.write_text("#!/bin/bash\nexit 1\n")
    with pytest.raises(ScoringError, match="scores 2 of 2 models"):
        scoring.evaluate([models["first"], models["last"]], **about)


def test_without_sbatch_and_with_one_that_refuses_it_is_one_sentence(slurm, models, mortal, tmp_path, monkeypatch):
    about = options(mortal) | {"executor": "slurm", "out": tmp_path / "all"}
    sbatch = slurm.parent / "bin" / "sbatch"
    sbatch.write_text("#!/bin/bash\nexit 1\n")
    with pytest.raises(ScoringError, match="Slurm"):
        scoring.evaluate([models["first"]], **about)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ScoringError, match="sbatch"):
        scoring.evaluate([models["first"]], **about)


@pytest.mark.parametrize(
    ("executor", "given", "told"),
    [
        ("ray", ["memory"], "'memory'.*KEY.*VALUE"),
        ("ray", ["gpus=many"], "'gpus=many'"),
        ("ray", ["account=me"], "'account'"),
        ("ray", ["time=1:00:00"], "'time'"),
        ("slurm", ["address=here"], "'address'"),
        ("slurm", ["cpus=0"], "cpus=0"),
        ("slurm", ["memory=0"], "memory=0"),
        ("slurm", ["workers=0"], "workers=0"),
        ("ray", ["gpus=-1"], "gpus=-1.0"),
    ],
)
def test_resources_that_no_task_can_have_are_refused(executor, given, told):
    with pytest.raises(ScoringError, match=told):
        Resources.from_options(executor, given)


def test_overwrite_would_submit_models_of_slurm_for_ever(slurm, models, mortal, tmp_path):
    with pytest.raises(ScoringError, match="submit all models"):
        scoring.evaluate([models["first"]], **options(mortal), executor="slurm", overwrite=True, out=tmp_path / "all")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tiny-causal", "tiny-masked", "--cluster", "memory=2"), "name one with --executor"),
        (("--executor", "ray"), "name one, or give --models"),
        (("tiny-causal", "--results", "team/runs"), "give a data set of the Hub as hub:ORG/NAME"),
    ],
)
def test_options_of_a_cluster_without_one_are_refused(arguments, told, tmp_path):
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert told in " ".join(done.output.split())


def test_slurm_forgets_no_file_of_the_stand_in(slurm):
    """The stand-in runs an array: without this, the tests above could not fail."""
    script = slurm.parent / "array.sh"
    script.write_text("#!/bin/bash\n#SBATCH --array=0-2\necho task $SLURM_ARRAY_TASK_ID\n")
    subprocess.run(["sbatch", str(script)], check=True, capture_output=True)
    assert (slurm / "output").read_text().split("\n")[:3] == ["task 0", "task 1", "task 2"]
