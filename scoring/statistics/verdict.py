"""Whether a score differs from its ideal value, and whether a change of it is for the better."""

from __future__ import annotations

import math
from typing import Literal

from scoring.types import Difference, Measurement

#: A loss of language ability below this share of the metric's range is none that matters.
MARGIN = 0.02


def ability_verdict(change: Difference, span: float) -> Literal["kept", "lost", "unclear", ""]:
    """Whether a score of language ability is kept, by a test of non-inferiority; empty without an interval.

    It is kept when the whole interval of the difference is above a loss of :data:`MARGIN` of ``span``, the length of
    the metric's range; it is lost when the interval is below 0.

    >>> change = Difference("b", "g", "lms", -0.5, -1.5, 0.5, 1.0, 9, 9, ideal=100.0)
    >>> ability_verdict(change, 100), ability_verdict(change, 50)
    ('kept', 'unclear')
    """
    if math.isnan(change.low) or not math.isfinite(span):
        return ""
    if change.low > -MARGIN * span:
        return "kept"
    return "lost" if change.high < 0 else "unclear"


def verdict(before: float, change: Difference) -> Literal["nearer", "further", "unclear", ""]:
    """Whether a score came nearer to its ideal value or went further from it; empty where it has no ideal value.

    The score before is taken as it is, and every difference in the interval has to agree: with the score 56, the
    ideal 50 and a difference of -4 [-6, -2] the score is nearer; with -4 [-9, 1] it is unclear. A difference from 0
    to twice the distance brings the score nearer, because beyond that it is further away on the other side.

    >>> change = Difference("b", "g", "m", -4.0, -6.0, -2.0, 1.0, 9, 9, ideal=50.0)
    >>> verdict(56.0, change), verdict(50.5, change), verdict(53.0, change)
    ('nearer', 'further', 'unclear')
    """
    if change.ideal is None or math.isnan(before) or math.isnan(change.low):
        return ""
    if math.isinf(change.ideal):
        rises = change.ideal > 0
        ends = (change.low, change.high) if rises else (-change.high, -change.low)
        return "nearer" if ends[0] > 0 else "further" if ends[1] < 0 else "unclear"
    inside, outside = sorted((0.0, 2 * (change.ideal - before)))
    if inside < change.low and change.high < outside:
        return "nearer"
    return "further" if change.high < inside or change.low > outside else "unclear"


def standing(score: Measurement) -> Literal["above", "below", "unclear", ""]:
    """Whether the interval of a score is above or below its ideal value; ``unclear`` where it holds the ideal value.

    >>> standing(Difference("b", "g", "ss", 56.0, 52.0, 60.0, 2.0, 9, 9, ideal=50.0))
    'above'
    """
    if score.ideal is None or math.isnan(score.low):
        return ""
    return "above" if score.low > score.ideal else "below" if score.high < score.ideal else "unclear"
