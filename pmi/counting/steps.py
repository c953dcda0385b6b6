"""Steps of datatrove pipelines that count words, and an executor for Ray.

Only this file imports datatrove, so that the other modules work without it.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from datatrove.executor import RayPipelineExecutor  # type: ignore[import-untyped]
from datatrove.pipeline.base import PipelineStep  # type: ignore[import-untyped]

from cards.common.cluster import on_ray
from pmi.counting.corpus import Shard
from pmi.counting.counts import write_counts
from pmi.counting.local import CountingJob, count_shard
from pmi.counting.reading import records
from pmi.counting.scanner import Scanner
from pmi.types import ClusterError, CountRule, PmiError


class CountFiles(PipelineStep):  # type: ignore[misc]
    """A step that counts files into one table per file; it is the only step of its pipeline.

    The files are divided between the tasks. A file whose table exists already is not read again.
    """

    name = "Count words"
    type = "PMI"

    def __init__(self, job: CountingJob, files: Sequence[Shard]) -> None:
        super().__init__()
        self.job, self.files = job, tuple(files)

    def run(self, data: Iterable[Any] | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Counts the files ``rank``, ``rank + world_size``, …; documents of an earlier step pass through."""
        for shard in self.files[rank::world_size]:
            with self.track_time("file"):
                count_shard(self.job, shard)
            self.stat_update("bytes", value=shard.size, unit="file")
        yield from data or ()


class CountDocuments(PipelineStep):  # type: ignore[misc]
    """The last step of a datatrove pipeline, which counts the documents that its readers and filters give.

    Each task writes ``RANK.parquet`` into the folder; :func:`pmi.counting.counts.merge` adds these tables.
    """

    name = "Count words"
    type = "PMI"

    def __init__(self, rule: CountRule, folder: str | Path) -> None:
        super().__init__()
        self.rule, self.folder = rule, Path(folder)

    def run(self, data: Iterable[Any] | None = None, rank: int = 0, world_size: int = 1) -> None:  # noqa: ARG002
        """Counts all documents of the earlier steps; each is a record."""
        rule = self.rule
        scanner = Scanner(rule.gendered, rule.stopped, rule.window, rule.boundary)
        with self.track_time("task"):
            for block in records((document.text for document in data or ()), "text"):
                scanner.feed(block)
            words, word_counts, pair_rows, totals = scanner.result()
            write_counts(self.folder / f"{rank:05d}.parquet", words, word_counts, pair_rows, rule, totals)


class OnRay(RayPipelineExecutor):  # type: ignore[misc]
    """datatrove's executor for Ray, with one Ray task per task of datatrove.

    datatrove runs a pool of processes inside an actor, which never returns when one of them is killed, for
    example because memory is exhausted. Ray starts a task that dies again, up to ``tries`` times.
    """

    def __init__(self, *arguments: Any, tries: int = 3, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.tries = tries
        # File names may be relative to this folder.
        self.folder = Path.cwd()

    def run(self, on_done: Callable[[int], object] = int) -> None:
        """Runs all tasks that are not marked as completed; ``on_done`` receives the rank of each finished task.

        Raises
        ------
        ClusterError
            The error of the first task that fails; the others are cancelled.
        """
        import ray

        memory = int(self.mem_per_cpu_gb * 2**30)
        task = ray.remote(num_cpus=self.cpus_per_task, memory=memory, max_retries=self.tries)(_run_rank)
        executor = ray.put(self)
        ranks = list(self.get_incomplete_ranks())
        with closing(on_ray(task, [(executor, rank) for rank in ranks], self.workers)) as ended:
            for place, finished in ended:
                self._raise_failure(finished, ranks[place])
                on_done(ranks[place])

    def _raise_failure(self, finished: Any, rank: int) -> None:
        import ray

        try:
            ray.get(finished)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            message = str(cause) if isinstance(cause, PmiError) else f"{type(cause).__name__}: {cause}"
            raise ClusterError(message) from None
        except ray.exceptions.RayError as error:
            raise ClusterError(
                f"Task {rank} on Ray died (tries: {self.tries + 1}, {type(error).__name__}); give it more memory, or "
                f"read its log in {self.logging_dir.path}."
            ) from None


def _run_rank(executor: OnRay, rank: int) -> None:
    os.chdir(executor.folder)
    executor._run_for_rank(rank)
