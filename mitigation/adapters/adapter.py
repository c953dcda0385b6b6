"""What a recipe made: a folder with its facts beside the files of PEFT, or beside those of a prompt.

``mitigation.json``
    What the folder is: base model and revision, recipe with its settings, versions of the data, what it
    cost, numbers before and after with intervals, and the SHA-256 of every other file.
``adapter_config.json``, ``adapter_model.safetensors``
    An adapter as PEFT saves it. A recipe that trains nothing has ``prompt.json`` instead.

Nothing in a folder is believed before it is looked at: an unknown field, a path, or a file that is not
the described one is refused in one sentence. What is loaded is looked at by :mod:`mitigation.adapters.attach`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from builders.folders import recover_folder as recover
from builders.folders import replace_folder as put_in_place
from builders.manifest import file_sha256
from scoring.answering import package_version
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.inference.model import Model

FACTS, CONFIG, WEIGHTS, PROMPT = "mitigation.json", "adapter_config.json", "adapter_model.safetensors", "prompt.json"
#: The only version of ``mitigation.json`` so far.
FORMAT = 1

#: A value and both ends of its interval; NaN where there is none.
Numbers = tuple[float, float, float]


class MitigationError(ScoringError):
    """Mitigation cannot go on. The message is one sentence for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What making an adapter took.

    ``parameters`` are those trained, ``seconds`` of the recipe alone, ``memory`` the peak in bytes: of
    the GPU where there is one, else of the process.
    """

    parameters: int
    seconds: float
    memory: int
    device: str


@dataclass(frozen=True, slots=True)
class Change:
    """A metric before and after over the same ``n`` examples; the interval of ``difference`` is paired."""

    benchmark: str
    group: str
    metric: str
    before: Numbers
    after: Numbers
    difference: Numbers
    n: int


@dataclass(frozen=True, slots=True)
class Adapter:
    """The facts of an adapter's folder.

    Parameters
    ----------
    recipe:
        The name of what made it.
    base, revision, dtype:
        The model it belongs to, and how that was loaded when it was made.
    settings:
        Every setting of the recipe, defaults too.
    data:
        Data set to version, for all the data that the recipe saw.
    cost:
        What making it took.
    files:
        Every other file of the folder with its SHA-256.
    measures:
        What the recipe itself found on the way, by name, such as the perplexity of neutral text.
    changes:
        Numbers before and after.
    package:
        The version of this package that made it.
    """

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
    package: str = field(default_factory=package_version)
    format: int = FORMAT


def describe(
    folder: Path,
    model: Model,
    recipe: str,
    settings: Any,
    *,
    data: Mapping[str, str],
    cost: Cost,
    measures: Mapping[str, Numbers] | None = None,
) -> Adapter:
    """The facts of a folder in which a recipe has put its files.

    Parameters
    ----------
    model:
        The model that the recipe was run on.
    settings:
        The recipe's settings, a dataclass of plain values.
    """
    return Adapter(
        recipe=recipe,
        base=model.name,
        revision=model.revision,
        dtype=model.dtype,
        settings=_plain(asdict(settings)),
        data=dict(data),
        cost=cost,
        files=digests(folder),
        measures=dict(measures or {}),
    )


def _plain(value: Any) -> Any:
    """A value as it comes back from JSON."""
    return json.loads(json.dumps(value))


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of a folder but the facts."""
    return {path.name: file_sha256(path) for path in sorted(folder.iterdir()) if path.is_file() and path.name != FACTS}


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def text(adapter: Adapter) -> str:
    """The text of ``mitigation.json``: a number that is not defined is null, and a change is a line."""
    facts = _finite(asdict(adapter))
    lines = [json.dumps(each, ensure_ascii=False, allow_nan=False) for each in facts.pop("changes")]
    head = json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
    return f'{head},\n "changes": [{",".join(f"{chr(10)}  {line}" for line in lines)}]\n}}\n'


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {name: _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case float() if not math.isfinite(value):
            return None
    return value


def check_target(out: Path) -> None:
    """Refuses a folder that is somebody's other work, because it would be replaced as a whole.

    Raises
    ------
    MitigationError
        When it exists, is not empty and has no facts of an adapter.
    """
    recover(out)
    if out.exists() and not (out.is_dir() and ((out / FACTS).is_file() or not any(out.iterdir()))):
        raise MitigationError(f"{out} is there and is no adapter; give --out a new folder, or one to be replaced.")


def write(folder: Path, adapter: Adapter, out: Path) -> None:
    """Puts the facts into ``folder`` and the folder in the place of ``out``, in one step."""
    check_target(out)
    (folder / FACTS).write_text(text(adapter), encoding="utf-8")
    for path in folder.iterdir():
        path.chmod(0o644)  # some writers make a file its owner's alone
    out.parent.mkdir(parents=True, exist_ok=True)
    put_in_place(folder, out)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read(folder: Path) -> Adapter:
    """The facts of a folder, once its files have been found to be the described ones.

    Raises
    ------
    MitigationError
        When the facts cannot be read, have an unknown, missing or mistyped field, name a file outside of
        the folder, or describe other files.
    """
    path = folder / FACTS
    adapter: Adapter = _typed(Adapter, json_of(path), str(path))
    if adapter.format != FORMAT:
        raise MitigationError(f"{path} has the format {adapter.format}; this version reads {FORMAT}, so update it.")
    for name, digest in adapter.files.items():
        if not inside(name):
            raise MitigationError(f"{path} names the file {name!r}, which is not in its folder; give plain file names.")
        if not (folder / name).is_file() or file_sha256(folder / name) != digest:
            raise MitigationError(f"{folder / name} is not the file that {FACTS} describes; fetch the adapter again.")
    return adapter


def inside(name: str) -> bool:
    r"""Whether a name is that of a file in a folder on every system, and no path.

    >>> [inside(name) for name in ("prompt.json", "../x", "/x", r"a\b", "C:x", "..", "a\0b", "")]
    [True, False, False, False, False, False, False, False]
    """
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0")


def json_of(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises
    ------
    MitigationError
        When the file cannot be read or holds something else.
    """
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise MitigationError(f"{path} cannot be read ({error.strerror}); give the folder of an adapter.") from None
    except (ValueError, RecursionError) as error:
        raise MitigationError(f"{path} is not JSON ({type(error).__name__}); fetch the adapter again.") from None
    if not isinstance(found, dict):
        raise MitigationError(f"{path} holds a {type(found).__name__}, not an object; fetch the adapter again.")
    return found


def check_fields(kind: type, found: Mapping[str, Any], where: str) -> None:
    """Refuses fields that a dataclass does not have, and the lack of one it must have.

    Raises
    ------
    MitigationError
        With the name of the field.
    """
    known = {each.name: each for each in fields(kind)}
    if unknown := sorted(found.keys() - known.keys()):
        raise MitigationError(
            f"{where} has the unknown field {unknown[0]!r}; take it out, or use the version that wrote it."
        )
    needed = {name for name, each in known.items() if each.default is MISSING and each.default_factory is MISSING}
    if lacking := sorted(needed - found.keys()):
        raise MitigationError(f"{where} lacks the field {lacking[0]!r}; fetch the adapter again.")


def _typed(kind: Any, value: Any, where: str) -> Any:
    """A JSON value as the type that a field has."""
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        check_fields(kind, value, where)
        hints = get_type_hints(kind)
        return kind(**{name: _typed(hints[name], each, f"{where}: {name}") for name, each in value.items()})
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is tuple and isinstance(value, list) and (inner[-1] is ... or len(inner) == len(value)):
        wanted = [inner[0]] * len(value) if inner[-1] is ... else inner
        return tuple(_typed(each, v, where) for each, v in zip(wanted, value, strict=True))
    if origin is Mapping and isinstance(value, dict):
        return {name: _typed(inner[1], each, f"{where} {name}") for name, each in value.items()}
    if kind is float and (value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))):
        return math.nan if value is None else float(value)
    if isinstance(kind, type) and type(value) is kind:
        return value
    name = kind.__name__ if isinstance(kind, type) else kind
    raise MitigationError(f"{where} is {value!r:.60}, not {name}; fetch the adapter again.")
