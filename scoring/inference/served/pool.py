"""Shares jobs between servers: each takes the next job when it has room, and one that dies gives its jobs back."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

from builders.sources.client import Unavailable
from scoring.inference.served.handshake import Server
from scoring.types import ScoringError

J = TypeVar("J")
R = TypeVar("R")


class Pool(Generic[J, R]):
    """One pass over jobs with several servers.

    Parameters
    ----------
    servers:
        Those that are alive; a server that does not answer is marked by ``lost`` and gets no more jobs.
    ask:
        Does one job with one server.
    concurrency:
        Jobs of one server at the same time.
    """

    def __init__(self, servers: Sequence[Server], ask: Callable[[Server, J], R], concurrency: int) -> None:
        self.servers = [server for server in servers if not server.lost]
        self.ask = ask
        self.concurrency = concurrency
        self._waiting: deque[J] = deque()
        self._left = 0
        self._changed = threading.Condition()
        self._done: SimpleQueue[R | BaseException] = SimpleQueue()

    def run(self, jobs: Sequence[J]) -> Iterator[R]:
        """The result of each job, in the order in which they are done.

        Raises
        ------
        ScoringError
            When no server is left, or a job fails for a reason that another server would not remove.
        """
        self._waiting.extend(jobs)
        self._left = left = len(jobs)
        for server in self.servers:
            server.client.stop.clear()
            for _ in range(min(self.concurrency, len(jobs))):
                threading.Thread(target=self._work, args=(server,), daemon=True).start()
        try:
            while left:
                result = self._done.get()
                if isinstance(result, Unavailable):
                    if all(server.lost for server in self.servers):
                        raise ScoringError(f"{result}; what was answered is kept, so start the same command again.")
                elif isinstance(result, BaseException):
                    raise result
                else:
                    left -= 1
                    yield result
        finally:
            with self._changed:
                self._left = 0
                self._changed.notify_all()
            for server in self.servers:
                server.client.stop.set()

    def _work(self, server: Server) -> None:
        while (job := self._next(server)) is not None:
            try:
                result: R | BaseException = self.ask(server, job)
            except Unavailable as error:
                self._give_back(server, job, error)
                return
            except BaseException as error:
                self._done.put(error)
                return
            with self._changed:
                self._left = max(self._left - 1, 0)  # 0 since the run ended while this job was done
                self._changed.notify_all()
            self._done.put(result)

    def _next(self, server: Server) -> J | None:
        """The next job; waits while jobs of others may come back, and is None when all are done."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._left or server.lost)
            return self._waiting.popleft() if self._waiting and self._left and not server.lost else None

    def _give_back(self, server: Server, job: J, error: Unavailable) -> None:
        with self._changed:
            self._waiting.appendleft(job)
            server.lost = server.lost or str(error)
            self._changed.notify_all()
        server.client.stop.set()
        self._done.put(error)
