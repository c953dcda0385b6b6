"""Several models, here or on several machines, where each is a task of Ray or of a Slurm array.

A task has one GPU, or the GPUs of the server that it starts (:mod:`scoring.many.own_server`), and scores one model as
one machine does. All machines see the data, the files of ``--include`` and the folder of the results under the same
names. With ``--results hub:ORG/NAME`` tasks send what they finish to the Hub too. A model is finished when its folder
says so. So a lost machine loses no finished model: Ray starts its task again elsewhere, and the same command goes on.

An array of Slurm is submitted through datatrove. The command ends then, and the same command, given again, says what
became of the models, and submits those again whose tasks ended without saying anything.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from cards.common import cluster
from cards.common.answer_key import key_digest
from cards.common.files import put
from cards.common.packages import required
from cards.common.stored import parsed
from scoring import benchmarks
from scoring.asking.run import Shared
from scoring.inference.engines import Call
from scoring.many.hub_results import fetch
from scoring.many.sweep import FINISHED, Outcome, checked, digest_of, free, is_finished, scored, sweep
from scoring.types import ScoringError

#: The folder below that of all models with what is known of the submitted job: its number, script and logs, and what
#: tasks say of models that could not be scored. No file of it may lie in the folder of a model, which has a run alone.
JOB = ".slurm"


class ModelsSubmitted(ScoringError):
    """Models were submitted to a queue and are not scored yet; the message says how to go on."""

    exit_code = os.EX_TEMPFAIL


@dataclass(frozen=True, slots=True)
class Resources(cluster.Resources):
    """The resources of a task that scores a model: those of every task, and these.

    Parameters
    ----------
    gpus:
        GPUs of a task; by default one on Ray where the cluster has any, and none that is asked for of Slurm.
    cpus:
        Cores of a task.
    """

    error: ClassVar[type[Exception]] = ScoringError
    numbers: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        "memory": float,
        "workers": int,
        "tries": int,
        "gpus": float,
        "cpus": int,
    }

    memory: float = 4.0
    gpus: float | None = None
    cpus: int = 1

    def __post_init__(self) -> None:
        cluster.Resources.__post_init__(self)
        if self.cpus < 1 or not (self.gpus is None or self.gpus >= 0):
            raise ScoringError(
                f"A task cannot have cpus={self.cpus} and gpus={self.gpus}; give at least 1 core, and 0 or more GPUs."
            )


def outcomes(calls: Mapping[str, Call], root: Path, console: Console) -> Iterator[Outcome]:
    """What became of each model, here or on a cluster; ``root`` has the folders of all.

    Raises
    ------
    ScoringError
        For what is wrong for all models.
    """
    many = next(iter(calls.values())).many
    if many.cluster and not many.executor:
        raise ScoringError(f"--cluster {many.cluster[0]} needs a cluster; name one with --executor ray or slurm.")
    folders = [call.settings.out for call in calls.values() if call.settings.out]
    if many.results:
        fetch(many.results, folders, FINISHED)
    if not many.executor:
        yield from sweep(calls, console)
        return
    yield from on_cluster(calls, root)
    if many.results:
        # Machines that share no folder with this one kept their results there.
        fetch(many.results, folders, FINISHED)


def on_cluster(calls: Mapping[str, Call], root: Path) -> Iterator[Outcome]:
    """Scores models on the cluster that the options of their calls name, and says of each what became of it.

    Parameters
    ----------
    calls:
        The call of each model by its name; all have the same options.
    root:
        The folder of all models.

    Raises
    ------
    ScoringError
        Before a model is scored, for what is wrong for all of them; with Ray when its cluster does not answer.
    ModelsSubmitted
        When a Slurm array has models that are not scored yet.
    """
    first = next(iter(calls.values()))
    executor = first.many.executor
    resources = Resources.from_options(executor or "", first.many.cluster)
    if executor == "slurm" and first.settings.overwrite:
        raise ScoringError(
            "With --overwrite each call would submit all models again; leave it out, or remove the folders of models "
            "that are to be scored again."
        )
    # The data are read here too: what is wrong with them is said at once and not by each task.
    shared = Shared(checked(calls))
    unfinished = {}
    for name, call in calls.items():
        folder = call.settings.out
        assert folder
        digest = _digest(replace(call, shared=shared))
        if digest and not call.settings.overwrite and is_finished(folder, digest):
            yield Outcome(name, folder, 0.0, known=True)
        else:
            unfinished[name] = call
    if not unfinished:
        return
    if executor == "ray":
        yield from _on_ray(unfinished, resources)
    else:
        yield from _on_slurm(unfinished, len(calls), root / JOB, resources, shared)


def task(name: str, call: Call, folder: str) -> Outcome:
    """Scores one model in a process of a cluster; ``folder`` is that in which the command was started."""
    os.chdir(folder)
    benchmarks.include(*call.settings.include)
    try:
        return scored(name, call, Console(quiet=True))
    finally:
        free()


def _digest(call: Call) -> str:
    """What a finished folder says of a call; empty for a model that is not there, of which its task says more."""
    with suppress(ScoringError):
        return digest_of(call)
    return ""


def _on_ray(calls: Mapping[str, Call], resources: Resources) -> Iterator[Outcome]:
    with required("Scoring on many machines", "cluster", ScoringError):
        import ray
    with cluster.connected(resources.address, ScoringError):
        gpus = resources.gpus
        if gpus is None:
            available = ray.cluster_resources()  # type: ignore[no-untyped-call]
            gpus = 1.0 if available.get("GPU") else 0.0
        # A process scores one model, so nothing of one is in the memory of the next.
        remote = ray.remote(
            num_cpus=resources.cpus,
            num_gpus=gpus,
            memory=int(resources.memory * 2**30),
            max_retries=resources.tries,
            max_calls=1,
        )(task)
        names = list(calls)
        given = [(name, calls[name], str(Path.cwd())) for name in names]
        with closing(cluster.on_ray(remote, given, resources.workers)) as ended:
            for place, reference in ended:
                name = names[place]
                yield _result(reference, name, calls[name], resources)


def _result(reference: Any, name: str, call: Call, resources: Resources) -> Outcome:
    """What became of a model on Ray, also where its process died."""
    import ray

    folder = call.settings.out
    assert folder
    try:
        outcome: Outcome = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        # What a task raises outside of a model, such as for a folder that its machine does not see.
        cause = error.cause
        sentence = f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"
        return Outcome(name, folder, 0.0, sentence, 1)
    except ray.exceptions.RayError as error:
        sentence = (
            f"Its process on Ray died (tries: {resources.tries + 1}, {type(error).__name__}); give it more memory, or "
            "start the same command again."
        )
        return Outcome(name, folder, 0.0, sentence, 1)
    return outcome


def _on_slurm(
    calls: Mapping[str, Call], total: int, job: Path, resources: Resources, shared: Shared
) -> Iterator[Outcome]:
    """Says what tasks said of models that failed, and submits the models of which nothing is said.

    ``calls`` are those of ``total`` models that are not finished, and ``job`` is the folder of the submitted job.
    Failures are said when nothing is left to submit, and once: the next call tries these models again.
    """
    failures = {}
    for name, call in calls.items():
        outcome = _failure(name, replace(call, shared=shared), job)
        if outcome:
            failures[name] = outcome
    left = {name: call for name, call in calls.items() if name not in failures}
    if not left:
        yield from failures.values()
        # Logs stay.
        for file in job.glob("*.json"):
            file.unlink()
        return
    number = _running(job)
    if number:
        raise ModelsSubmitted(
            f"Slurm job {number} is not done: {len(left)} of {total} models are not scored. Give the same command "
            "again later."
        )
    step = _step(list(left.items()), job)
    mark = key_digest({"models": list(left)})[:12]
    logs = job.absolute() / f"logs-{mark}"
    # Completed tasks are known by their numbers. A model without results is scored, also where one of that number was.
    shutil.rmtree(logs, ignore_errors=True)
    more = {"gres": f"gpu:{resources.gpus:g}"} if resources.gpus else {}
    number, place = cluster.submitted(step, len(left), "probes-score", logs, resources, resources.cpus, more)
    put(job / "job.json", json.dumps({"job": number}).encode())
    raise ModelsSubmitted(
        f"Slurm job {number} scores {len(left)} of {total} models; its script and logs are in {place}. Give the same "
        "command again when it is done."
    )


def _step(calls: list[tuple[str, Call]], job: Path) -> Any:
    """The step of an array, when datatrove and the package that stores it for the tasks are installed."""
    with required("Scoring on many machines", "cluster", ScoringError):
        import_module("dill")
        steps = import_module("scoring.many.cluster_steps")
    return steps.ScoreModels(calls, str(Path.cwd()), str(job.absolute()))


def _running(job: Path) -> str:
    """The number of the submitted job, if Slurm still has it."""
    file = job / "job.json"
    if not file.is_file() or not shutil.which("squeue"):
        return ""
    number = str(parsed(file.read_bytes()).get("job", ""))
    # Slurm forgets jobs that ended, and has then an error in place of a line.
    listed = subprocess.run(["squeue", "--noheader", "--jobs", number], capture_output=True, text=True, check=False)
    return number if listed.returncode == 0 and listed.stdout.strip() else ""


def write_failure(outcome: Outcome, call: Call, job: Path) -> None:
    """Keeps what a task of Slurm says of a model that could not be scored."""
    said = {"call": _digest(call), "sentence": outcome.sentence, "status": outcome.status}
    put(job / f"{outcome.folder.name}.json", json.dumps(said).encode())


def _failure(name: str, call: Call, job: Path) -> Outcome | None:
    """What a task said of a model that could not be scored; None where it said nothing of this call."""
    folder = call.settings.out
    assert folder
    file = job / f"{folder.name}.json"
    if not file.is_file():
        return None
    said = parsed(file.read_bytes())
    if said["call"] != _digest(call):
        return None
    return Outcome(name, folder, 0.0, said["sentence"], said["status"])
