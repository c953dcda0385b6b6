"""Several models on several machines: a task of Ray or of a Slurm array for each.

A task has one GPU, or the GPUs of the server that it starts (:mod:`scoring.own_server`), and scores one model as one
machine does. All machines see the data, the files of ``--include`` and the folder of the results under the same names;
where they share no folder, ``--results hub:ORG/NAME`` keeps the results. A model is finished when its folder says so.
So a lost machine loses no finished model: Ray starts its task again elsewhere, and the same command goes on.

An array of Slurm is submitted through datatrove. The command ends then, and the same command, given again, says what
became of the models, and submits those again whose tasks ended without saying anything.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from cards.files import put
from cards.packages import required
from cards.stored import parsed
from scoring import benchmarks
from scoring.engines import Call
from scoring.run import Shared
from scoring.sweep import Outcome, checked, digest_of, free, is_finished, scored
from scoring.types import ScoringError

#: What a task of Slurm says of a model that could not be scored, in the folder of the model.
FAILED = ".failed.json"
#: The submitted job, in the folder of all models.
JOB = ".slurm.json"
_TYPES: Mapping[str, Callable[[str], Any]] = {
    "gpus": float, "cpus": int, "memory": float, "workers": int, "tries": int
}  # fmt: skip


class ModelsSubmitted(ScoringError):
    """Models were submitted to a queue and are not scored yet; the message says how to go on."""

    exit_code = os.EX_TEMPFAIL


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a task.

    Parameters
    ----------
    gpus:
        GPUs of a task; by default one on Ray where the cluster has any, and none that is asked for of Slurm.
    cpus, memory:
        Cores, and gigabytes of memory.
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

    gpus: float | None = None
    cpus: int = 1
    memory: float = 4.0
    workers: int = -1
    tries: int = 3
    address: str | None = None
    time: str = "24:00:00"
    partition: str = ""
    sbatch: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, executor: str, options: Sequence[str]) -> Resources:
        """The resources that options such as ``memory=16`` and ``partition=gpu`` give.

        Raises
        ------
        ScoringError
            For what is not ``KEY=VALUE``, a value that no task can have, and a key that Ray does not know.
        """
        values: dict[str, Any] = {}
        for option in options:
            name, equals, value = option.partition("=")
            try:
                values[name] = _TYPES.get(name, str)(value)
            except ValueError:
                equals = ""
            if not equals:
                raise ScoringError(f"{option!r} is not an option of a cluster; give KEY=VALUE, such as memory=16.")
        known = {own.name for own in fields(cls)} - {"sbatch"}
        given = {name: values.pop(name) for name in list(values) if name in known}
        if executor == "ray" and values:
            raise ScoringError(
                f"Ray has no option {min(values)!r}; give gpus, cpus, memory, workers, tries or address."
            )
        found = cls(**given, sbatch=values)
        if not (found.memory > 0 and found.cpus > 0 and found.tries >= 0 and (found.gpus is None or found.gpus >= 0)):
            raise ScoringError(
                f"A task cannot have memory={found.memory:g}, cpus={found.cpus}, gpus={found.gpus} and "
                f"tries={found.tries}; give memory and cpus above 0, and the others of 0 or more."
            )
        if not (found.workers == -1 or found.workers > 0):
            raise ScoringError(f"There cannot be workers={found.workers}; give at least 1.")
        return found


def on_cluster(every: Mapping[str, Call]) -> Iterator[Outcome]:
    """Scores models on the cluster that the options of their calls name, and says of each what became of it.

    Raises
    ------
    ScoringError
        Before a model is scored, for what is wrong for all of them; with Ray when its cluster does not answer.
    ModelsSubmitted
        When a Slurm array has models that are not scored yet.
    """
    first = next(iter(every.values()))
    executor = first.many.executor
    assert executor
    resources = Resources.of(executor, first.many.cluster)
    parts = checked(every)
    if executor == "ray":
        yield from _on_ray(every, resources)
    else:
        yield from _on_slurm({name: replace(call, shared=Shared(parts)) for name, call in every.items()}, resources)


def task(name: str, call: Call, folder: str) -> Outcome:
    """Scores one model in a process of a cluster; ``folder`` is that in which the command was started."""
    os.chdir(folder)
    benchmarks.include(*call.settings.include)
    try:
        return scored(name, call, Console(quiet=True))
    finally:
        free()


def _on_ray(every: Mapping[str, Call], resources: Resources) -> Iterator[Outcome]:
    with required("Scoring on many machines", "cluster", ScoringError):
        import ray
    with _connected(resources.address):
        gpus = resources.gpus
        if gpus is None:
            gpus = 1.0 if ray.cluster_resources().get("GPU") else 0.0
        # A process scores one model, so nothing of one is in the memory of the next.
        run = ray.remote(
            num_cpus=resources.cpus,
            num_gpus=gpus,
            memory=int(resources.memory * 2**30),
            max_retries=resources.tries,
            max_calls=1,
        )(task)
        waiting = list(every.items())
        running: dict[Any, tuple[str, Call]] = {}
        try:
            while waiting or running:
                while waiting and (resources.workers == -1 or len(running) < resources.workers):
                    name, call = waiting.pop(0)
                    running[run.remote(name, call, str(Path.cwd()))] = name, call
                for finished in ray.wait(list(running), num_returns=1)[0]:
                    name, call = running.pop(finished)
                    yield _result(finished, name, call, resources)
        finally:
            for unfinished in running:
                ray.cancel(unfinished, force=True)


def _result(finished: Any, name: str, call: Call, resources: Resources) -> Outcome:
    """What became of a model on Ray, also where its process died."""
    import ray

    assert call.settings.out
    try:
        found: Outcome = ray.get(finished)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        sentence = f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"
        return Outcome(name, call.settings.out, 0.0, sentence, 1)
    except ray.exceptions.RayError as error:
        sentence = (
            f"Its process on Ray died (tries: {resources.tries + 1}, {type(error).__name__}); give it more memory, or "
            "start the same command again."
        )
        return Outcome(name, call.settings.out, 0.0, sentence, 1)
    return found


@contextmanager
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
        raise ScoringError(f"Ray at {address or 'this machine'} does not answer ({error}); start it first.") from None
    try:
        yield
    finally:
        ray.shutdown()


def _on_slurm(every: Mapping[str, Call], resources: Resources) -> Iterator[Outcome]:
    root = next(iter(every.values())).settings.out
    assert root
    root = root.parent
    open_ones = {}
    for name, call in every.items():
        outcome = _known(name, call)
        if outcome is None:
            open_ones[name] = call
        else:
            yield outcome
    if not open_ones:
        for call in every.values():
            assert call.settings.out
            # What was said is said once: the next call tries these models again.
            (call.settings.out / FAILED).unlink(missing_ok=True)
        (root / JOB).unlink(missing_ok=True)
        return
    done = len(every) - len(open_ones)
    if job := _running(root):
        raise ModelsSubmitted(
            f"Slurm job {job} is not done: {done} of {len(every)} models are. Give the same command again later."
        )
    if not shutil.which("sbatch"):
        raise ScoringError("There is no sbatch on this machine; start the command where Slurm jobs can be submitted.")
    executor = _executor(open_ones, root, resources)
    try:
        executor.run()
    except (subprocess.CalledProcessError, OSError) as error:
        raise ScoringError(f"Slurm refused the job ({error}); read the message of sbatch above.") from None
    put(root / JOB, json.dumps({"job": str(executor.job_id)}).encode())
    raise ModelsSubmitted(
        f"Slurm job {executor.job_id} scores {len(open_ones)} of {len(every)} models; its script and logs are in "
        f"{executor.logging_dir.path}. Give the same command again when it is done."
    )


def _known(name: str, call: Call) -> Outcome | None:
    """What the files say of a model; None where they say nothing."""
    folder = call.settings.out
    assert folder
    try:
        if is_finished(folder, digest_of(call)):
            return Outcome(name, folder, 0.0, known=True)
    except ScoringError:
        pass  # its task says what is wrong with it
    if not (folder / FAILED).is_file():
        return None
    stored = parsed((folder / FAILED).read_bytes())
    return Outcome(name, folder, 0.0, str(stored.get("sentence", "")), int(stored.get("status", 1)))


def _running(root: Path) -> str:
    """The number of the submitted job, if Slurm still has it."""
    if not (root / JOB).is_file() or not shutil.which("squeue"):
        return ""
    job = str(parsed((root / JOB).read_bytes()).get("job", ""))
    # Slurm forgets jobs that ended, and has then an error in the place of a line.
    listed = subprocess.run(["squeue", "--noheader", "--jobs", job], capture_output=True, text=True, check=False)
    return job if listed.returncode == 0 and listed.stdout.strip() else ""


def _executor(every: Mapping[str, Call], root: Path, resources: Resources) -> Any:
    with required("Scoring on many machines", "cluster", ScoringError):
        import_module("dill")
        steps = import_module("scoring.cluster_steps")
        from datatrove.executor import SlurmPipelineExecutor  # type: ignore[import-untyped]
        from datatrove.utils.logging import logger  # type: ignore[import-untyped]
    logger.remove()
    logger.add(sys.stderr, level="ERROR", format="{message}")
    sbatch = dict(resources.sbatch)
    if resources.gpus:
        sbatch.setdefault("gres", f"gpu:{resources.gpus:g}")
    # Tasks are numbered, so another list of models has another folder of logs and of completed tasks.
    mark = hashlib.sha256("\n".join(every).encode()).hexdigest()[:12]
    logs = root.absolute() / f"logs-{mark}"
    # A model that is open is scored, also where an earlier task of that number ended.
    shutil.rmtree(logs, ignore_errors=True)
    plain = [(name, replace(call, shared=None)) for name, call in every.items()]
    return SlurmPipelineExecutor(
        [steps.ScoreModels(plain, str(Path.cwd()))],
        tasks=len(every),
        time=resources.time,
        partition=resources.partition,
        cpus_per_task=resources.cpus,
        mem_per_cpu_gb=max(1, round(resources.memory / resources.cpus)),
        workers=resources.workers,
        job_name="probes-score",
        qos=None,
        # Use the programs of this installation on every machine.
        env_command=f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
        sbatch_args=sbatch,
        logging_dir=str(logs),
    )


def write_failure(outcome: Outcome) -> None:
    """Keeps what a task of Slurm says of a model that could not be scored."""
    outcome.folder.mkdir(parents=True, exist_ok=True)
    put(outcome.folder / FAILED, json.dumps({**asdict(outcome), "folder": str(outcome.folder)}).encode())
