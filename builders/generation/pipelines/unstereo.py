"""Sentences around seed words that a pronoun of any gender completes, written by a chat model.

The pipeline of *Are Models Biased on Text without Gender-related Language?* (UnStereoEval; Belém et al.,
2024, section 4 and tables 2 and 3): write sentences with a word and a pronoun, put slots in the place
of the pronoun, ask whether the sentence is likely with each pronoun, revise what lacks the word or the
pronoun, and keep what no word leans to one gender in.

``paper`` follows the published code. There a revised sentence keeps the verdict on the sentence before
it was revised, and gendered words are not looked for. ``clean`` writes with *they* too, revises first,
proves that a conversion changed nothing but the pronoun, looks for gendered words and repeats, and
judges the very sentence that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from builders.dataset import content_id
from builders.datasets.unstereo import fill_published, flaw
from builders.generation.asking import Asker
from builders.generation.chat import ChatError
from builders.generation.pipeline import Account, Pipeline, count_words, no_sentence, records
from builders.generation.pipelines._drafts import Draft, says_the_same, seed_words
from builders.generation.pipelines._stages import Settings, Work, converted, judged, lacks, revised, written
from builders.text.words import PRONOUNS, Gender, fill, fill_they, normalise
from pmi.analysis.sentence import Score, max_pmi_diff, within
from pmi.types import CountRule, DeltaTable, TableError


def run(settings: Settings, model: str, ask: Asker, account: Account) -> list[dict[str, Any]]:
    """Rows of the sentences that pass every stage."""
    table = _table(settings.pmi) if settings.pmi else None
    words = seed_words(settings.words)
    work = Work(settings, model, ask, account)
    drafts = (_paper if work.is_paper else _clean)(work, words, table)
    return [_row(work, draft, table, place) for place, draft in enumerate(drafts)]


def _clean(work: Work, words: Sequence[str], table: DeltaTable | None) -> list[Draft]:
    """Cheap filters first; what is judged is what is kept."""
    genders: tuple[Gender, ...] = ("male", "female", "they") if work.settings.they else ("male", "female")
    drafts = _keep(work, "write", written(work, words, genders), lambda draft: no_sentence(draft.sentence))
    drafts = _keep(work, "revise", revised(work, drafts), lambda draft: lacks(work, draft))
    drafts = _keep(work, "convert", converted(work, drafts, "convert"), _misconverted)
    drafts = _keep(work, "form", drafts, lambda draft: flaw(draft.template) or _too_long(work, draft))
    drafts = _keep(work, "repeats", drafts, _repeats())
    drafts = _keep(work, "pmi", drafts, lambda draft: _leans(work, draft, table))
    return _keep(work, "judge", judged(work, drafts), _unlikely)


def _paper(work: Work, words: Sequence[str], table: DeltaTable | None) -> list[Draft]:
    """In the order of the published code: the verdict is on the sentence as first written."""
    drafts = judged(work, converted(work, list(written(work, words, ("male", "female"))), "convert"))
    drafts = _keep(work, "revise", revised(work, drafts), lambda draft: lacks(work, draft))
    drafts = _keep(work, "judge", drafts, _unlikely)
    return _keep(work, "pmi", drafts, lambda draft: _leans(work, draft, table))


def _keep(work: Work, stage: str, found: Iterable[Draft], fault: Callable[[Draft], str]) -> list[Draft]:
    return work.account.keep(stage, found, fault, lambda draft: draft.template or draft.sentence)


def _misconverted(draft: Draft) -> str:
    if "{" not in draft.template:
        return "has no pronoun after its conversion"
    return "" if says_the_same(draft.template, draft.gender, draft.sentence) else "was changed by its conversion"


def _too_long(work: Work, draft: Draft) -> str:
    limit = work.settings.length
    return f"has more than {limit} words" if count_words(draft.sentence) > limit else ""


def _repeats() -> Callable[[Draft], str]:
    seen: set[str] = set()

    def fault(draft: Draft) -> str:
        before = len(seen)
        seen.add(normalise(draft.template))
        return "" if len(seen) > before else "stands elsewhere in the set"

    return fault


def _table(path: Path) -> DeltaTable:
    rows = records(path, ("word", "delta"))
    rule = CountRule(path.name, 1, "as in the file", "as in the file")
    try:
        return DeltaTable.of((r["word"] for r in rows), (r["delta"] for r in rows), [0] * len(rows), rule)
    except (TableError, ValueError) as error:
        raise ChatError(f"{path.name} is no table of words and their delta: {error}") from None


def _score(work: Work, draft: Draft, table: DeltaTable | None) -> Score | None:
    return max_pmi_diff(draft.template, table, "nltk" if work.is_paper else "clean") if table else None


def _leans(work: Work, draft: Draft, table: DeltaTable | None) -> str:
    score = _score(work, draft, table)
    if score is None or within(score.value, work.settings.epsilon):
        return ""
    return "has no word in the table" if score.value is None else "has a word that leans to one gender"


def _unlikely(draft: Draft) -> str:
    return "" if draft.natural else "was not judged likely with every pronoun"


def _row(work: Work, draft: Draft, table: DeltaTable | None, place: int) -> dict[str, Any]:
    score = _score(work, draft, table)
    name = f"ours-{work.settings.length}"
    write = fill_published if work.is_paper else fill
    return {
        "id": f"{name}-paper-{place:05d}" if work.is_paper else content_id(name, draft.template),
        "template": draft.template,
        "sentence_male": write(draft.template, "male"),
        "sentence_female": write(draft.template, "female"),
        "sentence_they": fill_they(draft.template) if work.settings.they and not work.is_paper else None,
        "word": draft.word,
        "length": work.settings.length,
        "written_with": PRONOUNS[draft.gender].nominative,
        "revisions": draft.revisions,
        "max_pmi_diff": score and score.value,
        "max_pmi_word": score and score.word,
        "model": draft.reply.model,
    }


PIPELINE = Pipeline("Sentences of a few words that a pronoun of any gender completes.", Settings, run)
