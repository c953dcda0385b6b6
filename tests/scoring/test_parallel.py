"""Two processes of one command share the requests, as on two GPUs: numbers of one, and nothing is lost."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scoring.__main__ import app
from scoring.inference.parallel import Processes
from scoring.inference.store import Store
from scoring.report import read
from scoring.types import Option, Request, Response
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows, pairs
from tests.support.helpers import ROOT

#: What accelerate starts for each GPU of a machine, here without GPUs.
TWO = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no --module".split()
#: Does what ``probes score`` does, and waits before each batch so that a process can be killed between two.
SLOW = """
import sys, time, runpy
from scoring.inference.model import Model
score = Model._score
def slowly(self, trees):
    time.sleep(0.5)
    return score(self, trees)
Model._score = slowly
runpy.run_module("scoring", run_name="__main__")
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data_set(folder, "occugender", {("explicit", "test"): list(job_rows())})
    return data_set(folder, "unstereo", {("ours-5", "test"): list(pairs("a")), ("ours-10", "test"): list(pairs("b"))})


@pytest.fixture(scope="module")
def one(data, tmp_path_factory):
    """A folder with the run of one process, to which others are compared."""
    folder = tmp_path_factory.mktemp("one")
    alone(data, folder)
    return folder


def arguments(data, out):
    return ["tiny-causal", "--data", str(data), "--device", "cpu", "--resamples", "50", "--out", str(out), "--exact"]


def started(*command):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    return subprocess.Popen(
        [sys.executable, "-m", "accelerate.commands.launch", "--main_process_port", "0", *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def alone(data, out):
    done = CliRunner().invoke(app, arguments(data, out))
    assert done.exit_code == 0, done.output
    return read(out)


def numbers(report):
    return {(e.benchmark, e.group, e.metric): repr(e.value) for e in report.estimates}


def test_two_processes_give_the_numbers_of_one_and_write_one_report(data, one, tmp_path):
    process = started(*TWO, "scoring", *arguments(data, tmp_path / "two"))
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert out.count("The report is ") == 1
    assert numbers(read(tmp_path / "two")) == numbers(read(one))
    assert not list((tmp_path / "two" / "responses").glob("*.part-*"))
    stored = [next((out / "responses").glob("*.jsonl")).read_bytes() for out in (one, tmp_path / "two")]
    assert sorted(stored[0].splitlines()) == sorted(stored[1].splitlines())


def test_a_process_that_is_killed_ends_the_run_in_one_sentence_and_what_was_answered_is_kept(data, one, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    out = tmp_path / "two"
    process = started(*TWO[:-1], tmp_path / "slow.py", *arguments(data, out))
    part = wait_for(lambda: next((p for p in out.glob("responses/*.part-1.jsonl") if len(lines(p)) > 2), None), process)
    second = next(pid for pid in processes_of(process.pid) if rank(pid) == "1")
    os.kill(second, signal.SIGKILL)
    _, errors = process.communicate(timeout=600)
    assert process.returncode != 0
    (told,) = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert "ended before the others" in told
    assert "start the same command again" in told
    kept = len(lines(part)) - 1
    assert kept >= 2
    whole = alone(data, out)
    assert numbers(whole) == numbers(read(one))
    assert not part.exists()
    answered = len(lines(next(out.glob("responses/*.jsonl")))) - 1
    again = CliRunner().invoke(app, arguments(data, out))
    assert "The run read stored responses and did not use the model" in again.output
    assert answered >= kept


def lines(path):
    return path.read_bytes().split(b"\n")[:-1]


def wait_for(found, process):
    for _ in range(1200):
        if (value := found()) is not None:
            return value
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("it did not happen")


def processes_of(pid):
    """A process and those that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(item for child in children for item in processes_of(int(child)))]


def rank(pid):
    result = re.search(rb"(?:^|\0)RANK=(\d+)", Path(f"/proc/{pid}/environ").read_bytes())
    return result and result[1].decode()


def test_shares_are_whole_and_disjoint():
    for count in (1, 2, 3, 8):
        for size in (0, 1, 7, 1000):
            shares = [Processes(rank, count).share(range(size)) for rank in range(count)]
            assert sorted(n for share in shares for n in share) == list(range(size))
            assert max(map(len, shares)) - min(map(len, shares)) <= max(size // (count * 32), 1)


def test_a_process_by_itself_is_not_launched():
    assert Processes.launched({}) == Processes(0, 1)
    assert Processes.launched({"WORLD_SIZE": "4", "RANK": "2"}) == Processes(0, 1)
    assert Processes.launched({"WORLD_SIZE": "4", "RANK": "2", "MASTER_ADDR": "x"}) == Processes(2, 4)


def request(name, context):
    return Request(name, context, (Option(" it"),))


def test_the_first_process_takes_over_what_others_left(tmp_path):
    with Store(tmp_path, {"model": "m"}, 1) as store:
        store.put(request("a", "x"), Response("a", ((-1.0,),)))
    with Store(tmp_path, {"model": "other"}, 2) as store:
        store.put(request("b", "y"), Response("b", ((-1.0,),)))
    with Store(tmp_path, {"model": "m"}, 3) as used, Store(tmp_path, {"model": "m"}) as store:
        used.put(request("c", "z"), Response("c", ((-1.0,),)))
        assert store.get(request("a", "x")) == Response("a", ((-1.0,),))
        assert store.get(request("b", "y")) is None
    assert len(list(tmp_path.glob("*.part-1.*"))) == 0
    assert len(list(tmp_path.glob("*.part-2.jsonl"))) == 1
    with Store(tmp_path, {"model": "m"}) as store:
        assert len(store) == 2
