"""Zero-shot tasks of lm-evaluation-harness, such as ``hellaswag``, before and after, through its Python interface.

The harness asks the network and computes the metrics. It needs the package lm-eval, which is no dependency of this
project.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, TypeAdapter

from cards.common import answer_key, files
from cards.common.stored import Stored, number
from mitigation.recipe import Change, MitigationError, Model, Numbers
from scoring.types import Floats

#: The benchmark of the changes; the group is the task, and the metric that of the harness.
BENCHMARK = "lm-eval"
#: Sequences that the harness gives the network at once.
BATCH = 16
FILE = Stored("a file with results of lm-evaluation-harness", "move it away, and the tasks are asked again")
_QUANTILE = NormalDist().inv_cdf(0.975)
_Number = Annotated[float, BeforeValidator(number)]


@dataclass(frozen=True, slots=True)
class HarnessResult:
    """The metrics of a task over ``n`` examples, and the values of each example.

    ``examples`` has a metric only if the metric is the mean of its values, so that it has an interval.
    """

    metrics: Mapping[str, _Number]
    examples: Mapping[str, Sequence[_Number]]
    n: int


_RESULTS = TypeAdapter(dict[str, HarnessResult])


def measure(
    model: Model, tasks: Sequence[str], limit: int | None = None, include: Path | None = None
) -> dict[str, HarnessResult]:
    """The results of a causal model on tasks of the harness, by task.

    Parameters
    ----------
    limit:
        Use at most this number of examples of each task.
    include:
        A folder with YAML files of further tasks.

    Raises
    ------
    MitigationError
        For a masked model, a task that the harness does not have, and data that cannot be had.
    """
    # The harness sums the log-probabilities of next tokens.
    if model.kind != "causal":
        raise MitigationError(
            f"{model.name} is a {model.kind} model, and lm-evaluation-harness asks causal ones; leave out --lm-eval."
        )
    try:
        from lm_eval import simple_evaluate
        from lm_eval.models.huggingface import HFLM
        from lm_eval.tasks import TaskManager
    except ModuleNotFoundError:
        raise MitigationError(
            "Tasks of lm-evaluation-harness need the package lm-eval; install it with pip install lm-eval."
        ) from None
    manager = None
    folder = None
    if include:
        folder = str(include)
        manager = TaskManager(include_path=folder, include_defaults=False)
    if manager is None or not set(tasks) <= set(manager.all_tasks):
        # Only now, because reading the files of all tasks takes long.
        manager = TaskManager(include_path=folder)
    for name in tasks:
        if name not in manager.all_tasks:
            raise MitigationError(
                f"lm-evaluation-harness has no task {name!r}; `lm_eval ls tasks` lists those that it has."
            )
    # The loaded network itself: the harness need not load it again.
    harness: Any = HFLM(pretrained=model.network, tokenizer=model.tokens.tokenizer, backend="causal", batch_size=BATCH)
    try:
        results: Any = simple_evaluate(harness, tasks=list(tasks), limit=limit, task_manager=manager, bootstrap_iters=0)
    except (OSError, ValueError) as error:
        raise MitigationError(
            f"lm-evaluation-harness could not run {', '.join(tasks)} ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:200]}); check the network and the names."
        ) from None
    return {name: _result(results["results"][name], results["samples"][name]) for name in results["samples"]}


def _result(values: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> HarnessResult:
    """The numbers of one task; the harness names them METRIC,FILTER."""
    metrics: dict[str, float] = {}
    examples: dict[str, list[float]] = {}
    for key, value in values.items():
        name, comma, kind = key.partition(",")
        if not comma or not isinstance(value, (int, float)):
            continue
        shown = name
        if kind != "none":
            shown = f"{name} {kind}"
        metrics[shown] = float(value)
        by_example = [sample[name] for sample in samples if sample["filter"] == kind and name in sample]
        numbers = [float(number) for number in by_example if isinstance(number, (int, float))]
        # Only where the mean of the examples is the score can the examples be resampled for an interval.
        whole = bool(numbers) and len(numbers) == len(by_example)
        if whole and math.isclose(float(np.mean(numbers)), value, rel_tol=1e-9, abs_tol=1e-12):
            examples[shown] = numbers
    # A task with several filters has each example several times.
    return HarnessResult(metrics, examples, len({sample["doc_id"] for sample in samples}))


def changes(before: Mapping[str, HarnessResult], after: Mapping[str, HarnessResult]) -> tuple[Change, ...]:
    """The change of each metric.

    A metric that is a mean over examples has normal intervals, and that of the difference is of pairs of the same
    example. Others, such as perplexity, have none.
    """
    changed = []
    for task, old in before.items():
        new = after[task]
        for name, value in old.metrics.items():
            examples_before = np.array(old.examples.get(name, ()))
            examples_after = np.array(new.examples.get(name, ()))
            paired = np.array([])
            if len(examples_before) == len(examples_after):
                paired = examples_after - examples_before
            before_numbers = _numbers(value, examples_before)
            after_numbers = _numbers(new.metrics[name], examples_after)
            difference = _numbers(new.metrics[name] - value, paired)
            changed.append(Change(BENCHMARK, task, name, before_numbers, after_numbers, difference, old.n))
    return tuple(changed)


def _numbers(value: float, examples: Floats) -> Numbers:
    """A mean with its normal interval; without ends for fewer than two examples."""
    if len(examples) < 2:
        return value, math.nan, math.nan
    # Tasks have hundreds of examples or more, so the normal distribution suffices.
    half = _QUANTILE * float(np.std(examples, ddof=1)) / math.sqrt(len(examples))
    return value, value - half, value + half


def run_key(
    model: Model, tasks: Sequence[str], limit: int | None, include: Path | None, adapter: Mapping[str, str]
) -> dict[str, Any]:
    """What results depend on, also the harness and files of further tasks.

    It is a key of :func:`cards.common.answer_key.answer_key`.

    ``adapter`` has the digests of the files of an adapter.
    """
    tasks_files: dict[str, str] = {}
    if include:
        # A file of a task can name others in the folder, such as one with functions; files elsewhere are not seen.
        for path in sorted(include.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                tasks_files[path.relative_to(include).as_posix()] = files.file_sha256(path)
    return answer_key.answer_key(
        model.name,
        weights=model.revision,
        files=model.files,
        adapter=str(sorted(adapter.items())) if adapter else "",
        dtype=model.dtype,
        tasks=list(tasks),
        limit=limit,
        include=tasks_files,
        harness=version("lm_eval") if find_spec("lm_eval") else None,
    )


def stored(path: Path, key: Mapping[str, Any]) -> dict[str, HarnessResult] | None:
    """The results in a file; None if there is none, or if it is of another model or other tasks.

    Raises
    ------
    MitigationError
        If the file is another one.
    """

    def results_of(content: dict[str, Any]) -> dict[str, HarnessResult] | None:
        results = _RESULTS.validate_python(content["results"])
        return results if content["key"] == answer_key.key_digest(key) else None

    return FILE.read(path, results_of, MitigationError)


def store(path: Path, key: Mapping[str, Any], results: Mapping[str, HarnessResult]) -> None:
    """Writes results to a file, which :func:`stored` reads."""
    FILE.write(
        path,
        {
            "key": answer_key.key_digest(key),
            "response key": answer_key.shown_key(key),
            "results": _RESULTS.dump_python(dict(results)),
        },
    )
