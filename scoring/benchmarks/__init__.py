"""Benchmarks: one file each, whose name is the name of the benchmark.

A benchmark turns rows of a data set into requests to a model, and the responses into records of a table.
Besides its own columns a row has ``config`` and ``split``. Facts of the model come in a
:class:`scoring.types.BenchmarkContext`.

:func:`include` adds a benchmark, or metrics of one, from a file outside the project.

>>> "occugender" in names()
True
>>> get("occugender").name
'occugender'
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from scoring.types import Benchmark, Metric, ScoringError

_included: dict[str, Benchmark] = {}
#: Metrics that were included, by the name of their benchmark and their own.
_metrics: dict[str, dict[str, Metric]] = {}


def _own() -> set[str]:
    """Names of the benchmarks of this folder."""
    return {module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")}


def names() -> tuple[str, ...]:
    """Names of all benchmarks, sorted, with those that were included."""
    return tuple(sorted(_own() | _included.keys()))


def get(name: str) -> Benchmark:
    """The benchmark called ``name``, with the metrics that were included for it.

    Raises
    ------
    ScoringError
        When there is none of that name.
    """
    if name not in names():
        raise ScoringError(f"No benchmark is called {name!r}; the names are {', '.join(names())}.")
    benchmark: Benchmark = _included.get(name) or importlib.import_module(f"{__name__}.{name}").BENCHMARK
    added = _metrics.get(name, {}).values()
    return replace(benchmark, metrics=lambda profile: [*benchmark.metrics(profile), *added]) if added else benchmark


def include(path: Path) -> None:
    """Adds what a Python file defines, for this process: a ``BENCHMARK``, or ``METRICS`` of other benchmarks.

    ``METRICS`` has metrics by the name of a benchmark that is there already, such as
    ``{"stereoset": [my_metric()]}``; they are reported after its own. The file is run, so include only files that
    you trust.

    Raises
    ------
    ScoringError
        When there is no such file, it cannot be run, it defines neither, or a benchmark or a metric of this
        project has the same name.
    """
    if not path.is_file():
        raise ScoringError(f"There is no file {path} to include; give a Python file that defines BENCHMARK or METRICS.")
    spec = spec_from_file_location(f"included_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ScoringError(f"{path} is no Python file; give a file NAME.py that defines BENCHMARK or METRICS.")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ScoringError(f"{path} cannot be included ({type(error).__name__}: {error}); correct the file.") from error
    benchmark, metrics = getattr(module, "BENCHMARK", None), getattr(module, "METRICS", {})
    if isinstance(benchmark, Benchmark):
        if benchmark.name in _own():
            raise ScoringError(
                f"{path} defines the benchmark {benchmark.name!r}, which exists already; choose another name."
            )
        _included[benchmark.name] = benchmark
    elif benchmark is not None or not metrics:
        raise ScoringError(
            f"{path} defines no BENCHMARK and no METRICS; set BENCHMARK to a scoring.types.Benchmark, or METRICS to "
            "metrics by the name of a benchmark."
        )
    for name, added in metrics.items():
        own = {metric.name for metric in get(name).metrics("clean")} - _metrics.get(name, {}).keys()
        for metric in added:
            if not isinstance(metric, Metric) or metric.name in own:
                raise ScoringError(
                    f"{path} adds {getattr(metric, 'name', metric)!r} to {name}, which is no scoring.types.Metric or "
                    "has the name of another metric; give a list of metrics with names of their own."
                )
            _metrics.setdefault(name, {})[metric.name] = metric
