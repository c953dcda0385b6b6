"""The registry of recipes: one file per recipe, found by its name.

>>> "debias_tuning" in names()
True
>>> get("prompts").name
'prompts'

A recipe outside the project is a Python file whose ``RECIPE`` is a :class:`mitigation.recipe.Recipe`; see
:func:`include`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path

from mitigation.errors import MitigationError
from mitigation.recipe import Recipe

_included: dict[str, Recipe] = {}


def names() -> tuple[str, ...]:
    """Names of all recipes, sorted."""
    own = (module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return tuple(sorted({*own, *_included}))


def get(name: str) -> Recipe:
    """The recipe called ``name``.

    Raises
    ------
    MitigationError
        If there is none of that name.
    """
    if name not in names():
        raise MitigationError(f"No recipe is called {name!r}; the names are {', '.join(names())}.")
    recipe: Recipe = _included[name] if name in _included else importlib.import_module(f"{__name__}.{name}").RECIPE
    return recipe


def include(file: Path) -> Recipe:
    """Adds the recipe of a Python file, which is run; a second call with the same file replaces it.

    Raises
    ------
    MitigationError
        If the file cannot be run, has no ``RECIPE`` of its own name, or has the name of another recipe.
    """
    name = file.stem
    if name in set(names()) - set(_included):
        raise MitigationError(f"{file} has the name of the recipe {name} of this project; rename the file.")
    module_name = f"mitigation_included_{name}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise MitigationError(f"{file} is not a Python file; give a file NAME.py with a RECIPE.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look up their own module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the code of the file raises
        raise MitigationError(f"{file} cannot be run ({type(error).__name__}: {error}); mend the file.") from error
    recipe = getattr(module, "RECIPE", None)
    if not isinstance(recipe, Recipe) or recipe.name != name:
        raise MitigationError(f"{file} has no RECIPE called {name!r}; define RECIPE = Recipe(name={name!r}, …).")
    _included[name] = recipe
    return recipe
