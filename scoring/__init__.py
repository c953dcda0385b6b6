"""Scores language models for gender bias: data to requests, responses to metrics, metrics to intervals and reports.

From Python::

    import scoring

    result = scoring.evaluate("gpt2", benchmarks=["stereoset", "occugender"])
    result.table()                   # a DataFrame: benchmark, group, metric, value, low, high, ideal, n, clusters
    result.examples("occugender")    # a DataFrame of every example
    result.save("runs/gpt2")
    result.compare(scoring.load("runs/earlier")).table()   # paired differences, with a verdict

From the terminal: ``probes score MODEL``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scoring.api import evaluate
    from scoring.report.headlines import Comparison
    from scoring.result import RunResult, load
    from scoring.sweep import Sweep
    from scoring.types import DATA, ScoringError

__all__ = ["DATA", "Comparison", "RunResult", "ScoringError", "Sweep", "evaluate", "load"]

# Imported at first use, because ``import scoring`` stays cheap that way.
_MODULES = {
    "evaluate": "api",
    "RunResult": "result",
    "load": "result",
    "Comparison": "report.headlines",
    "Sweep": "sweep",
}  # the others are types


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'scoring' has no attribute {name!r}")
    return getattr(import_module(f"scoring.{_MODULES.get(name, 'types')}"), name)
