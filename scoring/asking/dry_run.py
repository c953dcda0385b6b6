"""What a run of a model on this machine will take: rows, requests, minutes and memory, from a measured second."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import torch

from cards.common.terminal import text_table
from scoring.asking import answering, workload
from scoring.asking.workload import WRITTEN, Split
from scoring.inputs.prompts import Prompt
from scoring.types import Request

if TYPE_CHECKING:
    from rich.table import Table

    from scoring.inference.engine import Engine

#: Requests that are answered together, scored and written, and the seconds of each kind that are measured at least.
#: Fewer are written, because a text is written token by token.
SCORED, TEXTS, SECONDS = 48, 16, 1.0
#: Requests before those that are timed, with which the network is measured.
FIRST = 4


@dataclass(frozen=True, slots=True)
class Expected:
    """What a run will take: the minutes of each of its ``splits``, and the most memory so far in bytes."""

    splits: Sequence[Split]
    minutes: Sequence[float]
    memory: int
    device: str

    def table(self) -> Table:
        """A row for each split."""
        rows = []
        for split, minutes in zip(self.splits, self.minutes, strict=True):
            count = f"{split.rows:,}", f"{split.rows * split.requests:,.0f}", f"{minutes:.1f}"
            rows.append((split.benchmark, split.config, split.split, *count))
        columns = ("benchmark", "config", "split", "rows", "requests", "minutes")
        return text_table(columns, rows, numbers=columns[3:])

    def sentence(self) -> str:
        """All splits together."""
        rows = sum(split.rows for split in self.splits)
        requests = sum(split.rows * split.requests for split in self.splits)
        minutes = sum(self.minutes)
        return (
            f"{rows:,} rows with {requests:,.0f} requests take about {minutes:.1f} minutes and "
            f"{self.memory / 2**30:.1f} GiB on this machine ({self.device}). A second of this work was measured, and "
            "nothing was kept."
        )


def forecast(model: Engine, every: Sequence[Split], prompt: Prompt, batch_tokens: int | None = None) -> Expected:
    """What splits will take, from the requests of some of their rows.

    The first requests are not timed, because the network is measured with them.
    """
    how = {"batch_tokens": batch_tokens, "decoding": answering.decoding(prompt)}

    def answer(requests: Sequence[Request]) -> None:
        model.answer(requests, **how)

    scored = seconds_of_work(_by_turns(every, written=False), answer, SCORED)
    written = seconds_of_work(_by_turns(every, written=True), answer, TEXTS)
    speeds = (scored or written / WRITTEN, written or scored * WRITTEN)
    minutes = []
    for split in every:
        seconds = split.rows * (split.work[0] * speeds[0] + split.work[1] * speeds[1])
        minutes.append(seconds / 60)
    return Expected(every, minutes, most_memory(), model.environment.get("device", model.revision))


def _by_turns(every: Sequence[Split], *, written: bool) -> list[Request]:
    """The sampled requests of one kind, of all splits by turns: as many of each as it has of the whole."""
    placed = []
    for split in every:
        chosen = [request for request in split.sample if bool(request.max_new) == written]
        for number, request in enumerate(chosen):
            placed.append((number / len(chosen), request))
    placed.sort(key=lambda pair: pair[0])
    return [request for _, request in placed]


def seconds_of_work(
    requests: Sequence[Request], answer: Callable[[Sequence[Request]], None], at_once: int = SCORED
) -> float:
    """The seconds of a unit of work (:func:`scoring.asking.workload.work_of`); 0 without requests.

    >>> from scoring.types import Option
    >>> seconds_of_work([], lambda requests: None)
    0.0
    """
    if not requests:
        return 0.0
    answer(requests[:FIRST])
    work = seconds = 0.0
    start = 0
    # Few requests are asked again where they take less than a second.
    while seconds < SECONDS:
        part = requests[start : start + at_once]
        began = monotonic()
        answer(part)
        seconds += monotonic() - began
        work += sum(workload.work_of(part))
        start = start + at_once if start + at_once < len(requests) else 0
    return seconds / work


def most_memory() -> int:
    """The most memory that this process has taken, or that it has on a GPU, in bytes."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_reserved())
    # Linux counts KiB, and macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
