"""One file for each data set, found by its name. Files outside the project can be included.

>>> "occugender" in names()
True
>>> get("occugender").name
'occugender'
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from pathlib import Path

from builders.dataset import BuildError, DataSet
from builders.sources import catalogue

_included: dict[str, tuple[DataSet, Path]] = {}


def names() -> tuple[str, ...]:
    """The names of all data sets, sorted."""
    return tuple(sorted({*_project_names(), *_included}))


def _project_names() -> set[str]:
    return {module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__)}


def get(name: str) -> DataSet:
    """The data set with a name.

    Raises
    ------
    BuildError
        When no data set has that name.
    """
    if name in _included:
        return _included[name][0]
    if name not in _project_names():
        raise BuildError(f"No data set is called {name!r}; the names are {', '.join(names())}.")
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    dataset: DataSet = module.DATASET
    return dataset


def include(path: Path) -> DataSet:
    """Adds the data set of a Python file outside the project to the registry; the file defines ``DATASET``.

    If a file with the same name and the ending ``.toml`` is beside it, its sources, licences and citations are
    added to those of ``sources.toml``, of which it has the form.

    Raises
    ------
    BuildError
        When the file cannot be imported, defines no data set, or has the name of another data set.
    """
    spec = importlib.util.spec_from_file_location(f"included_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise BuildError(f"{path} is not a Python file; give --include the path of one.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BuildError(f"{path} cannot be imported ({type(error).__name__}: {error}); correct it.") from error
    dataset = getattr(module, "DATASET", None)
    if not isinstance(dataset, DataSet):
        raise BuildError(f"{path} defines no DATASET; set it to a builders.dataset.DataSet.")
    is_other = dataset.name in _included and _included[dataset.name][1] != path.resolve()
    if is_other or dataset.name in _project_names():
        raise BuildError(f"{path} has the name {dataset.name!r} of another data set; give it a new name.")
    if path.with_suffix(".toml").is_file():
        catalogue.include(path.with_suffix(".toml"))
    _included[dataset.name] = dataset, path.resolve()
    return dataset


def included_file(name: str) -> Path | None:
    """The file of an included data set; None for a data set of the project."""
    return _included[name][1] if name in _included else None
