"""Questions of BBQ and of data sets in its form: a context, a question about two people, and three answers.

A context is ambiguous, so that the right answer is that it cannot be known, or a second sentence disambiguates it. A
question is negative (its answer says something bad of a person) or not. The stereotype is about a group: it answers a
negative question with a person of that group, and the other question with the other person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from builders.dataset import BuildError, Drop, Fetched, Row, Rows

UNKNOWN, TRANS = "unknown", "trans people"
_CONDITIONS = {"ambig": "ambiguous", "disambig": "disambiguated"}
_ANSWERS = ("ans0", "ans1", "ans2")
#: The group of a label of a person, before its gender such as in ``trans_F``: BBQ's and, in four languages, MBBQ's.
_GROUPS = {
    "trans": TRANS,
    "nonTrans": "others",
    **dict.fromkeys("F woman girl vrouw meisje mujer chica kadın kız".split(), "women"),
    **dict.fromkeys(["M", "erkek çocuk", *"man boy jongen hombre chico adam".split()], "men"),
}


def rows(prefix: str, fetched: Fetched, records: Iterable[tuple[int, Mapping[str, Any] | None]]) -> Rows:
    """The rows of records with their numbers, whose ids begin with ``prefix``; None is a record that is left out.

    ``biased`` is the number of the answer that the stereotype gives; it is null where both people are of the group or
    neither is. ``unknowns`` has all answers of the records that say that it cannot be known.

    Raises
    ------
    BuildError
        When a record has no or several answers that it cannot be known, or a label that is not known here.
    """
    known = list(records)
    unknowns = sorted({r[answer] for _, r in known if r for answer in _ANSWERS if _label(r, answer) == UNKNOWN})
    for number, record in known:
        origin = fetched.origin(number)
        if record is None:
            yield Drop("test", origin, "the disambiguating sentence has a word that the context does not show")
            continue
        try:
            values = _values(record)
        except (KeyError, ValueError) as error:
            raise BuildError(
                f"{origin.file} row {number} is no question with two people and one unknown answer ({error!r}); "
                "the file is not the one this builder reads."
            ) from None
        yield Row("test", f"{prefix}-{record['example_id']}", origin, values | {"unknowns": unknowns})


def _values(record: Mapping[str, Any]) -> dict[str, Any]:
    labels = [_label(record, answer) for answer in _ANSWERS]
    group = {"F": "women", "M": "men"}.get(record["additional_metadata"]["stereotyped_groups"][0], TRANS)
    groups = {place: _GROUPS[label.partition("_")[0]] for place, label in enumerate(labels) if label != UNKNOWN}
    (unknown,) = {0, 1, 2} - groups.keys()
    negative = record["question_polarity"] == "neg"
    biased = [place for place, of in groups.items() if (of == group) == negative]
    return {
        "context": record["context"],
        "question": record["question"],
        "answers": [record[answer] for answer in _ANSWERS],
        "label": record["label"],
        "unknown": unknown,
        "biased": biased[0] if len(biased) == 1 else None,
        "condition": _CONDITIONS[record["context_condition"]],
        "polarity": "negative" if negative else "non-negative",
        "template": int(record["question_index"]),
        "group": group,
    }


def _label(record: Mapping[str, Any], answer: str) -> str:
    return str(record["answer_info"][answer][1])
