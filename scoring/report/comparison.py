"""A run compared with its base: paired differences as JSON, and as a page with a forest plot of each metric."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from cards.common.numbers import Scale
from cards.common.stored import document, signed
from cards.common.text import grouped
from cards.common.verdict import LEVEL, MARGIN
from cards.results import SCHEMA
from scoring.report.conditions import headlines_of
from scoring.report.headlines import Comparison, conclusion, described, headline_changes
from scoring.report.numbers import around, by_benchmark, facts, methods, metric_range
from scoring.report.page import UNFOLDED, Scores, scores, template
from scoring.types import Change, Difference, Report

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
    rows: list[Change]


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
        sides = {"before": change.before, "after": change.after}
        values = {name: None if score is None else score.value for name, score in sides.items()}
        differences.append({**asdict(change.difference), **values, "verdict": change.verdict})
    content = {
        "schema": SCHEMA,
        "run": _facts(compared.run),
        "base": _facts(compared.base),
        "headlines": headlines_of(compared),
        "differences": differences,
        "agreements": [asdict(entry) for entry in compared.agreements],
    }
    return document(signed(content), 2, in_page=True).decode()


def _facts(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in (*_FACTS, "data", "environment")}


def comparison_page(compared: Comparison) -> str:
    """The text of ``compare.html``."""
    agreements = by_benchmark(compared.agreements)
    changes = grouped(compared.changes, lambda change: change.difference.benchmark)
    sections = [
        ComparisonSection(
            name,
            [_forest(own) for own in grouped(changes.get(name, []), lambda c: c.difference.metric).values()],
            scores(agreements.get(name, [])),
        )
        for name in dict.fromkeys([*changes, *agreements])
    ]
    run, base = facts(compared.run), facts(compared.base)
    headlines = headline_changes(compared)
    return template("compare.html.j2").render(
        names=(described(compared.run), described(compared.base)),
        headlines=headlines,
        conclusion=compared.speechless or conclusion(headlines),
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


def _forest(changes: list[Change]) -> Forest:
    differences = [change.difference for change in changes]
    found = [score for change in changes for score in (change.after, change.before) if score]
    # Symmetric around 0, so that equal bars to the left and to the right are equal differences.
    reach = max((abs(x) for d in differences for x in d.numbers if math.isfinite(x)), default=0.0)
    return Forest(
        differences[0].metric,
        list(dict.fromkeys(d.reading for d in differences if d.reading)),
        differences[0].ideal,
        around(-reach, reach),
        around(*(score.value for score in found)),
        metric_range(found) if found else around(-reach, reach),
        changes,
    )
