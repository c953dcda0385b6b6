"""UnStereo: sentences without gender-related language that fit a pronoun of any gender.

From *Are Models Biased on Text without Gender-related Language?* (UnStereoEval; Belém et al., 2024):
three sets that a chat model wrote with seed words (sentences of about 5, 10 and 20 words), and the sentences
of WinoBias and Winogender. A model is fair on a sentence if the versions with *he* and with *she* have about
the same probability.

A benchmark of the paper has the rows whose ``natural`` is not false and, with a threshold ε, whose
``max_pmi_diff`` is in [−ε, ε] (:func:`pmi.analysis.sentence.within`). In the ``-paper`` configs
``max_pmi_diff`` gives the sizes in the paper, and ``max_pmi_diff_repository`` those of the authors'
repository, in which the tokenizer was changed later.

``provenance`` traces each published row of the three written sets to the recorded reply in ``replies``, to its
seed word and to the sample that the word was drawn in.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from builders.dataset import BuildError, Drop, Files, Origin, Row, Rows, content_id, declared
from builders.datasets.gender_pmi import delta_table
from builders.parsers import read, recorded
from builders.parsers.bundled import BundledEntry, Text, entries, path
from builders.text import words
from builders.text.words import PRONOUNS, Gender, TemplateError, normalise
from pmi.analysis.sentence import max_pmi_diff

WRITTEN_SENTENCES = "pronoun-pairs"


class SentenceEntry(BundledEntry):
    """A sentence of :data:`WRITTEN_SENTENCES`: its approximate number of words, its seed word and its template."""

    length: int
    word: Text
    template: Text


#: Columns of the published files; the first of two of them has no name.
_JUDGED = "has_placeholder template modifications likely_under is_natural has_word is_revised"
OURS_COLUMNS = ("", "word", "target_word", "sentence", *_JUDGED.split())
_DRAWN = "sentence word target_word drop filename stereotype is_challenging is_dev has_pronoun template"
_WINOBIAS = ("", *_DRAWN.split())
_WINOGENDER = tuple("sentid example_id sentence has_pronoun template word".split())


@dataclass(frozen=True, slots=True)
class _Set:
    """One of the five sets: the columns of its published files, and the source of each split.

    The test split is first: a sentence of both splits is kept there.
    """

    name: str
    columns: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]


_SETS = (
    _Set("ours-5", OURS_COLUMNS, (("test", "unstereo/use-5"),)),
    _Set("ours-10", OURS_COLUMNS, (("test", "unstereo/use-10"),)),
    _Set("ours-20", OURS_COLUMNS, (("test", "unstereo/use-20"),)),
    _Set("winobias", _WINOBIAS, (("test", "unstereo/winobias-test"), ("validation", "unstereo/winobias-dev"))),
    _Set("winogender", _WINOGENDER, (("test", "unstereo/winogender"),)),
)


@dataclass(frozen=True, slots=True)
class _Record:
    """A published record with renamed slots. ``natural`` is None in the sets without judgements."""

    split: str
    origin: Origin
    template: str
    word: str
    natural: bool | None
    revised: bool


# Our slots for the published placeholders; {pronoun1} also occurs where an absolute possessive is right.
_RENAMED = {
    "{pronoun}": "{nominative}",
    "{pronoun1}": "{possessive}",
    "{pronoun2}": "{accusative}",
    "{pronoun2}self": "{reflexive}",
}
_PLACEHOLDER = re.compile(r"\{pronoun\}|\{pronoun1\}|\{pronoun2\}(?:self)?")


def from_published(template: str) -> str:
    """A published template with the names of our slots.

    >>> from_published("{pronoun} saw {pronoun2}self.")
    '{nominative} saw {reflexive}.'
    """
    return _PLACEHOLDER.sub(lambda match: _RENAMED[match.group()], template)


def _flag(fields: dict[str, str], name: str, origin: Origin) -> bool:
    value = fields[name]
    if value not in ("True", "False"):
        raise BuildError(f"{origin.file} record {origin.row} has {value!r} as {name}; expected True or False.")
    return value == "True"


def _records(source_set: _Set, files: Files) -> Iterator[_Record]:
    for split, source in source_set.sources:
        for row, fields in enumerate(read.table(files[source].path, source_set.columns)):
            origin = files[source].origin(row)
            # The sets of WinoBias and Winogender were neither judged nor revised.
            natural, revised = None, False
            if "is_natural" in fields:
                natural = _flag(fields, "is_natural", origin)
            if "is_revised" in fields:
                revised = _flag(fields, "is_revised", origin)
            yield _Record(split, origin, from_published(fields["template"]), fields["word"], natural, revised)


_SLOT = re.compile(r"\{(\w+)\}")


def fill_published(template: str, gender: Gender) -> str:
    """The sentence by the rule of the published code: no double quotes, lower case but for the first letter.

    >>> fill_published('The CEO said: "I like {possessive} car."', "female")
    'The ceo said: i like her car.'
    """
    filled = _SLOT.sub(lambda match: str(getattr(PRONOUNS[gender], match.group(1))), template)
    return filled.replace('"', "").strip().capitalize()


def _published(source_set: _Set, files: Files) -> Rows:
    table = delta_table(files["unstereo/pmi"])
    for record in _records(source_set, files):
        values = {
            "template": record.template,
            "sentence_male": fill_published(record.template, "male"),
            "sentence_female": fill_published(record.template, "female"),
            "word": record.word,
            "natural": record.natural,
            "max_pmi_diff": max_pmi_diff(record.template, table, "nltk").value,
            "max_pmi_diff_repository": max_pmi_diff(record.template, table, "spacy").value,
        }
        yield Row(record.split, _published_id(source_set, record), record.origin, values)


def _published_id(source_set: _Set, record: _Record) -> str:
    return f"{source_set.name}-paper-{record.split}-{record.origin.row:05d}"


# A possessive at the end of a phrase is an absolute one.
_ABSOLUTE = re.compile(r"\{possessive\}(?=[.,;:!?]|$)")
_BRACKETED = re.compile(r"\[(\{\w+\})\]")
# Errors of WinoBias that are wrong with every pronoun.
_WORDING = (("{nominative} there is", "there is"), ("to a dig a hole", "to dig a hole"))


def mend(template: str) -> str:
    """A template with corrected form; case and quotes stay.

    It removes brackets around a slot and a space before ``'s``, makes a possessive without a noun absolute, and
    corrects two errors of wording.

    >>> mend("The guard 's coat is a favourite of [{possessive}].")
    "The guard's coat is a favourite of {possessive_absolute}."
    """
    mended = _BRACKETED.sub(r"\1", words.plain(template)).replace(" 's", "'s")
    for wrong, right in _WORDING:
        mended = mended.replace(wrong, right)
    return _ABSOLUTE.sub("{possessive_absolute}", mended)


def flaw(template: str) -> str:
    """Why a template cannot be used in a set of sentences without gendered language, or an empty text.

    >>> flaw("She knew that {nominative} was late.")
    'has a gendered word outside its slots'
    """
    try:
        words.slots(template)
    except TemplateError:
        return "is not a template: a slot is missing, unknown or broken"
    if "\n" in template or "}/{" in template:
        return "is a chat model's remark on a sentence"
    if not words.is_neutral(template):
        return "has a gendered word outside its slots"
    return ""


def _sentences(template: str) -> dict[str, str | None]:
    return {
        "template": template,
        "sentence_male": words.fill(template, "male"),
        "sentence_female": words.fill(template, "female"),
        "sentence_they": words.fill_they(template),
    }


def _mended(source_set: _Set, files: Files) -> Iterator[tuple[_Record, str, str]]:
    """The published records with their mended template, and why a record is left out, or an empty text."""
    seen: set[str] = set()
    for record in _records(source_set, files):
        template = mend(record.template)
        key = normalise(template)
        if record.natural is False:
            reason = "was judged unnatural"
        elif record.revised:
            # The published verdict on a revised sentence is that on its first version.
            reason = "was revised after it was judged"
        else:
            reason = flaw(record.template)
        if not reason and key in seen:
            reason = "occurs elsewhere in the set"
        if not reason:
            seen.add(key)
        yield record, template, reason


def _clean(source_set: _Set, files: Files) -> Rows:
    table = delta_table(files["unstereo/pmi"])
    for record, template, reason in _mended(source_set, files):
        if reason:
            yield Drop(record.split, record.origin, reason)
            continue
        score = max_pmi_diff(template, table, "clean")
        values = _sentences(template) | {
            "word": record.word,
            "natural": record.natural,
            "max_pmi_diff": score.value,
            "max_pmi_word": score.word,
            "pmi_coverage": score.coverage,
        }
        yield Row(record.split, content_id(source_set.name, template), record.origin, values)


def _pronoun_pairs(file: Path, _: Files) -> Rows:
    for origin, entry in entries(file, SentenceEntry):
        values = _sentences(entry.template) | {"word": entry.word, "length": entry.length}
        yield Row("test", content_id(WRITTEN_SENTENCES, entry.template), origin, values)


def _replies(files: Files) -> Rows:
    for length in recorded.LENGTHS:
        for reply in recorded.replies(files[f"unstereo-development/replies-{length}"], length):
            values = _draw(reply) | {"length": length, "prompt": reply.prompt, "reply": reply.text}
            yield Row("test", reply.id, reply.origin, values)


def _provenance(files: Files) -> Rows:
    # The first three sets are the written ones, in the order of the lengths.
    for length, source_set in zip(recorded.LENGTHS, _SETS, strict=False):
        # The copy of the development repository, whose rows are those of the published file.
        copy = f"unstereo-development/use-{length}"
        source_set = replace(source_set, sources=(("test", copy),))
        records = list(_mended(source_set, files))
        rows = [recorded.PublishedRow.of(row) for row in read.table(files[copy].path, source_set.columns)]
        sentences = recorded.sentences(recorded.replies(files[f"unstereo-development/replies-{length}"], length))
        for (record, template, reason), place in zip(records, recorded.places(rows, sentences), strict=True):
            sentence = sentences[place]
            values = _draw(sentence.reply) | {
                "clean_id": None if reason else content_id(source_set.name, template),
                "reply_id": sentence.reply.id,
                "entry": sentence.entry,
                "revised": record.revised,
            }
            yield Row("test", _published_id(source_set, record), record.origin, values)


def _draw(reply: recorded.Reply) -> dict[str, object]:
    return {"word": reply.word, "written_with": reply.pronoun, "draw": reply.draw, "seed": reply.seed}


_ROWS: dict[str, Callable[[Files], Rows]] = {
    "provenance": _provenance,
    "replies": _replies,
    WRITTEN_SENTENCES: partial(_pronoun_pairs, path(WRITTEN_SENTENCES)),
}
for _set in _SETS:
    _ROWS[_set.name] = partial(_clean, _set)
    _ROWS[f"{_set.name}-paper"] = partial(_published, _set)

DATASET = declared("unstereo", _ROWS)
