"""The card of an adapter or a prompt that makes a model less biased, rendered from its ``mitigation.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cards.results import shown
from cards.text import CardError, template

#: What a model is loaded with and how the Hub calls its task, by PEFT's name of the task.
TASKS = {
    "CAUSAL_LM": ("AutoModelForCausalLM", "text-generation"),
    "MASKED_LM": ("AutoModelForMaskedLM", "fill-mask"),
}
#: How many groups of a benchmark and metrics of a group stand in the table; the others are folded away.
GROUPS, METRICS = 3, 3


@dataclass(frozen=True, slots=True)
class Learnt:
    """A data set that a recipe learnt from: its version, licence and citations (keys and BibTeX entries)."""

    name: str
    version: str
    licence: str
    citations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What made an adapter, in a line, with its source in words and its citations."""

    name: str
    summary: str
    source: str
    citations: Mapping[str, str]


def adapter_card(
    facts: Mapping[str, Any],
    repository: str,
    licence: str,
    recipe: Recipe,
    learnt: list[Learnt],
    *,
    config: Mapping[str, Any] | None,
    prompt: Mapping[str, Any] | None,
) -> str:
    """The README.md of an adapter's repository.

    Parameters
    ----------
    facts:
        What ``mitigation.json`` holds.
    licence:
        As the Hub calls it.
    config, prompt:
        What ``adapter_config.json`` or ``prompt.json`` holds, or None.

    Raises
    ------
    CardError
        When the adapter, or a data set it learnt from, has no licence, or there is no citation.
    """
    if not licence:
        raise CardError(f"{repository} has no licence; say with --licence under which one it is published.")
    if not recipe.citations:
        raise CardError(f"{repository}: there is no citation for the recipe {recipe.name}.")
    for each in learnt:
        if not each.licence:
            raise CardError(f"{repository} learnt from {each.name}, which has no licence.")
        if not each.citations or not all(each.citations.values()):
            raise CardError(f"{repository} learnt from {each.name}, for which there is no citation.")
    loader, task = TASKS.get((config or {}).get("task_type") or "CAUSAL_LM", ("AutoModel", "text-generation"))
    changes = list(facts["changes"])
    cited = [recipe.citations, *(each.citations for each in learnt)]
    citations = {key: text for each in cited for key, text in each.items()}
    return template("adapter_card.md.j2").render(
        facts=facts,
        repository=repository,
        licence=licence,
        recipe=recipe,
        learnt=learnt,
        config=config,
        prompt=prompt and json.dumps(prompt, ensure_ascii=False, indent=1).replace("`", "\\u0060"),
        loader=loader,
        task=task,
        stamp=(config or {}).get("peft_type") == "FAST",
        first=list(_first(changes)),
        changes=changes,
        citations=[citations[key] for key in sorted(citations)],
        number=_number,
    )


def _first(changes: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The first metrics of the first groups of each benchmark."""
    for each in changes:
        own = [c for c in changes if c["benchmark"] == each["benchmark"]]
        groups, metrics = (list(dict.fromkeys(c[key] for c in own)) for key in ("group", "metric"))
        if each["group"] in groups[:GROUPS] and each["metric"] in metrics[:METRICS]:
            yield each


def _number(numbers: list[float | None]) -> str:
    """A value with its interval; nothing where there is none.

    >>> _number([0.5, 0.25, 0.75]), _number([0.5, None, None]), _number([None, None, None])
    ('0.5 [0.25, 0.75]', '0.5', '')
    """
    value, low, high = (math.nan if each is None else float(each) for each in numbers)
    if math.isnan(value):
        return ""
    return f"{shown(value)} [{shown(low)}, {shown(high)}]" if low <= high else shown(value)
