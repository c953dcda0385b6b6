"""Adds a run to the card of a model: a section of text, and the results in the metadata."""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import eval_results_to_model_index

from cards.common.text import CardError, grouped, slug, template
from cards.formats.evaluation import Result, model_index
from cards.results import Estimate, Report

#: How many lines the metadata of a card may have with the results.
FRONT_LINES = 40
#: The comments before and after the section of a setting.
_BEGIN, _END = "<!-- gender-neutral-probes: {} -->", "<!-- end of gender-neutral-probes: {} -->"


def section(
    run: Report, results: list[Result], remarks: list[str], manifests: Mapping[str, str], figure: str | None
) -> str:
    """The section of a model card in Markdown.

    Parameters
    ----------
    results, remarks:
        The published results, and what is not published and why.
    manifests:
        The text of ``manifest.json`` of each data set, by name.
    figure:
        The path of the plot in the repository, if there is one.

    Raises
    ------
    CardError
        When a manifest does not say what the scores of its data set mean.
    """
    facts = {name: json.loads(text) for name, text in manifests.items()}
    for name, manifest in facts.items():
        if not manifest.get("validity"):
            raise CardError(f"{name} does not say what its scores mean; rebuild it with this version.")
    scores = list(_whole_config_scores(run))
    return template("model_section.md.j2").render(
        run=run,
        results=results,
        remarks=remarks,
        scores=scores,
        more=len(run.estimates) - len(scores),
        readings=_readings(scores, {(result.score.metric, result.score.reading) for result in results}),
        datasets=facts,
        benchmarks=run.benchmarks,
        environment={name: json.dumps(v) if isinstance(v, (dict, list)) else v for name, v in run.environment.items()},
        figure=figure,
    )


def _whole_config_scores(run: Report) -> Iterator[Estimate]:
    """The scores of whole configs; those of parts of configs are only in the report."""
    configs = {name.split("/")[1] for name in run.data if "/" in name}
    for benchmark, scores in grouped(run.estimates, lambda score: score.benchmark).items():
        whole = {run.headlines[benchmark].group(c) for c in configs} if benchmark in run.headlines else set()
        groups = {score.group for score in scores} & whole or {scores[0].group}
        yield from (score for score in scores if score.group in groups)


@dataclass(frozen=True, slots=True)
class MetricReading:
    """The explanation of a metric; ``main`` when the metric is published as a result."""

    name: str
    text: str
    main: bool


def _readings(scores: list[Estimate], published: Set[tuple[str, str]]) -> list[MetricReading]:
    """The explanation of each metric; when benchmarks explain it differently, its name includes the benchmarks."""
    by_reading = grouped(scores, lambda score: (score.full_name, score.metric, score.reading))
    n_readings = Counter(name for name, *_ in by_reading)
    readings = []
    for (name, metric, text), own in by_reading.items():
        benchmarks = ", ".join(dict.fromkeys(score.benchmark for score in own))
        shown = name if n_readings[name] == 1 else f"{name} ({benchmarks})"
        if text:
            readings.append(MetricReading(shown, text, (metric, text) in published))
    return readings


def merged(readme: str | None, model: str, text: str, run: Report, results: list[Result]) -> str:
    """A model's README.md with the section and the results; they replace those of the same setting.

    Other text, other metadata, and results of other data sets and settings are kept. As many results are in the
    metadata as fit into :data:`FRONT_LINES` lines, the first ones of each data set first; all are in
    ``.eval_results``.

    Raises
    ------
    CardError
        When the metadata of the README cannot be read, or a section has no end.
    """
    with _quiet():
        try:
            card = ModelCard(readme if readme is not None else f"# {model}\n")
        except Exception as error:  # the errors of the client and its YAML parser have no common base
            raise CardError(
                f"The metadata of the README.md of {model} cannot be read ({type(error).__name__}); correct it first."
            ) from None
    card.text = _with_section(card.text, text, slug(run.setting or "model"))
    if not results:
        return str(card)
    facts: Any = card.data
    replaced = {(result.repository, result.config) for result in results}
    others = [
        entry
        for entry in facts.eval_results or []
        if (entry.dataset_type, entry.dataset_config) not in replaced
        or (entry.metric_args or {}).get("setting") != run.setting
    ]
    name = facts.get("model_name") or model
    task = facts.get("pipeline_tag") or "text-generation"
    # The client would write them over several lines each; they follow below, one line a result.
    facts.eval_results, facts.model_name = None, None
    front = f"{facts.to_yaml()}\n" if facts.to_dict() else ""
    # Five lines are those of the index itself and of the marks around the metadata.
    room = max(1, FRONT_LINES - front.count("\n") - len(others) - 5)
    chosen = others + model_index(_selected(results, room), task)
    lines = [json.dumps(entry, ensure_ascii=False) for entry in eval_results_to_model_index(name, chosen)[0]["results"]]
    index = "\n".join(["model-index:", f"- name: {json.dumps(name)}", "  results:", *(f"  - {line}" for line in lines)])
    return f"---\n{front}{index}\n---\n{card.text}"


def _selected(results: list[Result], number: int) -> list[Result]:
    """So many results in their order: the first one of each data set, then the second ones, and so on."""
    seen: Counter[str] = Counter()
    ranks = []
    # The rank within a data set comes first, so that no data set takes all the room.
    for place, result in enumerate(results):
        ranks.append((seen[result.repository], place))
        seen[result.repository] += 1
    return [results[place] for place in sorted(place for _, place in sorted(ranks)[:number])]


def _with_section(body: str, text: str, setting: str) -> str:
    begin, end = _BEGIN.format(setting), _END.format(setting)
    block = f"{begin}\n{text.strip()}\n{end}"
    if begin not in body:
        return f"{body.rstrip()}\n\n{block}\n"
    before, _, rest = body.partition(begin)
    _, is_closed, after = rest.partition(end)
    if not is_closed:
        raise CardError(f"The README.md has {begin!r} without {end!r}; correct it first.")
    return f"{before}{block}{after}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the client's warning about a card without metadata."""
    client = logging.getLogger("huggingface_hub")
    level = client.level
    client.setLevel(logging.ERROR)
    try:
        yield
    finally:
        client.setLevel(level)
