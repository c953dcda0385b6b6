"""Pairs of one's own: the one reader of the files that ``--pairs`` and ``--contrast`` name.

Two formats are read. A contrast is a JSON object with ``first`` and ``second``, each a list of texts with one choice
such as ``[he|she]``; a text of the first kind has the stereotype of its first word. A list of pairs is a JSON array, or
JSON lines, of objects with ``prompt`` (one ``[BLANK]``), ``object_biased`` and ``object_unbiased``, or with
``sentence_biased`` and ``sentence_unbiased``, whose differing span is found; ``subject`` is whom the pair is about.

Example: ``{"prompt": "The nurse said that [BLANK] left.", "object_biased": "she", "object_unbiased": "he"}``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from builders.dataset import BuildError
from builders.parsers.triplets import blank, filled
from builders.text.wording import BLANK
from cards.common.stored import STRICT, first_fault
from mitigation.errors import MitigationError
from scoring.types import Row

#: A choice between two words in a text of a contrast.
CHOICE = r"\[([^\[|\]]+)\|([^\[|\]]+)\]"
#: The fewest texts of a kind of a contrast: one of so many is held out.
FEWEST = 4
#: Words of a subject that is found, at most.
SUBJECT_WORDS = 3
ChoiceText = Annotated[str, Field(pattern=rf"^[^\[\]]*{CHOICE}[^\[\]]*$")]
Blanked = Annotated[str, Field(pattern=rf"^[^\[\]]*{re.escape(BLANK)}[^\[\]]*$")]
Words = Annotated[str, Field(pattern=r"\S")]


class Contrast(TypedDict):
    """Texts of two kinds, such as those about two groups of occupations, each with one choice such as ``[he|she]``."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    first: Annotated[list[ChoiceText], Field(min_length=FEWEST)]
    second: Annotated[list[ChoiceText], Field(min_length=FEWEST)]


class Objects(TypedDict):
    """A prompt and its two objects."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    prompt: Blanked
    object_biased: Words
    object_unbiased: Words
    subject: NotRequired[str]


class Sentences(TypedDict):
    """Two whole sentences, of which a span differs."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    sentence_biased: Words
    sentence_unbiased: Words
    subject: NotRequired[str]


#: What a file of pairs may be, in words.
FORMATS = (
    f"give a JSON object with first and second, each a list of {FEWEST} texts or more with one choice such as "
    f"[he|she], or a list of objects with prompt (one {BLANK}), object_biased and object_unbiased, or with "
    "sentence_biased and sentence_unbiased"
)


def read_contrast(path: str) -> Contrast:
    """The texts of a contrast.

    Raises
    ------
    MitigationError
        If the file cannot be read or is no contrast.
    """
    try:
        return TypeAdapter(Contrast).validate_json(Path(path).read_bytes())
    except (OSError, ValidationError) as error:
        fault = first_fault(error) if isinstance(error, ValidationError) else error.strerror
        raise MitigationError(
            f"The contrast {path} cannot be read ({fault}); give a JSON object with first and second, each a list of "
            f"{FEWEST} texts or more with one choice such as [he|she]."
        ) from None


def read_pairs(path: str) -> list[Row]:
    """The pairs of a file as rows with ``prompt``, both objects, both sentences and, if one is found, ``subject``.

    Raises
    ------
    MitigationError
        If the file cannot be read, has another format, or a pair does not differ.
    """
    try:
        content = _content(Path(path).read_bytes())
    except OSError as error:
        raise MitigationError(f"The pairs {path} cannot be read ({error.strerror}); {FORMATS}.") from None
    except ValueError as error:
        raise MitigationError(f"The pairs {path} are neither JSON nor JSON lines ({error}); {FORMATS}.") from None
    try:
        pairs = list(_of_contrast(content) if isinstance(content, dict) else _of_list(content))
    except ValidationError as error:
        raise MitigationError(f"The pairs {path} cannot be read ({first_fault(error)}); {FORMATS}.") from None
    except BuildError as error:
        raise MitigationError(f"The pairs {path} cannot be read: {error}") from None
    if not pairs:
        raise MitigationError(f"The pairs {path} are empty; {FORMATS}.")
    rows: list[Row] = []
    subjects_found = subjects([str(pair["prompt"]) for pair in pairs])
    for number, (pair, subject) in enumerate(zip(pairs, subjects_found, strict=True)):
        # A subject that the file gives counts before one that is found.
        rows.append({"id": f"{Path(path).stem}-{number}", "domain": "", "subject": subject, **pair})
    return rows


