"""Commonsense facts that tell groups apart, each with a counterfactual, written by a chat model.

*Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024)
measures on such facts whether a model that was debiased still knows them; it had them from GPT-4 and by
hand, and released neither them nor the prompt: the wording and the groups here are this project's. A
fact has one blank, two objects of which neither stands elsewhere in it, and overlaps with no biased
sentence. Whether it is true, and no stereotype, is for a person to say, in the review file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.dataset import content_id
from builders.generation.asking import Asker, Question
from builders.generation.chat import Record, request
from builders.generation.pipeline import Account, Distinct, Pipeline, listed, no_sentence, prompts, worded
from builders.generation.pipelines._claims import Prompts, biased_pairs, blanked
from builders.parsers import read
from builders.parsers.triplets import BLANK, LABELS
from builders.text.words import normalise

_GROUPS = ("domain", "group", "other")


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be chosen."""

    groups: Annotated[Path | None, Option(help="Tab-separated domain, group, other; else the project's own.")] = None
    domain: Annotated[list[str], Option(help="Only groups of this domain; may be given several times.")] = field(
        default_factory=list
    )
    against: Annotated[list[Path], Option(help="Biased pairs that no fact may overlap with.")] = field(
        default_factory=list
    )
    count: Annotated[int, Option(help="Facts to ask for, of each group.", min=1)] = 10
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
    reply: Record

    @property
    def sentence(self) -> str:
        return self.parts[0].replace(BLANK, self.parts[1])


def run(settings: Settings, model: str, ask: Asker, account: Account) -> list[dict[str, Any]]:
    """Rows of the facts that pass."""
    groups = [group for group in _groups(settings.groups) if not settings.domain or group[0] in settings.domain]
    replies = ask("facts", [_question(settings, model, group, other) for _, group, other in groups])
    lists = listed("facts", replies, settings.count, account)
    found = [
        _Fact(*group, tuple(part.strip() for part in blanked(entry).split("|")), reply)
        for group, reply, entries in zip(groups, replies, lists, strict=True)
        for entry in entries
    ]
    known = Prompts()
    kept = account.keep("facts", found, lambda fact: _fault(fact, known), lambda fact: " | ".join(fact.parts))
    pairs = biased_pairs(settings.against)
    biased = {pair["prompt"].replace(BLANK, pair[f"object_{side}"]): None for pair in pairs for side in LABELS[:2]}
    distinct = Distinct(settings.overlap, list(biased))
    kept = account.keep("overlap", kept, lambda fact: distinct.fault(fact.sentence), lambda fact: fact.sentence)
    return [_row(fact) for fact in kept]


def _groups(path: Path | None) -> list[tuple[str, str, str]]:
    if path is None:
        return [(domain, group, other) for domain, group, other in prompts()["biaske-facts"]["groups"]]
    rows = read.table(path, _GROUPS, delimiter="\t", quoted=False)
    return [(row["domain"], row["group"], row["other"]) for row in rows]


def _question(settings: Settings, model: str, group: str, other: str) -> Question:
    text = worded(prompts()["biaske-facts"]["ask"], count=settings.count, group=group, other=other)
    asked = request(model, text, temperature=settings.temperature, max_tokens=64 * settings.count)
    imagined = "\n".join(f"{n + 1}. Of {group} {n} {other} {n} is [BLANK]. | so | not" for n in range(settings.count))
    return Question(asked, imagined)


def _fault(fact: _Fact, known: Prompts) -> str:
    if len(fact.parts) != 3 or not all(fact.parts):
        return "has not three parts"
    prompt, *objects = fact.parts
    if normalise(objects[0]) == normalise(objects[1]):
        return "has the same object twice"
    if any(BLANK in each or no_sentence(each) for each in objects):
        return "has an object that is no prose"
    return known.fault(prompt, objects)


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
        "model": fact.reply.model,
    }


_SHOWN = ("domain", "group", "other", "prompt", "object_true", "object_false")
PIPELINE = Pipeline("Commonsense facts about groups, each with a counterfactual.", Settings, run, _SHOWN)
