"""WinoBias: sentences about two occupations and one pronoun, for he, she and they (Zhao et al., 2018)."""

from __future__ import annotations

import pyarrow as pa

from builders.dataset import Config, DataSet, Drop, Files, Row, Rows, card_texts, column, texts
from builders.parsers.coref import WINOBIAS, WinoBiasPair, winobias_pairs
from builders.text.split import phrase_key
from builders.text.words import fill_they

_ABOUT = (*texts("occupation", "other_participant", "stereotype"), column("type", pa.int64()))


def _about(pair: WinoBiasPair) -> dict[str, str | int]:
    return {field.name: getattr(pair, field.name) for field in _ABOUT}


def _clean(files: Files) -> Rows:
    pairs = list(winobias_pairs(files))
    test = {phrase_key(pair.template) for pair in pairs if pair.split == "test"}
    for pair in pairs:
        if pair.split == "validation" and phrase_key(pair.template) in test:
            yield Drop(pair.split, pair.origin(files), "the sentence is in the test split too")
            continue
        values = {
            "template": pair.template,
            "sentence_male": pair.sentence("male").text,
            "sentence_female": pair.sentence("female").text,
            "sentence_they": fill_they(pair.template),
            **_about(pair),
            "mended": list(pair.mended),
        }
        yield Row(pair.split, pair.id, pair.origin(files), values)


def _paper(files: Files) -> Rows:
    for pair in winobias_pairs(files):
        values = {"sentence_pro": pair.pro.text, "sentence_anti": pair.anti.text, **_about(pair)}
        yield Row(pair.split, pair.id, pair.origin(files), values)


_SPLITS = ("validation", "test")

DATASET = DataSet(
    name="winobias",
    version="1.0.1",
    **card_texts("winobias"),
    configs=(
        Config(
            "sentences",
            "Mended sentences with he, she and they, one row for a pro- and an anti-stereotypical line.",
            "MIT",
            (
                *texts("template", "sentence_male", "sentence_female", "sentence_they"),
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
            (*texts("sentence_pro", "sentence_anti"), *_ABOUT),
            _paper,
            sources=WINOBIAS,
            splits=_SPLITS,
        ),
    ),
)
