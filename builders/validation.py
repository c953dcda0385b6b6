"""One sentence for what pydantic reports."""

from __future__ import annotations

from pydantic import ValidationError

_UNKNOWN_NAME = ("extra_forbidden", "unexpected_keyword_argument")


def first_fault(error: ValidationError) -> str:
    """The first fault of a validation: its place, what is wrong, and the value that was given.

    >>> from pydantic import TypeAdapter
    >>> try:
    ...     TypeAdapter(dict[str, int]).validate_python({"rows": "many"})
    ... except ValidationError as error:
    ...     print(first_fault(error))
    rows: input should be a valid integer, unable to parse string as an integer, given 'many'
    """
    # An unknown name comes first: it is often a misspelt one and explains another that is missing.
    fault = min(error.errors(include_url=False), key=lambda entry: entry["type"] not in _UNKNOWN_NAME)
    place = " ".join(".".join(map(str, fault["loc"])).split())  # a name in a damaged file may hold a line break
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] in ("value_error", "json_invalid"):
        return f"{place}: {message}" if place else message
    message = f"{message[0].lower()}{message[1:]}, given {fault['input']!r}"
    return f"{place}: {message}" if place else message
