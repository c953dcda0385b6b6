"""The type of a recipe: its settings with defaults and sources, and a function from a model to an adapter."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from cards.text import did_you_mean
from mitigation.errors import MitigationError
from scoring.adapters.facts import Adapter

if TYPE_CHECKING:
    from mitigation.training.data import TrainingData
    from scoring.inference.model import Model


def setting(default: Any, help_: str, source: str = "") -> Any:
    """A field of a recipe's settings: its default, what it does, and the source of the default."""
    return field(default=default, metadata={"help": help_, "source": source})


@dataclass(frozen=True, slots=True)
class Recipe:
    """A method that makes a model less biased.

    Parameters
    ----------
    name:
        The name of its file without ``.py``.
    summary:
        One line.
    source:
        The paper, in words.
    cite:
        Keys of the papers among the citations of the data sets.
    citations:
        BibTeX entries by key, for papers that are not among those.
    profiles:
        Settings by profile: ``clean`` is this project's choice, ``paper`` the published one. All are of one
        frozen dataclass of plain values; its fields are made by :func:`setting`, and its ``__post_init__``
        raises :class:`MitigationError` for values out of range.
    run:
        ``run(model, settings, data, out, console)`` writes the files of the adapter into the existing folder
        ``out`` and returns :func:`mitigation.adapters.write.describe`. It restores the network of ``model``
        bit for bit. Files to resume from go to ``out.parent``, which an interrupted run keeps.
    benchmarks:
        Names of the benchmarks for before and after, unless the user names others; if empty, all that
        fit the model.
    kinds:
        The kinds of models it works for.
    quantized:
        Whether it trains on weights in 4 bits where these are available.
    outside:
        From settings to the fingerprint of each thing that ``run`` reads besides built data sets, such as a corpus,
        by the name under which ``run`` records it among the data. Each name has a colon. Without it, a changed
        corpus would not be noticed when a run is continued.
    """

    name: str
    summary: str
    source: str
    cite: tuple[str, ...]
    profiles: Mapping[str, Any]
    run: Callable[[Model, Any, TrainingData, Path, Console], Adapter]
    benchmarks: tuple[str, ...] = ()
    kinds: tuple[Literal["causal", "masked"], ...] = ("causal",)
    quantized: bool = False
    citations: Mapping[str, str] = field(default_factory=dict)
    outside: Callable[[Any], Mapping[str, str]] | None = None


def resolve_settings(recipe: Recipe, profile: str, file: Path | None, options: Mapping[str, Any]) -> Any:
    """The settings of a profile, overridden by a file (TOML or JSON), and then by options of the command line.

    Raises
    ------
    MitigationError
        If the file cannot be read, or a setting is unknown, of another type or out of its range.
    """
    settings = recipe.profiles[profile]
    types = {setting.name: type(getattr(settings, setting.name)) for setting in fields(settings)}
    for origin, overrides in ((f" in {file}", read_settings(file) if file else {}), ("", options)):
        for name, value in overrides.items():
            if name not in types:
                near = did_you_mean(name, types)
                raise MitigationError(
                    f"{recipe.name} has no setting {name!r}{origin}{near}; its settings are {', '.join(types)}."
                )
            if type(value) is not types[name] and not (types[name] is float and type(value) is int):
                raise MitigationError(
                    f"The setting {name} is {value!r}{origin}; give a value of type {types[name].__name__}."
                )
        settings = replace(settings, **{name: types[name](value) for name, value in overrides.items()})
    return settings


def check_ranges(
    settings: Any, positive: tuple[str, ...] = (), not_negative: tuple[str, ...] = (), share: tuple[str, ...] = ()
) -> None:
    """Checks that settings are above 0, at least 0, or in [0, 1); NaN is in no range.

    Raises
    ------
    MitigationError
        With the first setting out of its range.
    """
    values = {name: getattr(settings, name) for name in (*positive, *not_negative, *share)}
    wrong = [name for name in positive if not values[name] > 0]
    wrong += [name for name in not_negative if not values[name] >= 0]
    wrong += [name for name in share if not 0 <= values[name] < 1]
    if wrong:
        raise MitigationError(f"The setting {wrong[0]} is {values[wrong[0]]}; give a value in its range.")


def read_settings(file: Path) -> dict[str, Any]:
    """The settings in a TOML or JSON file.

    Raises
    ------
    MitigationError
        If it cannot be read, or holds something else.
    """
    try:
        text = file.read_text(encoding="utf-8")
        content = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise MitigationError(f"{file} cannot be read ({error.strerror}); give a TOML or JSON file.") from None
    except (ValueError, RecursionError) as error:
        raise MitigationError(f"{file} is not TOML or JSON ({error}); give settings by their names.") from None
    if not isinstance(content, dict):
        raise MitigationError(f"{file} holds a {type(content).__name__}; give settings by their names.")
    return content
