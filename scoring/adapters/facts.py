"""The facts of an adapter's folder, ``mitigation.json``, and strict reading of them.

A folder holds:

``mitigation.json``
    Base model and revision, recipe and its settings, versions of the data, cost, metrics before and
    after with intervals, and the SHA-256 of every other file.
``adapter_config.json``, ``adapter_model.safetensors``
    The adapter as PEFT saves it. A recipe without training has ``prompt.json`` instead, and one that trained all
    weights ``config.json``, the weights and the tokenizer of a whole model.

A folder may come from anybody, so every field is checked: an unknown field, a path, or a file with another
SHA-256 raises one sentence. The weights are checked by :mod:`scoring.adapters.attach`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from builders.files.manifest import file_sha256
from cards.common.stored import STRICT, first_fault, without_checksum
from scoring.types import ScoringError

FACTS, CONFIG, WEIGHTS, PROMPT = "mitigation.json", "adapter_config.json", "adapter_model.safetensors", "prompt.json"
#: The configuration of a whole model.
MODEL = "config.json"
#: The version of the format of ``mitigation.json``.
FORMAT = 1

#: JSON has no NaN and has null in its place.
_Value = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
#: A value and both ends of its interval; NaN where a number is not defined.
Numbers = tuple[_Value, _Value, _Value]


class AdapterError(ScoringError):
    """An adapter cannot be read or attached. The message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of making an adapter.

    ``parameters``: the number of trained ones. ``seconds``: wall-clock time of the recipe, without the
    evaluation. ``memory``: the peak in bytes, of the GPU where there is one, else of the process.
    """

    __pydantic_config__ = STRICT
    parameters: int
    seconds: float
    memory: int
    device: str


@dataclass(frozen=True, slots=True)
class Change:
    """A metric before and after, over the same ``n`` examples; the interval of ``difference`` is paired.

    ``p`` is two-sided for no difference, ``p_side`` for the mean of both scores being the ideal value
    (:func:`cards.common.verdict.corrected`), and ``clusters`` is the number of clusters; None in facts that an earlier
    version wrote.
    """

    __pydantic_config__ = STRICT
    benchmark: str
    group: str
    metric: str
    before: Numbers
    after: Numbers
    difference: Numbers
    n: int
    p: float | None = None
    p_side: float | None = None
    clusters: int | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """The facts of an adapter's folder.

    Parameters
    ----------
    recipe:
        The name of the recipe.
    base, revision, dtype:
        The base model, and the dtype in which it was loaded.
    settings:
        Every setting of the recipe, with those left at their defaults.
    data:
        Data set to version, for all data that the recipe read.
    cost:
        The cost of the recipe.
    files:
        Every other file of the folder to its SHA-256.
    measures:
        Numbers that the recipe itself measured, by name.
    changes:
        Metrics before and after.
    package:
        The version of this package that made the adapter.
    """

    __pydantic_config__ = STRICT
    recipe: str
    base: str
    revision: str
    dtype: str
    settings: Mapping[str, Any]
    data: Mapping[str, str]
    cost: Cost
    files: Mapping[str, str]
    measures: Mapping[str, Numbers] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    package: str = ""
    format: int = FORMAT


#: Converts facts from and to JSON; NaN becomes null.
SCHEMA = TypeAdapter(Adapter)


def is_own(folder: Path) -> bool:
    """Whether a folder was made by a recipe of this project."""
    return (folder / FACTS).is_file()


def written_files(folder: Path) -> set[str]:
    """The files of a folder that are as a recipe wrote them: the facts, and those whose checksum they have."""
    try:
        adapter = SCHEMA.validate_json(without_checksum((folder / FACTS).read_bytes()))
    except (OSError, ValidationError):
        return set()
    names = {FACTS}
    for name, stated in adapter.files.items():
        path = folder / name
        if is_file_name(name) and path.is_file() and file_sha256(path) == stated:
            names.add(name)
    return names


def read(folder: Path) -> Adapter:
    """The facts of a folder, after its files were compared with them.

    Raises
    ------
    AdapterError
        If the facts cannot be read, have an unknown, missing or mistyped field, name a file outside of
        the folder, or describe other files.
    """
    path = folder / FACTS
    json_of(path)  # its sentences are about the file; those below are about fields
    try:
        adapter = SCHEMA.validate_json(without_checksum(path.read_bytes()))
    except ValidationError as error:
        raise AdapterError(
            f"{path} has a wrong field, {first_fault(error)}; fetch the adapter again, or use the version that wrote "
            "it."
        ) from None
    if adapter.format != FORMAT:
        raise AdapterError(f"{path} has the format {adapter.format}; this version reads {FORMAT}, so update it.")
    for name, stated in adapter.files.items():
        if not is_file_name(name):
            raise AdapterError(f"{path} names the file {name!r}, which is not in its folder; give plain file names.")
        if not (folder / name).is_file() or file_sha256(folder / name) != stated:
            raise AdapterError(f"{folder / name} is not the file that {FACTS} describes; fetch the adapter again.")
    return adapter


def is_whole_model(folder: Path) -> bool:
    """Whether a folder has a whole model instead of an adapter."""
    return (folder / MODEL).is_file() and not (folder / CONFIG).is_file()


def digests(folder: Path) -> dict[str, str]:
    """File name to SHA-256, for all files of a folder except the facts."""
    return {path.name: file_sha256(path) for path in sorted(folder.iterdir()) if path.is_file() and path.name != FACTS}


def is_file_name(name: str) -> bool:
    r"""Whether a name is a plain file name on every system, not a path.

    >>> [is_file_name(name) for name in ("prompt.json", "../x", "/x", r"a\b", "C:x", "..", "a\0b", "")]
    [True, False, False, False, False, False, False, False]
    """
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0")


def json_of(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises
    ------
    AdapterError
        If the file cannot be read or does not hold an object.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise AdapterError(f"{path} cannot be read ({error.strerror}); give the folder of an adapter.") from None
    except (ValueError, RecursionError) as error:
        raise AdapterError(f"{path} is not JSON ({type(error).__name__}); fetch the adapter again.") from None
    if not isinstance(content, dict):
        raise AdapterError(f"{path} holds a {type(content).__name__}, not an object; fetch the adapter again.")
    return content
