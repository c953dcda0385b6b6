"""Commonsense facts in which groups differ, each with a counterfactual, written by a chat model.

*Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024)
measures on such facts whether a debiased model still knows them. Its facts were written with GPT-4 and by
hand; neither they nor the prompt were released, so the prompt and the groups here are this project's. A
fact has one blank and two objects, neither of which occurs in the rest of it, and overlaps with no biased
sentence. A person decides in the review file whether it is true and not a stereotype.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.dataset import content_id
from builders.generation.clients import Client, Request
from builders.generation.pipeline import (
    DuplicateFilter,
    FilterLog,
    Pipeline,
    fill_prompt,
    parse_lists,
    prompts,
    sentence_fault,
)
from builders.generation.pipelines._claims import PromptFilter, biased_pairs, normalise_blank
from builders.generation.responses import Response, request_body
from builders.parsers import read
from builders.text.words import normalise
from builders.wording import BLANK, LABELS

_GROUPS = ("domain", "group", "other")


@dataclass(frozen=True, slots=True)
class FactSettings:
    """The options of the pipeline."""

    groups: Annotated[Path | None, Option(help="Tab-separated domain, group, other; else the project's own.")] = None
    domain: Annotated[list[str], Option(help="Only groups of this domain; may be repeated.")] = field(
        default_factory=list
    )
    against: Annotated[list[Path], Option(help="Biased pairs that no fact may overlap with.")] = field(
        default_factory=list
    )
    count: Annotated[int, Option(help="Number of facts to request for each group.", min=1)] = 10
    overlap: Annotated[
        float, Option(help="Share of common content words at which two sentences overlap.", min=0.05, max=1)
    ] = 0.5
    temperature: Annotated[float, Option(help="Temperature of the model.")] = 0.7


@dataclass(frozen=True, slots=True)
class _Fact:
    domain: str
    group: str
    other: str
    parts: tuple[str, ...]
    response: Response

    @property
    def sentence(self) -> str:
        return self.parts[0].replace(BLANK, self.parts[1])


def run(settings: FactSettings, model: str, client: Client, log: FilterLog) -> list[dict[str, Any]]:
    """The rows of the facts that pass all checks."""
    groups = [group for group in _groups(settings.groups) if not settings.domain or group[0] in settings.domain]
    responses = client("facts", [_request(settings, model, group, other) for _, group, other in groups])
    lists = parse_lists("facts", responses, settings.count, log)
    facts = [
        _Fact(*group, tuple(part.strip() for part in normalise_blank(entry).split("|")), response)
        for group, response, entries in zip(groups, responses, lists, strict=True)
        for entry in entries
    ]
    earlier = PromptFilter()
    facts = log.filter("facts", facts, lambda fact: _fault(fact, earlier), lambda fact: " | ".join(fact.parts))
    pairs = biased_pairs(settings.against)
    biased = {pair["prompt"].replace(BLANK, pair[f"object_{side}"]): None for pair in pairs for side in LABELS[:2]}
    duplicates = DuplicateFilter(settings.overlap, list(biased))
    facts = log.filter("overlap", facts, lambda fact: duplicates.fault(fact.sentence), lambda fact: fact.sentence)
    return [_row(fact) for fact in facts]


def _groups(path: Path | None) -> list[tuple[str, str, str]]:
    if path is None:
        return [(domain, group, other) for domain, group, other in prompts()["biaske-facts"]["groups"]]
    rows = read.table(path, _GROUPS, delimiter="\t", quoted=False)
    return [(row["domain"], row["group"], row["other"]) for row in rows]


def _request(settings: FactSettings, model: str, group: str, other: str) -> Request:
    text = fill_prompt(prompts()["biaske-facts"]["ask"], count=settings.count, group=group, other=other)
    body = request_body(model, text, temperature=settings.temperature, max_tokens=64 * settings.count)
    example = "\n".join(f"{n + 1}. Of {group} {n} {other} {n} is [BLANK]. | so | not" for n in range(settings.count))
    return Request(body, example)


def _fault(fact: _Fact, earlier: PromptFilter) -> str:
    if len(fact.parts) != 3 or not all(fact.parts):
        return "has not three parts"
    prompt, *objects = fact.parts
    if normalise(objects[0]) == normalise(objects[1]):
        return "has the same object twice"
    if any(BLANK in phrase or sentence_fault(phrase) for phrase in objects):
        return "has an object that is no prose"
    return earlier.fault(prompt, objects)


def _row(fact: _Fact) -> dict[str, Any]:
    prompt, true, false = fact.parts
    return {
        "id": content_id("fact", prompt, true),
        "domain": fact.domain,
        "group": fact.group,
        "other": fact.other,
        "prompt": prompt,
        "object_true": true,
        "object_false": false,
        "sentence_true": fact.sentence,
        "sentence_false": prompt.replace(BLANK, false),
        "model": fact.response.model,
    }


_REVIEW_COLUMNS = ("domain", "group", "other", "prompt", "object_true", "object_false")
PIPELINE = Pipeline("Commonsense facts about groups, each with a counterfactual.", FactSettings, run, _REVIEW_COLUMNS)
