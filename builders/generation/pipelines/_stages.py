"""The stages in which a chat model is asked for sentences: writing, revising, converting and judging."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.datasets.unstereo import fill_published
from builders.generation.asking import Asker, Question
from builders.generation.chat import Record, request
from builders.generation.listing import bare, single
from builders.generation.pipeline import Account, count_words, listed, no_sentence, prompts, worded
from builders.generation.pipelines._drafts import (
    FORMS,
    PUBLISHED_FORMS,
    Draft,
    has_pronoun,
    has_word,
    templated,
    templated_published,
)
from builders.text.words import PRONOUNS, Gender, fill, fill_they


class Profile(StrEnum):
    """Whose rules hold."""

    clean = "clean"
    paper = "paper"


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be chosen."""

    words: Annotated[Path, Option(help="Seed words: a line a word, or a JSON list.")]
    length: Annotated[int, Option(help="Most words of a sentence; published: 5, 10 and 20.", min=3)] = 10
    profile: Annotated[Profile, Option(help="Our rules, or those of the published code.")] = Profile.clean
    count: Annotated[int, Option(help="Sentences to ask for with each word and pronoun.", min=1)] = 5
    tries: Annotated[int, Option(help="How often to revise one sentence at most.", min=0)] = 40
    they: Annotated[bool, Option(help="Write with they too (clean only).")] = True
    temperature: Annotated[float, Option(help="Temperature of writing and revising.")] = 0.7
    pmi: Annotated[Path | None, Option(help="Parquet or JSON lines of word and delta, for the MaxPMI filter.")] = None
    epsilon: Annotated[float, Option(help="Largest MaxPMIDiff in magnitude.", min=0)] = 0.65


@dataclass(frozen=True, slots=True)
class Work:
    """One run: what is asked, by whose rules, and the account of it."""

    settings: Settings
    model: str
    ask: Asker
    account: Account

    @property
    def is_paper(self) -> bool:
        return self.settings.profile is Profile.paper

    @property
    def texts(self) -> dict[str, Any]:
        found: dict[str, Any] = prompts()["unstereo"][self.settings.profile]
        return found

    def question(
        self, prompt: str, imagined: str, *, room: int, temperature: float = 0.0, seed: int | None = None, **values: Any
    ) -> Question:
        """A prompt with its values; ``room`` is the most words that a reply needs."""
        text = worded(prompt, length=self.settings.length, **values)
        asked = request(self.model, text, temperature=temperature, max_tokens=4 * room + 32, seed=seed)
        return Question(asked, imagined)


# Writing


def written(work: Work, words: Sequence[str], genders: Sequence[Gender]) -> Iterator[Draft]:
    """Sentences with each word and pronoun, in this order."""
    each = [(word, gender) for word in words for gender in genders]
    replies = work.ask("write", [_ask_to_write(work, word, gender) for word, gender in each])
    if work.is_paper:
        lists = [published_items(reply.reply) for reply in replies]
    else:
        lists = listed("write", replies, work.settings.count, work.account)
    for (word, gender), reply, entries in zip(each, replies, lists, strict=True):
        for entry in entries:
            yield Draft(word, gender, entry, reply)


def _ask_to_write(work: Work, word: str, gender: Gender) -> Question:
    settings, pronoun = work.settings, PRONOUNS[gender].nominative
    imagined = "\n".join(f"{n + 1}. {pronoun.capitalize()} saw {word} {n}{pronoun}." for n in range(settings.count))
    room = settings.count * (settings.length + 5)
    values: dict[str, Any] = {"count": settings.count, "word": word, "pronoun": pronoun, "forms": FORMS[gender]}
    return work.question(work.texts["generate"], imagined, room=room, temperature=settings.temperature, **values)


_PUBLISHED_NUMBER = re.compile(r"^[0-9]{1,2}[.)] ")


def published_items(reply: str) -> list[str]:
    r"""Entries by the rule of the published code: lines with a number and "." or ")" before them.

    >>> published_items("Sure:\n1. He sings.\n2) He waits.\n- He left.")
    ['He sings.', 'He waits.']
    """
    return [_PUBLISHED_NUMBER.sub("", line).strip() for line in reply.split("\n") if _PUBLISHED_NUMBER.match(line)]


# Revising


