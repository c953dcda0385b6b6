"""A run compared with its base: paired differences as JSON, and as a page with a forest plot of each metric."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from cards.common.numbers import Scale
from cards.common.stored import document
from cards.common.text import grouped
from cards.common.verdict import LEVEL, MARGIN
from cards.results import SCHEMA
from scoring.report.conditions import headlines_of
from scoring.report.headlines import Comparison, conclusion, described, headline_changes
from scoring.report.numbers import around, by_benchmark, facts, methods, metric_range
from scoring.report.page import UNFOLDED, Scores, scores, template
from scoring.report.real_models import place
from scoring.types import ComparedScore, Difference, Estimate, Report

#: The facts that are shown of both runs.
_FACTS = ("model", "revision", "adapter", "dtype", "prompt", "profile")


@dataclass(frozen=True, slots=True)
class Forest:
    """The differences of one metric on one scale, with its readings, ideal value and range of possible values."""

    metric: str
    readings: list[str]
    ideal: float | None
    scale: Scale
    values: Scale
    range: Scale
    rows: list[ComparedScore]


@dataclass(frozen=True, slots=True)
class ComparisonSection:
    """The section of one benchmark."""

    name: str
    forests: list[Forest]
    agreements: list[Scores]


def comparison(compared: Comparison) -> str:
    """The text of ``compare.json``: ``run`` and ``base`` (what was scored), headlines, differences and agreements.

    The ``headlines`` have the verdicts that the page and ``--fail-on`` read; ``worse`` is further or lost.

    Each difference has the values ``before`` and ``after`` and the ``verdict`` of :func:`cards.common.verdict.verdict`,
    empty where the metric has no ideal value or a run is at chance.
    """
    differences = []
    for change in compared.changes:
        entry = asdict(change.difference)
        # Null in JSON, where a run did not report the score.
        entry["before"] = entry["after"] = None
        if change.before is not None:
            entry["before"] = change.before.value
        if change.after is not None:
            entry["after"] = change.after.value
        entry["verdict"] = change.verdict
        differences.append(entry)
    content = {
        "schema": SCHEMA,
        "run": _facts(compared.run),
        "base": _facts(compared.base),
        "headlines": headlines_of(compared),
        "differences": differences,
        "agreements": [asdict(entry) for entry in compared.agreements],
    }
    return document(content, 2, in_page=True).decode()


def _facts(report: Report) -> dict[str, Any]:
    """The facts of a run that ``compare.json`` has, with its data and environment."""
    facts_of_run = {name: getattr(report, name) for name in _FACTS}
    facts_of_run["data"] = report.data
    facts_of_run["environment"] = report.environment
    return facts_of_run


def comparison_page(compared: Comparison) -> str:
    """The text of ``compare.html``."""
    agreements = by_benchmark(compared.agreements)
    changes = grouped(compared.changes, lambda change: change.difference.benchmark)
    # A benchmark whose metrics are all of two runs has agreements and no differences.
    names = list(changes)
    for name in agreements:
        if name not in changes:
            names.append(name)
    sections = []
    for name in names:
        by_metric = grouped(changes.get(name, []), lambda change: change.difference.metric)
        forests = [_forest(of_metric) for of_metric in by_metric.values()]
        sections.append(ComparisonSection(name, forests, scores(agreements.get(name, []))))
    run = facts(compared.run)
    base = facts(compared.base)
    headlines = headline_changes(compared)
    return template("compare.html.j2").render(
        names=(described(compared.run), described(compared.base)),
        headlines=headlines,
        places={c.difference.key: (place(compared.base, c.before), place(compared.run, c.after)) for c in headlines},
        conclusion=compared.speechless or conclusion(headlines),
        margin=MARGIN,
        tests=tests(compared.differences),
        run=run,
        base=base,
        rows=[(name, run[name], base[name]) for name in _FACTS],
        data=run["data"],
        sections=sections,
        methods=methods(compared.differences + compared.agreements),
        unfolded=UNFOLDED,
    )


@dataclass(frozen=True, slots=True)
class Tests:
    """How many differences have a p, how many of them are below 0.05, and how many after the correction.

    ``by_chance`` is the number of p below 0.05 that is expected where nothing changed.
    """

    number: int
    below: int
    corrected: int

    @property
    def by_chance(self) -> float:
        """How many p-values would be below 0.05 where nothing changed."""
        return LEVEL * self.number


def tests(differences: Iterable[Difference]) -> Tests:
    """Counts the tests of a page; a row in which no score changed is not a test."""
    number = below = below_corrected = 0
    for difference in differences:
        if math.isnan(difference.p) or difference.method == "identical":
            continue
        number += 1
        below += difference.p < LEVEL
        below_corrected += difference.p_holm < LEVEL
    return Tests(number, below, below_corrected)


def _forest(changes: list[ComparedScore]) -> Forest:
    """The plot of the differences of one metric."""
    readings: list[str] = []
    scores_of_runs: list[Estimate] = []
    reach = 0.0
    for change in changes:
        difference = change.difference
        if difference.reading and difference.reading not in readings:
            readings.append(difference.reading)
        for score in (change.after, change.before):
            if score:
                scores_of_runs.append(score)
        for number in difference.numbers:
            if math.isfinite(number):
                # NaN and infinity are the ends of intervals that are not defined.
                reach = max(reach, abs(number))
    # Symmetric around 0, so that equal bars to the left and to the right are equal differences.
    scale = around([-reach, reach])
    # Without a score of either run, the range of the metric is not known.
    possible = scale
    if scores_of_runs:
        possible = metric_range(scores_of_runs)
    first = changes[0].difference
    return Forest(
        metric=first.metric,
        readings=readings,
        ideal=first.ideal,
        scale=scale,
        values=around([score.value for score in scores_of_runs]),
        range=possible,
        rows=changes,
    )
