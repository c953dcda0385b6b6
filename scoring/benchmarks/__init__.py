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

from dataclasses import replace
from pathlib import Path

from cards.common.registry import Registry
from scoring.asking import ways
from scoring.types import Benchmark, Metric, ScoringError

REGISTRY = Registry((__name__, __path__), "BENCHMARK", Benchmark, "benchmark", ScoringError)
names = REGISTRY.names
#: The benchmark of the user's own prompts, which is no file of this folder: it has rows only with ``--prompts``.
PROMPTS = "prompts"
#: Metrics that were included, by the name of their benchmark and their own.
_metrics: dict[str, dict[str, Metric]] = {}


def get(name: str) -> Benchmark:
    """The benchmark called ``name``, with the metrics that were included for it; or one asked another way.

    The latter has a name such as ``stereoset-choice`` (:mod:`scoring.asking.ways`).

    Raises
    ------
    ScoringError
        When there is none of that name.
    """
    base, _, way = name.rpartition("-")
    if known(name) and base:
        return ways.asked(get(base), way)
    if name == PROMPTS:
        from scoring.benchmarks import _prompts  # it imports this package

        return _prompts.benchmark()
    benchmark = REGISTRY.get(name)
    added = _metrics.get(name, {}).values()
    if not added:
        return benchmark
    return replace(benchmark, metrics=lambda profile: list(benchmark.metrics(profile)) + list(added))


def known(name: str) -> bool:
    """Whether there is a benchmark of that name, also one asked another way."""
    if name in names():
        return True
    base, _, way = name.rpartition("-")
    # Likelihood is the benchmark itself, and has no name of its own.
    is_way = way in ways.WAYS[1:] or way in ("ways", "wordings")
    if base:
        return is_way and known(base)
    return name == PROMPTS


def include(*paths: Path) -> None:
    """Adds what Python files define, for this process: a ``BENCHMARK``, or ``METRICS`` of other benchmarks.

    ``METRICS`` has metrics by the name of a benchmark that is there already, such as
    ``{"stereoset": [my_metric()]}``; they are reported after its own. The file is run, so include only files that
    you trust.

    Raises
    ------
    ScoringError
        When there is no such file, it cannot be run, it defines neither, or another benchmark or metric has the
        same name.
    """
    for path in paths:
        module = REGISTRY.execute(path)
        metrics = getattr(module, "METRICS", {})
        if hasattr(module, "BENCHMARK") or not metrics:
            REGISTRY.add(getattr(module, "BENCHMARK", None), path)
        if not isinstance(metrics, dict) or not all(isinstance(added, (list, tuple)) for added in metrics.values()):
            raise ScoringError(f"{path} has METRICS that are no lists by benchmark; give such as {{'gest': [metric]}}.")
        for name, added in metrics.items():
            # What was included before is replaced, so that a file can be included again.
            existing = {metric.name for metric in get(name).metrics("clean")} - _metrics.get(name, {}).keys()
            for metric in added:
                if not isinstance(metric, Metric) or metric.name in existing:
                    raise ScoringError(
                        f"{path} adds {getattr(metric, 'name', metric)!r} to {name}, which is no scoring.types.Metric "
                        "or has the name of another metric; give a list of metrics with names of their own."
                    )
                _metrics.setdefault(name, {})[metric.name] = metric
