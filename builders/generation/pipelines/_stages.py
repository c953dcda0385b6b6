"""The stages of the UnStereo pipeline that send requests: writing, revising, converting and judging."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.datasets.unstereo import fill_published
from builders.embedded import table
from builders.generation.clients import ChatClient, Request
from builders.generation.lists import single_sentence, without_markup
from builders.generation.pipeline import (
    FilterLog,
    ListEntry,
    contains_phrase,
    count_words,
    prompt_request,
    request_lists,
    sentence_fault,
)
from builders.generation.pipelines._drafts import (
    FORMS,
    PUBLISHED_FORMS,
    Draft,
    has_pronoun,
    to_template,
    to_template_published,
)
from builders.generation.responses import Response
from builders.parsers.recorded import numbered_entries
from builders.text.words import PRONOUNS, Gender, fill, fill_they


class FilterRules(StrEnum):
    """The rules of the pipeline: this project's, or those of the published code."""

    clean = "clean"
    paper = "paper"


@dataclass(frozen=True, slots=True)
class UnstereoSettings:
    """The options of the pipeline."""

    words: Annotated[Path, Option(help="Seed words: one word a line, a JSON list, or a table.")]
    length: Annotated[int, Option(help="Highest number of words of a sentence; published: 5, 10, 20.", min=3)] = 10
    profile: Annotated[FilterRules, Option(help="This project's rules, or those of the published code.")] = (
        FilterRules.clean
    )
    count: Annotated[int, Option(help="Number of sentences to request for each word and pronoun.", min=1)] = 5
    tries: Annotated[int, Option(help="Highest number of revisions of a sentence.", min=0)] = 40
    they: Annotated[bool, Option(help="Write sentences with they too (clean only).")] = True
    temperature: Annotated[float, Option(help="Temperature of writing and revising.")] = 0.7
    pmi: Annotated[Path | None, Option(help="Parquet or JSON lines of word and delta, for the MaxPMI filter.")] = None
    epsilon: Annotated[float, Option(help="Highest |MaxPMIDiff| of a sentence.", min=0)] = 0.65
    limit: Annotated[
        int | None, Option(help="Highest number of words of a kept sentence (clean only): --length; 0 for none.", min=0)
    ] = None


@dataclass(frozen=True, slots=True)
class UnstereoRun:
    """The settings, model, client and log of one run."""

    settings: UnstereoSettings
    model: str
    client: ChatClient
    log: FilterLog

    @property
    def is_paper(self) -> bool:
        return self.settings.profile is FilterRules.paper

    @property
    def templates(self) -> dict[str, Any]:
        """The prompt templates of the profile."""
        templates: dict[str, Any] = table("prompts")["unstereo"][self.settings.profile]
        return templates

    def request(self, template: str, example: str, *, words: int, temperature: float = 0.0, **values: Any) -> Request:
        """A filled prompt template; ``words`` is the highest number of words of a usable response."""
        values |= {"length": self.settings.length, "max_tokens": 4 * words + 32, "temperature": temperature}
        return prompt_request(self.model, template, example, **values)


# Writing


def write(run: UnstereoRun, words: Sequence[str], genders: Sequence[Gender]) -> list[Draft]:
    """New sentences for each word and gender, in this order."""
    requests = [((word, gender), write_request(run, word, gender)) for word in words for gender in genders]
    if run.is_paper:
        responses = run.client("write", [request for _, request in requests])
        entries = [
            ListEntry(seed, text, response)
            for (seed, _), response in zip(requests, responses, strict=True)
            for text in numbered_entries(response.text)
        ]
    else:
        entries = request_lists("write", requests, run.settings.count, run.client, run.log)
    return [Draft(*entry.topic, entry.text, entry.response.model, entry.response.key) for entry in entries]


def write_request(run: UnstereoRun, word: str, gender: Gender) -> Request:
    """The request for sentences with a word and a pronoun."""
    settings, pronoun = run.settings, PRONOUNS[gender].nominative
    example = "\n".join(f"{n + 1}. {pronoun.capitalize()} saw {word} {n}{pronoun}." for n in range(settings.count))
    values: dict[str, Any] = {"count": settings.count, "word": word, "pronoun": pronoun, "forms": FORMS[gender]}
    longest = settings.count * (settings.length + 5)
    return run.request(run.templates["generate"], example, words=longest, temperature=settings.temperature, **values)


# Revising


