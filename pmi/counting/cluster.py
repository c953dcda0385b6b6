"""Counts a corpus on many machines, by datatrove on Ray or Slurm.

Each task counts files into tables of their own, the same that one machine makes; adding up whole numbers
gives the same table whatever counted which file, how often, and in what order. What is finished is a table
that can be read, so nothing else needs to be kept in step.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from pmi.counting.corpus import Shard
from pmi.counting.counts import readable
from pmi.counting.local import Job, Progress, Runner
from pmi.types import ClusterError, Submitted

_KINDS: dict[str, Callable[[str], Any]] = {"memory": float, "workers": int, "tries": int}


@dataclass(frozen=True, slots=True)
class Resources:
    """What a task is given.

    Parameters
    ----------
    memory:
        Gigabytes of a task.
    workers:
        Tasks at a time; all by default.
    tries:
        How often a file is begun again after its process was killed (Ray).
    time, partition:
        Of a Slurm job.
    more:
        Other options of ``sbatch``, such as ``account``.
    """

    memory: float = 2.0
    workers: int = -1
    tries: int = 3
    time: str = "24:00:00"
    partition: str = ""
    more: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (self.memory > 0 and (self.workers == -1 or self.workers > 0) and self.tries >= 0):
            raise ClusterError(
                f"A task cannot have memory={self.memory:g}, workers={self.workers} and tries={self.tries}; give "
                "memory above 0, at least 1 worker, and tries of 0 or more."
            )


def runner(engine: str, options: Sequence[str]) -> Runner:
    """What counts on ``ray`` or ``slurm`` with options such as ``memory=4`` and ``partition=cpu``.

    Raises
    ------
    ClusterError
        When an option is not ``KEY=VALUE``, or a number is none.
    """
    given: dict[str, Any] = {}
    for option in options:
        name, mark, value = option.partition("=")
        try:
            given[name] = _KINDS.get(name, str)(value)
        except ValueError:
            mark = ""
        if not mark:
            raise ClusterError(f"{option!r} is no option of a cluster; give KEY=VALUE, such as memory=4.")
    address = given.pop("address", None)
    known = {field.name: given.pop(field.name) for field in fields(Resources) if field.name in given}
    if engine == "ray" and given:
        raise ClusterError(f"Ray has no option {min(given)!r}; give address, memory, workers or tries.")
    resources = Resources(**known, more=given)
    return on_ray(resources, address) if engine == "ray" else on_slurm(resources)


def on_ray(resources: Resources | None = None, address: str | None = None) -> Runner:
    """A way to run a job on Ray: on the cluster of an address or of ``$RAY_ADDRESS``, else on this machine.

    Files and the folder of the job must be there for all machines, under the same names.
    """

    def run(job: Job, wanted: Sequence[Shard], progress: Progress) -> None:
        left = _left(job, wanted)
        if not left:
            return
        given = resources or Resources()
        total = sum(shard.size for shard in wanted)
        done = total - sum(shard.size for shard in left)

        def told(rank: int) -> None:
            nonlocal done
            done += left[rank].size
            progress(done, total)

        steps = _steps("ray")
        with _quiet(), _connected(address):
            steps.OnRay(
                [steps.CountFiles(job, left)],
                tasks=len(left),
                workers=given.workers,
                mem_per_cpu_gb=given.memory,
                logging_dir=str(_logs(job, left)),
                tries=given.tries,
            ).run(told)

    return run


def on_slurm(resources: Resources | None = None) -> Runner:
    """A way to run a job on Slurm: submits an array of tasks, one a file, and tells so by :class:`Submitted`.

    When all files have been counted it does nothing, so that the same command, given again, adds up the
    tables. The folder of the job must be there for all machines, under the same name.
    """

    def run(job: Job, wanted: Sequence[Shard], progress: Progress) -> None:  # noqa: ARG001
        left = _left(job, wanted)
        if not left:
            return
        if not shutil.which("sbatch"):
            raise ClusterError("There is no sbatch on this machine; start the command where Slurm takes jobs.")
        executor = _slurm(job, left, resources or Resources())
        with _quiet():
            try:
                executor.run()
            except (subprocess.CalledProcessError, OSError) as error:
                raise ClusterError(f"Slurm refused the job ({error}); see what sbatch says above.") from None
        raise Submitted(
            f"Slurm job {executor.job_id} counts {len(left)} of {len(wanted)} files; its script and logs are in "
            f"{executor.logging_dir.path}. Give the same command again when it is done."
        )

    return run


def _slurm(job: Job, left: Sequence[Shard], resources: Resources) -> Any:
    steps = _steps("dill")
    from datatrove.executor import SlurmPipelineExecutor  # type: ignore[import-untyped]

    return SlurmPipelineExecutor(
        [steps.CountFiles(job, left)],
        tasks=len(left),
        time=resources.time,
        partition=resources.partition,
        mem_per_cpu_gb=max(1, round(resources.memory)),
        workers=resources.workers,
        job_name="pmi-count",
        qos=None,
        # The programs of this very installation, whatever the machine has.
        env_command=f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
        sbatch_args=dict(resources.more),
        logging_dir=str(_logs(job, left)),
    )


def _steps(more: str) -> Any:
    """The steps for datatrove, when it and another package are there."""
    try:
        import_module(more)
        return import_module("pmi.counting.steps")
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"Counting on many machines needs the package {str(error.name).partition('.')[0]}; install it with pip "
            "install 'gender-neutral-probes[cluster]'."
        ) from None


def _left(job: Job, wanted: Sequence[Shard]) -> list[Shard]:
    """The files without a table, large ones first."""
    return sorted((shard for shard in wanted if not readable(job.part(shard))), key=lambda shard: -shard.size)


def _logs(job: Job, left: Sequence[Shard]) -> Path:
    """A folder for marks and logs of these tasks: another list of files is other tasks."""
    names = "\n".join(job.part(shard).name for shard in left)
    return job.folder.absolute() / f"logs-{hashlib.sha256(names.encode()).hexdigest()[:12]}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Logs of datatrove go to its files; only errors reach the terminal."""
    from datatrove.utils.logging import logger  # type: ignore[import-untyped]

    logger.remove()
    logger.add(sys.stderr, level="ERROR", format="{message}")
    yield


@contextlib.contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """A connection to Ray, closed in the end unless it was there before."""
    import ray

    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ClusterError(f"Ray at {address or 'this machine'} does not answer ({error}); start it first.") from None
    try:
        yield
    finally:
        ray.shutdown()
