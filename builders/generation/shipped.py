"""Sentences that the project carries, as chat responses in JSON lines (:mod:`builders.generation.chat`).

They were written for this project; no endpoint gave them and none can be asked for them again, so both
the request and the record name :data:`WRITTEN` as the model. A reply is read strictly and never evaluated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from builders.dataset import DATA, PROJECT, BuildError, Origin
from builders.generation.chat import recorded

#: The model of every record that the project carries.
WRITTEN = "written-for-this-project"

#: What an entry may hold, by the words for it in an error.
_KINDS = {str: "text", int: "whole number", list: "list of texts"}


def path(name: str) -> Path:
    """The file of replies of a config.

    >>> path("pronoun-pairs").name
    'pronoun-pairs.jsonl'
    """
    return DATA / "replies" / f"{name}.jsonl"


def embedded(file: Path) -> str:
    """How a config and its rows name a file that the package carries.

    >>> embedded(path("paraphrases"))
    'builders/data/replies/paraphrases.jsonl'
    """
    return f"builders/data/replies/{file.name}"


def entries(file: Path, fields: Mapping[str, type]) -> Iterator[tuple[Origin, dict[str, Any]]]:
    """Every entry of every reply in a file, in order, with the record it stands in.

    Parameters
    ----------
    file:
        Records as :func:`builders.generation.chat.recorded` reads them.
    fields:
        The names of an entry and what each holds: ``str``, ``int``, or ``list`` for a list of texts.

    Raises
    ------
    BuildError
        When a reply is of another model or was cut, or a line of it is not such an object.
    """
    for number, record in enumerate(recorded(file).values()):
        where = f"{file.name} record {number}"
        if record.model != WRITTEN or record.request.get("model") != WRITTEN or record.cut:
            raise BuildError(f"{where} is not a whole reply of {WRITTEN!r}; restore the file.")
        for line, text in enumerate(record.reply.split("\n"), 1):
            yield Origin(PROJECT, embedded(file), number), _entry(f"{where}, line {line} of the reply,", text, fields)


def _entry(where: str, text: str, fields: Mapping[str, type]) -> dict[str, Any]:
    expected = ", ".join(f"{name} ({_KINDS[kind]})" for name, kind in fields.items())
    try:
        entry = json.loads(text)
    except ValueError as error:
        raise BuildError(f"{where} is not JSON ({error}); expected an object with {expected}.") from None
    if not isinstance(entry, dict) or list(entry) != list(fields):
        raise BuildError(f"{where} is {text!r}; expected an object with {expected}, in this order.")
    for name, kind in fields.items():
        if not _is(entry[name], kind):
            raise BuildError(f"{where} has {entry[name]!r} as {name}; expected a {_KINDS[kind]} that is not empty.")
    return entry


def _is(value: Any, kind: type) -> bool:
    """Whether a value is of a kind; a text has no white space around it, and nothing is empty."""
    if kind is list:
        return isinstance(value, list) and bool(value) and all(_is(each, str) for each in value)
    return type(value) is kind and bool(value) and (not isinstance(value, str) or value == value.strip())
