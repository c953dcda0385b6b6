"""What a run says of a model becomes a part of its card: a section of its own, and the metadata of its results."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from huggingface_hub import ModelCard

from cards.eval_results import index
from cards.evaluation import Result
from cards.results import Run, Score
from cards.text import CardError, slug, template

#: What the section of a setting stands between.
_BEGIN, _END = "<!-- gender-neutral-probes: {} -->", "<!-- end of gender-neutral-probes: {} -->"


def section(run: Run, found: list[Result], remarks: list[str], manifests: Mapping[str, str], figure: str | None) -> str:
    """The section of a model card in Markdown.

    Parameters
    ----------
    found, remarks:
        What is published as results, and what is not and why.
    manifests:
        Facts of the data sets that were read, by name.
    figure:
        The path of the plot in the repository.

    Raises
    ------
    CardError
        When a data set does not say what its scores mean.
    """
    facts = {name: json.loads(text) for name, text in manifests.items()}
    for name, each in facts.items():
        if not each.get("validity"):
            raise CardError(f"{name} does not say what its scores mean; rebuild it with this version.")
    shown = list(_shown(run))
    return template("model_section.md.j2").render(
        run=run,
        results=found,
        remarks=remarks,
        scores=shown,
        more=len(run.scores) - len(shown),
        readings=_readings(shown, {(each.score.metric, each.score.reading) for each in found}),
        datasets=facts,
        benchmarks=list(dict.fromkeys(score.benchmark for score in run.scores)),
        environment={name: json.dumps(v) if isinstance(v, (dict, list)) else v for name, v in run.environment.items()},
        figure=figure,
    )


def _shown(run: Run) -> Iterator[Score]:
    """The scores of each whole config; those of its parts stay in the report."""
    for benchmark in dict.fromkeys(score.benchmark for score in run.scores):
        own = [score for score in run.scores if score.benchmark == benchmark]
        configs = {name.split("/")[1] for name in run.data if "/" in name}
        whole = {run.headlines[benchmark].group(c) for c in configs} if benchmark in run.headlines else set()
        groups = {score.group for score in own} & whole or {own[0].group}
        yield from (score for score in own if score.group in groups)


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a metric, by its name; ``main`` for one that is published as a result."""

    name: str
    text: str
    main: bool


def _readings(scores: list[Score], published: Set[tuple[str, str]]) -> list[Reading]:
    """How to read each metric; one that benchmarks read in several ways is named with its benchmarks."""
    found: dict[tuple[str, str], list[str]] = {}
    for score in scores:
        own = found.setdefault((score.metric, score.reading), [])
        if score.benchmark not in own:
            own.append(score.benchmark)
    ways = Counter(metric for metric, _ in found)
    return [
        Reading(metric if ways[metric] == 1 else f"{metric} ({', '.join(own)})", text, (metric, text) in published)
        for (metric, text), own in found.items()
        if text
    ]


def merged(readme: str | None, model: str, text: str, run: Run, found: list[Result]) -> str:
    """A model's README.md with the section, in the place of an older one of the same setting, and the results.

    All else stays: other text, other fields of the metadata, results of other data sets and settings.

    Raises
    ------
    CardError
        When the metadata of the README cannot be read, or a section has no end.
    """
    with _quiet():
        try:
            card = ModelCard(readme if readme is not None else f"# {model}\n")
        except Exception as error:  # what the client and its YAML parser raise has no common kind
            raise CardError(
                f"The metadata of the README.md of {model} cannot be read ({type(error).__name__}); mend it first."
            ) from None
    facts: Any = card.data
    card.text = _placed(card.text, text, slug(run.setting or "model"))
    if found:
        repositories = {each.repository for each in found}
        others = [
            each
            for each in facts.eval_results or []
            if each.dataset_type not in repositories
            or (each.metric_args or {}).get("setting") != run.setting
            or each.dataset_config not in {r.config for r in found if r.repository == each.dataset_type}
        ]
        facts.eval_results = others + index(found, facts.get("pipeline_tag") or "text-generation")
        facts.model_name = facts.get("model_name") or model
    return str(card)


def _placed(body: str, text: str, setting: str) -> str:
    begin, end = _BEGIN.format(setting), _END.format(setting)
    block = f"{begin}\n{text.strip()}\n{end}"
    if begin not in body:
        return f"{body.rstrip()}\n\n{block}\n"
    before, _, rest = body.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise CardError(f"The README.md has {begin!r} without {end!r}; mend it first.")
    return f"{before}{block}{after}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps to itself that the client remarks on every card without metadata."""
    client = logging.getLogger("huggingface_hub")
    level = client.level
    client.setLevel(logging.ERROR)
    try:
        yield
    finally:
        client.setLevel(level)
