"""What of a run is published as the results of a model: one number a task of the published data sets.

The Hub knows a task by a data set and an id (:mod:`cards.benchmark`) and wants one value of it, in
``.eval_results/*.yaml`` and in the ``model-index`` of the card. The benchmark says which metric of which
group that is (its headline, in ``results.json``); everything else of a run is in the card alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cards.benchmark import tasks
from cards.results import UNPUBLISHED, Headline, Run, Score

#: What notes say of a model that was scored with nothing besides itself.
ALONE = "the model alone"


@dataclass(frozen=True, slots=True)
class Result:
    """The score of a task, with the repository and version tag of its data set."""

    repository: str
    title: str
    revision: str
    config: str
    splits: tuple[str, ...]
    score: Score
    setting: str
    profile: str

    @property
    def value(self) -> float:
        """The value with the digits that tell."""
        return float(f"{self.score.value:.6g}")

    @property
    def notes(self) -> str:
        """What the number is and how it came about."""
        score = self.score
        interval = f", 95 % interval {score.low:.6g} to {score.high:.6g}" if score.bounded else ""
        ideal = "" if score.ideal is None else f", ideal {score.ideal:g}"
        about = f"{score.metric} of {score.group} ({' and '.join(self.splits)}){interval}, n {score.n}{ideal}"
        return f"{about}; profile {self.profile}; {self.setting or ALONE}"


def results(run: Run, organisation: str, manifest: Callable[[str, str], str]) -> tuple[list[Result], list[str]]:
    """The results of a run that may be published, and a remark for each one that may not.

    Parameters
    ----------
    organisation:
        Who has published the data sets.
    manifest:
        ``manifest(data set, version)`` gives the text of its ``manifest.json`` as it was published.
    """
    found: list[Result] = []
    remarks: list[str] = []
    for benchmark in dict.fromkeys(score.benchmark for score in run.scores):
        if benchmark not in run.headlines:
            remarks.append(f"{benchmark}: no task of a published data set has its score; it is in the card alone.")
            continue
        headline = run.headlines[benchmark]
        own = [entry for entry in headlines(run, benchmark) if entry[1] != UNPUBLISHED]
        if any(version == UNPUBLISHED for _, version, _ in headlines(run, benchmark)):
            remarks.append(f"{benchmark}: its rows are in no published data set; it is in the card alone.")
            continue
        if not own:
            remarks.append(f"{benchmark}: profile {run.profile} has no {headline.metric}; it is in the card alone.")
        for config, version, score in own:
            facts = json.loads(manifest(headline.dataset, version))
            try:
                found.append(_result(run, organisation, facts, headline, config, score))
            except _LeftOut as reason:
                remarks.append(f"{benchmark}, {score.group}: {reason}")
    return found, remarks


class _LeftOut(Exception):
    """A score is not published; the message says why."""


def headlines(run: Run, benchmark: str) -> Iterator[tuple[str, str, Score]]:
    """Each config that a benchmark has read, with the version of its data, and its one number."""
    headline = run.headlines[benchmark]
    scores = {s.group: s for s in run.scores if (s.benchmark, s.metric) == (benchmark, headline.metric)}
    seen = set()
    for name, told in run.data.items():
        which, config, _ = [*name.split("/"), "", ""][:3]
        group = headline.group(config)
        if which == headline.dataset and group in scores and config not in seen:
            seen.add(config)
            yield config, told.split()[0], scores[group]


def _result(
    run: Run, organisation: str, facts: dict[str, Any], headline: Headline, config: str, score: Score
) -> Result:
    published = f"{facts['name']} {facts['version']}"
    task = next((each for each in tasks(json.dumps(facts)) if each["id"] == config), None)
    if task is None:
        raise _LeftOut(f"{published} has no task {config}; it is in the card alone.")
    own = {name.split("/")[2]: told for name, told in run.data.items() if name.startswith(f"{facts['name']}/{config}/")}
    splits = [task["split"]] if config in headline.groups and task["split"] in own else sorted(own)
    for split in splits:
        _check_rows(own[split], facts["configs"][config]["splits"].get(split, {}), f"{config}/{split} of {published}")
    if not math.isfinite(score.value):
        raise _LeftOut(f"{score.metric} is not defined ({score.why or score.value}); it is left out.")
    return Result(
        repository=f"{organisation}/{facts['name']}",
        title=facts["title"],
        revision=f"v{facts['version']}",
        config=config,
        splits=tuple(splits),
        score=score,
        setting=run.setting,
        profile=run.profile,
    )


def _check_rows(told: str, published: dict[str, Any], where: str) -> None:
    """Lets nothing pass but the score of all rows of a published split; ``told`` is what the run says of its data."""
    _, _, digest = told.partition("sha256:")
    if digest.partition(",")[0] != published.get("content"):
        raise _LeftOut(f"the rows scored are not those of {where}; it is left out.")
    if more := digest.partition(", ")[2]:
        raise _LeftOut(f"only {more} of {where} were scored; it is left out.")
