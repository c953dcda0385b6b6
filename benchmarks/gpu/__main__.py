"""One command for a GPU: ``python -m benchmarks.gpu [STEP…]``, or ``make gpu``, which installs what it needs first.

Each step runs in a process of its own, for at most ten minutes, and writes one JSON. What was measured is kept part by
part: the same command continues, and does nothing where all is there with the same versions and device. At the end it
writes the page with goal, measured and peer of every step, "not run" until there is a result.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from benchmarks.gpu import step
from cards.common.files import put
from cards.common.text import templates

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
#: Seconds for a part at the end of a step, and for a process that only writes what there is.
GRACE, WRITING = 30.0, 300.0
#: As a step: writes the page. Its process may load what all steps import.
PAGE = "page"


def main(
    steps: Annotated[
        list[str] | None,
        typer.Argument(metavar="[STEP]...", help=f"{', '.join(step.STEPS)}, or a module with a STEP; all by default."),
    ] = None,
    device: Annotated[Literal["cuda", "cpu"], typer.Option(help="Where the models are.")] = "cuda",
    small: Annotated[bool, typer.Option("--small", help="The smallest shapes: tries every step in minutes.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the results and of their page.")] = None,
    data: Annotated[str, typer.Option(help="Built data sets; by default embedded and made rows.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Measure what is there once more.")] = False,
    seconds: Annotated[float, typer.Option(help="The most seconds of a step.")] = step.LONGEST,
    jobs: Annotated[int, typer.Option(help="Parts at once, of those whose seconds are no figure.")] = 1,
    only: Annotated[str, typer.Option(help="Only parts with this text in their name; the others are left.")] = "",
    inside: Annotated[bool, typer.Option("--inside", hidden=True)] = False,
) -> None:
    """Measures on a GPU what was only tried without one, and writes the page with goal, measured and peer."""
    whole = device == "cuda" and not small
    folder = (out or (HERE if whole else Path("runs") / "gpu-small")).resolve()
    setting = step.Setting(
        device, small, folder, data and str(Path(data).resolve()), time.monotonic() + seconds, jobs, only
    )
    names = list(steps or step.STEPS)
    if inside and names[0] == PAGE:
        put(folder / "README.md", page(folder, names[1:]).encode())
        return
    if inside:
        raise typer.Exit(step.run(step.get(names[0]), setting))
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if again:
            step.result_file(folder, name).unlink(missing_ok=True)
        run_in_processes(name, setting, seconds)
    subprocess.run([*command(PAGE, *names), "--out", str(folder), "--inside"], cwd=ROOT, check=True)
    print(f"The page is {folder / 'README.md'}.")


def command(*steps: str) -> list[str]:
    """The command of a process for steps."""
    return [sys.executable, "-m", "benchmarks.gpu", *steps]


def run_in_processes(name: str, setting: step.Setting, seconds: float) -> None:
    """Runs a step in processes of their own until it ends, makes no progress, or its time is over."""
    options = ["--device", setting.device, "--out", str(setting.out), "--data", setting.data, "--inside"]
    options += ["--jobs", str(setting.jobs), "--only", setting.only]
    if setting.small:
        options.append("--small")
    path = step.result_file(setting.out, name)
    until, before = time.monotonic() + seconds, None
    while (left := until - time.monotonic()) > 0:
        status = status_of([*command(name), *options, "--seconds", str(left)], left + GRACE)
        after = path.read_bytes() if path.is_file() else None
        if status == 0:
            return
        if after == before:
            break
        before = after
    # The last process writes what there is, and measures nothing.
    status = status_of([*command(name), *options, "--seconds", "0"], WRITING)
    if status:
        why = f"failed: the process of the step ended with status {status} before it measured anything"
        put(path, json.dumps({"verdict": why, "left": ["all"]}).encode())


def status_of(words: Sequence[str], seconds: float) -> int | None:
    """The exit status of a process; None for one that was ended because its time was over."""
    process = subprocess.Popen(words, cwd=ROOT, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def page(folder: Path, names: Sequence[str] = ()) -> str:
    """The page of the results in a folder, as Markdown."""
    known = [*step.STEPS, *(name for name in names if name not in step.STEPS)]
    rows: list[tuple[step.Step, dict[str, Any] | None]] = []
    for name in known:
        try:
            one = step.get(name)
        except Exception as error:  # a package that is not installed, or a module of the user
            summary = f"This step cannot be loaded here ({type(error).__name__}: {error})."
            one = step.Step(name.rpartition(".")[2], summary, (), lambda _: {}, lambda _: {})
        path = step.result_file(folder, name)
        result = None
        if path.is_file():
            result = {"figures": {}, "parts": {}} | json.loads(path.read_bytes())
        rows.append((one, result))
    return templates(HERE).get_template("README.md.j2").render(steps=rows)


if __name__ == "__main__":
    typer.run(main)
