"""Measures the cost of making an adapter: wall-clock seconds and the peak of memory."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import torch

from scoring.adapters.facts import Cost

if TYPE_CHECKING:
    from scoring.inference.model import Model


def trained_parameters(network: Any) -> int:
    """The number of the parameters of a network that are trained."""
    return sum(weight.numel() for weight in network.parameters() if weight.requires_grad)


class CostMeter:
    """Measures from its construction on.

    On a GPU the memory is the peak of the tensors on it since then. On a CPU it is the peak of the process
    since its start, because operating systems report no other.
    """

    def __init__(self, model: Model) -> None:
        self._gpu = model.device if model.device.type == "cuda" else None
        self._device = str(model.environment["device"])
        if self._gpu:
            torch.cuda.reset_peak_memory_stats(self._gpu)
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The wall-clock seconds so far."""
        return time.perf_counter() - self._start

    def cost(self, parameters: int) -> Cost:
        """The cost so far, for training this number of parameters."""
        memory = torch.cuda.max_memory_allocated(self._gpu) if self._gpu else _peak_of_process()
        return Cost(parameters, self.seconds, memory, self._device)


def _peak_of_process() -> int:
    """The peak resident memory of this process in bytes; 0 where the system does not report it."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
