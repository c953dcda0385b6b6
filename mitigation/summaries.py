"""What each recipe of the project does, in one sentence, without importing the recipes.

>>> summaries()["task_vector"] == recipe_of("task_vector")["summary"]
True
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: What each recipe of the project is, and the settings of its profiles.
DECLARED: Mapping[str, Any] = tomllib.loads(
    (Path(__file__).parent / "data" / "recipes.toml").read_text(encoding="utf-8")
)
#: The table of values that several recipes share.
SHARED = "shared"


def recipe_of(name: str) -> Mapping[str, Any]:
    """What ``data/recipes.toml`` declares of a recipe."""
    facts: Mapping[str, Any] = DECLARED[name]
    return facts


def summaries() -> dict[str, str]:
    """The summary of each recipe, by name."""
    return {name: recipe_of(name)["summary"] for name in sorted(DECLARED) if name != SHARED}
