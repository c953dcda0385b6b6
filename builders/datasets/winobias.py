"""WinoBias: sentences about two occupations and one pronoun, for he, she and they (Zhao et al., 2018)."""

from __future__ import annotations

from builders.dataset import Drop, Files, Row, Rows, declared
from builders.parsers.coref import WinoBiasPair, winobias_pairs
from builders.text.split import phrase_key
from builders.text.words import fill_they


def _about(pair: WinoBiasPair) -> dict[str, str | int]:
    return {name: getattr(pair, name) for name in ("occupation", "other_participant", "stereotype", "type")}


def _clean(files: Files) -> Rows:
    pairs = list(winobias_pairs(files))
    test = {phrase_key(pair.template) for pair in pairs if pair.split == "test"}
    for pair in pairs:
        if pair.split == "validation" and phrase_key(pair.template) in test:
            yield Drop(pair.split, pair.origin(files), "the sentence is in the test split too")
            continue
        values = {
            "template": pair.template,
            "sentence_male": pair.sentence("male"),
            "sentence_female": pair.sentence("female"),
            "sentence_they": fill_they(pair.template),
            **_about(pair),
            "mended": list(pair.mended),
        }
        yield Row(pair.split, pair.id, pair.origin(files), values)


def _paper(files: Files) -> Rows:
    for pair in winobias_pairs(files):
        values = {"sentence_pro": pair.pro, "sentence_anti": pair.anti, **_about(pair)}
        yield Row(pair.split, pair.id, pair.origin(files), values)


DATASET = declared("winobias", {"sentences": _clean, "sentences-paper": _paper})
