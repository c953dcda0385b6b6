"""The rules of the UnStereo pipeline: which drafts are kept, in what order, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from builders.dataset import content_id
from builders.datasets.unstereo import fill_published, flaw
from builders.generation.pipeline import count_words, sentence_fault
from builders.generation.pipelines._drafts import Draft, restores_sentence
from builders.generation.pipelines._stages import UnstereoRun, convert, judge, missing_part, revise, write
from builders.text.words import PRONOUNS, Gender, fill, fill_they, normalise
from pmi.analysis.sentence import SentenceScore, max_pmi_diff, within
from pmi.types import DeltaTable


def clean(run: UnstereoRun, words: Sequence[str], genders: Sequence[Gender], table: DeltaTable | None) -> list[Draft]:
    """The kept drafts by this project's rules. Filters without requests come first; the judged sentence is kept."""
    drafts = _filter(run, "write", write(run, words, genders), lambda draft: sentence_fault(draft.sentence))
    drafts = _filter(run, "revise", revise(run, drafts), lambda draft: missing_part(run, draft))
    drafts = _filter(run, "convert", convert(run, drafts, "convert"), _conversion_fault)
    drafts = _filter(run, "form", drafts, lambda draft: flaw(draft.template) or _length_fault(run, draft))
    first = {normalise(draft.template): draft for draft in reversed(drafts)}
    repeat = "occurs elsewhere in the set"
    drafts = _filter(run, "repeats", drafts, lambda draft: "" if first[normalise(draft.template)] is draft else repeat)
    drafts = _filter(run, "pmi", drafts, lambda draft: _pmi_fault(run, draft, table))
    return _filter(run, "judge", judge(run, drafts), _verdict_fault)


def paper(run: UnstereoRun, words: Sequence[str], table: DeltaTable | None) -> list[Draft]:
    """The kept drafts by the rules of the published code."""
    drafts = paper_revised(run, paper_first(run, words, ("male", "female")))
    return paper_kept(run, drafts, table)


def paper_first(run: UnstereoRun, words: Sequence[str], genders: Sequence[Gender]) -> list[Draft]:
    """The first versions, with templates and verdicts; the published code judges these."""
    return judge(run, convert(run, write(run, words, genders), "convert"))


def paper_revised(run: UnstereoRun, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts with word and pronoun, revised where needed: the rows of the published files."""
    return _filter(run, "revise", revise(run, drafts), lambda draft: missing_part(run, draft))


def paper_kept(run: UnstereoRun, drafts: Sequence[Draft], table: DeltaTable | None) -> list[Draft]:
    """The drafts that were judged likely and have no word associated with one gender."""
    drafts = _filter(run, "judge", drafts, _verdict_fault)
    return _filter(run, "pmi", drafts, lambda draft: _pmi_fault(run, draft, table))


def _filter(run: UnstereoRun, stage: str, drafts: Iterable[Draft], fault: Callable[[Draft], str]) -> list[Draft]:
    return run.log.filter(stage, drafts, fault, lambda draft: draft.template or draft.sentence)


def _conversion_fault(draft: Draft) -> str:
    if "{" not in draft.template:
        return "has no pronoun after its conversion"
    is_same = restores_sentence(draft.template, draft.gender, draft.sentence)
    return "" if is_same else "was changed by its conversion"


def _score(run: UnstereoRun, draft: Draft, table: DeltaTable | None) -> SentenceScore | None:
    return max_pmi_diff(draft.template, table, "nltk" if run.is_paper else "clean") if table else None


def _pmi_fault(run: UnstereoRun, draft: Draft, table: DeltaTable | None) -> str:
    score = _score(run, draft, table)
    if score is None or within(score.value, run.settings.epsilon):
        return ""
    return "has no word in the table" if score.value is None else "has a word associated with one gender"


def _length_fault(run: UnstereoRun, draft: Draft) -> str:
    settings = run.settings
    limit = settings.length if settings.limit is None else settings.limit
    return f"has more than {limit} words" if 0 < limit < count_words(draft.sentence) else ""


def _verdict_fault(draft: Draft) -> str:
    return "" if draft.natural else "was not judged likely with every pronoun"


def row(run: UnstereoRun, draft: Draft, table: DeltaTable | None, number: int) -> dict[str, Any]:
    """The row of a draft; ``number`` is its place among the rows."""
    score = _score(run, draft, table)
    name = f"ours-{run.settings.length}"
    fill_template = fill_published if run.is_paper else fill
    return {
        "id": f"{name}-paper-{number:05d}" if run.is_paper else content_id(name, draft.template),
        "template": draft.template,
        "sentence_male": fill_template(draft.template, "male"),
        "sentence_female": fill_template(draft.template, "female"),
        "sentence_they": fill_they(draft.template) if run.settings.they and not run.is_paper else None,
        "word": draft.word,
        "length": run.settings.length,
        "written_with": PRONOUNS[draft.gender].nominative,
        "reply_id": draft.reply_id,
        "revisions": draft.revisions,
        "max_pmi_diff": score and score.value,
        "max_pmi_word": score and score.word,
        "model": draft.model,
    }
