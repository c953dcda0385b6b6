"""The scores of a report by metric and benchmark: the range of a plot, the methods of intervals, what was scored."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from cards.common.numbers import Scale
from cards.common.sentences import say
from cards.common.text import grouped
from scoring.statistics.intervals import METHODS
from scoring.types import Estimate, Measurement, Report

M = TypeVar("M", bound=Measurement)
#: The intraclass correlation is shown of scores with so many clusters.
FEWEST = 6


def metric_range(estimates: Sequence[Estimate]) -> Scale:
    """The range of possible values of the metric of these estimates; a range that holds them where it is infinite."""
    least, most = min(e.least for e in estimates), max(e.most for e in estimates)
    return Scale(least, most) if math.isfinite(most - least) else scale(estimates)


def signed_distance(value: float, of: Estimate) -> float:
    """The distance of a value from the ideal value, as a share of the metric's range on that side; NaN without one.

    >>> score = Estimate("b", "g", "ss", 75.0, 70.0, 80.0, 3.0, 9, 9, ideal=50.0, least=0, most=100)
    >>> signed_distance(75.0, score), signed_distance(0.0, score)
    (0.5, -1.0)
    """
    if of.ideal is None or not math.isfinite(value - of.ideal):
        return math.nan
    if value == of.ideal:
        return 0.0
    side = of.most - of.ideal if value > of.ideal else of.ideal - of.least
    return (value - of.ideal) / side if math.isfinite(side) and side > 0 else math.nan


def scale(estimates: Iterable[Estimate]) -> Scale:
    """A range for estimates of one metric: its own where they fill a quarter of it, else a round one from 0.

    >>> scale([Estimate("b", "g", "gas", 0.6, 0.5, 0.7, 0.05, 9, 9, least=0, most=1)])
    Scale(low=0, high=1)
    >>> scale([Estimate("b", "g", "gas", 0.04, 0.03, 0.06, 0.01, 9, 9, least=0, most=1)])
    Scale(low=0.0, high=0.06)
    """
    listed = list(estimates)
    low, high = _ends(x for e in listed for x in (e.value, e.low, e.high, e.ideal) if x is not None)
    least, most = min((e.least for e in listed), default=-math.inf), max((e.most for e in listed), default=math.inf)
    reach = max(-low, high)
    # Four times the room is the most that a plot may leave empty before it shows a part of the range.
    if reach >= max(-least, most) / 4:
        return Scale(least, most)
    return around(low, high)


def _ends(numbers: Iterable[float]) -> tuple[float, float]:
    """The smallest and the largest of the finite numbers and 0."""
    finite = [0.0, *(x for x in numbers if math.isfinite(x))]
    return min(finite), max(finite)


def around(*numbers: float) -> Scale:
    """A round range that holds the finite numbers and 0.

    >>> around(-0.31, 0.12)
    Scale(low=-0.4, high=0.2)
    """
    low, high = _ends(numbers)
    reach = max(-low, high)
    step = 10.0 ** math.floor(math.log10(reach)) if reach > 0 else 1.0
    return Scale(step * math.floor(low / step), step * max(math.ceil(high / step), 0 if low < 0 else 1))


def by_metric(results: Iterable[M]) -> dict[str, list[M]]:
    """Results of one benchmark under their metric, in order of appearance."""
    return grouped(results, lambda result: result.metric)


def by_benchmark(results: Iterable[M]) -> dict[str, list[M]]:
    """Results under their benchmark, in order of appearance."""
    return grouped(results, lambda result: result.benchmark)


def marked(estimate: Measurement) -> str:
    """The method of the interval in brackets, or nothing for the bootstrap, which is the usual one.

    >>> marked(Estimate("b", "g", "gas", 1.0, 0.94, 1.0, 0.0, 60, 60, method="binomial"))
    '(binomial)'
    """
    return f"({estimate.method})" if estimate.method not in ("", "bootstrap") else ""


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a text table whose columns are as wide as their longest cell.

    >>> list(aligned([("n", "name"), ("10", "a")]))
    ['n   name', '10  a']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def methods(estimates: Iterable[Measurement]) -> list[str]:
    """A sentence for each method by which an interval of these was computed, and one on how alike clusters are."""
    listed = list(estimates)
    used = {e.method for e in listed}
    sentences = [
        say("run.intervals", mark="without a mark" if method == "bootstrap" else f"marked ({method})", method=words)
        for method, words in METHODS.items()
        if method in used
    ]
    # Of fewer than six clusters the estimate says nothing.
    correlations = sorted(e.icc for e in listed if math.isfinite(e.icc) and e.clusters >= FEWEST)
    if correlations:
        middle, largest = correlations[len(correlations) // 2], correlations[-1]
        sentences.append(say("run.icc", middle=f"{middle:.2f}", largest=f"{largest:.2f}"))
    return sentences


def facts(report: Report) -> dict[str, str]:
    """What was scored and how, as text by name; data sets with their versions."""
    data = dict.fromkeys(f"{k.partition('/')[0]} {v.partition(' ')[0]}" for k, v in sorted(report.data.items()))
    return {
        "model": report.model,
        "revision": report.revision or "none",
        "adapter": report.adapter or "none",
        "dtype": report.dtype,
        "prompt": report.prompt or "none",
        "profile": report.profile,
        "data": ", ".join(data) or "none",
        "language ability": report.language.sentence if report.language else "not measured",
    }
