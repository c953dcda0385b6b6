"""Tasks of Ray and arrays of Slurm: what counting a corpus and scoring models on many machines have in common."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self


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
        How often a task is started again after its process or machine was lost (Ray).
    address:
        The cluster of Ray; by default ``$RAY_ADDRESS``, else this machine.
    time, partition:
        Time limit and partition of a Slurm job.
    sbatch:
        Other options of ``sbatch``, such as ``account``.
    """

    #: What is raised for resources that no task can have.
    error: ClassVar[type[Exception]] = ValueError
    #: The options that are numbers, by name.
    numbers: ClassVar[Mapping[str, Callable[[str], Any]]] = {"memory": float, "workers": int, "tries": int}
    #: The options of Slurm alone.
    of_slurm: ClassVar[frozenset[str]] = frozenset({"time", "partition", "sbatch"})

    memory: float = 2.0
    workers: int = -1
    tries: int = 3
    address: str | None = None
    time: str = "24:00:00"
    partition: str = ""
    sbatch: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (self.memory > 0 and (self.workers == -1 or self.workers > 0) and self.tries >= 0):
            raise self.error(
                f"A task cannot have memory={self.memory:g}, workers={self.workers} and tries={self.tries}; give "
                "memory above 0, at least 1 worker, and tries of 0 or more."
            )

    @classmethod
    def from_options(cls, engine: str, options: Sequence[str]) -> Self:
        """The resources for ``ray`` or ``slurm`` that options such as ``memory=4`` and ``partition=cpu`` give.

        Raises
        ------
        Exception
            Of the type ``error``: for what is not ``KEY=VALUE``, for a value that no task can have, and for an option
            of the other engine.
        """
        known = {}
        others = {}
        names = {one.name for one in fields(cls)} - {"sbatch"}
        for option in options:
            name, equals, text = option.partition("=")
            value: Any = text
            try:
                if name in cls.numbers:
                    value = cls.numbers[name](text)
            except ValueError:
                equals = ""
            if not equals:
                raise cls.error(f"{option!r} is not an option of a cluster; give KEY=VALUE, such as memory=4.")
            if name in names:
                known[name] = value
            else:
                others[name] = value
        if engine == "ray":
            wrong = sorted({*others, *(cls.of_slurm & known.keys())})
            if wrong:
                possible = sorted(names - cls.of_slurm)
                raise cls.error(f"Ray has no option {wrong[0]!r}; give {', '.join(possible[:-1])} or {possible[-1]}.")
        elif "address" in known:
            raise cls.error("Slurm has no option 'address'; start the command where its jobs can be submitted.")
        return cls(**known, sbatch=others)


@contextmanager
def connected(address: str | None, error: type[Exception]) -> Iterator[None]:
    """Connects to Ray, and disconnects at the end unless there was a connection before.

    Raises
    ------
    Exception
        Of the type ``error``, when no Ray answers at the address.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    # Ray would hide the GPUs of a task that asks for none, and warns that it will stop doing so.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as problem:
        raise error(f"Ray at {address or 'this machine'} does not answer ({problem}); start it first.") from None
    try:
        yield
    finally:
        ray.shutdown()


def on_ray(task: Any, calls: Sequence[Sequence[Any]], workers: int) -> Generator[tuple[int, Any], None, None]:
    """Calls a remote function of Ray, so often at a time, and gives the place and the reference of each ended call.

    When the iterator is closed, calls that have not ended are cancelled.
    """
    import ray

    running: dict[Any, int] = {}
    place = 0
    try:
        while place < len(calls) or running:
            while place < len(calls) and (workers == -1 or len(running) < workers):
                running[task.remote(*calls[place])] = place
                place += 1
            ended, _ = ray.wait(list(running), num_returns=1)
            for reference in ended:
                yield running.pop(reference), reference
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def quiet() -> None:
    """Prints only errors of datatrove; its other messages go to its log files."""
    from datatrove.utils.logging import logger  # type: ignore[import-untyped]

    logger.remove()
    logger.add(sys.stderr, level="ERROR", format="{message}")


def submitted(
    step: Any,
    tasks: int,
    name: str,
    logs: Path,
    resources: Resources,
    cpus: int = 1,
    more: Mapping[str, str] | None = None,
) -> tuple[str, str]:
    """Submits an array of Slurm through datatrove, and gives the number of the job and its folder of logs.

    Parameters
    ----------
    step:
        The only step of the pipeline; task ``rank`` of ``tasks`` calls ``step.run(rank=rank, world_size=tasks)``.
    name:
        The name of the job.
    logs:
        A folder that all machines see, for the script, logs and marks of completed tasks.
    cpus:
        Cores of a task.
    more:
        Options of ``sbatch`` beside those of ``resources``.

    Raises
    ------
    Exception
        Of the type ``resources.error``, when there is no ``sbatch`` or it refuses the job.
    """
    if not shutil.which("sbatch"):
        raise resources.error(
            "There is no sbatch on this machine; start the command where Slurm jobs can be submitted."
        )
    from datatrove.executor import SlurmPipelineExecutor  # type: ignore[import-untyped]

    executor = SlurmPipelineExecutor(
        [step],
        tasks=tasks,
        time=resources.time,
        partition=resources.partition,
        cpus_per_task=cpus,
        mem_per_cpu_gb=max(1, round(resources.memory / cpus)),
        workers=resources.workers,
        job_name=name,
        qos=None,
        # Use the programs of this installation on every machine.
        env_command=f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
        sbatch_args={**(more or {}), **resources.sbatch},
        logging_dir=str(logs),
    )
    quiet()
    try:
        executor.run()
    except (subprocess.CalledProcessError, OSError) as problem:
        raise resources.error(f"Slurm refused the job ({problem}); read the message of sbatch above.") from None
    return str(executor.job_id), str(executor.logging_dir.path)
