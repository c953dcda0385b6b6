"""The page of the results: goal, measured and peer of every step, "not run" until there is a result."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import step
from cards.common.files import put
from cards.common.text import templates


def render(folder: Path, names: Sequence[str] = ()) -> str:
    """The page of the results in a folder, as Markdown."""
    known = [*step.STEPS, *(name for name in names if name not in step.STEPS)]
    rows = [(_step(name), _result(folder, name)) for name in known]
    return templates(Path(__file__).parent).get_template("README.md.j2").render(steps=rows)


def _step(name: str) -> step.Step:
    """A step; one that cannot be loaded here has no goals."""
    try:
        return step.get(name)
    except Exception as error:  # a package that is not installed, or a module of the user
        summary = f"This step cannot be loaded here ({type(error).__name__}: {error})."
        return step.Step(name.rpartition(".")[2], summary, (), lambda _: {}, lambda _: {})


def _result(folder: Path, name: str) -> dict[str, Any] | None:
    path = folder / f"{name.rpartition('.')[2]}.json"
    if not path.is_file():
        return None
    result: dict[str, Any] = {"figures": {}, "parts": {}} | json.loads(path.read_bytes())
    return result


def main(words: Sequence[str]) -> None:
    """Writes the page of a folder, by default of this one, also with steps that are not of the project."""
    folder = Path(words[0]) if words else Path(__file__).parent
    put(folder / "README.md", render(folder, words[1:]).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
