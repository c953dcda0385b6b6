"""Conditions on scores and verdicts that end a command with a status of their own, for continuous integration.

``probes score MODEL --fail-if "occugender.gap > 20"`` and ``probes compare RUN BASE --fail-on worse`` write their
report as always, and then end with status 3 where the condition holds. A score that is not defined fails too, because
nothing shows that the condition does not hold.
"""

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cards.common.numbers import interval
from cards.common.sentences import say
from scoring import benchmarks
from scoring.report.headlines import Comparison, HeadlineChange, headline_changes, headline_scores
from scoring.report.numbers import metric_range
from scoring.types import Estimate, Report, ScoringError

#: The exit status where a condition holds: no error, so neither 1 nor 2.
FAILED = 3
#: What ``--fail-on`` takes, and the verdicts of each.
VERDICTS = {
    "worse": frozenset({"further", "lost"}),
    "further": frozenset({"further"}),
    "lost": frozenset({"lost"}),
    "changed": frozenset({"changed", "nearer", "further", "lost"}),
    "unclear": frozenset({"unclear"}),
}
_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_FORM = re.compile(r"\s*([^<>=]+?)\s*(>=|<=|>|<)\s*([-+]?\d+(?:\.\d+)?)\s*")
_ENDS = ("low", "high")


class Failed(ScoringError):
    """A condition of the user holds; the report was written."""

    exit_code = FAILED
    expected = True


@dataclass(frozen=True, slots=True)
class Condition:
    """A score compared with a number: ``BENCHMARK[.GROUP].METRIC[.low|.high]``, an operator and the number."""

    text: str
    benchmark: str
    group: str
    metric: str
    end: str
    sign: str
    limit: float


def parsed(text: str, *, only_known: bool = True) -> Condition:
    """A condition of ``--fail-if``; ``only_known`` refuses benchmarks that this project does not have.

    Raises
    ------
    ScoringError
        Where it has another form, or names no benchmark.

    >>> found = parsed("occugender.gap > 20")
    >>> found.benchmark, found.group, found.metric, found.sign, found.limit
    ('occugender', '', 'gap', '>', 20.0)
    >>> parsed("neutral.templates.gas.low >= 0.5").end
    'low'
    """
    match = _FORM.fullmatch(text)
    names = match[1].split(".") if match else []
    end = names.pop() if names[-1:] and names[-1] in _ENDS else "value"
    if match is None or not 2 <= len(names) <= 3 or not all(names):
        raise ScoringError(
            f"--fail-if {text!r} is no condition; give BENCHMARK.METRIC or BENCHMARK.GROUP.METRIC, one of >, >=, <, "
            'and <=, and a number, as in "occugender.gap > 20".'
        )
    benchmark, *group, metric = names
    if only_known and not benchmarks.known(benchmark):
        raise ScoringError(
            f"--fail-if {text!r} names no benchmark; the benchmarks are {', '.join(benchmarks.names())}."
        )
    return Condition(text, benchmark, "".join(group), metric, end, match[2], float(match[3]))


def holding(conditions: Iterable[Condition], report: Report) -> list[str]:
    """A sentence for each condition that holds for a run.

    Raises
    ------
    ScoringError
        Where the run has no such score.
    """
    sentences = []
    for condition in conditions:
        estimate = _score(condition, report)
        on = metric_range([estimate])
        value = {"value": estimate.value, "low": estimate.low, "high": estimate.high}[condition.end]
        name = f"{estimate.benchmark} {estimate.group} {estimate.metric}"
        if math.isnan(value):
            sentences.append(say("fail.undefined", condition=condition.text, name=name))
        elif _OPERATORS[condition.sign](value, condition.limit):
            ends = interval(estimate.low, estimate.high, on.brief, " [{}, {}]")
            number = f"{on.brief(estimate.value)}{ends}"
            sentences.append(say("fail.score", condition=condition.text, name=name, value=number))
    return sentences


def _score(condition: Condition, report: Report) -> Estimate:
    """The score that a condition names: in its group, or in the group of the headline.

    A metric may be named by the end of its name, such as ``gap`` for ``gender_gap``, where only one ends so.
    """
    of_benchmark = [e for e in report.estimates if e.benchmark == condition.benchmark]
    groups = {score.estimate.benchmark: score.estimate.group for score in headline_scores(report)}
    group = condition.group or groups.get(condition.benchmark, "")
    in_group = [e for e in of_benchmark if e.group == group]
    exact = [e for e in in_group if e.metric == condition.metric]
    ending = [e for e in in_group if e.metric.endswith(f"_{condition.metric}")]
    matching = exact or ending
    if len(matching) == 1:
        return matching[0]
    if not of_benchmark:
        expected = f"benchmarks {', '.join(dict.fromkeys(e.benchmark for e in report.estimates))}"
    elif not in_group:
        expected = f"groups {', '.join(dict.fromkeys(e.group for e in of_benchmark))}"
    else:
        expected = f"metrics {', '.join(e.metric for e in matching or in_group)}"
    raise ScoringError(f"--fail-if {condition.text!r} names no single score of this run; it has the {expected}.")


def verdicts_of(names: str) -> frozenset[str]:
    """The verdicts that ``--fail-on`` names.

    Raises
    ------
    ScoringError
        For a name that is none.

    >>> sorted(verdicts_of("worse"))
    ['further', 'lost']
    """
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in VERDICTS:
            raise ScoringError(f"--fail-on {name!r} is no verdict; give one or more of {', '.join(VERDICTS)}.")
    return frozenset().union(*(VERDICTS[name] for name in wanted))


def failing(compared: Comparison, verdicts: frozenset[str]) -> list[str]:
    """A sentence for each headline of a comparison that has one of the verdicts."""
    return [_said(change) for change in headline_changes(compared) if change.verdict in verdicts]


def _said(change: HeadlineChange) -> str:
    d = change.difference
    before, after, difference = change.texts
    ends = interval(d.low, d.high, change.scale.brief, " [{}, {}]")
    name, moved = f"{d.benchmark} {d.group} {d.metric}", f"{difference}{ends}"
    return say("fail.verdict", verdict=change.verdict, name=name, before=before, after=after, difference=moved)


def headlines_of(compared: Comparison) -> list[dict[str, Any]]:
    """The headlines of a comparison for ``compare.json``: the verdicts that ``--fail-on`` reads."""
    return [
        {
            "benchmark": change.difference.benchmark,
            "group": change.difference.group,
            "metric": change.difference.metric,
            "ability": change.difference.ability,
            "verdict": change.verdict,
            "worse": change.verdict in VERDICTS["worse"],
        }
        for change in headline_changes(compared)
    ]


def failed(sentences: Sequence[str]) -> None:
    """Ends a command where a condition holds.

    Raises
    ------
    Failed
        With all sentences, where there are some.
    """
    if sentences:
        raise Failed("\n".join(sentences))
