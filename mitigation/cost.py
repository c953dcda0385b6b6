"""What making an adapter takes: seconds, and the peak of memory."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import torch

from mitigation.adapters.adapter import Cost

if TYPE_CHECKING:
    from scoring.inference.model import Model


class Meter:
    """Counts from where it is made.

    On a GPU the peak is that of the tensors there since then. Elsewhere it is the largest size that the
    process has ever had, since systems tell no other.
    """

    def __init__(self, model: Model) -> None:
        self._gpu = model.device if model.device.type == "cuda" else None
        self._device = str(model.environment["device"])
        if self._gpu:
            torch.cuda.reset_peak_memory_stats(self._gpu)
        self._start = time.perf_counter()

    def cost(self, parameters: int) -> Cost:
        """The cost so far, of training so many parameters."""
        seconds = time.perf_counter() - self._start
        return Cost(
            parameters, seconds, torch.cuda.max_memory_allocated(self._gpu) if self._gpu else _size(), self._device
        )


def _size() -> int:
    """The largest size of this process in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
