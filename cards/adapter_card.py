"""Renders the card of an adapter or a prompt that reduces bias, from its ``mitigation.json``."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cards.common.numbers import interval_text
from cards.common.text import CardError, grouped, template

#: By PEFT's name of a task: the class that loads the model, and the Hub's name of the task.
TASKS = {
    "CAUSAL_LM": ("AutoModelForCausalLM", "text-generation"),
    "MASKED_LM": ("AutoModelForMaskedLM", "fill-mask"),
}
#: How many groups per benchmark the main table has, with one metric each; the others are in a collapsed table.
GROUPS = 3


@dataclass(frozen=True, slots=True)
class DataFacts:
    """A data set that a recipe trained on: its version, licence and citations (keys and BibTeX entries)."""

    name: str
    version: str
    licence: str
    citations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RecipeFacts:
    """The recipe that made an adapter: a summary in one line, its source in words, and its citations."""

    name: str
    summary: str
    source: str
    citations: Mapping[str, str]


def adapter_card(
    facts: Mapping[str, Any],
    repository: str,
    licence: str,
    recipe: RecipeFacts,
    training_data: list[DataFacts],
    *,
    config: Mapping[str, Any] | None,
    prompt: Mapping[str, Any] | None,
    model: Mapping[str, Any] | None = None,
    merged: bool = False,
    to_remove: str = "",
    outcome: Sequence[str] = (),
    titles: Mapping[tuple[str, str], str] | None = None,
) -> str:
    """The README.md of an adapter's repository.

    Parameters
    ----------
    facts:
        The content of ``mitigation.json``.
    licence:
        The Hub's identifier of the licence.
    config, prompt, model:
        The content of ``adapter_config.json``, of ``prompt.json`` and of the ``config.json`` of a whole model, or None.
    merged:
        Whether the whole model is one with an adapter merged into it.
    to_remove:
        How much bias there was before, in a sentence.
    outcome:
        What the recipe did to stereotype, stated gender and ability, and the verdict, a sentence each.
    titles:
        What a metric of a benchmark is called, by both names; by default its name in the files.

    Raises
    ------
    CardError
        When the adapter, or a data set that it was trained on, has no licence or no citation.
    """
    if not licence:
        raise CardError(f"{repository} has no licence; say with --licence under which one it is published.")
    if not recipe.citations:
        raise CardError(f"{repository}: there is no citation for the recipe {recipe.name}.")
    for dataset in training_data:
        if not dataset.licence:
            raise CardError(f"{repository} was trained on {dataset.name}, which has no licence.")
        if not dataset.citations or not all(dataset.citations.values()):
            raise CardError(f"{repository} was trained on {dataset.name}, for which there is no citation.")
    # PEFT has no name for the task of masked models; a stamp says of what kind its model is.
    masked = (config or {}).get("kind") == "masked" or "ForMaskedLM" in str((model or {}).get("architectures"))
    kind = "MASKED_LM" if masked else "CAUSAL_LM"
    loader, task = TASKS.get((config or {}).get("task_type") or kind, ("AutoModel", "text-generation"))
    method = str((config or {}).get("peft_type") or ("fine-tuned" if model else "prompt")).partition(",")[0].lower()
    changes = list(facts["changes"])
    # Of equal keys one entry remains, so a work that recipe and data set cite is listed once.
    citations = dict(recipe.citations)
    for dataset in training_data:
        citations |= dataset.citations
    return template("adapter_card.md.j2").render(
        facts=facts,
        repository=repository,
        licence=licence,
        recipe=recipe,
        training_data=training_data,
        config=config,
        model=model,
        prompt=prompt and json.dumps(prompt, ensure_ascii=False, indent=1).replace("`", "\\u0060"),
        loader=loader,
        task=task,
        stamp=method == "fast",
        merged=merged,
        to_remove=to_remove,
        outcome=outcome,
        titles=titles or {},
        served=method == "lora" and task == "text-generation" and not (config or {}).get("lora_bias"),
        tags=list(dict.fromkeys(["gender-bias", "fairness", recipe.name, method])),
        first=list(_first_changes(changes)),
        changes=changes,
        citations=[citations[key] for key in sorted(citations)],
        groups=GROUPS,
        number=_number,
    )


def _first_changes(changes: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The first metric of each benchmark in the first groups that have it."""
    for group in grouped(changes, lambda change: change["benchmark"]).values():
        # The first metric of a benchmark is its main one.
        metric = group[0]["metric"]
        defined = [change for change in group if change["metric"] == metric and change["difference"][0] is not None]
        yield from defined[:GROUPS]


def _number(numbers: list[float | None]) -> str:
    """A value with its interval; empty when it is undefined.

    >>> _number([0.5, 0.21, 0.78]), _number([0.5, None, None]), _number([None, None, None])
    ('0.5 [0.2, 0.8]', '0.5', '')
    """
    # JSON has no NaN, so an undefined number is null there.
    value, low, high = (math.nan if number is None else float(number) for number in numbers)
    if math.isnan(value):
        return ""
    return interval_text(value, low, high)
