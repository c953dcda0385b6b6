"""Whether a sentence of a paper holds: rules from numbers to a verdict, with an interval and the units of sampling.

Each rule keeps the error of a wrong *holds* and of a wrong *fails* at 2.5 % (a test simulates it). With the numbers of
few models little can be shown, and then the verdict is *not shown*.

>>> mean("fall of SS, points", "models", [8.2, 9.43, 10.58]).verdict
'holds'
>>> every("GAS, %, against 10", "prompts", [share(0.387, 364), share(0.12, 60)], 10).verdict
'not shown'
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri  # type: ignore[import-untyped]
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from scoring.statistics.intervals import clopper_pearson, of_rank_correlation, student

Verdict = Literal["holds", "fails", "not shown"]
VERDICTS: tuple[Verdict, ...] = ("holds", "fails", "not shown")
#: A value and the ends of its interval for a quantile of the normal distribution.
Unit = Callable[[float], tuple[float, float, float]]
_TAIL = 0.025
_NAN = math.nan


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with its numbers.

    Parameters
    ----------
    what:
        What the value is, with its unit of measure.
    value, low, high:
        The value and both ends of its 95 % interval, which are NaN where the sentence is of the printed numbers
        themselves or of a whole set, so that nothing is sampled.
    n, unit:
        How many units were sampled, and what they are.
    """

    verdict: Verdict
    what: str
    value: float
    low: float
    high: float
    n: int
    unit: str


def mean(what: str, unit: str, values: Sequence[float], above: float = 0.0, *, percent: bool = False) -> Finding:
    """Whether the mean over units is above a limit, by Student's interval.

    *Not shown* for fewer than two units, and for equal values, which have no spread to see. ``percent`` is for values
    that are shares, whose interval ends at 0 and 100.
    """
    count = len(values)
    middle = float(np.mean(values))
    if count < 2 or np.ptp(values) == 0:
        return Finding("not shown", what, middle, _NAN, _NAN, count, unit)
    reach = student(count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)
    low, high = middle - reach, middle + reach
    if percent:
        low, high = max(low, 0.0), min(high, 100.0)
    return Finding(_of(low, high, above), what, middle, low, high, count, unit)


def most(what: str, unit: str, has: Sequence[bool]) -> Finding:
    """Whether more than half of all such units have it; the exact binomial interval of the percent of those here."""
    rate = float(np.mean(has))
    low, high = clopper_pearson(rate, len(has))
    return Finding(_of(low, high, 0.5), what, 100 * rate, 100 * low, 100 * high, len(has), unit)


def every(what: str, unit: str, units: Sequence[Unit], above: float = 0.0, n: int = 0) -> Finding:
    """Whether the value of every unit is above a limit; the number of the unit that is nearest to it, or below it.

    To hold it has to hold of each, so no correction is needed. It fails where one is below the limit, with the quantile
    divided by the number of units (Bonferroni). ``n`` is of the smallest unit where each has a sample of its own.
    """
    if n and len(units) > 1:
        unit = f"or more {unit} each"
    plain = [unit_of(_quantile(1)) for unit_of in units]
    corrected = [unit_of(_quantile(len(units))) for unit_of in units]
    if min(low for _, low, _ in plain) > above:
        return Finding("holds", what, *min(plain, key=lambda numbers: numbers[1]), n or len(units), unit)
    lowest = min(corrected, key=lambda numbers: numbers[2])
    verdict: Verdict = "fails" if lowest[2] < above else "not shown"
    return Finding(verdict, what, *lowest, n or len(units), unit)


def no_trend(what: str, unit: str, units: Sequence[Unit], n: int = 0) -> Finding:
    """Whether the sign of a change depends on the unit: *holds* with one above 0 and one below 0, both beyond chance.

    Both are corrected for the number of units. It *fails* where all are beyond chance on one side. The numbers are the
    mean of the changes, the smallest and the largest one, so they are a range and no interval.
    """
    numbers = [unit_of(_quantile(len(units))) for unit_of in units]
    lowest = min(numbers)
    highest = max(numbers)
    verdict: Verdict = "not shown"
    if lowest[2] < 0 < highest[1]:
        verdict = "holds"
    elif min(low for _, low, _ in numbers) > 0 or max(high for _, _, high in numbers) < 0:
        verdict = "fails"
    middle = float(np.mean([value for value, _, _ in numbers]))
    return Finding(verdict, what, middle, lowest[0], highest[0], n or len(units), unit)


def exact(what: str, unit: str, n: int, value: float, holds: bool) -> Finding:
    """A sentence about the printed numbers themselves, or about a whole set: nothing is sampled."""
    return Finding("holds" if holds else "fails", what, float(value), _NAN, _NAN, n, unit)


def share(rate: float, n: int) -> Unit:
    """The score interval (Wilson, 1927) of a share of ``n``, in percent.

    >>> [round(number, 1) for number in share(0.5, 100)(1.96)]
    [50.0, 40.4, 59.6]
    """

    def numbers(quantile: float) -> tuple[float, float, float]:
        square = quantile**2 / n
        middle = (rate + square / 2) / (1 + square)
        reach = math.sqrt(square * (rate * (1 - rate) + square / 4)) / (1 + square)
        return 100 * rate, 100 * (middle - reach), 100 * (middle + reach)

    return numbers


def change(first: Unit, second: Unit) -> Unit:
    """Second less first, as if both were of other samples (Newcombe, 1998); wider than needed for the same samples.

    >>> [round(number, 1) for number in change(share(0.3, 400), share(0.4, 400))(1.96)]
    [10.0, 3.4, 16.5]
    """

    def numbers(quantile: float) -> tuple[float, float, float]:
        before, before_low, before_high = first(quantile)
        after, after_low, after_high = second(quantile)
        value = after - before
        low = value - math.hypot(after - after_low, before_high - before)
        return value, low, value + math.hypot(after_high - after, before - before_low)

    return numbers


def correlation(first: Sequence[float], second: Sequence[float]) -> Unit:
    """Spearman's correlation of two scores over models, in hundredths (Bonett and Wright, 2000).

    >>> [round(number, 1) for number in correlation([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5])(1.96)]
    [82.9, -12.7, 98.6]
    """
    rho = float(spearmanr(first, second).statistic)

    def numbers(quantile: float) -> tuple[float, float, float]:
        low, high = of_rank_correlation(rho, len(first), quantile)
        return 100 * rho, 100 * low, 100 * high

    return numbers


def against(limit: float, unit: Unit) -> Unit:
    """How far a value is below a limit."""

    def numbers(quantile: float) -> tuple[float, float, float]:
        value, low, high = unit(quantile)
        return limit - value, limit - high, limit - low

    return numbers


def _quantile(units: int) -> float:
    return -float(ndtri(_TAIL / units))


def _of(low: float, high: float, above: float) -> Verdict:
    if low > above:
        return "holds"
    if high < above:
        return "fails"
    return "not shown"
