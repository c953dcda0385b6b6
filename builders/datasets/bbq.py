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
    answers: set[str] = set()
    for _, record in records_of:
        if record:
            answers.update(record[answer] for answer in _PLACES if _label(record, answer) == UNKNOWN)
    unknowns = sorted(answers)
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
    # The field is a list, of which the first group counts.
    stereotyped = record["additional_metadata"]["stereotyped_groups"][0]
    group = {"F": "women", "M": "men"}.get(stereotyped, TRANS)
    negative = record["question_polarity"] == "neg"
    people, biased = set(), []
    for place, answer in enumerate(_PLACES):
        label = _label(record, answer)
        if label == UNKNOWN:
            continue
        people.add(place)
        # The stereotype answers a negative question with the group, and another question with the other person.
        is_of_group = _GROUPS[label.partition("_")[0]] == group
        if is_of_group == negative:
            biased.append(place)
    # Any other number of answers that are no person is a ValueError, which the caller reports.
    (unknown,) = {0, 1, 2} - people
    answers = [record[answer] for answer in _PLACES]
    return {
        "context": record["context"],
        "question": record["question"],
        "input": f"{record['context']}\n\n{record['question']}",
        "answers": answers,
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
    # The released file is one; its replacement is a copy of the ambiguous half with the templates.
    if len(fetched.paths) == 1:
        yield from rows_of("bbq", fetched, enumerate(read.json_lines(fetched.path)))
    else:
        yield from rows_of("bbq", fetched, _rebuilt(fetched))


def _rebuilt(fetched: Fetched) -> Iterator[tuple[int, _Record | None]]:
    """Each ambiguous record, and the disambiguated one or None where the templates do not give exactly one."""
    path, templates = fetched.paths
    by_question: dict[tuple[str, str], list[dict[str, str]]] = {}
    for template in read.table(templates, _COLUMNS.split()):
        by_question.setdefault((template["Q_id"], template["version"]), []).append(template)
    for number, record in enumerate(read.json_document(path)):
        candidates = []
        for template in by_question[record["question_index"], record["additional_metadata"]["version"]]:
            disambiguated = _disambiguated(record, template)
            if disambiguated:
                candidates.append(disambiguated)
        yield number, record
        yield number, candidates[0] if len(candidates) == 1 else None


def _disambiguated(record: _Record, template: Mapping[str, str]) -> _Record | None:
    match = _pattern(template).fullmatch(record["context"])
    if match is None:
        return None
    words = match.groupdict()
    # A slot that only the second sentence has cannot be filled.
    if set(_SLOT.findall(template["Disambiguating_Context"])) - words.keys():
        return None
    sentence = _filled(template["Disambiguating_Context"], words)
    answer = _filled(template[_ANSWER[record["question_polarity"]]], words)
    return {
        **record,
        # Ids of the released file: a disambiguated record follows its ambiguous one.
        "example_id": record["example_id"] + 1,
        "context_condition": "disambig",
        "context": f"{record['context']} {sentence}",
        "label": [record[place] for place in _PLACES].index(answer),
    }


def _pattern(template: Mapping[str, str]) -> re.Pattern[str]:
    """What the context of a template may be; the words of a slot are those that the template lists, where it does."""
    words = dict(_LIST.findall(f"{template['Names']}; {template['Lexical_diversity']}"))
    text = re.escape(template["Ambiguous_Context"]).replace(r"\ a\ \{\{", r"\ an?\ \{\{")
    for slot in dict.fromkeys(_SLOT.findall(template["Ambiguous_Context"])):
        if slot in words:
            choices = "|".join(re.escape(word.strip()) for word in words[slot].split(","))
        else:
            choices = ".+?"
        escaped = re.escape(f"{{{{{slot}}}}}")
        # The first occurrence of a slot captures its word; the later ones must repeat that word.
        text = text.replace(escaped, f"(?P<{slot}>{choices})", 1).replace(escaped, f"(?P={slot})")
    return re.compile(text)


def _filled(text: str, words: Mapping[str, str]) -> str:
    """A text of a template with its words; a name that begins with a vowel turns every a before a vowel into an."""
    filled = _SLOT.sub(lambda slot: words[slot[1]], text)
    if any(words[name][0].lower() in "aeiou" for name in ("NAME1", "NAME2")):
        return re.sub(r"(\s[aA])(\s[aeiou])", r"\1n\2", filled, flags=re.IGNORECASE)
    return filled


DATASET = declared("bbq", {"gender": _rows})
