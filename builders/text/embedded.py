"""Texts and tables of the project itself, in ``builders/data``. This module imports nothing of the project."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

#: The name of the source of rows that the project wrote itself, and the folder of its data files.
PROJECT = "gender-neutral-probes"
DATA = Path(__file__).parents[1] / "data"


@cache
def table(name: str) -> dict[str, Any]:
    """The content of ``builders/data/NAME.toml``.

    >>> table("words")["irregular_bases"]["dies"]
    'die'
    """
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
