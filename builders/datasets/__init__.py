"""One file a data set; the file name is the registry.

>>> "occugender" in names()
True
>>> get("occugender").name
'occugender'
"""

from __future__ import annotations

import importlib
import pkgutil

from builders.dataset import BuildError, DataSet


def names() -> tuple[str, ...]:
    """Names of all data sets, sorted."""
    return tuple(sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__)))


def get(name: str) -> DataSet:
    """The data set called ``name``.

    Raises
    ------
    BuildError
        When there is none of that name.
    """
    if name not in names():
        raise BuildError(f"No data set is called {name!r}; the names are {', '.join(names())}.")
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    dataset: DataSet = module.DATASET
    return dataset
