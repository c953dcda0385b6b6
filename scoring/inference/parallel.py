"""Data parallel scoring: several processes of one command share the requests, and the first of them writes.

``accelerate launch --num_processes 8 -m scoring MODEL`` starts the same command once for each GPU. Each process
loads the model, and all make the same list of requests; the first says which of them are not answered yet, and each
answers its share. Every process keeps its responses in a file of its own from the moment they exist, so when one is
killed nothing that was answered is lost: the next run of the command collects these files.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from scoring.types import Request, Response, ScoringError

if TYPE_CHECKING:
    from scoring.inference.engine import Engine
    from scoring.inference.store import Store

#: Blocks of requests that each process gets: neighbours share contexts, and the load is even.
BLOCKS = 32
_ENDED = (
    "A process of this command ended before the others; what was answered is kept, so start the same command again to "
    "go on."
)


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes that a launcher started, and which of them this is; one by itself without a launcher.

    >>> Processes(0, 2).share(list("abcdef"))
    ['a', 'c', 'e']
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def launched(cls, environment: Mapping[str, str] = os.environ) -> Processes:
        """As the launcher says in ``RANK`` and ``WORLD_SIZE``."""
        count = environment.get("WORLD_SIZE", "1")
        rank = environment.get("RANK", "0")
        # Other programs set the first two; a launcher of torch also says where its processes meet.
        if count.isdecimal() and rank.isdecimal() and "MASTER_ADDR" in environment:
            return cls(int(rank), int(count))
        return cls()

    @property
    def first(self) -> bool:
        """Whether this process writes the results."""
        return not self.rank

    def share(self, items: Sequence[Any]) -> list[Any]:
        """The items of this process: every so-manieth block of neighbours."""
        # Blocks keep neighbours together, whose contexts are shared, and are many, so that lengths even out.
        size = max(len(items) // (self.count * BLOCKS), 1)
        share: list[Any] = []
        for first in range(self.rank * size, len(items), self.count * size):
            share += items[first : first + size]
        return share

    @contextmanager
    def connected(self) -> Iterator[None]:
        """The processes connected to each other; does nothing for one by itself.

        Raises
        ------
        ScoringError
            When another process ends too early, or the launcher ends this one.
        """
        if self.count == 1:
            yield
            return
        import torch.distributed as dist

        def ended(*_: object) -> None:
            raise ScoringError(_ENDED)

        before = signal.signal(signal.SIGTERM, ended)
        try:
            # Processes wait for the slowest, however long it takes; the end of one is noticed by its connection.
            dist.init_process_group("gloo", timeout=timedelta(days=7))
            yield
            dist.destroy_process_group()
        except RuntimeError:
            raise ScoringError(_ENDED) from None
        finally:
            signal.signal(signal.SIGTERM, before)


#: A process by itself.
ALONE = Processes()


def own_device(processes: Processes, device: str | None) -> str | None:
    """The device of this process: a GPU for each, where there are several processes and no device is named."""
    if processes.count == 1 or device:
        return device
    import torch

    if not torch.cuda.is_available():
        return None
    # LOCAL_RANK counts the processes of one machine; more processes than GPUs share these.
    return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"


def together(
    processes: Processes,
    requests: Sequence[Request],
    store: Store,
    answer: Callable[[Sequence[Request]], Mapping[str, Response]],
) -> None:
    """Answers a piece of the requests together; afterwards the store of the first process has every response.

    Parameters
    ----------
    requests:
        The same in every process.
    store:
        That of this process; the first has the file of all.
    answer:
        Answers requests and puts the responses into the store.

    Raises
    ------
    ScoringError
        When a request cannot be answered in one of the processes, or one ends too early.
    """
    import torch.distributed as dist

    # The same question is asked once by all processes together, whatever ids it has.
    by_content = {replace(request, id=""): request for request in requests}
    unique = list(by_content.values())
    unanswered = [number for number, request in enumerate(unique) if store.get(request) is None]
    # The first process has the file of all, so the others take its list in place of theirs.
    box = [unanswered]
    dist.broadcast_object_list(box, src=0)
    share = processes.share([unique[number] for number in box[0]])
    result: Any
    try:
        answered = answer(share)
        result = [(request.id, answered[request.id]) for request in share]
    except ScoringError as error:
        result = str(error)
    # A text is the error of a process, and a list has its responses. The first process stored its own itself.
    reason = ""
    by_id = {request.id: request for request in unique}
    for rank, result_of_process in enumerate(_gathered(processes, result)):
        if isinstance(result_of_process, str):
            reason = reason or result_of_process
        elif rank:
            for name, response in result_of_process:
                if store.get(by_id[name]) is None:
                    store.put(by_id[name], response)
    # All processes learn of an error, so that none waits for the next piece of another one.
    reasons = [reason]
    dist.broadcast_object_list(reasons, src=0)
    if reasons[0]:
        raise ScoringError(reasons[0])


def ended(processes: Processes, model: Engine, store: Store) -> None:
    """Adds the stats of all processes to those of the first, and ends the others.

    Raises
    ------
    SystemExit
        In the other processes: nothing is left to do there.
    """
    import torch.distributed as dist

    stats = model.stats
    for stats_of_process in _gathered(processes, stats)[1:]:
        for field in fields(stats):
            value = getattr(stats, field.name)
            other = getattr(stats_of_process, field.name)
            # Processes work at the same time: their tokens add up, and the longest time is that of the run.
            if field.name.endswith("seconds"):
                value = max(value, other)
            else:
                value += other
            setattr(stats, field.name, value)
    dist.barrier()
    if not processes.first:
        store.remove()
        raise SystemExit(0)


def _gathered(processes: Processes, item: Any) -> list[Any]:
    """The items of all processes in the first one; an empty list in the others."""
    import torch.distributed as dist

    # Only the process that receives may give a list.
    if not processes.first:
        dist.gather_object(item, None)
        return []
    gathered: list[Any] = [None] * processes.count
    dist.gather_object(item, gathered)
    return gathered
