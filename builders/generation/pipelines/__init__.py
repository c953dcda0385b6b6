"""One file a pipeline; the file name is the registry. What begins with an underscore is shared by some.

>>> "probes" in names()
True
>>> get("probes").shown
()
"""

from __future__ import annotations

import importlib
import pkgutil

from builders.generation.pipeline import Pipeline


def names() -> tuple[str, ...]:
    """Names of all pipelines, sorted."""
    return tuple(sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if m.name[0] != "_"))


def get(name: str) -> Pipeline:
    """The pipeline called ``name``, one of :func:`names`."""
    pipeline: Pipeline = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").PIPELINE
    return pipeline
