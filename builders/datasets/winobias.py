"""WinoBias: sentences about two occupations and one pronoun, for he, she and they (Zhao et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from builders.dataset import Config, DataSet, Drop, Files, Origin, Row, Rows, card_texts, column, text
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
    **card_texts("winobias"),
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
)
