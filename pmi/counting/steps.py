"""Counting as steps of datatrove, which has readers, filters and executors for many machines.

What needs the package is in this file, so that the rest does without it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from datatrove.executor import RayPipelineExecutor  # type: ignore[import-untyped]
from datatrove.pipeline.base import PipelineStep  # type: ignore[import-untyped]

from pmi.counting.corpus import Shard
from pmi.counting.counts import write_rows
from pmi.counting.local import Job, count_shard
from pmi.counting.reading import records
from pmi.counting.scanner import Scanner
from pmi.types import ClusterError, CountRule, PmiError


class CountFiles(PipelineStep):  # type: ignore[misc]
    """A step of a datatrove pipeline that counts files, a table each; the first and only one of its pipeline.

    Tasks share the files between them; a file of which the table is there is not read again.
    """

    name = "Count words"
    type = "PMI"

    def __init__(self, job: Job, files: Sequence[Shard]) -> None:
        super().__init__()
        self.job, self.files = job, tuple(files)

    def run(self, data: Iterable[Any] | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Counts every ``world_size``-th file from ``rank`` on, and passes on what came."""
        for shard in self.files[rank::world_size]:
            with self.track_time("file"):
                count_shard(self.job, shard)
            self.stat_update("bytes", value=shard.size, unit="file")
        yield from data or ()


class CountDocuments(PipelineStep):  # type: ignore[misc]
    """A step that counts the documents of any datatrove pipeline, after its readers and filters; the last one.

    Each task writes ``RANK.parquet`` into the folder; :func:`pmi.counting.counts.merge` adds them up.
    """

    name = "Count words"
    type = "PMI"

    def __init__(self, rule: CountRule, folder: str | Path) -> None:
        super().__init__()
        self.rule, self.folder = rule, Path(folder)

    def run(self, data: Iterable[Any] | None = None, rank: int = 0, world_size: int = 1) -> None:  # noqa: ARG002
        """Counts all documents that come; each is a record."""
        rule = self.rule
        scanner = Scanner(rule.gendered, rule.stopped, rule.window, rule.boundary)
        with self.track_time("task"):
            for block in records((document.text for document in data or ()), "text"):
                scanner.feed(block)
            words, counted, near, totals = scanner.result()
            write_rows(self.folder / f"{rank:05d}.parquet", words, counted, near, rule, totals)


class OnRay(RayPipelineExecutor):  # type: ignore[misc]
    """datatrove's executor for Ray, with a Ray task for each of its tasks.

    The original runs a pool of processes inside an actor, which waits for ever when one of them is
    killed, as it is where memory runs out. A Ray task that dies is begun again by Ray.
    """

    def __init__(self, *arguments: Any, tries: int = 3, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.tries = tries
        # Names of files may be relative to it.
        self.folder = Path.cwd()

    def run(self, told: Callable[[int], object] = int) -> None:
        """Runs all tasks that are not marked as completed; ``told`` gets the number of each that is done.

        Raises
        ------
        ClusterError
            The error of the first task that fails; the others are cancelled.
        """
        import ray

        memory = int(self.mem_per_cpu_gb * 2**30)
        task = ray.remote(num_cpus=self.cpus_per_task, memory=memory, max_retries=self.tries)(_run_rank)
        executor, waiting = ray.put(self), deque(self.get_incomplete_ranks())
        running: dict[Any, int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.workers:
                    rank = waiting.popleft()
                    running[task.remote(executor, rank)] = rank
                for done in ray.wait(list(running), num_returns=1)[0]:
                    rank = running.pop(done)
                    self._settle(done, rank)
                    told(rank)
        finally:
            for left in running:
                ray.cancel(left, force=True)

    def _settle(self, done: Any, rank: int) -> None:
        import ray

        try:
            ray.get(done)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            told = str(cause) if isinstance(cause, PmiError) else f"{type(cause).__name__}: {cause}"
            raise ClusterError(told) from None
        except ray.exceptions.RayError as error:
            raise ClusterError(
                f"Task {rank} on Ray died (tries: {self.tries + 1}, {type(error).__name__}); give it more memory, or "
                f"see its log in {self.logging_dir.path}."
            ) from None


def _run_rank(executor: OnRay, rank: int) -> None:
    os.chdir(executor.folder)
    executor._run_for_rank(rank)
