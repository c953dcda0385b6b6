"""Whether a score differs from its ideal value, and whether a change of it is for the better: one rule for all pages.

A score changed when its p of no change, corrected for all changes that are shown together, is below 0.05. Whether it
came nearer to its ideal value is a second question, because both scores are uncertain. With the scores before b and
after a, and the ideal value i,

    (a - i)**2 - (b - i)**2 = (a - b) * (a + b - 2 * i) = 2 * change * (middle - i),

where the middle is (a + b) / 2. So the score is nearer if the change points from the middle to the ideal value, and
further if it points away. Both signs have to be significant: the p of a direction is the larger one of the p of no
change and of the p that the middle is the ideal value (an intersection-union test; Berger, 1982). That test keeps its
level without a further correction: for scores that are equally far on both sides, such as 52 and 48 around 50, the
middle is the ideal value. A change whose direction is open is ``changed``.

The correction is Holm's (1979), in which headlines have more weight than the rows beside them. It needs no assumption
on how the changes depend on each other, and at most one page in 20 has a change, and at most one a direction, where
there is none.
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


Verdict = Literal["nearer", "further", "changed", "unclear", "identical", ""]


def verdict(before: float, change: Numbers, ideal: float | None, p: float, p_direction: float) -> Verdict:
    """Whether a score came nearer to its ideal value or went further from it; empty where it has no ideal value.

    ``changed`` is a change that is real while its direction against the ideal value is open, and ``unclear`` one that
    chance explains. Where every example has the same score the interval is 0, and the verdict ``identical``.

    Parameters
    ----------
    before:
        The score before, in the unit of the metric.
    change:
        The difference, after minus before, with both ends of its 95 % interval.
    ideal:
        The ideal value; it may be infinite.
    p, p_direction:
        The p of no change and of its direction, corrected by :func:`corrected`.

    >>> change = (-4.0, -6.0, -2.0)
    >>> [verdict(before, change, 50.0, 0.001, 0.01) for before in (56.0, 50.5)], verdict(56.0, change, 50.0, 0.2, 0.2)
    (['nearer', 'further'], 'unclear')
    >>> verdict(52.0, change, 50.0, 0.001, 0.9), verdict(56.0, (0.0, 0.0, 0.0), 50.0, 1.0, 1.0)
    ('changed', 'identical')
    """
    value, low, high = change
    if ideal is None or math.isnan(before) or math.isnan(low):
        return ""
    if low == high == 0:
        return "identical"
    # An interval that was cut at the end of the range may end at 0.
    if not p < LEVEL or low <= 0 <= high:
        return "unclear"
    if not p_direction < LEVEL:
        return "changed"
    middle = before + value / 2
    # Nearer: up from a middle below the ideal value, or down from one above it.
    if (value > 0) == (middle < ideal):
        return "nearer"
    return "further"


def corrected(
    p: Sequence[float], p_side: Sequence[float], clusters: Sequence[float], first: Sequence[bool] = ()
) -> tuple[list[float], list[float]]:
    """The p of each change and the p of its direction, corrected for all changes that are shown together.

    No p is below :func:`smallest_p`, so fewer than six clusters have no verdict.

    Parameters
    ----------
    p:
        Two-sided p of no change; NaN where it is not known.
    p_side:
        Two-sided p that the middle of both scores is the ideal value: 0 where the ideal value is an end of the range,
        because all scores are on one side of it, and NaN without an ideal value.
    clusters:
        The number of clusters of each change; infinite for no lower limit of p.
    first:
        Which changes are headlines; see :func:`holm`.

    >>> corrected([0.01, 0.02], [0.5, 0.0], [30, 30]), corrected([0.01], [0.0], [4])
    (([0.02, 0.02], [0.5, 0.04]), ([0.125], [0.125]))
    """
    floored, directions = [], []
    for change, side, number in zip(p, p_side, clusters, strict=True):
        value = max(change, smallest_p(number))
        floored.append(value)
        # max(value, nan) is the value, but a direction that is not known has no p.
        directions.append(math.nan if math.isnan(side) else max(value, side))
    return holm(floored, first), holm(directions, first)


def smallest_p(clusters: float) -> float:
    """The smallest two-sided p of a sign test over a number of clusters, 2 / 2 ** clusters.

    That all of three clusters change in one direction happens in one of four cases where nothing changed, whatever the
    number of examples.

    >>> smallest_p(3), smallest_p(6), smallest_p(math.inf)
    (0.25, 0.03125, 0.0)
    """
    # Both outcomes in which all clusters agree, of 2 ** clusters: two-sided.
    return float(2.0 ** (1 - clusters))


def p_side(before: Numbers, after: Numbers, ideal: float | None, least: float, most: float) -> float:
    """Two-sided p that the middle of two scores is the ideal value, for scores whose examples are not at hand.

    The interval of the middle has the mean of both half-widths, as if the errors of both scores were the same; that of
    other errors is narrower. See :func:`corrected` for its values without an ideal inside the range.

    >>> round(p_side((60.0, 55.0, 65.0), (55.0, 50.0, 60.0), 50.0, 0.0, 100.0), 4)
    0.0033
    >>> p_side((0.3, 0.2, 0.4), (0.2, 0.1, 0.3), 0.0, 0.0, 1.0), p_side((1, 0, 2), (1, 0, 2), None, 0, 9)
    (0.0, nan)
    """
    if ideal is None:
        return math.nan
    # All scores are on one side of such an ideal value, so the side of the middle is certain.
    if ideal in (least, most) or math.isinf(ideal):
        return 0.0
    value, low, high = ((old + new) / 2 - ideal for old, new in zip(before, after, strict=True))
    return p_of((value, low, high))


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
    if high < 0:
        return "lost"
    return "unclear"


def standing(score: Numbers, ideal: float | None) -> Literal["above", "below", "unclear", ""]:
    """Whether the interval of a score is above or below its ideal value; ``unclear`` where it holds the ideal value.

    >>> standing((56.0, 52.0, 60.0), 50.0)
    'above'
    """
    _, low, high = score
    if ideal is None or math.isnan(low):
        return ""
    if low > ideal:
        return "above"
    if high < ideal:
        return "below"
    return "unclear"


def standings(scores: Sequence[tuple[Numbers, float | None, float, float]], first: Sequence[bool] = ()) -> list[str]:
    """The :func:`standing` of scores that are shown together, each beyond noise only after Holm's correction for all.

    Parameters
    ----------
    scores:
        Of each score its numbers, its ideal value, the two-sided p that it is the ideal value (NaN where it is not
        known: then it follows from the interval), and its number of clusters, which limits p (:func:`smallest_p`).
    first:
        Which scores are headlines; see :func:`holm`.

    >>> standings([((56.0, 52.0, 60.0), 50.0, 0.003, 40), ((53.0, 50.5, 55.5), 50.0, 0.02, 40)])
    ['above', 'above']
    >>> standings([((53.0, 50.5, 55.5), 50.0, 0.03, 40), ((53.0, 50.5, 55.5), 50.0, 0.03, 40)])
    ['unclear', 'unclear']
    """
    p = []
    for (value, low, high), ideal, known, clusters in scores:
        if ideal is None or math.isnan(low):
            p.append(math.nan)
            continue
        if math.isnan(known):
            known = p_of((value - ideal, low - ideal, high - ideal))
        p.append(max(known, smallest_p(clusters)))
    words: list[str] = []
    for (numbers, ideal, _, _), adjusted in zip(scores, holm(p, first), strict=True):
        word: str = standing(numbers, ideal)
        # Not "adjusted >= LEVEL", which does not hold for NaN.
        if word and not adjusted < LEVEL:
            word = "unclear"
        words.append(word)
    return words


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
    # The side of the interval towards 0 decides: intervals of shares are not symmetric.
    reach = value - low if value > 0 else high - value
    if reach <= 0:
        return float(value == 0)
    return 2 * NormalDist().cdf(-abs(value) / reach * NormalDist().inv_cdf(0.975))


#: The part of the level that the headlines of a page share; its other rows share the rest.
FIRST = 2 / 3


def holm(p: Sequence[float], first: Sequence[bool] = ()) -> list[float]:
    """p-values corrected for the family that they are (Holm, 1979); NaN stays NaN and is not counted.

    ``first`` marks the headlines, which share :data:`FIRST` of the level (Holm's procedure with weights, in the same
    paper). So a headline of six clusters, whose p is at least .031, can be beyond noise beside other rows, and still at
    most one page in 20 has a claim where nothing is.

    >>> holm([0.01, 0.04, 0.03]), [round(value, 3) for value in holm([0.03, 0.04, 0.5], [True, False, False])]
    ([0.03, 0.06, 0.06], [0.045, 0.08, 0.5])
    """
    weight_of = weights([math.isnan(value) for value in p], first)
    known = [place for place, value in enumerate(p) if not math.isnan(value)]
    order = sorted(known, key=lambda place: p[place] / weight_of[place])
    adjusted = [math.nan] * len(p)
    floor, left = 0.0, sum(weight_of)
    for place in order:
        # Of equal weights the smallest p is multiplied by all tests, the next by one less; none gets below another.
        floor = max(floor, min(1.0, p[place] * left / weight_of[place]))
        adjusted[place] = floor
        left -= weight_of[place]
    return adjusted


def weights(unknown: Sequence[bool], first: Sequence[bool] = ()) -> list[float]:
    """The weight of each test in :func:`holm`: 0 of one without p, and 1 of the others where no headline is among them.

    >>> weights([False, False, False, True], [True, False, False, False]), weights([False, False])
    ([4.0, 1.0, 1.0, 0.0], [1.0, 1.0])
    """
    headlines = [bool(first) and first[place] and not is_unknown for place, is_unknown in enumerate(unknown)]
    others = len(unknown) - sum(unknown) - sum(headlines)
    of_headline = 1.0
    if sum(headlines) and others:
        # In units of the weight of another row, so that equal tests have whole numbers.
        of_headline = round(FIRST / (1 - FIRST) * others / sum(headlines), 12)
    results = []
    for is_unknown, is_headline in zip(unknown, headlines, strict=True):
        if is_unknown:
            results.append(0.0)
        elif is_headline:
            results.append(of_headline)
        else:
            results.append(1.0)
    return results
