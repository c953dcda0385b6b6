import json
import sys
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

from pmi.__main__ import app
from pmi.counting.corpus import shards
from pmi.counting.counts import Counts, merge
from pmi.counting.local import GENDERED_WORDS, count, rule_of
from tests.pmi.cluster import corpus, job, local, merged, same
from tests.support.slurm import slurm

pytest.importorskip("datatrove")

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.filters import LambdaFilter
from datatrove.pipeline.readers import JsonlReader

from pmi.counting.cluster import Resources, on_slurm
from pmi.counting.steps import CountDocuments, CountFiles
from pmi.types import ClusterError, JobSubmitted

__all__ = ["corpus", "job", "local", "slurm"]


@pytest.mark.fault(34)
@pytest.mark.parametrize("tasks", [1, 2, 5, 8])
def test_a_pipeline_of_any_number_of_tasks_gives_the_table_of_one_machine(corpus, local, job, tmp_path, tasks):
    step = CountFiles(job, shards([corpus]))
    LocalPipelineExecutor([step], tasks=tasks, workers=1, logging_dir=str(tmp_path / "logs")).run()
    same(merged(job, corpus), local)


@pytest.mark.fault(34)
def test_documents_from_readers_and_filters_of_datatrove_are_counted(corpus, tmp_path):
    rule = rule_of("made up", GENDERED_WORDS, 10, "clean", "record")
    pipeline = [
        JsonlReader(str(corpus), compression="zstd"),
        LambdaFilter(lambda document: document.metadata["n"] % 2 == 0),
        CountDocuments(rule, tmp_path / "parts"),
    ]
    LocalPipelineExecutor(pipeline, tasks=3, workers=1, logging_dir=str(tmp_path / "logs")).run()
    rows = (
        row["text"]
        for file in sorted(corpus.iterdir())
        for row in map(json.loads, zstandard.decompress(file.read_bytes()).splitlines())
        if row["n"] % 2 == 0
    )
    same(merge(sorted((tmp_path / "parts").glob("*.parquet"))), count(rows, name="made up"))


@pytest.mark.fault(34)
def test_slurm_runs_a_submitted_job_and_a_second_start_uses_its_tables(slurm, corpus, local, job):
    files = shards([corpus])
    part = job.part(files[2])
    LocalPipelineExecutor([CountFiles(job, files[:4])], workers=1, logging_dir=str(job.folder / "logs")).run()
    count = on_slurm(Resources(memory=3, workers=2, time="1:00:00", partition="cpu", sbatch={"account": "me"}))
    message = r"Slurm job 17 counts 1 of 5 files; .* Give the same command again when it is done\."
    with pytest.raises(JobSubmitted, match=message):
        count(job, files, lambda done, total: None)
    script = (slurm / "job-0.sh").read_text()
    for line in ("array=0-0%2", "mem-per-cpu=3G", "time=1:00:00", "partition=cpu", "account=me", "job-name=pmi-count"):
        assert f"#SBATCH --{line}\n" in script
    assert f"export PATH={Path(sys.executable).parent}:$PATH" in script
    assert part.is_file()
    count(job, files, lambda done, total: None)
    same(merged(job, corpus), local)


def test_the_command_submits_then_adds_up(slurm, corpus, local, tmp_path, monkeypatch):
    monkeypatch.chdir(corpus)
    out = tmp_path / "c.parquet"
    options = ["count", "3.jsonl.zst", "--out", str(out), "--engine", "slurm", "--cluster", "memory=1"]
    first = CliRunner().invoke(app, options)
    assert first.exit_code == 75
    assert first.output.strip().startswith("Slurm job 17 counts 1 of 1 files;")
    assert not out.exists()
    second = CliRunner().invoke(app, options)
    assert second.exit_code == 0, second.output
    same(Counts.read(out), count("3.jsonl.zst"))
    assert not out.with_name("c.parquet.parts").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--engine", "ray", "--cluster", "memory"],
            "'memory' is not an option of a cluster; give KEY=VALUE, such as memo",
        ),
        (
            ["--engine", "ray", "--cluster", "memory=much"],
            "'memory=much' is not an option of a cluster; give KEY=VALUE",
        ),
        (["--engine", "ray", "--cluster", "account=me"], "Ray has no option 'account'; give address, memory, tries or"),
        (["--cluster", "memory=1"], "'memory=1' is for a cluster; name one by --engine ray or slurm"),
    ],
)
def test_a_wrong_cluster_option_is_refused_in_one_sentence(corpus, tmp_path, options, message):
    done = CliRunner().invoke(app, ["count", str(corpus), "--out", str(tmp_path / "c.parquet"), *options])
    assert done.exit_code == 1
    assert message in done.output


def test_without_sbatch_the_message_says_where_to_start(corpus, job, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ClusterError, match="no sbatch"):
        on_slurm()(job, shards([corpus]), lambda done, total: None)


def test_an_error_of_sbatch_is_reported(slurm, corpus, job):
    (slurm.parent / "bin" / "sbatch").write_text("#!/bin/bash\nexit 1\n")
    with pytest.raises(ClusterError, match="Slurm refused"):
        on_slurm()(job, shards([corpus]), lambda done, total: None)


def test_a_missing_package_is_named_with_what_to_install(slurm, corpus, job, monkeypatch):
    monkeypatch.setitem(sys.modules, "dill", None)
    with pytest.raises(
        ClusterError,
        match="package dill",
    ):
        on_slurm()(job, shards([corpus]), lambda done, total: None)


@pytest.mark.parametrize("wrong", [{"memory": 0}, {"memory": float("nan")}, {"workers": 0}, {"tries": -1}])
def test_resources_that_no_task_can_have_are_refused(wrong):
    with pytest.raises(ClusterError, match=r"memory=.*least 1 worker"):
        Resources(**wrong)
