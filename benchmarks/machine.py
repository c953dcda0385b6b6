"""What the figures were measured on, and the time and memory of one whole process."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

#: Where the measurements are kept, a JSON file for each.
RESULTS = Path(__file__).with_name("results")


def describe(*packages: str) -> dict[str, str | int]:
    """Processor, cores, memory and versions."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())


#: Starts the command of its arguments, and prints its exit status, seconds of the clock and of the processor, and peak.
_STARTER = """
import json, os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
wall = time.perf_counter() - start
process.returncode = os.waitstatus_to_exitcode(status)
print(json.dumps([process.returncode, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))
"""


def measure(command: Sequence[str]) -> dict[str, float]:
    """Wall and processor seconds and peak memory (MB) of a command that must succeed."""
    # Linux counts the memory of the process that starts another one into the peak of the new one, so that a small
    # process starts the command.
    started = subprocess.run([sys.executable, "-c", _STARTER, *command], stdout=subprocess.PIPE, check=True)
    status, wall, cpu, peak = json.loads(started.stdout)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}.")
    return {"wall_s": round(wall, 2), "cpu_s": round(cpu, 2), "peak_mb": round(peak / 1024)}
