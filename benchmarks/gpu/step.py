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
import os
import platform
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cards.common.files import put
from cards.common.text import slug
from scoring.types import ScoringError

#: In the order of what they are worth.
STEPS = ("right", "fast", "mitigation", "pretrain", "processes")
#: Seconds of one step, and those at its end in which no part begins.
LONGEST, LAST = 540.0, 30.0
#: Exit status of a process that ends so that the rest of the step gets a new one.
AGAIN = 75
PACKAGES = ("torch", "transformers", "tokenizers", "bitsandbytes", "peft", "accelerate", "lm_eval", "numpy")
#: In the messages of errors after which the device answers nothing more.
_DEVICE_LOST = ("CUDA error", "device-side assert", "illegal memory access")


class NotPossible(Exception):
    """What cannot be measured here, by name."""


class Unfinished(Exception):
    """A part that has no time left, and goes on in the next run."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a step runs.

    ``small`` takes the smallest shapes and few rows; ``data`` and ``corpus`` are folders of the user, empty for what
    the project has; ``until`` is the time (``time.monotonic``) at which a part should end.
    """

    device: str
    small: bool
    out: Path
    data: str = ""
    corpus: str = ""
    until: float = float("inf")

    def few(self, small: Any, large: Any) -> Any:
        """One of two numbers, by the size of the run."""
        return small if self.small else large

    @property
    def scratch(self) -> Path:
        """A folder for what is not a result."""
        folder = self.out / "parts" / "scratch"
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


