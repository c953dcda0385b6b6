"""The registry of recipes: one file per recipe, found by its name.

>>> "debias_tuning" in names()
True
>>> get("prompts").name
'prompts'

A recipe outside the project is a Python file whose ``RECIPE`` is a :class:`mitigation.recipe.Recipe`; ``include(file)``
adds it. See :class:`cards.common.registry.Registry`.
"""

from cards.common.registry import Registry
from mitigation.recipe import MitigationError, Recipe

REGISTRY = Registry((__name__, __path__), "RECIPE", Recipe, "recipe", MitigationError)
names, get, include = REGISTRY.names, REGISTRY.get, REGISTRY.include
