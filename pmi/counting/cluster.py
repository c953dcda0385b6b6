"""Counts a corpus on many machines, with datatrove on Ray or Slurm.

Each task counts files into one table per file, as one machine does. Counts are whole numbers, so their sum
does not depend on which task counted which file, how often, or in what order. A file is finished when its
table can be read; no other state is kept.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from cards.common import cluster, packages
from pmi.counting.corpus import Shard
from pmi.counting.counts import is_readable
from pmi.counting.local import CountingJob, Progress, Runner
from pmi.types import ClusterError, JobSubmitted


@dataclass(frozen=True, slots=True)
class Resources(cluster.Resources):
    """The resources of a task that counts files."""

    error: ClassVar[type[Exception]] = ClusterError


def runner(engine: str, options: Sequence[str]) -> Runner:
    """A runner for ``ray`` or ``slurm``, from options such as ``memory=4`` and ``partition=cpu``.

    Raises
    ------
    ClusterError
        When an option is not ``KEY=VALUE``, or a value is not a number where one is needed.
    """
    resources = Resources.from_options(engine, options)
    if engine == "ray":
        return on_ray(resources)
    return on_slurm(resources)


def on_ray(resources: Resources | None = None) -> Runner:
    """A runner for Ray: on the cluster at ``resources.address`` or ``$RAY_ADDRESS``, else on this machine.

    All machines must see the files and the folder of the job under the same names.
    """

    def count(job: CountingJob, files: Sequence[Shard], progress: Progress) -> None:
        unfinished = _unfinished(job, files)
        if not unfinished:
            return
        task = resources or Resources()
        total = sum(shard.size for shard in files)
        done = total - sum(shard.size for shard in unfinished)

        def on_done(rank: int) -> None:
            nonlocal done
            done += unfinished[rank].size
            progress(done, total)

        steps = _steps("ray")
        cluster.quiet()
        with cluster.connected(task.address, ClusterError):
            steps.OnRay(
                [steps.CountFiles(job, unfinished)],
                tasks=len(unfinished),
                workers=task.workers,
                mem_per_cpu_gb=task.memory,
                logging_dir=str(_log_folder(job, unfinished)),
                tries=task.tries,
            ).run(on_done)

    return count


def on_slurm(resources: Resources | None = None) -> Runner:
    """A runner for Slurm, which submits an array of tasks, one per file, and raises :class:`JobSubmitted`.

    When all files have been counted it does nothing, so that the same command, given again, adds up the
    tables. All machines must see the folder of the job under the same name.
    """

    def count(job: CountingJob, files: Sequence[Shard], progress: Progress) -> None:  # noqa: ARG001
        unfinished = _unfinished(job, files)
        if not unfinished:
            return
        step = _steps("dill").CountFiles(job, unfinished)
        logs = _log_folder(job, unfinished)
        number, place = cluster.submitted(step, len(unfinished), "pmi-count", logs, resources or Resources())
        raise JobSubmitted(
            f"Slurm job {number} counts {len(unfinished)} of {len(files)} files; its script and logs are in "
            f"{place}. Give the same command again when it is done."
        )

    return count


def _steps(package: str) -> Any:
    """The module with the steps, when datatrove and another package that the engine needs are installed."""
    with packages.required("Counting on many machines", "cluster", ClusterError):
        import_module(package)
        return import_module("pmi.counting.steps")


def _unfinished(job: CountingJob, files: Sequence[Shard]) -> list[Shard]:
    """The files without a table, large ones first."""
    unfinished = [shard for shard in files if not is_readable(job.part(shard))]
    # The longest tasks begin first, so that the last machine does not start with one.
    return sorted(unfinished, key=lambda shard: -shard.size)


def _log_folder(job: CountingJob, files: Sequence[Shard]) -> Path:
    """A folder for logs and completion markers, which depends on the list of files because tasks are numbered."""
    parts = [job.part(shard).name for shard in files]
    names = "\n".join(parts)
    return job.folder.absolute() / f"logs-{hashlib.sha256(names.encode()).hexdigest()[:12]}"
