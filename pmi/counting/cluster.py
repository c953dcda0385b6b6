"""Counts a corpus on many machines, with datatrove on Ray or Slurm.

Each task counts files into one table per file, as one machine does. Counts are whole numbers, so their sum
does not depend on which task counted which file, how often, or in what order. A file is finished when its
table can be read; no other state is kept.
"""

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

from cards.common.packages import required
from pmi.counting.corpus import Shard
from pmi.counting.counts import is_readable
from pmi.counting.local import CountingJob, Progress, Runner
from pmi.types import ClusterError, JobSubmitted

_OPTION_TYPES: dict[str, Callable[[str], Any]] = {"memory": float, "workers": int, "tries": int}


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a task.

    Parameters
    ----------
    memory:
        Memory of a task in gigabytes.
    workers:
        Tasks at a time; all by default.
    tries:
        How often a task is started again after its process was killed (Ray).
    time, partition:
        Time limit and partition of a Slurm job.
    sbatch:
        Other options of ``sbatch``, such as ``account``.
    """

    memory: float = 2.0
    workers: int = -1
    tries: int = 3
    time: str = "24:00:00"
    partition: str = ""
    sbatch: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (self.memory > 0 and (self.workers == -1 or self.workers > 0) and self.tries >= 0):
            raise ClusterError(
                f"A task cannot have memory={self.memory:g}, workers={self.workers} and tries={self.tries}; give "
                "memory above 0, at least 1 worker, and tries of 0 or more."
            )


def runner(engine: str, options: Sequence[str]) -> Runner:
    """A runner for ``ray`` or ``slurm``, from options such as ``memory=4`` and ``partition=cpu``.

    Raises
    ------
    ClusterError
        When an option is not ``KEY=VALUE``, or a value is not a number where one is needed.
    """
    values: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        try:
            values[name] = _OPTION_TYPES.get(name, str)(value)
        except ValueError:
            equals = ""
        if not equals:
            raise ClusterError(f"{option!r} is not an option of a cluster; give KEY=VALUE, such as memory=4.")
    address = values.pop("address", None)
    known = {}
    for resource in fields(Resources):
        if resource.name in values:
            known[resource.name] = values.pop(resource.name)
    # What is left is for sbatch; Ray has no such options.
    if engine == "ray" and values:
        raise ClusterError(f"Ray has no option {min(values)!r}; give address, memory, workers or tries.")
    resources = Resources(**known, sbatch=values)
    if engine == "ray":
        return on_ray(resources, address)
    return on_slurm(resources)


def on_ray(resources: Resources | None = None, address: str | None = None) -> Runner:
    """A runner for Ray: on the cluster at ``address`` or ``$RAY_ADDRESS``, else on this machine.

    All machines must see the files and the folder of the job under the same names.
    """

    def run(job: CountingJob, files: Sequence[Shard], progress: Progress) -> None:
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
        with _quiet(), _connected(address):
            steps.OnRay(
                [steps.CountFiles(job, unfinished)],
                tasks=len(unfinished),
                workers=task.workers,
                mem_per_cpu_gb=task.memory,
                logging_dir=str(_log_folder(job, unfinished)),
                tries=task.tries,
            ).run(on_done)

    return run


def on_slurm(resources: Resources | None = None) -> Runner:
    """A runner for Slurm, which submits an array of tasks, one per file, and raises :class:`JobSubmitted`.

    When all files have been counted it does nothing, so that the same command, given again, adds up the
    tables. All machines must see the folder of the job under the same name.
    """

    def run(job: CountingJob, files: Sequence[Shard], progress: Progress) -> None:  # noqa: ARG001
        unfinished = _unfinished(job, files)
        if not unfinished:
            return
        if not shutil.which("sbatch"):
            raise ClusterError(
                "There is no sbatch on this machine; start the command where Slurm jobs can be submitted."
            )
        executor = _slurm_executor(job, unfinished, resources or Resources())
        with _quiet():
            try:
                executor.run()
            except (subprocess.CalledProcessError, OSError) as error:
                raise ClusterError(f"Slurm refused the job ({error}); read the message of sbatch above.") from None
        raise JobSubmitted(
            f"Slurm job {executor.job_id} counts {len(unfinished)} of {len(files)} files; its script and logs are in "
            f"{executor.logging_dir.path}. Give the same command again when it is done."
        )

    return run


def _slurm_executor(job: CountingJob, unfinished: Sequence[Shard], resources: Resources) -> Any:
    steps = _steps("dill")
    from datatrove.executor import SlurmPipelineExecutor  # type: ignore[import-untyped]

    return SlurmPipelineExecutor(
        [steps.CountFiles(job, unfinished)],
        tasks=len(unfinished),
        time=resources.time,
        partition=resources.partition,
        mem_per_cpu_gb=max(1, round(resources.memory)),
        workers=resources.workers,
        job_name="pmi-count",
        qos=None,
        # Use the programs of this installation on every machine.
        env_command=f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
        sbatch_args=dict(resources.sbatch),
        logging_dir=str(_log_folder(job, unfinished)),
    )


def _steps(package: str) -> Any:
    """The module with the steps, when datatrove and another package that the engine needs are installed."""
    with required("Counting on many machines", "cluster", ClusterError):
        import_module(package)
        return import_module("pmi.counting.steps")


def _unfinished(job: CountingJob, files: Sequence[Shard]) -> list[Shard]:
    """The files without a table, large ones first."""
    unfinished = [shard for shard in files if not is_readable(job.part(shard))]
    # The longest tasks begin first, so that the last machine does not start with one.
    return sorted(unfinished, key=lambda shard: -shard.size)


def _log_folder(job: CountingJob, files: Sequence[Shard]) -> Path:
    """A folder for logs and completion markers, which depends on the list of files because tasks are numbered."""
    names = "\n".join(job.part(shard).name for shard in files)
    return job.folder.absolute() / f"logs-{hashlib.sha256(names.encode()).hexdigest()[:12]}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Prints only errors of datatrove; its other messages go to its log files."""
    from datatrove.utils.logging import logger  # type: ignore[import-untyped]

    logger.remove()
    logger.add(sys.stderr, level="ERROR", format="{message}")
    yield


@contextlib.contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """Connects to Ray, and disconnects at the end unless there was a connection before."""
    import ray

    if ray.is_initialized():
        yield
        return
    # Ray would hide the GPUs of a task that asks for none, and warns that it will stop doing so.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ClusterError(f"Ray at {address or 'this machine'} does not answer ({error}); start it first.") from None
    try:
        yield
    finally:
        ray.shutdown()
