"""What a recipe is: settings with defaults and sources, and a function from a loaded model to an adapter."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from mitigation.adapters.adapter import Adapter, MitigationError

if TYPE_CHECKING:
    from mitigation.training.data import Data
    from scoring.inference.model import Model


def setting(default: Any, help_: str, source: str = "") -> Any:
    """A field of a recipe's settings: its default, what it does, and where the default comes from."""
    return field(default=default, metadata={"help": help_, "source": source})


@dataclass(frozen=True, slots=True)
class Recipe:
    """A way to less bias.

    Parameters
    ----------
    name:
        That of its file.
    summary:
        One line.
    source:
        The paper, or who else thought of it.
    cite:
        The papers' keys among the citations of the data sets.
    profiles:
        Settings by the name of a profile: ``clean`` is what the project stands behind and ``paper`` what was
        published. All are of one frozen dataclass of plain values whose fields are made by
        :func:`setting`; its ``__post_init__`` refuses values that make no sense.
    run:
        ``run(model, settings, data, out, console)`` puts the files of the adapter into the folder ``out``, which is
        there and survives a killed run, leaves the network of ``model`` as it found it, bit for bit,
        and returns :func:`mitigation.adapters.adapter.describe`. Files to resume from go to ``out.parent``.
    benchmarks:
        Where its effect is measured unless the person says otherwise; all that suit the model when empty.
    kinds:
        The models it is for.
    quantized:
        Whether it was meant for weights in 4 bits, which it then gets where they are to be had.
    """

    name: str
    summary: str
    source: str
    cite: tuple[str, ...]
    profiles: Mapping[str, Any]
    run: Callable[[Model, Any, Data, Path, Console], Adapter]
    benchmarks: tuple[str, ...] = ()
    kinds: tuple[Literal["causal", "masked"], ...] = ("causal",)
    quantized: bool = False

    @property
    def settings(self) -> type[Any]:
        """The dataclass of the settings."""
        return type(self.profiles["clean"])


def chosen(recipe: Recipe, profile: str, file: Path | None, given: Mapping[str, Any]) -> Any:
    """The settings of a profile, changed by a file (TOML or JSON) and then by what was given by hand.

    Raises
    ------
    MitigationError
        When the file cannot be read, or a setting is unknown, of another type or out of its range.
    """
    found = recipe.profiles[profile]
    for origin, changed in ((str(file), _read(file) if file else {}), ("The command line", given)):
        known = {each.name: type(getattr(found, each.name)) for each in fields(found)}
        for name, value in changed.items():
            if name not in known:
                names = ", ".join(known)
                raise MitigationError(f"{origin} has the setting {name!r}; {recipe.name} has {names}.")
            if type(value) is not known[name] and not (known[name] is float and type(value) is int):
                raise MitigationError(
                    f"{origin} gives {value!r} for {name}; give a value of type {known[name].__name__}."
                )
        found = replace(found, **{name: known[name](value) for name, value in changed.items()})
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
        found = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise MitigationError(f"{file} cannot be read ({error.strerror}); give a TOML or JSON file.") from None
    except (ValueError, RecursionError) as error:
        raise MitigationError(f"{file} is no TOML or JSON ({error}); give settings by their names.") from None
    if not isinstance(found, dict):
        raise MitigationError(f"{file} holds a {type(found).__name__}; give settings by their names.")
    return found
