"""Batches side by side on a CPU, each in a thread with its share of the processor.

Threads that work on one operation wait for one another at its end, which takes small operations longer than
their work; threads with a batch each do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from scoring.inference.fused import untouched

#: Batches side by side at most: each takes memory of its own, and Python lets one thread prepare at a time.
MOST = 8
#: Positions that change with what was seen last, kept in the network.
KEPT = {"dynamic", "longrope"}


def number(network: nn.Module) -> int:
    """How many batches of a network to compute side by side: several on a CPU, where calls leave nothing behind.

    The code of transformers is made for calls at one time, but for positions that change with the longest
    sequence. Code of others, hooks and adapters may keep anything between their own steps.

    >>> number(nn.Linear(1, 1))
    1
    """
    ours = type(network).__module__.startswith("transformers.models.")
    steady = all(untouched(module) and not _rules(module) & KEPT for module in network.modules())
    quantized = getattr(network, "quantization_method", None) is not None
    local = all(weight.device.type == "cpu" for weight in network.parameters())
    return min(torch.get_num_threads(), MOST) if ours and steady and local and not quantized else 1


def _rules(module: nn.Module) -> set[str]:
    """The rules by which a module makes rotary positions; some have one for each kind of layer."""
    found = getattr(module, "rope_type", None)
    return set(found.values()) if isinstance(found, dict) else {found} if isinstance(found, str) else set()


@contextmanager
def side_by_side(workers: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """What maps a function over its arguments, some at one time, and gives the results in their order.

    The threads of torch are shared out for as long as that goes on.

    >>> with side_by_side(2) as each:
    ...     list(each(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    if workers < 2:
        yield map
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=partial(torch.set_num_threads, max(threads // workers, 1)))
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
