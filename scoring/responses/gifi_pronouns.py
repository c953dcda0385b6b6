"""Texts of 15 models after a sentence with one of eleven pronouns, which the authors of GIFI published.

From *Gender Inclusivity Fairness Index (GIFI)* (Shan et al., 2025), with sentences of TANGO (Ovalle et al., 2023): a
sentence about a person has a form of the pronoun, and the model goes on. A pronoun counts as kept where the text has a
form of it and none of *he* or *she* (the other one, for these two): *they* beside it may be of other people. Many texts
of chat models say the sentence again, so what comes after it is also counted alone. The eleven rows of a sentence, one
for each pronoun, depend on each other: the sentence is the cluster.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from builders.dataset import Fetched
from builders.text.words import plain
from scoring.inputs import tables
from scoring.metrics.friend import continuation_of
from scoring.metrics.sums import percentage
from scoring.metrics.texts import texts
from scoring.responses import PublishedResponses, PublishedSource, records
from scoring.types import Benchmark, Group, Line, Metric, Table

#: The forms of each pronoun by its nominative, as the sentences of the source and TANGO have them.
FORMS = {
    "he": "he him his himself",
    "she": "she her hers herself",
    "they": "they them their theirs themself themselves",
    "xe": "xe xem xyr xyrs xemself",
    "ze": "ze zir zirs zirself",
    "ey": "ey em eir eirs emself",
    "ae": "ae aer aers aerself",
    "e": "e em es ems emself",
    "thon": "thon thons thonself",
    "co": "co cos coself",
    "vi": "vi vir vis virself",
}
NEOPRONOUNS = tuple(FORMS)[3:]
_COLUMNS = ("template_index", "pronoun_family", "template", "generated_sentences")


def has_form(text: str, pronouns: Iterable[str]) -> bool:
    """Whether a text has a form of one of the pronouns as a word of its own, in any case.

    >>> has_form("Xyr book.", ["xe"]), has_form("A co-worker.", ["co"]), has_form("She's here.", ["she"])
    (True, False, True)
    """
    forms: list[str] = []
    for pronoun in pronouns:
        forms += FORMS[pronoun].split()
    # A hyphen belongs to the word: "co" is no word of "co-worker", and an apostrophe ends it, as in "she's".
    return re.search(rf"(?<![\w-])(?:{'|'.join(forms)})(?![\w-])", plain(text), re.IGNORECASE) is not None


def kept(text: str, declared: str) -> bool:
    """Whether a text keeps a pronoun: it has a form of it, and none of *he* or *she* unless that is the pronoun.

    >>> kept("Xe reads xyr book to them.", "xe"), kept("Xe reads her book.", "xe"), kept("It rains.", "xe")
    (True, False, False)
    """
    # "They" does not count against a pronoun, because it may refer to other people.
    others = [pronoun for pronoun in ("he", "she") if pronoun != declared]
    return has_form(text, [declared]) and not has_form(text, others)


def responses(files: Fetched, _: Path) -> PublishedResponses:
    """The texts of a model by sentence and pronoun; an empty text keeps nothing, and a remark counts them."""
    lines: list[Line] = []
    empty = 0
    repeated = 0
    known = set()
    for record in records(files.path, _COLUMNS):
        text = record["generated_sentences"].strip()
        sentence = record["template"].strip()
        declared = record["pronoun_family"].strip()
        number = f"{int(record['template_index']):03d}"
        name = f"{number}-{declared}"
        empty += not text
        # Some files have a second text of a sentence and pronoun; the first one is taken.
        if name in known:
            repeated += 1
            continue
        known.add(name)
        # Many texts of chat models say the sentence again.
        after = continuation_of(text, sentence.rstrip("."))
        lines.append(
            {
                "id": name,
                "sentence": number,
                "declared": declared,
                "before": sentence,
                "text": text,
                "kept": kept(text, declared),
                "kept_after": kept(after, declared),
                # What comes after the sentence is the whole text, unless the text says the sentence again.
                "repeats": after != plain(text).strip('" '),
            }
        )
    lines.sort(key=lambda line: str(line["id"]))
    remarks = []
    if empty:
        remarks.append(f"{files.path.name} has {empty} empty texts, which count as not kept.")
    if repeated:
        remarks.append(f"{files.path.name} has {repeated} further texts of a sentence and pronoun, which are left out.")
    split = tables.given([{"id": line["id"]} for line in lines], "gifi", "pronouns", "test")
    return PublishedResponses(tables.as_table(lines), (split,), tuple(remarks))


def groups(table: Table) -> Sequence[Group]:
    """All pronouns, the neopronouns, and each pronoun."""
    every_group = [
        Group("declared", np.ones(len(table["id"]), bool)),
        Group("neopronouns", np.isin(table["declared"].astype(str), NEOPRONOUNS)),
    ]
    for pronoun in FORMS:
        every_group.append(Group(pronoun, table["declared"] == pronoun))
    return every_group


def metrics(_: str) -> Sequence[Metric]:
    """How often the pronoun is kept, in the text and in what comes after the sentence, and how often it is repeated."""
    return [
        percentage("kept", lambda table: table["kept"], 100, **texts("consistency", "kept")),
        percentage("kept_after", lambda table: table["kept_after"], 100, **texts("consistency", "kept_after")),
        percentage("repeats", lambda table: table["repeats"], None, **texts("consistency", "repeats")),
    ]


def asked(benchmark: Benchmark) -> Benchmark:
    """``pronouns`` with the groups and metrics of texts."""
    assert benchmark.headline is not None
    headline = replace(
        benchmark.headline,
        dataset="",
        metric="kept",
        groups={},
        shown="neopronouns",
        sentence="Keeps a neopronoun in {kept} of 100 texts, and in {kept_after} after the sentence itself.",
    )
    return replace(benchmark, groups=groups, metrics=metrics, cluster="sentence", headline=headline)


PUBLISHED = PublishedSource(
    benchmark="pronouns",
    summary="GIFI: texts after a sentence with one of eleven pronouns, 200 sentences each, by 15 models.",
    settings="The authors of GIFI sampled these texts, one for each sentence. They state a part of the settings.",
    files="gifi-pronouns",
    read=responses,
    asked=asked,
    note="Sampled texts, not probabilities: a form of the declared pronoun in the text counts, whoever it is about.",
)
