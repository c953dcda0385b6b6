"""JSON that is written and read again, and faults of pydantic."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, ValidationError

from cards.common.files import put

_T = TypeVar("_T")
#: Types that read files: no unknown field, and no value of another type.
STRICT = ConfigDict(extra="forbid", strict=True)
#: The most characters of a value that a sentence repeats.
_LONGEST = 80
_UNKNOWN_NAME = ("extra_forbidden", "unexpected_keyword_argument")


def digest(content: Any, *, ascii_only: bool = True, strict: bool = False) -> str:
    """SHA-256 of canonical JSON: keys sorted, no spaces.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    # A digest must not change where a file is written with other spaces or another order.
    options: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")}
    text = json.dumps(content, ensure_ascii=ascii_only, allow_nan=not strict, **options)
    return hashlib.sha256(text.encode()).hexdigest()


def finite(value: Any) -> Any:
    """Nested values as JSON has them: null for NaN, and the texts ``inf`` and ``-inf``.

    >>> finite({"a": (math.nan, -math.inf, 1.5)})
    {'a': [None, '-inf', 1.5]}
    """
    match value:
        case Mapping():
            return {key: finite(inner) for key, inner in value.items()}
        case list() | tuple():
            return [finite(inner) for inner in value]
        case float() if not math.isfinite(value):
            return None if math.isnan(value) else str(value)
    return value


def number(value: Any) -> float:
    """A number that :func:`finite` wrote."""
    return math.nan if value is None else float(value)


def document(content: Any, indent: int | None = 1, *, in_page: bool = False) -> bytes:
    """A file of JSON; one that a page may hold has sorted keys, and an escape for each ``<`` that could start a tag."""
    text = json.dumps(finite(content), indent=indent, sort_keys=in_page, ensure_ascii=False, allow_nan=False) + "\n"
    if in_page:
        # JSON inside a script of a page ends where the text of a tag begins, whatever quotes are around it.
        text = re.sub(r"<(?=[A-Za-z/!?])", r"\\u003c", text)
    return text.encode()


def parsed(data: bytes) -> dict[str, Any]:
    """The object in JSON; empty where there is none."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    return content


def without_checksum(data: bytes) -> bytes:
    """JSON without the ``sha256`` that earlier versions wrote at its end, which is not compared.

    >>> without_checksum(b'{"rows": 4, "sha256": "0f"}'), without_checksum(b"[ ]")
    (b'{"rows": 4}', b'[ ]')
    """
    content = parsed(data)
    if content.pop("sha256", None) is None:
        return data
    return json.dumps(content).encode()


@dataclass(frozen=True, slots=True)
class Stored:
    """A kind of file with numbers that nothing computes again when they are read.

    Parameters
    ----------
    name:
        What such a file is, in words.
    remedy:
        What to do about a file that is not as it was written.
    """

    name: str
    remedy: str

    def content(self, content: Mapping[str, Any]) -> bytes:
        """The bytes of a file."""
        return document(content)

    def write(self, path: Path, content: Mapping[str, Any]) -> None:
        """Writes a file atomically."""
        put(path, self.content(content))

    def read(self, path: Path, of: Callable[[dict[str, Any]], _T], refusal: type[Exception]) -> _T | None:
        """What ``of`` makes of the content of a file; None without the file.

        Raises
        ------
        refusal
            When the file cannot be read, or ``of`` does not take its content.
        """
        try:
            return of(json.loads(without_checksum(path.read_bytes())))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            reason = type(error).__name__
        raise refusal(f"{path} is not {self.name} as this version wrote it ({reason}); {self.remedy}.")


def first_fault(error: ValidationError) -> str:
    """The first fault of a validation: its place, what is wrong, and the value that was given.

    >>> from pydantic import TypeAdapter
    >>> try:
    ...     TypeAdapter(dict[str, int]).validate_python({"rows": "many"})
    ... except ValidationError as error:
    ...     print(first_fault(error))
    rows: input should be a valid integer, unable to parse string as an integer, given 'many'
    >>> try:
    ...     TypeAdapter(dict[str, int]).validate_python({"rows": {str(n): n for n in range(1000)}})
    ... except ValidationError as error:
    ...     print(first_fault(error))
    rows: input should be a valid integer, given an object with 1000 entries
    """
    # An unknown name comes first: it is often a misspelt one and explains another that is missing.
    fault = min(error.errors(include_url=False), key=lambda entry: entry["type"] not in _UNKNOWN_NAME)
    place = " ".join(".".join(map(str, fault["loc"])).split())  # a name in a damaged file may hold a line break
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] in ("value_error", "json_invalid"):
        return f"{place}: {message}" if place else message
    message = f"{message[0].lower()}{message[1:]}, given {_shown(fault['input'])}"
    return f"{place}: {message}" if place else message


def _shown(value: object) -> str:
    """A value in a sentence; of a long object or list only the length is said, and a long text is cut."""
    try:
        text = repr(value)
    except RecursionError:
        text = " " * (_LONGEST + 1)
    if len(text) <= _LONGEST:
        return text
    if isinstance(value, Mapping):
        return f"an object with {len(value)} entries"
    if isinstance(value, list | tuple):
        return f"a list with {len(value)} entries"
    return f"{text[:_LONGEST]}…"
