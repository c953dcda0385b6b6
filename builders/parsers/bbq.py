"""Questions of BBQ and of data sets in its form: a context, a question about two people, and three answers.

A context is ambiguous, so that the right answer is that it cannot be known, or a second sentence disambiguates it. A
question is negative (its answer says something bad of a person) or not. The stereotype is about a group: it answers a
negative question with a person of that group, and the other question with the other person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from builders.dataset import BuildError, Origin, Row, Rows

CONDITIONS = {"ambig": "ambiguous", "disambig": "disambiguated"}
POLARITIES = {"neg": "negative", "nonneg": "non-negative"}
UNKNOWN = "unknown"
_ANSWERS = ("ans0", "ans1", "ans2")
#: The gender of the labels of people in BBQ and, in four languages, in MBBQ.
_GENDERS = {
    **dict.fromkeys("F woman girl vrouw meisje mujer chica kadın kız".split(), "women"),
    **dict.fromkeys(["M", "erkek çocuk", *"man boy jongen hombre chico adam".split()], "men"),
}


def rows(prefix: str, records: Iterable[tuple[Origin, Mapping[str, Any]]]) -> Rows:
    """The rows of records with their origins, whose ids begin with ``prefix``.

    ``biased`` is the number of the answer that the stereotype gives; it is null where both people are of the group or
    neither is. ``unknowns`` has all answers of the records that say that it cannot be known.

    Raises
    ------
    BuildError
        When a record has no or several answers that it cannot be known, or a label that is not known here.
    """
    known = list(records)
    unknowns = sorted({record[name] for _, record in known for name in _ANSWERS if _label(record, name) == UNKNOWN})
    for origin, record in known:
        labels = [_label(record, name) for name in _ANSWERS]
        group = _group(record["additional_metadata"]["stereotyped_groups"])
        try:
            people = [place for place, label in enumerate(labels) if label != UNKNOWN]
            of_group = {place for place in people if _person(labels[place], group) == group}
            (unknown,) = {0, 1, 2} - set(people)
            values = {
                "context": record["context"],
                "question": record["question"],
                "answers": [record[name] for name in _ANSWERS],
                "label": record["label"],
                "unknown": unknown,
                "biased": None,
                "condition": CONDITIONS[record["context_condition"]],
                "polarity": POLARITIES[record["question_polarity"]],
                "template": int(record["question_index"]),
                "group": group,
                "unknowns": unknowns,
            }
        except (KeyError, ValueError) as error:
            raise BuildError(
                f"{origin.file} row {origin.row} is no question with two people and one unknown answer ({error!r}); "
                "the file is not the one this builder reads."
            ) from None
        if len(of_group) == 1:
            (values["biased"],) = of_group if record["question_polarity"] == "neg" else set(people) - of_group
        yield Row("test", f"{prefix}-{record['example_id']}", origin, values)


def _label(record: Mapping[str, Any], answer: str) -> str:
    return str(record["answer_info"][answer][1])


def _group(stereotyped: list[str]) -> str:
    return {"F": "women", "M": "men"}.get(stereotyped[0], "trans people")


def _person(label: str, group: str) -> str:
    """The group of a person; labels of trans people may have a gender too, such as ``trans_F``."""
    if group == "trans people":
        return {"trans": group, "nonTrans": "others"}[label.partition("_")[0]]
    return _GENDERS[label]
