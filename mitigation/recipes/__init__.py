"""One file a recipe; the file name is the registry.

>>> "debias_tuning" in names()
True
>>> get("prompts").name
'prompts'
"""

from __future__ import annotations

import importlib
import pkgutil

from mitigation.adapters.adapter import MitigationError
from mitigation.recipe import Recipe


def names() -> tuple[str, ...]:
    """Names of all recipes, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


def get(name: str) -> Recipe:
    """The recipe called ``name``.

    Raises
    ------
    MitigationError
        When there is none of that name.
    """
    if name not in names():
        raise MitigationError(f"No recipe is called {name!r}; the names are {', '.join(names())}.")
    recipe: Recipe = importlib.import_module(f"{__name__}.{name}").RECIPE
    return recipe
