"""Benchmarks: one file each, whose name is the name of the benchmark.

A benchmark turns rows of a data set into requests to a model, and the responses into records of a table.
Besides its own columns a row has ``config`` and ``split``. Facts of the model come in a
:class:`scoring.types.BenchmarkContext`.

:func:`include` adds a benchmark from a file outside the project.

>>> "occugender" in names()
True
>>> get("occugender").name
'occugender'
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from scoring.types import Benchmark, ScoringError

_included: dict[str, Benchmark] = {}


def _own() -> set[str]:
    """Names of the benchmarks of this folder."""
    return {module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")}


def names() -> tuple[str, ...]:
    """Names of all benchmarks, sorted, with those that were included."""
    return tuple(sorted(_own() | _included.keys()))


def get(name: str) -> Benchmark:
    """The benchmark called ``name``.

    Raises
    ------
    ScoringError
        When there is none of that name.
    """
    if name in _included:
        return _included[name]
    if name not in names():
        raise ScoringError(f"No benchmark is called {name!r}; the names are {', '.join(names())}.")
    benchmark: Benchmark = importlib.import_module(f"{__name__}.{name}").BENCHMARK
    return benchmark


def include(path: Path) -> Benchmark:
    """Adds the benchmark that a Python file defines as ``BENCHMARK``, for this process.

    The file is run, so include only files that you trust.

    Raises
    ------
    ScoringError
        When there is no such file, it cannot be run, it defines no benchmark, or a benchmark of this
        project has the same name.
    """
    if not path.is_file():
        raise ScoringError(f"There is no file {path} to include; give a Python file that defines BENCHMARK.")
    spec = spec_from_file_location(f"included_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ScoringError(f"{path} is no Python file; give a file NAME.py that defines BENCHMARK.")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ScoringError(f"{path} cannot be included ({type(error).__name__}: {error}); correct the file.") from error
    benchmark = getattr(module, "BENCHMARK", None)
    if not isinstance(benchmark, Benchmark):
        raise ScoringError(f"{path} defines no BENCHMARK; set it to a scoring.types.Benchmark.")
    if benchmark.name in _own():
        raise ScoringError(
            f"{path} defines the benchmark {benchmark.name!r}, which exists already; choose another name."
        )
    _included[benchmark.name] = benchmark
    return benchmark
