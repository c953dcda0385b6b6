"""Commonsense facts in which groups differ, each with a counterfactual, written by a chat model.

*Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024)
measures on such facts whether a debiased model still knows them. Its facts were written with GPT-4 and by
hand; neither they nor the prompt were released, so the prompt and the groups here are this project's. A
fact has one blank and two objects, neither of which occurs in the rest of it, and overlaps with no biased
sentence. A person decides in the review file whether it is true and not a stereotype.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.dataset import content_id
from builders.generation import pipeline
from builders.generation.clients import ChatClient, ChatRequest
from builders.generation.pipeline import FilterLog, ListEntry, Pipeline
from builders.generation.pipelines._blanks import PromptFilter, biased_pairs, normalise_blank
from builders.parsers import read
from builders.text.embedded import table
from builders.text.wording import BLANK, LABELS
from builders.text.words import normalise


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


_Group = tuple[str, str, str]


def fact_rows(settings: FactSettings, model: str, client: ChatClient, log: FilterLog) -> list[dict[str, Any]]:
    """The rows of the facts that pass all checks."""
    groups = [group for group in _groups(settings.groups) if not settings.domain or group[0] in settings.domain]
    requests = [(group, _request(settings, model, group)) for group in groups]
    entries = pipeline.request_lists("facts", requests, settings.count, client, log)
    # No biased prompts here: a fact is compared with whole biased sentences below.
    earlier = PromptFilter()
    entries = log.filter(
        "facts", entries, lambda entry: _fault(_parts(entry), earlier), lambda entry: " | ".join(_parts(entry))
    )
    pairs = biased_pairs(settings.against)
    # The facts have to differ from the biased sentences, because they measure what an edit of those leaves alone.
    biased = {pair["prompt"].replace(BLANK, pair[f"object_{side}"]): None for pair in pairs for side in LABELS[:2]}
    duplicates = pipeline.DuplicateFilter(settings.overlap, biased)
    return log.filter(
        "overlap",
        map(_row, entries),
        lambda row: duplicates.fault(row["sentence_true"]),
        lambda row: str(row["sentence_true"]),
    )


def _groups(path: Path | None) -> list[_Group]:
    """Domain, group and other group of each request."""
    if path is None:
        return [(domain, group, other) for domain, group, other in table("prompts")["biaske-facts"]["groups"]]
    rows = read.table(path, ("domain", "group", "other"), delimiter="\t", quoted=False)
    return [(row["domain"], row["group"], row["other"]) for row in rows]


def _request(settings: FactSettings, model: str, group: _Group) -> ChatRequest:
    _, name, other = group
    return pipeline.prompt_request(
        model,
        table("prompts")["biaske-facts"]["ask"],
        "\n".join(f"{n + 1}. Of {name} {n} {other} {n} is [BLANK]. | so | not" for n in range(settings.count)),
        temperature=settings.temperature,
        max_tokens=64 * settings.count,
        count=settings.count,
        group=name,
        other=other,
    )


def _parts(entry: ListEntry[_Group]) -> list[str]:
    """The parts of an entry: a usable one has a prompt, its true and its false object."""
    return [part.strip() for part in normalise_blank(entry.text).split("|")]


def _fault(parts: list[str], earlier: PromptFilter) -> str:
    if len(parts) != 3 or not all(parts):
        return "does not have three parts"
    prompt, *objects = parts
    if normalise(objects[0]) == normalise(objects[1]):
        return "has the same object twice"
    # The bar separates the parts, so a blank in an object shows an entry that was cut wrongly.
    if any(BLANK in phrase or pipeline.sentence_fault(phrase) for phrase in objects):
        return "has an object that is not prose"
    return earlier.fault(prompt, objects)


def _row(entry: ListEntry[_Group]) -> dict[str, Any]:
    prompt, true, false = _parts(entry)
    domain, group, other = entry.topic
    return {
        "id": content_id("fact", prompt, true),
        "domain": domain,
        "group": group,
        "other": other,
        "prompt": prompt,
        "object_true": true,
        "object_false": false,
        "sentence_true": prompt.replace(BLANK, true),
        "sentence_false": prompt.replace(BLANK, false),
        "model": entry.response.model,
    }


_REVIEW_COLUMNS = ("domain", "group", "other", "prompt", "object_true", "object_false")
PIPELINE = Pipeline(
    "Commonsense facts about groups, each with a counterfactual.", FactSettings, fact_rows, _REVIEW_COLUMNS
)
