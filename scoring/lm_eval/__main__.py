"""Prints the folder of tasks: ``lm_eval run --include_path "$(python -m scoring.lm_eval)" …``.

The files of tasks for lm-evaluation-harness are made from the ``tasks`` of each benchmark.

A task is a YAML file that names a benchmark and one of its tasks, and functions of ``utils.py`` in the same folder.
A group of tasks is a YAML file too. The folder has the digest of its files in its name, so another version of this
package or other included files have another folder.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from builders.sources.fetch import default_cache
from cards.common.files import put
from cards.common.options import start
from scoring import benchmarks
from scoring.lm_eval import ERROR
from scoring.types import Benchmark, HarnessTask, Metric

ALL = "probes"


class _Function(str):
    """The name of a function, which YAML has after ``!function``."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _: Any) -> bool:
        return True


_Dumper.add_representer(_Function, lambda dumper, name: dumper.represent_scalar("!function", name))

_UTILS = '''"""Functions of the tasks in this folder."""

from pathlib import Path

from scoring import benchmarks
from scoring.lm_eval.utils import aggregate, results, rows, standard_error

for path in {files!r}:
    benchmarks.include(Path(path))
'''


def write(included: Sequence[Path] = ()) -> Path:
    """Writes the files of all tasks and groups into a folder of the cache, and returns the folder.

    ``included`` are the files with benchmarks or metrics that were included; the harness includes them as well.
    """
    files = {"utils.py": _UTILS.format(files=list(map(str, included)))}
    for name, content in documents().items():
        files[f"{name}.yaml"] = yaml.dump(content, Dumper=_Dumper, sort_keys=False)
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    folder = default_cache() / "lm_eval" / digest
    for name, text in files.items():
        put(folder / name, text.encode())
    return folder


def documents() -> dict[str, dict[str, Any]]:
    """The content of the YAML file of each task and group, by its name."""
    files: dict[str, dict[str, Any]] = {}
    for name in benchmarks.names():
        files |= _of_benchmark(benchmarks.get(name))
    whole = [name for name in files if name.removeprefix(f"{ALL}_") in benchmarks.names()]
    return files | {ALL: {"group": ALL, "task": whole, "metadata": {"version": "1.0.0"}}}


def task_name(benchmark: str, task: str) -> str:
    """The name of a task in the harness.

    >>> task_name("unstereo", "ours-5"), task_name("stereoset", "")
    ('probes_unstereo_ours_5', 'probes_stereoset')
    """
    return "_".join(filter(None, (ALL, benchmark, task.replace("-", "_"))))


def _of_benchmark(benchmark: Benchmark) -> dict[str, dict[str, Any]]:
    metadata = {"version": benchmark.version}
    metrics = {metric.name: metric for metric in benchmark.metrics("clean")}
    tasks = {task_name(benchmark.name, task.name): task for task in benchmark.tasks}
    groups: dict[str, list[str]] = {}
    for name, task in tasks.items():
        # A task of the whole benchmark has the name of the group, and is in none.
        if task.group is not None and task.name:
            groups.setdefault(task_name(benchmark.name, task.group), []).append(name)
    files: dict[str, dict[str, Any]] = {}
    for name, task in tasks.items():
        files[name] = _task(benchmark, task, metrics) | {"metadata": metadata}
    for name, members in groups.items():
        files[name] = {"group": name, "task": members, "metadata": metadata}
    return files


def _task(benchmark: Benchmark, task: HarnessTask, metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """A task: an option brings its own leading space, and a whole sentence has no context."""
    scores = [_metric(metrics[name]) for name in task.metrics]
    errors = [_error(name) for name in task.metrics]
    return {
        "task": task_name(benchmark.name, task.name),
        "custom_dataset": _Function("utils.rows"),
        "dataset_kwargs": {"benchmark": benchmark.name, "task": task.name},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "ask_context",
        "doc_to_choice": "ask_options",
        "doc_to_target": 0,
        "target_delimiter": "",
        "num_fewshot": 0,
        "process_results": _Function("utils.results"),
        "metric_list": scores + errors,
    }


def _error(metric: str) -> dict[str, Any]:
    """The standard error of a metric, which is no score: no direction of it is better."""
    return {
        "metric": f"{metric}{ERROR}",
        "aggregation": _Function("utils.standard_error"),
        "higher_is_better": None,
    }


def _metric(metric: Metric) -> dict[str, Any]:
    """A metric, with no better direction if its ideal value is inside its range, such as a stereotype score of 50."""
    higher = {metric.high: True, metric.low: False, None: None}.get(metric.ideal)
    return {"metric": metric.name, "aggregation": _Function("utils.aggregate"), "higher_is_better": higher}


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)


@app.command()
def main(
    include: Annotated[
        list[Path] | None, typer.Option(metavar="FILE.py", help="Add the BENCHMARK or METRICS of a Python file.")
    ] = None,
) -> None:
    """Write the tasks of all benchmarks into a folder of the cache (PROBES_CACHE), and print it."""
    files = [path.resolve() for path in include or ()]
    benchmarks.include(*files)
    typer.echo(write(files))


if __name__ == "__main__":
    start(app, "python -m scoring.lm_eval")
