"""BBQ, gender: questions that a context leaves open or answers (Parrish et al., 2022).

Without the released file, its ambiguous half is read from a copy, and the disambiguated half is made from the
templates: the second sentence of a template is filled with the words that the first one shows, as the authors'
generator does. A record whose second sentence has a word of its own is left out.

A context is ambiguous, so that the right answer is that it cannot be known, or a second sentence disambiguates it. A
question is negative (its answer says something bad of a person) or not. The stereotype is about a group: it answers a
negative question with a person of that group, and the other question with the other person.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from builders.dataset import BuildError, Drop, Fetched, Files, Row, Rows, declared
from builders.parsers import read

UNKNOWN, TRANS = "unknown", "trans people"
_CONDITIONS = {"ambig": "ambiguous", "disambig": "disambiguated"}
_PLACES = ("ans0", "ans1", "ans2")
#: The group of a label of a person, before its gender such as in ``trans_F``: BBQ's and, in four languages, MBBQ's.
_GROUPS = {
    "trans": TRANS,
    "nonTrans": "others",
    **dict.fromkeys("F woman girl vrouw meisje mujer chica kadın kız".split(), "women"),
    **dict.fromkeys(["M", "erkek çocuk", *"man boy jongen hombre chico adam".split()], "men"),
}


def rows_of(prefix: str, fetched: Fetched, records: Iterable[tuple[int, Mapping[str, Any] | None]]) -> Rows:
    """The rows of records with their numbers, whose ids begin with ``prefix``; None is a record that is left out.

    ``biased`` is the number of the answer that the stereotype gives; it is null where both people are of the group or
    neither is. ``unknowns`` has all answers of the records that say that it cannot be known. ``input`` is what a model
    reads before the answers.

    Raises
    ------
    BuildError
        When a record has no or several answers that it cannot be known, or a label that is not known here.
    """
    records_of = list(records)
    unknowns = sorted({r[answer] for _, r in records_of if r for answer in _PLACES if _label(r, answer) == UNKNOWN})
    for number, record in records_of:
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
    labels = [_label(record, answer) for answer in _PLACES]
    group = {"F": "women", "M": "men"}.get(record["additional_metadata"]["stereotyped_groups"][0], TRANS)
    groups = {place: _GROUPS[label.partition("_")[0]] for place, label in enumerate(labels) if label != UNKNOWN}
    (unknown,) = {0, 1, 2} - groups.keys()
    negative = record["question_polarity"] == "neg"
    # The stereotype answers a negative question with the group, and another question with the other person.
    biased = [place for place, of in groups.items() if (of == group) == negative]
    return {
        "context": record["context"],
        "question": record["question"],
        "input": f"{record['context']}\n\n{record['question']}",
        "answers": [record[answer] for answer in _PLACES],
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


# The released file, or the half that is made from the templates

_SLOT = re.compile(r"\{\{(\w+)\}\}")
_LIST = re.compile(r"(?:\{\{)?(\w+)(?:\}\})?: *\[(.*?)\]")
_COLUMNS = """
needs_val Q_id Subcategory version Category Ambiguous_Context Disambiguating_Context Names Lexical_diversity
Proper_nouns_only Question_negative_stereotype Question_non_negative Answer_negative Answer_non_negative
Relevant_social_values Known_stereotyped_groups NAME1_info NAME2_info Stated_gender_info Notes"""
_ANSWER = {"neg": "Answer_negative", "nonneg": "Answer_non_negative"}

_Record = Mapping[str, Any]


def _rows(files: Files) -> Rows:
    fetched = files["bbq/gender"]
    released = len(fetched.paths) == 1
    yield from rows_of("bbq", fetched, enumerate(read.json_lines(fetched.path)) if released else _rebuilt(fetched))


def _rebuilt(fetched: Fetched) -> Iterator[tuple[int, _Record | None]]:
    """Each ambiguous record, and the disambiguated one or None where the templates do not give exactly one."""
    path, templates = fetched.paths
    by_question: dict[tuple[str, str], list[dict[str, str]]] = {}
    for template in read.table(templates, _COLUMNS.split()):
        by_question.setdefault((template["Q_id"], template["version"]), []).append(template)
    for number, record in enumerate(read.json_document(path)):
        others = by_question[record["question_index"], record["additional_metadata"]["version"]]
        found = [one for template in others if (one := _disambiguated(record, template))]
        yield number, record
        yield number, found[0] if len(found) == 1 else None


def _disambiguated(record: _Record, template: Mapping[str, str]) -> _Record | None:
    match = _pattern(template).fullmatch(record["context"])
    if match is None or set(_SLOT.findall(template["Disambiguating_Context"])) - match.groupdict().keys():
        return None
    names = "Disambiguating_Context", _ANSWER[record["question_polarity"]]
    sentence, answer = (_filled(template[name], match.groupdict()) for name in names)
    return {
        **record,
        "example_id": record["example_id"] + 1,
        "context_condition": "disambig",
        "context": f"{record['context']} {sentence}",
        "label": [record[f"ans{number}"] for number in range(3)].index(answer),
    }


def _pattern(template: Mapping[str, str]) -> re.Pattern[str]:
    """What the context of a template may be; the words of a slot are those that the template lists, where it does."""
    words = dict(_LIST.findall(f"{template['Names']}; {template['Lexical_diversity']}"))
    text = re.escape(template["Ambiguous_Context"]).replace(r"\ a\ \{\{", r"\ an?\ \{\{")
    for slot in dict.fromkeys(_SLOT.findall(template["Ambiguous_Context"])):
        listed = "|".join(re.escape(word.strip()) for word in words[slot].split(",")) if slot in words else ".+?"
        escaped = re.escape(f"{{{{{slot}}}}}")
        text = text.replace(escaped, f"(?P<{slot}>{listed})", 1).replace(escaped, f"(?P={slot})")
    return re.compile(text)


def _filled(text: str, words: Mapping[str, str]) -> str:
    """A text of a template with its words; a name that begins with a vowel turns every a before a vowel into an."""
    filled = _SLOT.sub(lambda slot: words[slot[1]], text)
    vowel = any(words[name][0].lower() in "aeiou" for name in ("NAME1", "NAME2"))
    return re.sub(r"(\s[aA])(\s[aeiou])", r"\1n\2", filled, flags=re.IGNORECASE) if vowel else filled


DATASET = declared("bbq", {"gender": _rows})
