"""Sentences that were written for this project, stored as responses (:mod:`builders.generation.responses`).

They have the format of recorded responses, but no endpoint gave them or can give them again. So the request and
the response both name :data:`WRITTEN` as the model. The text is parsed strictly and never executed.

They include paraphrases of biased knowledge and facts in which groups differ. *Large Language Model Bias Mitigation
from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024) measures not only the pairs, but also whether an
edit changes paraphrases of their prompts (Ω_P) and whether it keeps facts in which groups differ (Ω_D). Neither set was
released.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from builders.dataset import BuildError, Files, Origin, Row, Rows, content_id
from builders.generation.responses import read_responses
from builders.parsers.triplets import filled
from builders.text.embedded import DATA, PROJECT
from cards.common.stored import first_fault

#: The model of every bundled response.
WRITTEN = "written-for-this-project"

#: Text of an entry: not empty, and without white space around it.
Text = Annotated[str, StringConstraints(pattern=r"^\S(?s:.*\S)?$")]
_SUBJECT = "{subject}"


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


class ParaphraseEntry(BundledEntry):
    """A biased pair with a base prompt and paraphrases of it."""

    domain: Text
    subject: Text
    relation: Text
    object_biased: Text
    object_unbiased: Text
    prompt: Text
    paraphrases: Annotated[list[Text], Field(min_length=1)]


class FactEntry(BundledEntry):
    """A fact about one group, with the counterpart for another group."""

    domain: Text
    subject: Text
    subject_counterfactual: Text
    prompt: Text
    object: Text
    object_other: Text


def paraphrases(path: Path, _: Files) -> Rows:
    """Rows for the base prompt of each pair and then for its paraphrases.

    ``paraphrase_of`` is the id of the base prompt, also in its own row.

    Raises
    ------
    BuildError
        When a prompt does not have one blank, or does not name the subject.
    """
    for origin, entry in entries(path, ParaphraseEntry):
        base = ""
        for prompt in (entry.prompt, *entry.paraphrases):
            values = _pair(entry, prompt)
            identity = content_id("paraphrase", values["sentence_biased"], values["sentence_unbiased"])
            base = base or identity
            yield Row("test", identity, origin, values | {"base": identity == base, "paraphrase_of": base})


def _pair(entry: ParaphraseEntry, prompt: str) -> dict[str, str]:
    if entry.subject.casefold() not in prompt.casefold():
        raise BuildError(f"The prompt {prompt!r} does not name its subject {entry.subject!r}; name it.")
    values = {"domain": entry.domain, "subject": entry.subject, "relation": entry.relation}
    return values | filled(prompt, entry.object_biased, entry.object_unbiased)


def facts(path: Path, _: Files) -> Rows:
    """Rows for each fact and then for the fact about the counterfactual subject.

    ``object`` is right for the subject, ``object_other`` for its counterfactual.

    Raises
    ------
    BuildError
        When a prompt does not have one slot for the subject and one blank.
    """
    # Each fact is asked in both directions: of either subject the other one is the counterfactual.
    for origin, entry in entries(path, FactEntry):
        if entry.prompt.count(_SUBJECT) != 1:
            raise BuildError(f"The prompt {entry.prompt!r} does not have {_SUBJECT} exactly once; correct it.")
        groups = (entry.subject, entry.object), (entry.subject_counterfactual, entry.object_other)
        for (subject, right), (counterfactual, other) in (groups, groups[::-1]):
            triplet = filled(entry.prompt.replace(_SUBJECT, subject), right, other)
            values = {
                "domain": entry.domain,
                "subject": subject,
                "subject_counterfactual": counterfactual,
                "prompt": triplet["prompt"],
                "object": right,
                "object_other": other,
                "sentence_object": triplet["sentence_biased"],
                "sentence_other": triplet["sentence_unbiased"],
            }
            yield Row("test", content_id("fact", triplet["prompt"], right, other), origin, values)