def revise(run: UnstereoRun, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts; those without the word or the pronoun are revised in rounds, by four prompts in turn.

    A draft that no revision helps is returned unchanged.
    """
    complete = {number: draft for number, draft in enumerate(drafts) if not missing_part(run, draft)}
    rounds = run.settings.tries + run.is_paper  # the published loop makes one round more
    for attempt in range(rounds):
        open_drafts = {number: draft for number, draft in enumerate(drafts) if number not in complete}
        if not open_drafts:
            break
        responses = run.client("revise", [revise_request(run, draft, attempt) for draft in open_drafts.values()])
        revised = [
            replace(draft, sentence=_sentence(run, response), template="", model=response.model, revisions=attempt + 1)
            for draft, response in zip(open_drafts.values(), responses, strict=True)
        ]
        if run.is_paper:
            revised = convert(run, revised, "convert_revised")
        complete |= {n: draft for n, draft in zip(open_drafts, revised, strict=True) if not missing_part(run, draft)}
    return [complete.get(number, draft) for number, draft in enumerate(drafts)]


def missing_part(run: UnstereoRun, draft: Draft) -> str:
    """Why a draft needs a revision, or an empty text."""
    if not contains_phrase(draft.sentence, draft.word):
        return "lacks the seed word"
    pronoun = "{" in draft.template if run.is_paper else has_pronoun(draft.gender, draft.sentence)
    return "" if pronoun else "lacks the pronoun"


def _sentence(run: UnstereoRun, response: Response) -> str:
    """The sentence of a response; empty if it is not a sentence (not checked in the published code)."""
    if run.is_paper:
        return response.text
    sentence = single_sentence(response)
    return "" if sentence_fault(sentence) else sentence


def revise_request(run: UnstereoRun, draft: Draft, attempt: int) -> Request:
    """The request for a revision; the attempts, from 0, take the prompts in turn."""
    templates = run.templates["revise"]
    forms = PUBLISHED_FORMS[draft.gender] if run.is_paper else FORMS[draft.gender]
    return run.request(
        templates[attempt % len(templates)],
        f"{PRONOUNS[draft.gender].nominative.capitalize()} saw {draft.word}.",
        words=run.settings.length + 10,
        temperature=run.settings.temperature,
        seed=attempt,
        sentence=draft.sentence,
        word=draft.word,
        forms=forms,
    )


# Converting


def convert(run: UnstereoRun, drafts: Sequence[Draft], prompt: str) -> list[Draft]:
    """The drafts with templates.

    The model first rewrites *she* and *they* sentences with *he*: *her* can mean *his* or *him*, so slots cannot
    be found in them by rule.
    """
    others = {number: draft for number, draft in enumerate(drafts) if draft.gender != "male" and draft.sentence}
    responses = run.client("convert", [convert_request(run, draft, prompt) for draft in others.values()])
    with_he = {number: _sentence(run, response) for number, response in zip(others, responses, strict=True)}
    template = to_template_published if run.is_paper else to_template
    return [
        replace(draft, template=template(with_he.get(number, draft.sentence))) for number, draft in enumerate(drafts)
    ]


def convert_request(run: UnstereoRun, draft: Draft, prompt: str) -> Request:
    """The request to rewrite a sentence with *he*; ``prompt`` names the template of the prompt."""
    forms = FORMS[draft.gender]
    if run.is_paper:
        forms = PUBLISHED_FORMS[draft.gender] if prompt == "convert_revised" else "she/her/her"
    example = re.sub(r"^(?:She|They)\b", "He", draft.sentence)
    longest = count_words(draft.sentence) + 10
    return run.request(run.templates[prompt], example, words=longest, forms=forms, sentence=draft.sentence)


# Judging


def judge(run: UnstereoRun, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts with ``natural``: whether the current template, filled with each pronoun, was judged likely."""
    versions = [versions_of(run, draft) for draft in drafts]
    sentences = list(dict.fromkeys(sentence for filled in versions for sentence in filled))
    responses = run.client("judge", [judge_request(run, sentence) for sentence in sentences])
    verdicts = [response.text if run.is_paper else parse_verdict(response) for response in responses]
    likely = {sentence for sentence, verdict in zip(sentences, verdicts, strict=True) if verdict == "likely"}
    return [
        replace(draft, natural=bool(filled) and likely.issuperset(filled))
        for draft, filled in zip(drafts, versions, strict=True)
    ]


def judge_request(run: UnstereoRun, sentence: str) -> Request:
    """The request for a verdict on a sentence."""
    return run.request(run.templates["judge"], "likely", words=1, sentence=sentence)


def versions_of(run: UnstereoRun, draft: Draft) -> list[str]:
    """The template filled with each pronoun; empty without a template."""
    if not draft.template:
        return []
    if run.is_paper:
        return [fill_published(draft.template, "male"), fill_published(draft.template, "female")]
    they = fill_they(draft.template) if run.settings.they else None
    return [fill(draft.template, "male"), fill(draft.template, "female"), *([they] if they else [])]


def parse_verdict(response: Response) -> str:
    """``likely`` or ``unlikely``, or an empty text for any other response.

    >>> from builders.generation.responses import request_body, response
    >>> body = request_body("m", "Is it?", temperature=0, max_tokens=8)
    >>> parse_verdict(response(body, "Likely.")), parse_verdict(response(body, "It is unlikely."))
    ('likely', '')
    """
    word = without_markup(response.text).strip(".!").casefold()
    return word if word in ("likely", "unlikely") else ""
