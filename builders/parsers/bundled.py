"""Sentences that were written for this project, stored as responses (:mod:`builders.generation.responses`).

They have the format of recorded responses, but no endpoint gave them or can give them again. So the request and
the response both name :data:`WRITTEN` as the model. The text is parsed strictly and never executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from builders.dataset import BuildError, Origin
from builders.embedded import DATA, PROJECT
from builders.generation.responses import read_responses
from cards.stored import first_fault

#: The model of every bundled response.
WRITTEN = "written-for-this-project"

#: Text of an entry: not empty, and without white space around it.
Text = Annotated[str, StringConstraints(pattern=r"^\S(?s:.*\S)?$")]


class BundledEntry(BaseModel):
    """A line of a bundled response: a JSON object with exactly the fields of a subclass."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


E = TypeVar("E", bound=BundledEntry)


def path(name: str) -> Path:
    """The file of a config.

    >>> path("pronoun-pairs").name
    'pronoun-pairs.jsonl'
    """
    return DATA / "replies" / f"{name}.jsonl"


def entries(file: Path, kind: type[E]) -> Iterator[tuple[Origin, E]]:
    """All entries of a file in order, each with the record that contains it.

    Raises
    ------
    BuildError
        When a response is of another model or truncated, or one of its lines is not an entry of this kind.
    """
    for number, response in enumerate(read_responses(file).values()):
        place = f"{file.name} record {number}"
        if response.model != WRITTEN or response.request.get("model") != WRITTEN or response.is_truncated:
            raise BuildError(f"{place} is not a complete reply of {WRITTEN!r}; restore the file.")
        for line, text in enumerate(response.text.split("\n"), 1):
            try:
                entry = kind.model_validate_json(text)
            except ValidationError as error:
                raise BuildError(
                    f"{place}, line {line} of the reply, is not an object with {', '.join(kind.model_fields)}: "
                    f"{first_fault(error)}."
                ) from None
            yield Origin(PROJECT, f"builders/data/replies/{file.name}", number), entry
