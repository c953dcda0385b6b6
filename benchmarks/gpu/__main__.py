"""One command for a GPU: ``python -m benchmarks.gpu [STEP…]``, or ``make gpu``, which installs what it needs first.

Each step runs in a process of its own, for at most ten minutes, and writes one JSON. What was measured is kept part by
part: the same command continues, and does nothing where all is there with the same versions and device.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from benchmarks.gpu import step
from cards.common.files import put

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
#: Seconds for a part at the end of a step, and for a process that only writes what there is.
GRACE, WRITING = 30.0, 300.0


def main(
    steps: Annotated[
        list[str] | None,
        typer.Argument(metavar="[STEP]...", help=f"{', '.join(step.STEPS)}, or a module with a STEP; all by default."),
    ] = None,
    device: Annotated[Literal["cuda", "cpu"], typer.Option(help="Where the models are.")] = "cuda",
    small: Annotated[bool, typer.Option("--small", help="The smallest shapes: tries every step in minutes.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the results and of their page.")] = None,
    data: Annotated[str, typer.Option(help="Built data sets; by default embedded and made rows.")] = "",
    corpus: Annotated[str, typer.Option(help="Folder of *.jsonl.zst for pretrain; by default made text.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Measure what is there once more.")] = False,
    seconds: Annotated[float, typer.Option(help="The most seconds of a step.")] = step.LONGEST,
    inside: Annotated[bool, typer.Option("--inside", hidden=True)] = False,
) -> None:
    """Measures on a GPU what was only tried without one, and writes the page with goal, measured and peer."""
    whole = device == "cuda" and not small
    folder = (out or (HERE if whole else Path("runs") / "gpu-small")).resolve()
    data, corpus = (str(Path(given).resolve()) if given else "" for given in (data, corpus))
    setting = step.Setting(device, small, folder, data, corpus, time.monotonic() + seconds)
    if inside:
        (name,) = steps or ("",)
        raise typer.Exit(step.run(step.get(name), setting))
    folder.mkdir(parents=True, exist_ok=True)
    for name in steps or step.STEPS:
        if again:
            (folder / f"{name.rpartition('.')[2]}.json").unlink(missing_ok=True)
            for path in (folder / "parts" / name.rpartition(".")[2]).glob("*"):
                path.unlink()
        process(name, setting, seconds)
    # The page needs what all steps import, which this process leaves to others.
    subprocess.run([sys.executable, "-m", "benchmarks.gpu.page", str(folder), *(steps or ())], cwd=ROOT, check=True)
    print(f"The page is {folder / 'README.md'}.")


def process(name: str, setting: step.Setting, seconds: float) -> None:
    """Runs a step in processes of their own until it ends, makes no progress, or its time is over."""
    given = ["--device", setting.device, "--out", str(setting.out), *["--small"] * setting.small]
    given += [f"--{option}={value}" for option in ("data", "corpus") if (value := getattr(setting, option))]
    until, before = time.monotonic() + seconds, -1
    while (left := until - time.monotonic()) > 0 and (done := _done(setting.out, name)) > before:
        before = done
        if _ended(name, given, left, GRACE) == 0:
            return
    if status := _ended(name, given, 0.0, WRITING):
        why = f"failed: the process of the step ended with status {status} before it measured anything"
        put(setting.out / f"{name.rpartition('.')[2]}.json", json.dumps({"verdict": why, "left": ["all"]}).encode())


def _done(out: Path, name: str) -> int:
    return len(list((out / "parts" / name.rpartition(".")[2]).glob("*")))


def _ended(name: str, given: list[str], seconds: float, more: float) -> int | None:
    """The exit status of a process for a step; None for one that was ended because its time was over."""
    command = [sys.executable, "-m", "benchmarks.gpu", name, *given, "--seconds", str(seconds), "--inside"]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        return process.wait(seconds + more)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


if __name__ == "__main__":
    typer.run(main)
