"""Paraphrases of biased knowledge and facts in which groups differ, written for this project.

*Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al.,
2024) measures, besides the pairs themselves, whether an edit reaches paraphrases of their prompts
(Ω_P) and whether it leaves alone what groups differ in (Ω_D). Neither set was released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from builders.dataset import BuildError, Files, Origin, Row, Rows, column, content_id, text
from builders.generation import shipped
from builders.parsers.triplets import TRIPLET, filled

#: Names of the two configs and of their files of replies.
PARAPHRASES, DIFFERENTIATION = "paraphrases", "differentiation"

_SUBJECT = "{subject}"
_PAIR_FIELDS = {
    **dict.fromkeys(("domain", "subject", "relation", "object_biased", "object_unbiased", "prompt"), str),
    "paraphrases": list,
}
_FACT_FIELDS = dict.fromkeys(("domain", "subject", "subject_counterfactual", "prompt", "object", "object_other"), str)

#: Columns of :func:`paraphrases`; ``paraphrase_of`` is the id of the base prompt, also in its own row.
PARAPHRASE_COLUMNS = (*TRIPLET, *map(text, ("subject", "relation")), column("base", pa.bool_()), text("paraphrase_of"))

#: Columns of :func:`facts`; ``object`` is right for the subject, ``object_other`` for its counterfactual.
FACT_COLUMNS = tuple(map(text, (*_FACT_FIELDS, "sentence_object", "sentence_other")))


def paraphrases(path: Path, _: Files) -> Rows:
    """Each pair with its base prompt, then with the paraphrases of it.

    Raises
    ------
    BuildError
        When a prompt does not have one blank, or does not name the subject.
    """
    for origin, entry in shipped.entries(path, _PAIR_FIELDS):
        base = ""
        for prompt in (entry["prompt"], *entry["paraphrases"]):
            values = _pair(entry, prompt)
            identity = content_id("paraphrase", values["sentence_biased"], values["sentence_unbiased"])
            base = base or identity
            yield Row("test", identity, origin, values | {"base": identity == base, "paraphrase_of": base})


def _pair(entry: Mapping[str, Any], prompt: str) -> dict[str, str]:
    if entry["subject"].casefold() not in prompt.casefold():
        raise BuildError(f"The prompt {prompt!r} does not name its subject {entry['subject']!r}; name it.")
    named = {name: entry[name] for name in ("domain", "subject", "relation")}
    return named | filled(prompt, entry["object_biased"], entry["object_unbiased"])


def facts(path: Path, _: Files) -> Rows:
    """Each fact, then the one about the counterfactual subject: both directions.

    Raises
    ------
    BuildError
        When a prompt does not have one slot for the subject and one blank.
    """
    for origin, entry in shipped.entries(path, _FACT_FIELDS):
        if entry["prompt"].count(_SUBJECT) != 1:
            raise BuildError(f"The prompt {entry['prompt']!r} does not have {_SUBJECT} once; write it in once.")
        yield from _directions(origin, entry)


def _directions(origin: Origin, entry: Mapping[str, Any]) -> Iterator[Row]:
    groups = (entry["subject"], entry["object"]), (entry["subject_counterfactual"], entry["object_other"])
    for (subject, right), (counterfactual, other) in (groups, groups[::-1]):
        said = filled(entry["prompt"].replace(_SUBJECT, subject), right, other)
        values = {
            "domain": entry["domain"],
            "subject": subject,
            "subject_counterfactual": counterfactual,
            "prompt": said["prompt"],
            "object": right,
            "object_other": other,
            "sentence_object": said["sentence_biased"],
            "sentence_other": said["sentence_unbiased"],
        }
        yield Row("test", content_id("fact", said["prompt"], right, other), origin, values)
