"""One file a benchmark; the file name is the registry.

A benchmark turns rows of a built data set into questions, and responses into lines of a table. Besides
its own columns a row has ``config`` and ``split``, ``kind`` (``causal`` or ``masked``), and ``encode``,
which gives the token ids and character offsets of texts, for definitions that rest on tokens. A row
that raises no question is no part of the profile, or cannot be put to this kind of model.

>>> "occugender" in names()
True
>>> get("occugender").name
'occugender'
"""

from __future__ import annotations

import importlib
import pkgutil

from scoring.types import Benchmark, ScoringError


def names() -> tuple[str, ...]:
    """Names of all benchmarks, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


def get(name: str) -> Benchmark:
    """The benchmark called ``name``.

    Raises
    ------
    ScoringError
        When there is none of that name.
    """
    if name not in names():
        raise ScoringError(f"No benchmark is called {name!r}; the names are {', '.join(names())}.")
    benchmark: Benchmark = importlib.import_module(f"{__name__}.{name}").BENCHMARK
    return benchmark
