"""Measures the cost of making an adapter: wall-clock seconds and the peak of memory."""

import re
import sys
import time
from pathlib import Path

import torch

from scoring.adapters.facts import Cost
from scoring.inference.model import Model


class CostMeter:
    """Measures from its construction on.

    On a GPU the memory is the peak of the tensors on it since then. On a CPU it is the peak of the process, on Linux
    since then and on other systems since the start of the process.
    """

    def __init__(self, model: Model) -> None:
        self._gpu = model.device if model.device.type == "cuda" else None
        self._device = str(model.environment["device"])
        # Only tensors of this recipe count, and not those of an earlier one in the same process.
        if self._gpu:
            torch.cuda.reset_peak_memory_stats(self._gpu)
        self._status = _reset_peak()
        # Last, so that what comes before is not in the time.
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The wall-clock seconds so far."""
        return time.perf_counter() - self._start

    def cost(self, parameters: int) -> Cost:
        """The cost so far, for training this number of parameters."""
        memory = torch.cuda.max_memory_allocated(self._gpu) if self._gpu else _peak_of_process(self._status)
        return Cost(parameters, self.seconds, memory, self._device)


def _reset_peak() -> Path | None:
    """Sets the peak of this process to its present memory; the file to read the peak from, or None off Linux."""
    process = Path("/proc/self")
    try:
        (process / "clear_refs").write_text("5")  # 5 resets the peak, see proc(5)
    except OSError:
        return None
    return process / "status"


def _peak_of_process(status: Path | None) -> int:
    """The peak resident memory of this process in bytes; 0 where the system does not report it."""
    if status:
        line = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
        if line:
            return int(line[1]) * 1024
    try:
        import resource
    except ImportError:
        return 0
    # macOS counts bytes, Linux kilobytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
