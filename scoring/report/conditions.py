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
from cards.common.text import did_you_mean
from scoring import benchmarks
from scoring.report.headlines import Comparison, headline_changes, headline_scores
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
# Names with points between them, an operator, and a decimal number.
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

    >>> condition = parsed("occugender.gap > 20")
    >>> condition.benchmark, condition.group, condition.metric, condition.sign, condition.limit
    ('occugender', '', 'gap', '>', 20.0)
    >>> parsed("neutral.templates.gas.low >= 0.5").end
    'low'
    """
    names: list[str] = []
    end = "value"
    match = _FORM.fullmatch(text)
    if match is not None:
        names = match[1].split(".")
        # An end of the interval follows the metric: "neutral.templates.gas.low".
        if names[-1] in _ENDS:
            end = names.pop()
    if match is None or not 2 <= len(names) <= 3 or not all(names):
        raise ScoringError(
            f"--fail-if {text!r} is no condition; give BENCHMARK.METRIC or BENCHMARK.GROUP.METRIC, one of >, >=, <, "
            'and <=, and a number, as in "occugender.gap > 20".'
        )
    benchmark = names[0]
    metric = names[-1]
    # Without a group, the condition is on the group that the headline shows.
    group = ""
    if len(names) == 3:
        group = names[1]
    if only_known and not benchmarks.known(benchmark):
        raise ScoringError(
            f"--fail-if {text!r} names no benchmark; the benchmarks are {', '.join(benchmarks.names())}."
        )
    # An included file may add metrics to a benchmark, and is read later.
    if only_known:
        _refuse_unknown_metric(text, benchmark, metric)
    return Condition(text, benchmark, group, metric, end, match[2], float(match[3]))


def _refuse_unknown_metric(text: str, name: str, metric: str) -> None:
    """Refuses a metric that a benchmark has in no profile, before anything is scored."""
    benchmark = benchmarks.get(name)
    names = [known.name for profile in ("clean", "paper") for known in benchmark.metrics(profile)]
    if benchmark.sampled:
        names += [known.name for profile in ("clean", "paper") for known in benchmark.sampled.metrics(profile)]
    # The end of a name is enough, such as "gap" for "gender_gap".
    if not any(known == metric or known.endswith(f"_{metric}") for known in names):
        listed = ", ".join(dict.fromkeys(names))
        raise ScoringError(
            f"--fail-if {text!r} names no metric of {name}{did_you_mean(metric, names)}; it has {listed}."
        )


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
        scale = metric_range([estimate])
        value = {"value": estimate.value, "low": estimate.low, "high": estimate.high}[condition.end]
        name = f"{estimate.benchmark} {estimate.group} {estimate.metric}"
        # A score that is not defined fails: nothing shows that it is on the right side of the limit.
        if math.isnan(value):
            sentences.append(say("fail.undefined", condition=condition.text, name=name))
        elif _OPERATORS[condition.sign](value, condition.limit):
            ends = interval(estimate.low, estimate.high, scale.brief, " [{}, {}]")
            number = f"{scale.brief(estimate.value)}{ends}"
            sentences.append(say("fail.score", condition=condition.text, name=name, value=number))
    return sentences


def _score(condition: Condition, report: Report) -> Estimate:
    """The score that a condition names: in its group, or in the group of the headline.

    A metric may be named by the end of its name, such as ``gap`` for ``gender_gap``, where only one ends so.
    """
    of_benchmark = [e for e in report.estimates if e.benchmark == condition.benchmark]
    group = condition.group
    if not group:
        # A benchmark may have several rows; those of the group that it shows come first.
        for headline in headline_scores(report):
            if headline.estimate.benchmark == condition.benchmark:
                group = headline.estimate.group
                break
    in_group = [e for e in of_benchmark if e.group == group]
    # The whole name comes first: "gap" may also be the end of the name of another metric.
    matching = [e for e in in_group if e.metric == condition.metric]
    if not matching:
        matching = [e for e in in_group if e.metric.endswith(f"_{condition.metric}")]
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
        For a name that is not in :data:`VERDICTS`.

    >>> sorted(verdicts_of("worse"))
    ['further', 'lost']
    """
    verdicts: set[str] = set()
    for part in names.split(","):
        name = part.strip()
        if name not in VERDICTS:
            raise ScoringError(f"--fail-on {name!r} is no verdict; give one or more of {', '.join(VERDICTS)}.")
        verdicts |= VERDICTS[name]
    return frozenset(verdicts)


def failing(compared: Comparison, verdicts: frozenset[str]) -> list[str]:
    """A sentence for each headline of a comparison that has one of the verdicts."""
    sentences = []
    for change in headline_changes(compared):
        if change.verdict not in verdicts:
            continue
        difference = change.difference
        before, after, moved = change.texts
        ends = interval(difference.low, difference.high, change.scale.brief, " [{}, {}]")
        sentences.append(
            say(
                "fail.verdict",
                verdict=change.verdict,
                name=f"{difference.benchmark} {difference.group} {difference.metric}",
                before=before,
                after=after,
                difference=f"{moved}{ends}",
            )
        )
    return sentences


def headlines_of(compared: Comparison) -> list[dict[str, Any]]:
    """The headlines of a comparison for ``compare.json``: the verdicts that ``--fail-on`` reads."""
    headlines = []
    for change in headline_changes(compared):
        headline = {
            "benchmark": change.difference.benchmark,
            "group": change.difference.group,
            "metric": change.difference.metric,
            "ability": change.difference.ability,
            "verdict": change.verdict,
            "worse": change.verdict in VERDICTS["worse"],
        }
        headlines.append(headline)
    return headlines


def failed(sentences: Sequence[str]) -> None:
    """Ends a command where a condition holds.

    Raises
    ------
    Failed
        With all sentences, where there are some.
    """
    # All sentences at one time, so that a run shows every condition that holds.
    if sentences:
        raise Failed("\n".join(sentences))
