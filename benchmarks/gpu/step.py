"""A step: parts that are measured one after the other and kept, and the figures and goals that follow from them.

A part that fails is recorded and the next one begins. A part that ends its process (no memory, an error of the device
after which nothing works) is recorded when the step goes on in a new process. So whatever happens, what was measured is
kept, and the same command measures what is left. The process that starts the others loads no torch.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import platform
import resource
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cards.common.files import put
from scoring.types import ScoringError

#: In the order of what they are worth.
STEPS = ("right", "fast", "mitigation")
#: Seconds of one step, and those at its end in which no part begins.
LONGEST, LAST = 540.0, 30.0
#: Exit status of a process that ends so that the rest of the step gets a new one.
AGAIN = 75
PACKAGES = ("torch", "transformers", "tokenizers", "bitsandbytes", "peft", "accelerate", "lm_eval", "numpy")
#: In the messages of errors after which the device answers nothing more.
_DEVICE_LOST = ("CUDA error", "device-side assert", "illegal memory access")
Part = dict[str, Any]


class NotPossible(Exception):
    """What cannot be measured here, by name."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a step runs.

    ``small`` takes the smallest shapes and few rows; ``data`` is a folder of built data sets, empty for what the
    project has; ``until`` is the time (``time.monotonic``) at which a part should end. So many ``jobs`` measure parts
    whose seconds are no figure. Parts are measured whose name has ``only`` in it.
    """

    device: str
    small: bool
    out: Path
    data: str = ""
    until: float = float("inf")
    jobs: int = 1
    only: str = ""

    def few(self, small: Any, large: Any) -> Any:
        """One of two numbers, by the size of the run."""
        return small if self.small else large

    @property
    def scratch(self) -> Path:
        """A folder for what is not a result."""
        folder = self.out / "scratch"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class Goal(NamedTuple):
    """What is measured, what should be reached in words, and with what it is compared."""

    what: str
    goal: str
    peer: str = "none"


class Measured(NamedTuple):
    """A figure in words, whether its goal is met (None without one), and what the peer reached."""

    value: str
    met: bool | None = None
    peer: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A step: its parts by name, and from what they gave to the figure of each goal.

    ``timed`` says that its goals are about speed, which the smallest shapes say nothing of. ``together`` says of a part
    by its name whether others may be measured at the same time.
    """

    name: str
    summary: str
    goals: tuple[Goal, ...]
    parts: Callable[[Setting], Mapping[str, Callable[[], Part]]]
    figures: Callable[[Mapping[str, Part]], Mapping[str, Measured]]
    timed: bool = False
    together: Callable[[str], bool] = lambda _name: False


def get(name: str) -> Step:
    """A step by its name, or by the name of a module that defines ``STEP``."""
    module = importlib.import_module(name if "." in name else f"benchmarks.gpu.{name}")
    step: Step = module.STEP
    return step


def result_file(folder: Path, name: str) -> Path:
    """The JSON of a step in the folder of results."""
    return folder / f"{name.rpartition('.')[2]}.json"


def key(step: Step, setting: Setting) -> dict[str, Any]:
    """What a result depends on: with another key it is measured again."""
    import torch

    gpu = torch.cuda.get_device_name() if setting.device == "cuda" else platform.machine()
    versions = {"python": platform.python_version(), "cuda": str(torch.version.cuda)}
    for name in ("gender-neutral-probes", *PACKAGES):
        if name not in PACKAGES or importlib.util.find_spec(name):
            versions[name] = importlib.metadata.version(name)
    return {
        "step": step.name,
        "device": f"{setting.device}: {gpu}",
        "size": "small" if setting.small else "whole",
        "data": Path(setting.data).name,
        "versions": versions,
    }


def run(step: Step, setting: Setting) -> int:
    """Measures what is left of a step in this process, and writes its JSON after every part; returns the exit status.

    With ``setting.until`` in the past nothing is measured, and the JSON is written from what was kept.
    """
    identity = key(step, setting)
    path = result_file(setting.out, step.name)
    kept: dict[str, Part] = {}
    if path.is_file():
        before = json.loads(path.read_bytes())
        if all(before.get(name) == value for name, value in identity.items()):
            if not before["left"]:
                print(f"{step.name}: is there already ({before['verdict']}).")
                return 0
            kept = before["parts"]
            # The last process ended in this part.
            if before["begun"]:
                kept[before["begun"]] = {"error": "The process ended, or was ended, in this part."}
    parts = step.parts(setting)
    left = [name for name in parts if name not in kept and setting.only in name]
    beside = [name for name in left if setting.jobs > 1 and step.together(name)]
    lost = False
    for name in left:
        if name in beside or lost or time.monotonic() >= setting.until - LAST:
            continue
        write(step, setting, identity, parts, kept, begun=name)
        kept[name] = measured(name, parts[name], setting)
        lost = device_lost(kept[name])
    if beside and not lost:
        for name, result in measured_together({name: parts[name] for name in beside}, setting):
            kept[name] = result
            lost = lost or device_lost(result)
            write(step, setting, identity, parts, kept)
    verdict = write(step, setting, identity, parts, kept)
    print(f"{step.name}: {verdict}", flush=True)
    return AGAIN if lost else 0


