"""Two processes of ``accelerate launch`` share the rows of a run, and give the numbers of one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks.gpu import fast
from benchmarks.gpu.step import Goal, Measured, Part, Setting, Step
from scoring import report

#: Starts two processes; on a processor they are connected by gloo as well.
TWO = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no --module".split()
GOALS = (Goal("two processes", "every number of one, and each answer once", "one process"),)


def parts(setting: Setting) -> dict[str, Callable[[], Part]]:
    """One part."""
    return {GOALS[0].what: partial(compared, setting)}


def compared(setting: Setting) -> Part:
    """A run by one process and by two: numbers that differ, answers of each, and seconds."""
    folders = {count: setting.scratch / f"processes-{count}" for count in (1, 2)}
    seconds = {f"{count}": started(setting, count, folder) for count, folder in folders.items()}
    numbers = {count: _numbers(folder) for count, folder in folders.items()}
    answers = {count: _answers(folder) for count, folder in folders.items()}
    other = [" ".join(place) for place, value in numbers[1].items() if numbers[2].get(place) != value]
    return {
        "metrics": len(numbers[1]),
        "differing": other,
        "answers": [len(answers[count]) for count in folders],
        "same_answers": sorted(answers[1]) == sorted(answers[2]),
        "process_seconds": seconds,
    }


def started(setting: Setting, count: int, folder: Path) -> float:
    """Runs the command with so many processes; returns the seconds.

    Raises
    ------
    RuntimeError
        When it fails.
    """
    options = ["--data", fast.data_of(setting), "--exact", "--resamples", str(setting.few(20, 1000))]
    options += ["--device", "cpu"] if setting.device == "cpu" else []
    options += ["--limit", str(setting.few(2, 40)), "--out", str(folder), "--overwrite"]
    options += ["--benchmarks", "occugender"] if setting.small else []
    launcher = ["-m", "accelerate.commands.launch", "--main_process_port", "0", *TWO] if count > 1 else ["-m"]
    shutil.rmtree(folder, ignore_errors=True)  # answers of an earlier run would be taken
    # One thread for each process on a processor: how many share a sum changes its last bits.
    threads = {"OMP_NUM_THREADS": "1"} if setting.device == "cpu" else {}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *launcher, "scoring", "tiny-causal", *options],
        env={**os.environ, **threads, "MASTER_ADDR": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{count} processes ended with {done.returncode}: {' '.join(done.stderr.split()[-60:])}")
    return time.perf_counter() - started


def _numbers(folder: Path) -> dict[tuple[str, str, str], str]:
    return {(e.benchmark, e.group, e.metric): repr(e.value) for e in report.read(folder).estimates}


def _answers(folder: Path) -> list[bytes]:
    return [line for path in (folder / "responses").glob("*.jsonl") for line in path.read_bytes().splitlines()]


def figures(done: Mapping[str, Part]) -> dict[str, Measured]:
    """Equal numbers and answers, and the seconds of both."""
    results = {}
    for name, part in done.items():
        equal = part["metrics"] - len(part["differing"])
        answers = "the same answers" if part["same_answers"] else "other answers"
        text = f"{equal} of {part['metrics']} metrics equal, {answers}; {part['process_seconds']['2']:.1f} s"
        met = part["same_answers"] and not part["differing"]
        results[name] = Measured(text, met, f"{part['process_seconds']['1']:.1f} s")
    return results


SUMMARY = (
    "Two processes started by accelerate share the requests of a run in float32, each answer once, and give every "
    "metric of one process; with one GPU both use it."
)
STEP = Step("processes", SUMMARY, GOALS, parts, figures)
