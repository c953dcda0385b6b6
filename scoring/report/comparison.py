"""A run compared with its base: paired differences as JSON, and as a page with a forest plot of each metric."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from cards.results import SCHEMA
from cards.verdict import LEVEL, MARGIN, verdict
from scoring.report.files import document
from scoring.report.headlines import conclusion, described, headline_changes
from scoring.report.numbers import Scale, around, by_benchmark, by_metric, facts, methods
from scoring.report.page import UNFOLDED, Scores, scores, template
from scoring.types import Comparison, Difference, Estimate, Report

#: The facts that are shown of both runs.
_FACTS = ("model", "revision", "adapter", "dtype", "prompt", "profile")


@dataclass(frozen=True, slots=True)
class ForestRow:
    """A difference with the values of both runs; None where a run did not report one."""

    difference: Difference
    run: float | None
    base: float | None

    @property
    def verdict(self) -> str:
        """``nearer``, ``further`` or ``unclear``; empty without an ideal value or without the value before."""
        return "" if self.base is None else _verdict(self.base, self.difference)


@dataclass(frozen=True, slots=True)
class Forest:
    """The differences of one metric on one scale, with its readings and ideal value."""

    metric: str
    readings: list[str]
    ideal: float | None
    scale: Scale
    values: Scale
    rows: list[ForestRow]


@dataclass(frozen=True, slots=True)
class ComparisonSection:
    """The section of one benchmark."""

    name: str
    forests: list[Forest]
    agreements: list[Scores]


def comparison(compared: Comparison) -> str:
    """The text of ``compare.json``: ``run`` and ``base`` (what was scored), ``differences`` and ``agreements``.

    Each difference has the values ``before`` and ``after`` and the ``verdict``: ``nearer``, ``further`` or
    ``unclear``, empty where the metric has no ideal value.
    """
    before, after = (_values(report.estimates) for report in (compared.base, compared.run))
    differences = []
    for d in compared.differences:
        key = d.benchmark, d.group, d.metric
        said = _verdict(before[key], d) if key in before else ""
        both = {"before": before.get(key), "after": after.get(key)}
        differences.append({**asdict(d), **both, "verdict": said})
    return document(
        {
            "schema": SCHEMA,
            "run": _facts(compared.run),
            "base": _facts(compared.base),
            "differences": differences,
            "agreements": [asdict(entry) for entry in compared.agreements],
        }
    )


def _verdict(before: float, d: Difference) -> str:
    return verdict(before, d.numbers, d.ideal, d.p_holm)


def _facts(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in (*_FACTS, "data", "environment")}


def comparison_page(compared: Comparison) -> str:
    """The text of ``compare.html``."""
    differences, agreements = by_benchmark(compared.differences), by_benchmark(compared.agreements)
    values = tuple(_values(report.estimates) for report in (compared.run, compared.base))
    sections = [
        ComparisonSection(
            name,
            [_forest(metric, own, *values) for metric, own in by_metric(differences.get(name, [])).items()],
            scores(agreements.get(name, [])),
        )
        for name in dict.fromkeys([*differences, *agreements])
    ]
    run, base = facts(compared.run), facts(compared.base)
    headlines = headline_changes(compared)
    return template("compare.html.j2").render(
        names=(described(compared.run), described(compared.base)),
        headlines=headlines,
        conclusion=conclusion(headlines),
        margin=MARGIN,
        tests=tests(compared.differences),
        run=run,
        base=base,
        rows=[(name, run[name], base[name]) for name in _FACTS],
        data=run["data"],
        sections=sections,
        methods=methods([*compared.differences, *compared.agreements]),
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
    """Counts the tests of a page; rows in which no score changed are none."""
    rows = [d for d in differences if not math.isnan(d.p) and d.method != "identical"]
    return Tests(len(rows), sum(d.p < LEVEL for d in rows), sum(d.p_holm < LEVEL for d in rows))


_Key = tuple[str, str, str]


def _values(estimates: Iterable[Estimate]) -> dict[_Key, float]:
    return {(e.benchmark, e.group, e.metric): e.value for e in estimates}


def _forest(metric: str, differences: list[Difference], run: dict[_Key, float], base: dict[_Key, float]) -> Forest:
    keys = [(d.benchmark, d.group, d.metric) for d in differences]
    reach = max((abs(x) for d in differences for x in (d.value, d.low, d.high) if math.isfinite(x)), default=0.0)
    return Forest(
        metric,
        list(dict.fromkeys(d.reading for d in differences if d.reading)),
        differences[0].ideal,
        around(-reach, reach),
        around(*(values[key] for key in keys for values in (run, base) if key in values)),
        [ForestRow(d, run.get(key), base.get(key)) for d, key in zip(differences, keys, strict=True)],
    )
