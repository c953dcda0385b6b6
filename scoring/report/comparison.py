"""A run beside its base: the paired differences as JSON, and as a page with a forest plot of each metric."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from scoring.report.files import SCHEMA, document
from scoring.report.numbers import Scale, around, by_benchmark, by_metric, facts, methods
from scoring.report.page import UNFOLDED, Scores, scores, template
from scoring.types import Comparison, Difference, Estimate, Report

#: What makes two runs comparable, and is said of both.
_FACTS = ("model", "revision", "adapter", "dtype", "prompt", "profile")


@dataclass(frozen=True, slots=True)
class Pair:
    """A difference with the values it is between; None where a run did not report one."""

    difference: Difference
    run: float | None
    base: float | None


@dataclass(frozen=True, slots=True)
class Forest:
    """The differences of one metric on one range, with what is said once for all of them."""

    metric: str
    readings: list[str]
    ideal: float | None
    scale: Scale
    values: Scale
    pairs: list[Pair]


@dataclass(frozen=True, slots=True)
class Section:
    """What the page says of one benchmark."""

    name: str
    forests: list[Forest]
    agreements: list[Scores]


def comparison(found: Comparison) -> str:
    """The text of ``compare.json``: ``run`` and ``base`` (what was scored), ``differences`` and ``agreements``."""
    return document(
        {
            "schema": SCHEMA,
            "run": _told(found.run),
            "base": _told(found.base),
            "differences": [asdict(each) for each in found.differences],
            "agreements": [asdict(each) for each in found.agreements],
        }
    )


def _told(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in (*_FACTS, "data", "environment")}


def comparison_page(found: Comparison) -> str:
    """The text of ``compare.html``."""
    differences, agreements = by_benchmark(found.differences), by_benchmark(found.agreements)
    values = tuple(_values(report.estimates) for report in (found.run, found.base))
    sections = [
        Section(
            name,
            [_forest(metric, some, *values) for metric, some in by_metric(differences.get(name, [])).items()],
            scores(agreements.get(name, [])),
        )
        for name in dict.fromkeys([*differences, *agreements])
    ]
    run, base = facts(found.run), facts(found.base)
    return template("compare.html.j2").render(
        run=run,
        base=base,
        rows=[(name, run[name], base[name]) for name in _FACTS],
        data=run["data"],
        sections=sections,
        methods=methods([*found.differences, *found.agreements]),
        unfolded=UNFOLDED,
    )


_Key = tuple[str, str, str]


def _values(estimates: Iterable[Estimate]) -> dict[_Key, float]:
    return {(e.benchmark, e.group, e.metric): e.value for e in estimates}


def _forest(metric: str, some: list[Difference], run: dict[_Key, float], base: dict[_Key, float]) -> Forest:
    keys = [(each.benchmark, each.group, each.metric) for each in some]
    reach = max((abs(x) for each in some for x in (each.value, each.low, each.high) if math.isfinite(x)), default=0.0)
    return Forest(
        metric,
        list(dict.fromkeys(each.reading for each in some if each.reading)),
        some[0].ideal,
        around(-reach, reach),
        around(*(values[key] for key in keys for values in (run, base) if key in values)),
        [Pair(each, run.get(key), base.get(key)) for each, key in zip(some, keys, strict=True)],
    )
