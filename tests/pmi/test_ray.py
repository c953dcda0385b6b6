import pytest
from typer.testing import CliRunner

from pmi.__main__ import app
from pmi.counting.corpus import shards
from pmi.counting.counts import Counts
from pmi.counting.local import GENDERED_WORDS, CountingJob, count, rule_of
from tests.pmi.cluster import corpus, job, local, merged, same, times

pytest.importorskip("datatrove")

from pmi.counting.cluster import Resources, on_ray
from pmi.counting.steps import OnRay
from pmi.types import ClusterError
from tests.pmi.steps import Killed
from tests.support.ray_cluster import machines

__all__ = ["corpus", "job", "local", "machines"]


@pytest.mark.fault(34)
def test_ray_gives_the_table_of_one_machine_and_reports_progress(machines, corpus, local, job):
    reports = []
    files = shards([corpus])
    on_ray(Resources(memory=0.1))(job, files, lambda done, total: reports.append((done, total)))
    same(merged(job, corpus), local)
    total = sum(shard.size for shard in files)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert reports[-1] == (total, total)
    before = times(job)
    on_ray(Resources(memory=0.1))(job, files, lambda done, total: reports.append("again"))
    assert (times(job), reports[-1]) == (before, (total, total))


@pytest.mark.fault(34)
def test_a_task_killed_in_the_middle_of_a_file_is_started_again(machines, corpus, local, job, tmp_path):
    (tmp_path / "marks").mkdir()
    files = shards([corpus])
    OnRay(
        [Killed(job, files, tmp_path / "marks", times=1)],
        tasks=5,
        mem_per_cpu_gb=0.1,
        logging_dir=str(tmp_path / "logs"),
    ).run()
    assert sorted(mark.name for mark in (tmp_path / "marks").iterdir()) == ["0-0", "1-0", "1-1", "2-0", "3-0", "4-0"]
    same(merged(job, corpus), local)


@pytest.mark.fault(34)
def test_a_second_start_after_a_crash_counts_only_missing_files(machines, corpus, local, job, tmp_path):
    (tmp_path / "marks").mkdir()
    files = shards([corpus])
    crashing = OnRay(
        [Killed(job, files, tmp_path / "marks", times=99)],
        tasks=5,
        mem_per_cpu_gb=0.1,
        workers=1,
        tries=0,
        logging_dir=str(tmp_path / "logs"),
    )
    with pytest.raises(ClusterError, match=r"Task 1 .*\(tries: 1,"):
        crashing.run()
    before = times(job)
    assert list(before) == [job.part(files[0]).name]
    on_ray(Resources(memory=0.1))(job, files, lambda done, total: None)
    assert len(times(job)) == 5
    assert times(job).items() >= before.items()
    same(merged(job, corpus), local)


def test_the_command_counts_on_ray(machines, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(corpus)
    options = ["--engine", "ray", "--cluster", "memory=0.1", "--cluster", "workers=2"]
    done = CliRunner().invoke(
        app, ["count", "1.jsonl.zst", "4.jsonl.zst", "--out", str(tmp_path / "c.parquet"), *options]
    )
    assert done.exit_code == 0, done.output
    same(Counts.read(tmp_path / "c.parquet"), count(["1.jsonl.zst", "4.jsonl.zst"], jobs=1))


def test_the_error_of_a_file_that_cannot_be_read_is_passed_on(machines, corpus, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.jsonl").write_text('{"body": "no text"}\n')
    (tmp_path / "parts").mkdir()
    job = CountingJob(rule_of("bad", GENDERED_WORDS, 10, "clean", "record"), tmp_path / "parts")
    with pytest.raises(ClusterError, match=r"a\.jsonl.*\b1\b.*'text'.*'body'"):
        on_ray(Resources(memory=0.1))(job, shards([tmp_path / "bad"]), lambda done, total: None)
