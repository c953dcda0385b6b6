"""Whether a score differs from its ideal value, and whether a change of it is for the better: one rule for all pages.

A change has a verdict when its whole 95 % interval says so and its p, corrected for the number of changes that are
shown together, is below 0.05. The correction is Holm's (1979): it needs no assumption on how the changes depend on
each other, and at most one page in 20 has a verdict where nothing changed.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

#: A loss of language ability below this share of the metric's range is none that matters.
MARGIN = 0.02
#: A change with a corrected p below this has a verdict.
LEVEL = 0.05
#: Value, low and high end of the 95 % interval.
Numbers = tuple[float, float, float]


def verdict(
    before: float, change: Numbers, ideal: float | None, p: float = 0.0
) -> Literal["nearer", "further", "unclear", "identical", ""]:
    """Whether a score came nearer to its ideal value or went further from it; empty where it has no ideal value.

    The score before is taken as it is, and every difference in the interval has to agree: with the score 56, the
    ideal 50 and a difference of -4 [-6, -2] the score is nearer; with -4 [-9, 1] it is unclear. A difference from 0
    to twice the distance brings the score nearer, because beyond that it is further away on the other side. ``p`` is
    the corrected one. Where every example has the same score the interval is 0, and the verdict ``identical``.

    >>> verdict(56.0, (0.0, 0.0, 0.0), 50.0, p=1.0)
    'identical'
    >>> change = (-4.0, -6.0, -2.0)
    >>> [verdict(before, change, 50.0) for before in (56.0, 50.5, 53.0)], verdict(56.0, change, 50.0, p=0.2)
    (['nearer', 'further', 'unclear'], 'unclear')
    """
    _, low, high = change
    if ideal is None or math.isnan(before) or math.isnan(low):
        return ""
    if low == high == 0:
        return "identical"
    if not p < LEVEL:
        return "unclear"
    if math.isinf(ideal):
        ends = (low, high) if ideal > 0 else (-high, -low)
        return "nearer" if ends[0] > 0 else "further" if ends[1] < 0 else "unclear"
    # Differences that bring the score nearer are between 0 and twice the distance, on the side of the ideal value.
    inside, outside = sorted((0.0, 2 * (ideal - before)))
    if inside < low and high < outside:
        return "nearer"
    return "further" if high < inside or low > outside else "unclear"


def ability_verdict(change: Numbers, span: float) -> Literal["kept", "lost", "unclear", ""]:
    """Whether a score of language ability is kept, by a test of non-inferiority; empty without an interval.

    It is kept when the whole interval of the difference is above a loss of :data:`MARGIN` of ``span``, the length of
    the metric's range; it is lost when the interval is below 0. There is no correction: it would hide losses.

    >>> ability_verdict((-0.5, -1.5, 0.5), 100), ability_verdict((-0.5, -1.5, 0.5), 50)
    ('kept', 'unclear')
    """
    _, low, high = change
    if math.isnan(low) or not math.isfinite(span):
        return ""
    if low > -MARGIN * span:
        return "kept"
    return "lost" if high < 0 else "unclear"


def standing(score: Numbers, ideal: float | None) -> Literal["above", "below", "unclear", ""]:
    """Whether the interval of a score is above or below its ideal value; ``unclear`` where it holds the ideal value.

    >>> standing((56.0, 52.0, 60.0), 50.0)
    'above'
    """
    _, low, high = score
    if ideal is None or math.isnan(low):
        return ""
    return "above" if low > ideal else "below" if high < ideal else "unclear"


def unpaired(after: Numbers, before: Numbers) -> Numbers:
    """The difference of two scores whose examples are not at hand, as if they were independent.

    The interval has the square root of the sum of the squared distances to the ends (Zou and Donner, 2008). Where
    the examples are the same it is wider than the paired one.

    >>> [round(end, 2) for end in unpaired((0.03, 0.01, 0.06), (0.11, 0.06, 0.17))]
    [-0.08, -0.14, -0.02]
    """
    (a, low_a, high_a), (b, low_b, high_b) = after, before
    return a - b, a - b - math.hypot(a - low_a, high_b - b), a - b + math.hypot(high_a - a, b - low_b)


def p_of(change: Numbers) -> float:
    """Two-sided p of no difference that belongs to a 95 % interval, if it is normal; NaN without an interval.

    >>> round(p_of((1.96, 0.0, 3.92)), 3), round(p_of((-1.0, -2.0, 0.5)), 2)
    (0.05, 0.19)
    """
    value, low, high = change
    if math.isnan(low):
        return math.nan
    reach = value - low if value > 0 else high - value
    if reach <= 0:
        return float(value == 0)
    return 2 * NormalDist().cdf(-abs(value) / reach * NormalDist().inv_cdf(0.975))


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for the family that they are (Holm, 1979); NaN stays NaN and is not counted.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted((i for i, value in enumerate(p) if not math.isnan(value)), key=lambda i: p[i])
    adjusted = [math.nan] * len(p)
    floor = 0.0
    for rank, i in enumerate(order):
        floor = max(floor, min(1.0, p[i] * (len(order) - rank)))
        adjusted[i] = floor
    return adjusted
