"""Sentences with seed words that fit a pronoun of any gender, written by a chat model.

The pipeline of *Are Models Biased on Text without Gender-related Language?* (UnStereoEval; Belém et al.,
2024, section 4 and tables 2 and 3): write sentences with a word and a pronoun, replace the pronoun by
slots, judge whether the sentence is likely with each pronoun, revise sentences without the word or the
pronoun, and keep those in which no word has a high |MaxPMIDiff|.

``paper`` follows the published code, in which a revised sentence keeps the verdict on its first version and
gendered words are not filtered. ``clean`` writes with *they* too, revises first, checks that the conversion
changed only the pronoun, filters gendered words and repeated sentences, and judges the final sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders.generation.clients import ChatClient
from builders.generation.pipeline import FilterLog, Pipeline, read_rows
from builders.generation.pipelines._replay import replay_published
from builders.generation.pipelines._unstereo import UnstereoRun, UnstereoSettings, clean, paper, row, seed_words
from builders.generation.responses import ChatError
from builders.text.words import Gender
from pmi.types import CountRule, DeltaTable, TableError


def run(settings: UnstereoSettings, model: str, client: ChatClient, log: FilterLog) -> list[dict[str, Any]]:
    """The rows of the sentences that pass every stage."""
    table = _delta_table(settings.pmi) if settings.pmi else None
    words = seed_words(settings.words)
    current = UnstereoRun(settings, model, client, log)
    genders: tuple[Gender, ...] = ("male", "female", "they") if settings.they else ("male", "female")
    drafts = paper(current, words, table) if current.is_paper else clean(current, words, genders, table)
    return [row(current, draft, table, number) for number, draft in enumerate(drafts)]


def _delta_table(path: Path) -> DeltaTable:
    rows = read_rows(path, ("word", "delta"))
    rule = CountRule(path.name, 1, "as in the file", "as in the file")
    try:
        return DeltaTable.of((r["word"] for r in rows), (r["delta"] for r in rows), [0] * len(rows), rule)
    except (TableError, ValueError) as error:
        raise ChatError(f"{path.name} is not a table of words and their delta: {error}") from None


PIPELINE = Pipeline(
    "Sentences of a few words that fit a pronoun of any gender.",
    UnstereoSettings,
    run,
    replays={"published": replay_published},
)