Part = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A step: its parts by name, and from what they gave to the figure of each goal.

    ``timed`` says that its goals are about speed, which the smallest shapes say nothing of.
    """

    name: str
    summary: str
    goals: tuple[Goal, ...]
    parts: Callable[[Setting], Mapping[str, Callable[[], Part]]]
    figures: Callable[[Mapping[str, Part]], Mapping[str, Measured]]
    timed: bool = False


def get(name: str) -> Step:
    """A step by its name, or by the name of a module that defines ``STEP``."""
    module = importlib.import_module(name if "." in name else f"benchmarks.gpu.{name}")
    step: Step = module.STEP
    return step


def key(step: Step, setting: Setting) -> dict[str, Any]:
    """What a result depends on: with another key it is measured again."""
    import torch

    gpu = torch.cuda.get_device_name() if setting.device == "cuda" else platform.machine()
    packages = ("gender-neutral-probes", *(name for name in PACKAGES if importlib.util.find_spec(name)))
    versions = {name: importlib.metadata.version(name) for name in packages}
    more = {"python": platform.python_version(), "cuda": str(torch.version.cuda)}
    size = "small" if setting.small else "whole"
    given = {name: Path(folder).name for name in ("data", "corpus") if (folder := getattr(setting, name))}
    device = f"{setting.device}: {gpu}"
    return {"step": step.name, "device": device, "size": size, "given": given, "versions": versions | more}


class Kept:
    """The parts of a step that were measured with a key, a file each."""

    def __init__(self, setting: Setting, key: Mapping[str, Any]) -> None:
        self.key = dict(key)
        self.folder: Path = setting.out / "parts" / key["step"]
        for path in self.folder.glob("*.begun"):
            name = path.read_text(encoding="utf-8")
            path.unlink()
            if self.get(name) is None:
                self.put(name, {"error": "The process ended, or was ended, in this part."})

    def get(self, name: str) -> Part | None:
        """What a part gave; None for one that was not measured with this key."""
        path = self._path(name)
        if not path.is_file():
            return None
        content: Part = json.loads(path.read_bytes())
        return content["result"] if content["key"] == self.key else None

    def put(self, name: str, result: Part) -> None:
        """Keeps what a part gave."""
        put(self._path(name), json.dumps({"key": self.key, "name": name, "result": result}, indent=1).encode())

    def begin(self, name: str) -> Path:
        """Marks a part as begun, for the process that finds this one ended; returns the mark."""
        mark = self._path(name).with_suffix(".begun")
        put(mark, name.encode())
        return mark

    def _path(self, name: str) -> Path:
        path: Path = self.folder / f"{slug(name)}.json"
        return path


def run(step: Step, setting: Setting) -> int:
    """Measures what is left of a step in this process, and writes its JSON; returns the exit status.

    With ``setting.until`` in the past nothing is measured, and the JSON is written from what was kept.
    """
    found = key(step, setting)
    path = setting.out / f"{step.name}.json"
    if path.is_file() and complete(before := json.loads(path.read_bytes()), found):
        print(f"{step.name}: is there already ({before['verdict']}).")
        return 0
    kept, parts = Kept(setting, found), step.parts(setting)
    lost = False
    for name, call in parts.items():
        if kept.get(name) is None and not lost and time.monotonic() < setting.until - LAST:
            mark = kept.begin(name)
            if (result := measured(name, call, setting)) is not None:
                kept.put(name, result)
                lost = any(text in result.get("error", "") for text in _DEVICE_LOST)
            mark.unlink()
    write(step, setting, found, {name: kept.get(name) for name in parts})
    return AGAIN if lost else 0


def measured(name: str, call: Callable[[], Part], setting: Setting) -> Part | None:
    """What a part gives, or why not, with seconds, peak memory and the load of the machine; None if unfinished."""
    import torch

    gpu = setting.device == "cuda"
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    try:
        result = call()
    except Unfinished:
        return None
    except NotPossible as error:
        result = {"not_possible": str(error)}
    except Exception as error:  # whatever a part raises must not stop the next
        result = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"}
        if not isinstance(error, (ScoringError, torch.OutOfMemoryError)):
            import traceback

            traceback.print_exc()
    memory = torch.cuda.max_memory_allocated() if gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds = round(time.perf_counter() - started, 2)
    load = round(os.getloadavg()[0] / len(os.sched_getaffinity(0)), 2)
    what = result.get("error") or result.get("not_possible") or "done"
    print(f"  {name}: {seconds} s, {what}", flush=True)
    return result | {"seconds": seconds, "peak_mb": round(memory / 2**20), "load_per_core": load}


def write(step: Step, setting: Setting, found: Mapping[str, Any], parts: Mapping[str, Part | None]) -> None:
    """Writes the JSON of a step."""
    done = {name: result for name, result in parts.items() if result is not None}
    failed = {name: result["error"] for name, result in done.items() if "error" in result}
    figures = dict(step.figures({name: result for name, result in done.items() if name not in failed}))
    if step.timed and setting.small:
        figures = {what: figure._replace(met=None) for what, figure in figures.items()}
    missed = [what for what, figure in figures.items() if figure.met is False]
    left = [name for name in parts if name not in done]
    lacking = [goal.what for goal in step.goals if goal.what not in figures]
    loads = [part["load_per_core"] for part in done.values() if "load_per_core" in part]
    content = {
        **found,
        "seconds": round(sum(part.get("seconds", 0) for part in done.values()), 1),
        "peak_mb": max((part.get("peak_mb", 0) for part in done.values()), default=0),
        "load_per_core": max(loads, default=None),
        "verdict": _verdict(failed, left, missed, lacking, judged=not (step.timed and setting.small)),
        "figures": {what: figure._asdict() for what, figure in figures.items()},
        "left": left,
        "parts": done,
    }
    put(setting.out / f"{step.name}.json", (json.dumps(content, indent=2) + "\n").encode())
    print(f"{step.name}: {content['verdict']}", flush=True)


def _verdict(failed: Mapping[str, str], left: list[str], missed: list[str], lacking: list[str], *, judged: bool) -> str:
    """The first that holds: not finished, failed, not judged, goals that are not met or have no figure, or all met."""
    if left:
        return f"not finished: {len(left)} parts are left; run it again"
    if failed:
        name, why = next(iter(failed.items()))
        return f"failed: {len(failed)} parts, first {name}: {why}"
    if not judged:
        return "all parts run; shapes this small say nothing of speed"
    if missed:
        return f"not met: {'; '.join(missed)}"
    return f"met, where possible here; no figure: {'; '.join(lacking)}" if lacking else "met"


def complete(before: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether a JSON has all parts of a step, measured with a key; a step that failed is complete as well."""
    return not before["left"] and all(before.get(name) == value for name, value in found.items())
