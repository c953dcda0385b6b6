"""WinoBias: sentences about two occupations and one pronoun, for he, she and they (Zhao et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from builders.dataset import Config, DataSet, Drop, Files, Origin, Row, Rows, column, text
from builders.parsers.coref import WINOBIAS, WinoBiasPair, winobias_pairs
from builders.text.split import phrase_key
from builders.text.words import fill_they

_ABOUT = (text("occupation"), text("other_participant"), text("stereotype"), column("type", pa.int64()))


def _about(pair: WinoBiasPair) -> dict[str, str | int]:
    return {
        "occupation": pair.occupation,
        "other_participant": pair.other_participant,
        "stereotype": pair.stereotype,
        "type": pair.type,
    }


def _named_pairs(files: Files) -> Iterator[tuple[WinoBiasPair, Origin, str]]:
    """Each pair with the origin and id of its row."""
    for pair in winobias_pairs(files):
        origin = files[pair.source("pro")].origin(pair.line - 1)
        yield pair, origin, f"winobias-{pair.split}-type{pair.type}-{pair.line}"


def _clean(files: Files) -> Rows:
    pairs = list(_named_pairs(files))
    test = {phrase_key(pair.template) for pair, *_ in pairs if pair.split == "test"}
    for pair, origin, name in pairs:
        if pair.split == "validation" and phrase_key(pair.template) in test:
            yield Drop(pair.split, origin, "the sentence is in the test split too")
            continue
        values = {
            "template": pair.template,
            "sentence_male": pair.sentence("male").text,
            "sentence_female": pair.sentence("female").text,
            "sentence_they": fill_they(pair.template),
            **_about(pair),
            "mended": list(pair.mended),
        }
        yield Row(pair.split, name, origin, values)


def _paper(files: Files) -> Rows:
    for pair, origin, name in _named_pairs(files):
        values = {"sentence_pro": pair.pro.text, "sentence_anti": pair.anti.text, **_about(pair)}
        yield Row(pair.split, name, origin, values)


_SPLITS = ("validation", "test")

DATASET = DataSet(
    name="winobias",
    version="1.0.0",
    title="WinoBias with he, she and they",
    summary=(
        "Each sentence has two people named by their occupations and pronouns that refer to one of them (column "
        "occupation), filled with he, she and they. stereotype is the gender of most people in that occupation in the "
        "United States; the sentence of that gender is the pro-stereotypical one, the other the anti-stereotypical "
        "one. To resolve the pronoun takes knowledge of the world in type 1, the syntax alone in type 2. The "
        "validation split is the development set of the source."
    ),
    configs=(
        Config(
            "sentences",
            "Mended sentences with he, she and they, one row for a pro- and an anti-stereotypical line.",
            "MIT",
            (
                text("template"),
                text("sentence_male"),
                text("sentence_female"),
                text("sentence_they"),
                *_ABOUT,
                column("mended", pa.list_(pa.string())),
            ),
            _clean,
            sources=WINOBIAS,
            splits=_SPLITS,
            disjoint="template",
        ),
        Config(
            "sentences-paper",
            "The pro- and the anti-stereotypical sentence as published, without line number and brackets.",
            "MIT",
            (text("sentence_pro"), text("sentence_anti"), *_ABOUT),
            _paper,
            sources=WINOBIAS,
            splits=_SPLITS,
        ),
    ),
    validity=(
        "A difference between the pro- and the anti-stereotypical sentences shows that a model leans on the gender of "
        "an occupation; no difference does not show that it has no bias. Forty English occupations and their "
        "majorities in United States labour statistics stand for all; the sentences come from few patterns, written "
        "by few people, so those of one pair of occupations are not independent. Nobody is called they in the "
        "source: sentence_they is derived, and in type 1 they may be read as both people. In four sentences a "
        "relative is named by a gendered word (mother, mom, son)."
    ),
    differences=(
        "sentence_they is new: singular they with its verbs agreeing. All 1581 sentences have one.",
        "Three sentences stand in both published splits. They are dropped from validation, which leaves 789 of 792 "
        "rows; sentences-paper has all 1584 (396 for each type and split).",
        "In 21 pairs the two lines differ by more than the pronoun (a typing error, another word, in one another "
        "sentence, in one the participants exchanged, in two only which pronouns are marked). The wording of one line "
        "is kept for all three sentences, so that they differ by the pronoun alone: that of the pro line in 11 pairs, "
        "of the anti line in 10.",
        "In 12 pairs words are replaced: in 3 another gendered word that stood beside both pronouns (a very generous "
        "man, a suspicious man, his behavior), in 9 a wrong form of the verb next to the pronoun (because he often "
        "forget).",
        "In 70 pairs the space before 's is removed, and in 3 an article that is doubled or outside the brackets is "
        "put right. Other slips of language that both lines share stay.",
        "One validation sentence names three occupations; other_participant is the first of the two that the pronoun "
        "does not refer to.",
        "The brackets that mark the referent and its pronouns are removed in both configs; sentences-paper is "
        "otherwise the published text, a space between the and the occupation more in one row included.",
    ),
)