def revised(work: Work, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts, those that lack word or pronoun revised in rounds by four prompts in turn, as far as it helps."""
    done = {place: draft for place, draft in enumerate(drafts) if not lacks(work, draft)}
    attempts = work.settings.tries + work.is_paper  # the published loop makes one more
    for attempt in range(attempts):
        left = {place: draft for place, draft in enumerate(drafts) if place not in done}
        if not left:
            break
        replies = work.ask("revise", [_ask_to_revise(work, draft, attempt) for draft in left.values()])
        tried = [
            replace(draft, sentence=_taken(work, reply), template="", reply=reply, revisions=attempt + 1)
            for draft, reply in zip(left.values(), replies, strict=True)
        ]
        if work.is_paper:
            tried = converted(work, tried, "convert_revised")
        done |= {place: draft for place, draft in zip(left, tried, strict=True) if not lacks(work, draft)}
    return [done.get(place, draft) for place, draft in enumerate(drafts)]


def lacks(work: Work, draft: Draft) -> str:
    """What a draft needs to be revised for."""
    if not has_word(draft.word, draft.sentence):
        return "lacks the seed word"
    has = "{" in draft.template if work.is_paper else has_pronoun(draft.gender, draft.sentence)
    return "" if has else "lacks the pronoun"


def _taken(work: Work, reply: Record) -> str:
    if work.is_paper:
        return reply.reply
    sentence = single(reply)
    return "" if no_sentence(sentence) else sentence


def _ask_to_revise(work: Work, draft: Draft, attempt: int) -> Question:
    turns = work.texts["revise"]
    forms = PUBLISHED_FORMS[draft.gender] if work.is_paper else FORMS[draft.gender]
    return work.question(
        turns[attempt % len(turns)],
        f"{PRONOUNS[draft.gender].nominative.capitalize()} saw {draft.word}.",
        room=work.settings.length + 10,
        temperature=work.settings.temperature,
        seed=attempt,
        sentence=draft.sentence,
        word=draft.word,
        forms=forms,
    )


# Converting


def converted(work: Work, drafts: Sequence[Draft], prompt: str) -> list[Draft]:
    """The drafts with templates; the model rewrites those that are not about *he*, as *her* is *his* or *him*."""
    others = {n: draft for n, draft in enumerate(drafts) if draft.gender != "male" and draft.sentence}
    replies = work.ask("convert", [_ask_to_convert(work, draft, prompt) for draft in others.values()])
    rewritten = {n: _taken(work, reply) for n, reply in zip(others, replies, strict=True)}
    template = templated_published if work.is_paper else templated
    return [replace(d, template=template(rewritten.get(n, d.sentence))) for n, d in enumerate(drafts)]


def _ask_to_convert(work: Work, draft: Draft, prompt: str) -> Question:
    forms = FORMS[draft.gender]
    if work.is_paper:
        forms = PUBLISHED_FORMS[draft.gender] if prompt == "convert_revised" else "she/her/her"
    imagined = re.sub(r"^(?:She|They)\b", "He", draft.sentence)
    room = count_words(draft.sentence) + 10
    return work.question(work.texts[prompt], imagined, room=room, forms=forms, sentence=draft.sentence)


# Judging


def judged(work: Work, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts with the verdict on their template as it is now, filled with each pronoun."""
    versions = [_versions(work, draft) for draft in drafts]
    sentences = list(dict.fromkeys(sentence for each in versions for sentence in each))
    asked = [work.question(work.texts["judge"], "likely", room=1, sentence=sentence) for sentence in sentences]
    said = (reply.reply if work.is_paper else verdict(reply) for reply in work.ask("judge", asked))
    likely = {sentence for sentence, word in zip(sentences, said, strict=True) if word == "likely"}
    judgements = [bool(each) and likely.issuperset(each) for each in versions]
    return [replace(draft, natural=natural) for draft, natural in zip(drafts, judgements, strict=True)]


def _versions(work: Work, draft: Draft) -> list[str]:
    if not draft.template:
        return []
    if work.is_paper:
        return [fill_published(draft.template, "male"), fill_published(draft.template, "female")]
    they = fill_they(draft.template) if work.settings.they else None
    return [fill(draft.template, "male"), fill(draft.template, "female"), *([they] if they else [])]


def verdict(made: Record) -> str:
    """``likely`` or ``unlikely``; empty for any other reply.

    >>> from builders.generation.chat import record
    >>> asked = request("m", "Is it?", temperature=0, max_tokens=8)
    >>> verdict(record(asked, "Likely.")), verdict(record(asked, "It is unlikely."))
    ('likely', '')
    """
    word = bare(made.reply).strip(".!").casefold()
    return word if word in ("likely", "unlikely") else ""