def _content(read: bytes) -> Any:
    """What a file holds: one JSON value, or the list of the values of its lines."""
    text = read.decode("utf-8")
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        content = json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in lines]
    # One line with one pair is JSON lines too.
    if isinstance(content, dict) and not {"first", "second"} & set(content):
        return [content]
    return content


def _of_contrast(content: Any) -> Iterator[dict[str, str]]:
    contrast = TypeAdapter(Contrast).validate_python(content)
    for text in contrast["first"]:
        before, first, second, after = re.split(CHOICE, text)
        yield filled(f"{before}{BLANK}{after}", first, second)
    for text in contrast["second"]:
        # In texts of the second kind the second word of the choice has the stereotype.
        before, first, second, after = re.split(CHOICE, text)
        yield filled(f"{before}{BLANK}{after}", second, first)


def _of_list(content: Any) -> Iterator[dict[str, str]]:
    objects, sentences = TypeAdapter(Objects), TypeAdapter(Sentences)
    for pair in TypeAdapter(list[dict[str, Any]]).validate_python(content):
        if "prompt" in pair:
            whole = objects.validate_python(pair)
            row = filled(whole["prompt"], whole["object_biased"], whole["object_unbiased"])
        else:
            both = sentences.validate_python(pair)
            prompt, (biased, unbiased) = blank(both["sentence_biased"], both["sentence_unbiased"])
            row = filled(prompt, biased, unbiased)
        if row["object_biased"] == row["object_unbiased"]:
            raise BuildError(f"Both objects of {row['prompt']!r} are {row['object_biased']!r}; give two that differ.")
        if pair.get("subject"):
            row = row | {"subject": pair["subject"]}
        yield row


def subjects(prompts: Sequence[str]) -> list[str]:
    """Whom each prompt is about: the words by which it differs from other prompts, or an empty text.

    Prompts of a template are equal but for its subject. The fewest words are taken whose change gives another prompt,
    and among as many words those that have most alternatives.

    >>> subjects(["The nurse said [BLANK] left.", "The cook said [BLANK] left.", "It rained, and [BLANK] slept."])
    ['nurse', 'cook', '']
    """
    texts = [re.findall(r"\[BLANK\]|\w+(?:['’-]\w+)*|[^\w\s]", prompt) for prompt in prompts]
    fillers: dict[tuple[tuple[str, ...], tuple[str, ...]], set[tuple[str, ...]]] = {}
    for distinct in {tuple(words) for words in texts}:
        for rest, span in _spans(distinct):
            fillers.setdefault(rest, set()).add(span)
    subjects_of_prompts = []
    for words in texts:
        candidates = []
        for rest, span in _spans(words):
            alternatives = len(fillers[rest])
            if alternatives > 1:
                candidates.append((len(span), -alternatives, span))
        subject = ""
        if candidates:
            # The shortest span, of these the one with most alternatives, and then the first in the alphabet.
            _, _, chosen = min(candidates)
            subject = " ".join(chosen)
        subjects_of_prompts.append(subject)
    return subjects_of_prompts


def _spans(words: Sequence[str]) -> Iterable[tuple[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]]]:
    """Each span of up to :data:`SUBJECT_WORDS` words without the blank, as (words before, words after), span."""
    for length in range(1, SUBJECT_WORDS + 1):
        for start in range(len(words) - length + 1):
            span = tuple(words[start : start + length])
            if all(word[0].isalnum() for word in span):
                yield (tuple(words[:start]), tuple(words[start + length :])), span
