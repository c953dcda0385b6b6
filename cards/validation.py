"""One sentence for what pydantic reports."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict, ValidationError

#: Types that read files: no unknown field, and no value of another type.
STRICT = ConfigDict(extra="forbid", strict=True)
#: The most characters of a value that a sentence repeats.
_LONGEST = 80
_UNKNOWN_NAME = ("extra_forbidden", "unexpected_keyword_argument")


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
    if isinstance(value, Mapping | list | tuple):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} with {len(value)} entries"
    return f"{text[:_LONGEST]}…"
