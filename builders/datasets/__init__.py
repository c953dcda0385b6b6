"""One file for each data set, found by its name. Files outside the project can be included.

>>> "occugender" in names()
True
>>> get("occugender").name
'occugender'
"""

import re
from pathlib import Path

from builders.dataset import BuildError, DataSet
from builders.sources import catalogue
from cards.common.registry import Registry

REGISTRY = Registry((__name__, __path__), "DATASET", DataSet, "data set", BuildError, dash=True)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
names, get, included_file = REGISTRY.names, REGISTRY.get, REGISTRY.file


def include(path: Path) -> DataSet:
    """Adds the data set of a Python file outside the project; the file defines ``DATASET``.

    If a file with the same name and the ending ``.toml`` is in the same folder, its sources, licences and citations are
    added to those of ``sources.toml``, of which it has the form.

    Raises
    ------
    BuildError
        When the file cannot be run, defines no data set, or has the name of another data set, or a
        name of the data set, a config or a split is no plain file name.
    """
    dataset = REGISTRY.include(path)
    names_of_files = [dataset.name]
    for config in dataset.configs:
        names_of_files.append(config.name)
        names_of_files.extend(config.splits)
    # Each name becomes a part of a path below the output folder.
    for name in names_of_files:
        if not _NAME.fullmatch(name):
            raise BuildError(
                f"{path} has the name {name!r}, which would be a path; give a name of letters, digits, hyphens, dots "
                "and underscores that begins with a letter or a digit."
            )
    if path.with_suffix(".toml").is_file():
        catalogue.include(path.with_suffix(".toml"))
    return dataset
