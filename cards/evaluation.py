"""Selects what is published of a run: one number for each task of the published data sets.

The Hub identifies a task by a data set and an id (:mod:`cards.benchmark`) and takes one value for it, in
``.eval_results/*.yaml`` and in the ``model-index`` of the card. This module defines which metric of which
group that is; the other scores of a run are in the card.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cards.benchmark import tasks
from cards.results import UNPUBLISHED, Estimate, Headline, Report, supported_digits

#: The setting in notes for a model that was scored without adapter and with the default settings.
MODEL_ALONE = "the model alone"


@dataclass(frozen=True, slots=True)
class Result:
    """The published score of a task, with the repository, the version tag and the commit of its data set.

    ``commit`` is empty when the data set was read from a folder.
    """

    repository: str
    title: str
    tag: str
    commit: str
    config: str
    splits: tuple[str, ...]
    score: Estimate
    setting: str
    profile: str

    @property
    def value(self) -> float:
        """The value with the digits that its interval supports."""
        return float(self._digits(self.score.value))

    @property
    def notes(self) -> str:
        """What the number is and how it was measured; :func:`cards.eval_results.parse_notes` reads it."""
        score = self.score
        ends = f"{self._digits(score.low)} to {self._digits(score.high)}"
        interval = f", 95 % interval {ends}" if score.has_interval else ""
        ideal = "" if score.ideal is None else f", ideal {score.ideal:g}"
        about = f"{score.metric} of {score.group} ({' and '.join(self.splits)}){interval}, n {score.n}{ideal}"
        about += f", range {score.least:g} to {score.most:g}"
        return f"{about}; profile {self.profile}; {self.setting or MODEL_ALONE}"

    def _digits(self, number: float) -> str:
        return supported_digits(number, self.score.low, self.score.high)


#: ``manifest(data set, version)`` gives the text of ``manifest.json`` of the published data set, and its commit.
Manifests = Callable[[str, str], tuple[str, str]]


def published_results(run: Report, organisation: str, manifest: Manifests) -> tuple[list[Result], list[str]]:
    """The results of a run that may be published, and a remark for each one that may not.

    Parameters
    ----------
    organisation:
        The organisation on the Hub that has the data sets.
    """
    results: list[Result] = []
    remarks: list[str] = []
    for benchmark in run.benchmarks:
        if benchmark not in run.headlines:
            remarks.append(f"{benchmark}: no published data set has a task for it; its scores are only in the card.")
            continue
        headline = run.headlines[benchmark]
        scores = list(task_scores(run, benchmark))
        if any(version == UNPUBLISHED for _, version, _ in scores):
            remarks.append(f"{benchmark}: its rows are in no published data set; its scores are only in the card.")
            continue
        if not scores:
            remarks.append(f"{benchmark}: profile {run.profile} has no {headline.metric}; scores are only in the card.")
        for config, version, score in scores:
            text, commit = manifest(headline.dataset, version)
            facts = json.loads(text)
            metric = facts.get("benchmark", {}).get("metric", headline.metric)
            chosen = run.by_key.get((benchmark, score.group, metric), score)
            try:
                results.append(_result(run, f"{organisation}/{facts['name']}", facts, commit, headline, config, chosen))
            except _NotPublished as reason:
                remarks.append(f"{benchmark}, {score.group}: {reason}")
    return results, remarks


class _NotPublished(Exception):
    """A score is not published; the message says why."""


def task_scores(run: Report, benchmark: str) -> Iterator[tuple[str, str, Estimate]]:
    """For each config of a benchmark: its name, the version of its data, and its main score."""
    headline, scores = run.headlines[benchmark], run.by_key
    seen = set()
    for name, version in run.data.items():
        dataset, config, _ = [*name.split("/"), "", ""][:3]
        score = scores.get((benchmark, headline.group(config), headline.metric))
        if dataset == headline.dataset and score and config not in seen:
            seen.add(config)
            yield config, version.split()[0], score


def _result(
    run: Report, repository: str, facts: dict[str, Any], commit: str, headline: Headline, config: str, score: Estimate
) -> Result:
    published = f"{facts['name']} {facts['version']}"
    task = next((task for task in tasks(json.dumps(facts)) if task["id"] == config), None)
    if task is None:
        raise _NotPublished(f"{published} has no task {config}; the score is only in the card.")
    prefix = f"{facts['name']}/{config}/"
    rows_by_split = {name.split("/")[2]: rows for name, rows in run.data.items() if name.startswith(prefix)}
    only_task = config in headline.groups and task["split"] in rows_by_split
    splits = [task["split"]] if only_task else sorted(rows_by_split)
    for split in splits:
        _check_rows(
            rows_by_split[split], facts["configs"][config]["splits"].get(split, {}), f"{config}/{split} of {published}"
        )
    if not math.isfinite(score.value):
        raise _NotPublished(f"{score.metric} is not defined ({score.why or score.value}); it is left out.")
    return Result(
        repository=repository,
        title=facts["title"],
        tag=f"v{facts['version']}",
        commit=commit,
        config=config,
        splits=tuple(splits),
        score=score,
        setting=run.setting,
        profile=run.profile,
    )


def _check_rows(rows: str, published: dict[str, Any], where: str) -> None:
    """Checks that all rows of a published split were scored; ``rows`` is the entry of ``data`` in the run.

    For example ``1.2.0 sha256:ab12…, 30 of 40 rows``: version, digest, and the part that was scored. The digest is
    that of the published rows, or of the rows as they are built.
    """
    _, _, digest = rows.partition("sha256:")
    if digest.partition(",")[0] not in (published.get("content"), published.get("built") or None):
        raise _NotPublished(f"the rows scored are not those of {where}; it is left out.")
    if part := digest.partition(", ")[2]:
        raise _NotPublished(f"only {part} of {where} were scored; it is left out.")
