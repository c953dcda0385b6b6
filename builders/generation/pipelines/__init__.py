"""One file for each pipeline, found by its name. Files that begin with an underscore are shared by pipelines.

>>> "probes" in names()
True
>>> get("probes").review_columns
()
"""

from __future__ import annotations

import importlib
import pkgutil

from builders.generation.pipeline import Pipeline


def names() -> tuple[str, ...]:
    """Names of all pipelines, sorted."""
    return tuple(
        sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")
    )


def get(name: str) -> Pipeline:
    """The pipeline called ``name``, one of :func:`names`."""
    pipeline: Pipeline = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").PIPELINE
    return pipeline