def device_lost(result: Part) -> bool:
    """Whether the device answers nothing more after a part."""
    return any(text in result.get("error", "") for text in _DEVICE_LOST)


def measured_together(calls: Mapping[str, Callable[[], Part]], setting: Setting) -> Iterator[tuple[str, Part]]:
    """Each part with its result as soon as it is there, from ``setting.jobs`` processes.

    A process that ends in its part ends them all; the next process of the step measures what is not given here.
    """
    left = setting.until - LAST - time.monotonic()
    if left <= 0:
        return
    threads = max(len(os.sched_getaffinity(0)) // setting.jobs, 1)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(setting.jobs, context, initializer=_begin, initargs=(threads,))
    futures = {pool.submit(measured, name, call, setting): name for name, call in calls.items()}
    try:
        for future in as_completed(futures, left):
            yield futures[future], future.result()
    except (TimeoutError, BrokenProcessPool) as error:
        print(f"  Not all parts were measured: {type(error).__name__}.", flush=True)
    pool.shutdown(wait=False, cancel_futures=True)
    for process in multiprocessing.active_children():
        process.kill()


def _begin(threads: int) -> None:
    """Gives a process its share of the cores."""
    import torch

    torch.set_num_threads(threads)


def measured(name: str, call: Callable[[], Part], setting: Setting) -> Part:
    """What a part gives, or why not, with seconds, peak memory and the load of the machine."""
    import torch

    gpu = setting.device == "cuda"
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    try:
        result = call()
    except NotPossible as error:
        result = {"not_possible": str(error)}
    except Exception as error:  # whatever a part raises must not stop the next
        result = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"}
        if not isinstance(error, (ScoringError, torch.OutOfMemoryError)):
            traceback.print_exc()
    memory = torch.cuda.max_memory_allocated() if gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds = round(time.perf_counter() - started, 2)
    load = round(os.getloadavg()[0] / len(os.sched_getaffinity(0)), 2)
    what = result.get("error") or result.get("not_possible") or "done"
    print(f"  {name}: {seconds} s, {what}", flush=True)
    return result | {"seconds": seconds, "peak_mb": round(memory / 2**20), "load_per_core": load}


def write(
    step: Step,
    setting: Setting,
    identity: Mapping[str, Any],
    parts: Mapping[str, Any],
    kept: Mapping[str, Part],
    begun: str = "",
) -> str:
    """Writes the JSON of a step from the parts that are kept; returns the verdict."""
    failed = {name: result["error"] for name, result in kept.items() if "error" in result}
    figures = dict(step.figures({name: result for name, result in kept.items() if name not in failed}))
    judged = not (step.timed and setting.small)
    if not judged:
        figures = {what: figure._replace(met=None) for what, figure in figures.items()}
    missed = [what for what, figure in figures.items() if figure.met is False]
    left = [name for name in parts if name not in kept]
    lacking = [goal.what for goal in step.goals if goal.what not in figures]
    if left:
        verdict = f"not finished: {len(left)} parts are left; run it again"
    elif failed:
        name, why = next(iter(failed.items()))
        verdict = f"failed: {len(failed)} parts, first {name}: {why}"
    elif not judged:
        verdict = "all parts run; shapes this small say nothing of speed"
    elif missed:
        verdict = f"not met: {'; '.join(missed)}"
    elif lacking:
        verdict = f"met, where possible here; no figure: {'; '.join(lacking)}"
    else:
        verdict = "met"
    content = {
        **identity,
        "seconds": round(sum(part.get("seconds", 0) for part in kept.values()), 1),
        "peak_mb": max((part.get("peak_mb", 0) for part in kept.values()), default=0),
        "load_per_core": max((part.get("load_per_core", 0) for part in kept.values()), default=0),
        "verdict": verdict,
        "figures": {what: figure._asdict() for what, figure in figures.items()},
        "left": left,
        "begun": begun,
        "parts": dict(kept),
    }
    put(result_file(setting.out, step.name), (json.dumps(content, indent=2) + "\n").encode())
    return verdict
