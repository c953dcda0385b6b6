"""95 % intervals that keep their coverage for rare events, for few clusters and for paired differences.

The percentile bootstrap has no width where every resample agrees, such as for 0 events in 100 examples,
and is too narrow for few clusters. Each interval therefore names its method:

``bootstrap``
    Percentiles of the bootstrap over clusters, moved outwards for few clusters (Hesterberg, 2015, "What
    teachers should know about the bootstrap"). Used for scores of one run from 30 effective clusters on and,
    for a proportion, from 20 effective examples of the rarer outcome on.
``wilson``
    For rare proportions of one run over six to 30 clusters whose events are hardly alike (an intraclass correlation of
    at most .05): the interval of Wilson (1927) with the design effect and the quantile of Student's t.
``binomial``
    For other rare proportions of one run: the exact binomial interval of Clopper and Pearson (1934) with the
    effective number of examples (Korn and Graubard, 1998, "Confidence intervals for proportions with
    small expected number of positive counts estimated from survey data").
``cluster-t``
    Value ± t · standard error, with the delete-one-cluster jackknife and Student's t (Cameron and Miller,
    2015, "A practitioner's guide to cluster-robust inference"). For differences of two runs, and for scores
    of one run with fewer than 30 effective clusters (a proportion with 20 of the rarer outcome). Cut off at the
    ends of the metric's range.
``correlation``
    For correlations and their differences: cluster-t with pseudo clusters that have no correlation. See
    :func:`of_correlation`.
``extreme``
    For a score that is the smallest or the largest of smooth ones, such as ICAT = LMS · min(SS, 100 − SS) / 50 or the
    size of a difference, |x| = max(x, −x), and for a mean over wordings of such a score: cluster-t of each of these
    pieces. See :func:`of_extreme`.
``pairs``
    For differences of two proportions whose rows are each a cluster, with 0 or 1 in each run: as ``signed``, with the
    exact mid-p of McNemar's test and the end towards 0 that belongs to it. See :func:`of_pairs`.
``signed``
    For other differences of two proportions, and for a proportion with events on two sides (gains minus losses):
    cluster-t with one pseudo gain and one pseudo loss (Bonett and Price, 2012, "Adjusted Wald confidence
    interval for a difference of binomial proportions based on paired data"; Yang, Sun and Hardin, 2012, for
    clustered pairs; the variance over clusters is that of Obuchowski, 1998). See :func:`signed`.
``rule of three``
    For other metrics of one run whose clusters all agree: clusters unlike those seen may be up to
    1 - 0.025 ** (1 / clusters) of all, and each may move the value by the whole range.
``identical``
    Both runs have the same scores on every example, so the difference is 0 without an interval around it.

Every interval has a standard error: that of Student's t where it is one, else half its width over the quantile that
belongs to it. :func:`detectable` makes the minimum detectable effect of it.

An interval of a difference and its p belong together (one standard error, or an exact p), so p is below 0.05
where, and only where, the interval excludes 0. ``tools/simulations/intervals.py`` simulates coverage and width.

The effective number of clusters is (Σ w)² / Σ w² of their weights (Kish, 1965): 10 equal clusters count
10, and one cluster of 91 examples among 9 of 1 example counts 1.2. The degrees of freedom are one less.

A worked example of ``binomial``: 6 of 100 examples are events, all 6 in one of 20 clusters of 5 or so. The
estimated design effect (variance between clusters over binomial variance) is about 5, so the 100 examples are
worth 20, of which 1.2 are events. Few events say little about their design effect (one event alone
always shows 1), so the estimate is averaged with the largest possible design effect, that of clusters
whose examples are all equal. The latter has the weight of a quarter of a cluster with events, and all of the
weight where there is no event: 0 events in 20 clusters are 0 of 20, whatever the number of examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
import scipy  # type: ignore[import-untyped]  # its parts are imported when they are used

from scoring.types import Floats

LEVEL = 0.95
#: The power of :func:`detectable`.
POWER = 0.8
#: The bootstrap is used from so many effective examples of the rarer outcome, and effective clusters, on.
RARE, FEW = 20, 30
#: Fewer clusters say nothing of how alike their events are.
FEWEST = 6
#: The least intraclass correlation of rare events that is assumed.
_LEAST_ICC = 0.02
#: The intraclass correlation of the pseudo gain and loss. That of examples which change between two models was
#: -.006 to .014 on StereoSet, up to .032 on UnStereoEval and up to .076 on WinoBias.
_ICC = 0.05
_TAIL = (1 - LEVEL) / 2
#: The weight of the largest possible design effect, in clusters with events.
_PRIOR = 0.25
#: Pseudo clusters of a correlation.
PSEUDO = 2
#: Shares below this are rounding.
_ROUNDING = 1e-9
#: Of a mean over parts, two pieces of a part that differ with a p below this are not taken for equal.
_BEYOND_DOUBT = 1e-4

Method = Literal[
    "",
    "bootstrap",
    "binomial",
    "wilson",
    "cluster-t",
    "correlation",
    "extreme",
    "pairs",
    "signed",
    "rule of three",
    "identical",
]

#: Each method in words, for reports.
METHODS: dict[Method, str] = {
    "bootstrap": "percentiles of the bootstrap over clusters",
    "binomial": "exact binomial interval with the effective number of examples (Korn and Graubard, 1998), for rare "
    "outcomes and few clusters",
    "wilson": "the interval of Wilson with the design effect and Student's t, for rare outcomes of few clusters whose "
    "examples are hardly alike",
    "cluster-t": "Student's t with the delete-one-cluster jackknife, for few clusters and for differences",
    "correlation": "Student's t with the delete-one-cluster jackknife and two pseudo clusters without a correlation",
    "extreme": "Student's t with the delete-one-cluster jackknife for each of the scores of which it is the smallest "
    "or the largest",
    "signed": "Student's t with the delete-one-cluster jackknife and one pseudo example on each side (Bonett and "
    "Price, 2012), for differences of proportions",
    "pairs": "McNemar's exact test with mid-p, and the end towards 0 that belongs to it, for differences of "
    "proportions whose rows do not depend on each other",
    "rule of three": "every cluster agrees, so the interval follows from the number of clusters alone",
    "identical": "every example has the same scores in both runs",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """Both ends of a 95 % interval, its method, and p of no difference for the interval of a difference.

    ``error`` is the standard error and ``freedom`` are its degrees of freedom.
    """

    low: float
    high: float
    method: Method
    p: float = math.nan
    error: float = math.nan
    freedom: float = math.inf

    @classmethod
    def of(cls, low: float, high: float, method: Method, p: float = math.nan, freedom: float = math.inf) -> Interval:
        """An interval with the standard error that half its width is a quantile of."""
        return cls(low, high, method, p, (high - low) / 2 / student(freedom), freedom)


#: The interval of what has none, such as a value from one cluster.
NONE = Interval(math.nan, math.nan, "")


def effective_number(weights: Floats) -> float:
    """Kish's effective number of weights, (Σ w)² / Σ w²; 0 when all are 0.

    >>> effective_number(np.ones(10)), round(effective_number(np.array([91.0] + [1.0] * 9)), 2)
    (10.0, 1.21)
    """
    squares = float((weights**2).sum())
    if not squares:
        return 0.0
    return float(weights.sum()) ** 2 / squares


def student(freedom: float) -> float:
    """The upper quantile of Student's t for :data:`LEVEL`.

    >>> round(student(4), 3)
    2.776
    """
    return float(scipy.special.stdtrit(freedom, 1 - _TAIL))


def detectable(error: float, freedom: float, level: float = 1 - LEVEL) -> float:
    """The smallest true difference that a two-sided test of this level finds with the power :data:`POWER`.

    The test is Student's with this standard error and these degrees of freedom, so the statistic of a true difference
    d has the noncentral t distribution with d / error; the chance of the wrong sign is left out (below 0.0001 from two
    degrees of freedom on). For many clusters it is (1.96 + 0.84) standard errors (Bloom, 1995, "Minimum detectable
    effects"). NaN without a standard error above 0.

    >>> round(detectable(1.0, math.inf), 3), round(detectable(1.0, 5), 3)
    (2.802, 3.514)
    """
    if not error > 0:
        return math.nan
    return error * float(scipy.special.nctdtrinc(freedom, 1 - POWER, scipy.special.stdtrit(freedom, 1 - level / 2)))


@dataclass(frozen=True, slots=True)
class Counts:
    """A proportion added up by cluster: its value is Σ events / Σ weights.

    Parameters
    ----------
    events:
        The sum of the events of each cluster; those on the other side count below 0.
    weights:
        The sum of the weights of each cluster, above 0.
    examples:
        The effective number of examples, (Σ w)² / Σ w² over examples.
    """

    events: Floats
    weights: Floats
    examples: float

    @classmethod
    def of(cls, events: Floats, weights: Floats, codes: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Counts:
        """Adds up events and weights of examples, whose clusters are the numbers ``codes``."""
        sums_of_events = np.bincount(codes, events).astype(float)
        sums_of_weights = np.bincount(codes, weights).astype(float)
        inside = sums_of_weights > 0
        return cls(sums_of_events[inside], sums_of_weights[inside], effective_number(weights))

    @property
    def rate(self) -> float:
        """The value, from -1 to 1."""
        return float(np.clip(self.events.sum() / self.weights.sum(), -1, 1))

    @property
    def clusters(self) -> float:
        """The effective number of clusters."""
        return effective_number(self.weights)


def effective_examples(counts: Counts, *, cautious: bool = True) -> float:
    """How many independent examples a proportion without events on the other side is worth; see the module's text.

    Without ``cautious`` it is the estimate alone, not averaged with the largest possible design effect.

    >>> every_second = Counts((np.arange(100) % 2).astype(float), np.ones(100), 100)
    >>> round(effective_examples(every_second), 6)
    100.0
    >>> effective_examples(Counts(np.zeros(20), 5 * np.ones(20), 100))
    20.0
    """
    events, weights, examples, rate = counts.events, counts.weights, counts.examples, counts.rate
    rarer = events
    if rate > 0.5:
        rarer = weights - events
    with_rarer = effective_number(np.where(rarer > _ROUNDING * weights, rarer, 0.0))
    largest = estimated = max(1.0, examples / counts.clusters)
    correction = 1.0
    if with_rarer and len(weights) > 1:
        # The linearised variance of a ratio over clusters; against the binomial one it is the design effect.
        between = len(weights) / (len(weights) - 1) * float(((events - rate * weights) ** 2).sum()) / weights.sum() ** 2
        estimated = max(1.0, between * (examples - 1) / (rate * (1 - rate)))
        # Korn and Graubard widen by the quantiles of t, because the variance comes from so few clusters.
        correction = min(1.0, (student(max(1.0, examples - 1)) / student(max(1.0, counts.clusters - 1))) ** 2)
    if not cautious:
        return examples / estimated
    # Few clusters with events say little of the design effect, so the largest possible one has weight.
    share = with_rarer / (with_rarer + _PRIOR)
    design_effect = share * estimated + (1 - share) * max(largest, estimated)
    return float(examples / design_effect * (share * correction + 1 - share))


def clopper_pearson(rate: float, examples: float) -> tuple[float, float]:
    """The exact binomial interval of a rate over so many examples, which need not be a whole number.

    >>> [round(end, 4) for end in clopper_pearson(0.0, 60)]
    [0.0, 0.0596]
    """
    events = rate * examples
    rest = examples - events
    low, high = 0.0, 1.0
    if rate >= _ROUNDING:
        low = float(scipy.special.betaincinv(events, rest + 1, _TAIL))
    if 1 - rate >= _ROUNDING:
        high = float(scipy.special.betaincinv(events + 1, rest, 1 - _TAIL))
    return low, high


def wilson(rate: float, examples: float, freedom: float) -> Interval:
    """The score interval of a rate over so many examples (Wilson, 1927) with the quantile of Student's t.

    >>> interval = wilson(0.0, 60, 9)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.0, 0.079)
    """
    square = student(freedom) ** 2 / examples
    middle = (rate + square / 2) / (1 + square)
    reach = math.sqrt(square * (rate * (1 - rate) + square / 4)) / (1 + square)
    return Interval.of(min(rate, middle - reach), max(rate, middle + reach), "wilson", freedom=freedom)


def binomial(counts: Counts, icc: float = math.nan) -> tuple[Interval, Method]:
    """The interval of a rare proportion, and the method to use instead of it where the proportion is not rare.

    ``icc`` is the intraclass correlation of the events. Where it is known and at most that of pseudo examples, six to
    30 clusters with fewer than 20 of the rarer outcome have the interval of :func:`wilson`, and others the exact one.

    >>> counts = Counts.of(np.ones(60), np.ones(60), np.arange(60))
    >>> interval, method = binomial(counts)
    >>> round(interval.low, 3), interval.high, method
    (0.94, 1.0, 'binomial')
    """
    rate, worth = counts.rate, effective_examples(counts)
    rarer = min(rate, 1 - rate)
    method: Method = "binomial"
    if icc <= _ICC and FEWEST <= counts.clusters < FEW and rarer * counts.examples < RARE:
        freedom = counts.clusters - 1
        # Events of few clusters are as alike as those of other scores at least, and only by chance less.
        design_effect = 1 + max(icc, _LEAST_ICC) * max(0.0, counts.examples / counts.clusters - 1)
        return wilson(rate, counts.examples / design_effect, freedom), "wilson"
    if counts.clusters >= FEW:
        if rarer * worth >= RARE:
            method = "bootstrap"
    elif rarer * effective_examples(counts, cautious=False) >= RARE:
        method = "cluster-t"
    low, high = clopper_pearson(rate, worth)
    return Interval.of(low, high, "binomial"), method


def signed(counts: Counts) -> Interval:
    """The interval of gains minus losses, such as of the difference of two proportions.

    The events of an example are 1 for a gain, -1 for a loss and 0 for no change. With one pseudo gain and one pseudo
    loss the centre is value · n / (n + 2), and the variance is that of the delete-one-cluster jackknife plus that of
    the two pseudo examples, 2 · d / (n + 2)². Their design effect d is that of the clusters' sizes with a small
    intraclass correlation. So 0 gains and losses have a width, which falls with the number of examples. The degrees
    of freedom are Satterthwaite's, of effective clusters - 1 and n.

    >>> unchanged = Counts(np.zeros(30), np.full(30, 26.0), 780)
    >>> round(signed(unchanged).high, 4), signed(unchanged).p
    (0.0053, 1.0)
    >>> lost = Counts(np.full(30, -40 / 30), np.full(30, 26.0), 780)
    >>> round(signed(lost).low, 3), round(signed(lost).high, 3)
    (-0.056, -0.046)
    """
    n = counts.examples
    if len(counts.weights) < 2:
        return Interval(-1.0, 1.0, "signed", 1.0)
    # The value without each cluster (jackknife), whose spread is the variance over clusters.
    total, events = counts.weights.sum(), counts.events.sum()
    without = (events - counts.events) / (total - counts.weights)
    return with_pseudo_examples(events / total, without, n, counts.clusters)


def with_pseudo_examples(value: float, without: Floats, examples: float, clusters: float) -> Interval:
    """The interval of :func:`signed` from a value between -1 and 1 and its values ``without`` one cluster each.

    ``examples`` and ``clusters`` are effective numbers.
    """
    robust = (len(without) - 1) / len(without) * float(((without - without.mean()) ** 2).sum())
    pseudo = pseudo_variance(examples, clusters)
    freedom = (robust + pseudo) ** 2 / (robust**2 / max(1.0, clusters - 1) + pseudo**2 / examples)
    return _students(value * examples / (examples + 2), math.sqrt(robust + pseudo), freedom, "signed")


def of_pairs(gains: int, losses: int, pairs: int) -> Interval:
    """The interval of gains minus losses over so many pairs that do not depend on each other, with the p of McNemar.

    p is exact and mid-p: twice the probability of as few of the rarer change, where each change is a gain with a
    probability of a half, with half of the probability of the number itself (Fagerland, Lydersen and Laake, 2013, "The
    McNemar test for binary matched-pairs data"). The end towards 0 follows from p; the other one is that of
    :func:`signed`, which has less power.

    >>> interval = of_pairs(8, 1, 100)
    >>> round(interval.p, 3), round(interval.low, 3), round(interval.high, 3)
    (0.021, 0.01, 0.133)
    """
    events = np.repeat([1.0, -1.0, 0.0], [gains, losses, pairs - gains - losses])
    wide = replace(signed(Counts(events, np.ones(pairs), pairs)), method="pairs")
    if gains == losses:
        return replace(wide, p=1.0)
    value, rarer, changes = (gains - losses) / pairs, min(gains, losses), gains + losses
    p = float(scipy.special.bdtr(rarer, changes, 0.5))
    if rarer:
        p += float(scipy.special.bdtr(rarer - 1, changes, 0.5))
    # A normal interval reaches as much further than its middle as its quantile is larger than that of p.
    reach = abs(value) * float(scipy.special.ndtri(_TAIL) / scipy.special.ndtri(max(p, 1e-300) / 2))
    low, high = value - reach, value + reach
    if p < 1 - LEVEL:
        low, high = max(low, wide.low), min(high, wide.high)
    if value > 0:
        return replace(wide, low=low, high=max(wide.high, value), p=p)
    return replace(wide, low=min(wide.low, value), high=high, p=p)


def pseudo_variance(examples: float, clusters: float) -> float:
    """The variance that a pseudo gain and a pseudo loss add to the mean of so many examples in clusters."""
    design_effect = 1 + _ICC * (examples / clusters - 1)
    return 2 * design_effect / (examples + 2) ** 2


def unchanged(value: float, counts: Counts, span: float) -> Interval:
    """The interval of a difference on which all clusters agree, of a metric with a range of so much from end to end.

    Only the pseudo examples of :func:`signed` give it a width.
    """
    error = span * math.sqrt(pseudo_variance(counts.examples, counts.clusters))
    return _students(value, error, counts.examples, "cluster-t")


def _students(center: float, error: float, freedom: float, method: Method) -> Interval:
    """Center ± t · error, and the p that belongs to it."""
    center, reach = float(center), float(student(freedom) * error)
    if error:
        p = 2 * float(scipy.special.stdtr(freedom, -abs(center) / error))
    else:
        p = float(center == 0)
    return Interval(center - reach, center + reach, method, p, float(error), freedom)


def bootstrap(draws: Floats, clusters: int) -> Interval:
    """Percentiles of the defined draws; no interval for fewer than two clusters or draws.

    The percentiles are moved outwards as if the draws were normal: by the factor C / (C - 1) of the
    variance that the bootstrap lacks, and to the tails of Student's t.
    """
    defined = draws[~np.isnan(draws)]
    if clusters < 2 or len(defined) < 2:
        return NONE
    # Percentiles are too narrow for few clusters: the tail is that of t, and √(n / (n − 1)) undoes the division by n.
    tail = float(scipy.special.ndtr(-student(clusters - 1) * math.sqrt(clusters / (clusters - 1))))
    low, high = np.quantile(defined, (tail, 1 - tail))
    # p is moved outwards as the percentiles are. The observed value counts as a resample, so p is never 0.
    smaller = min((defined <= 0).sum(), (defined >= 0).sum())
    tail = min(0.5, (1 + int(smaller)) / (1 + len(defined)))
    p = 2 * float(scipy.special.stdtr(clusters - 1, scipy.special.ndtri(tail) / math.sqrt(clusters / (clusters - 1))))
    return Interval.of(float(low), float(high), "bootstrap", p, clusters - 1)


def cluster_t(value: float, without: Floats, freedom: float) -> Interval:
    """Student's interval from the values ``without`` one cluster each, of shape [clusters].

    >>> interval = cluster_t(2.0, np.array([2.5, 2.0, 1.5]), freedom=2)
    >>> round(interval.low, 2), round(interval.high, 2)
    (-0.48, 4.48)
    """
    clusters = len(without)
    error = math.sqrt((clusters - 1) / clusters * float(((without - without.mean()) ** 2).sum()))
    return _students(value, error, freedom, "cluster-t")


def of_correlation(shrunk: float, without: Floats, clusters: float) -> Interval:
    """The interval of a correlation over so many effective clusters.

    :data:`PSEUDO` clusters have the means and variances of the others and no correlation. ``shrunk`` is the correlation
    with them, and ``without`` that without one cluster each. In units of standard deviations a pseudo cluster is at
    (±1, ±1), where the influence on a correlation r is ±1 - r; so they add PSEUDO · (1 + r²) / (clusters + PSEUDO)² to
    the variance of the jackknife. Where answers are nearly 0 or 1, the jobs of a sample often all agree and the true
    correlation is lower: the jackknife alone then had next to no width, and on Fisher's scale, arctanh, one other job
    made it endless (``tools/simulations/correlations.py``).

    >>> interval = of_correlation(0.8, np.array([0.79, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.81]), 8)
    >>> round(interval.low, 2), round(interval.high, 2)
    (0.37, 1.23)
    """
    pseudo = PSEUDO * (1 + shrunk**2) / (clusters + PSEUDO) ** 2
    return _of_jackknife(shrunk, without, clusters, pseudo)


def of_correlations(change: float, without: Floats, clusters: float) -> Interval:
    """The interval of the difference of two correlations over the same clusters, each with pseudo clusters.

    The pseudo variance is that of one pseudo cluster with a correlation in one run and the opposite one in the other.

    >>> of_correlations(0.0, np.zeros(38), 38).high.__round__(2)
    0.1
    """
    return _of_jackknife(change, without, clusters, 4 / (clusters + PSEUDO) ** 2)


def _of_jackknife(value: float, without: Floats, clusters: float, pseudo: float) -> Interval:
    """Student's interval with the variance of the jackknife and that of pseudo clusters."""
    robust = (len(without) - 1) / len(without) * float(((without - without.mean()) ** 2).sum())
    return _students(value, math.sqrt(robust + pseudo), max(1.0, clusters - 1), "correlation")


@dataclass(frozen=True, slots=True)
class Choices:
    """Smooth scores [choices] and the same without one cluster each [clusters, choices].

    A choice names a piece of each part, and its score is the mean of these pieces over the parts.
    """

    scores: Floats
    without: Floats


def choices_of(pieces: Floats, without: Floats, freedom: float, extreme: str) -> tuple[Choices, Choices]:
    """Every choice of pieces that can be that of the true scores, and one for each piece.

    A mean over parts (such as wordings) of the smallest of several pieces is the smallest mean of all choices of a
    piece for each part. Of several parts, one whose pieces differ beyond doubt (:data:`_BEYOND_DOUBT`) has only the
    piece that is the smallest (largest). The second choices have the same piece in all parts with doubt.

    Parameters
    ----------
    pieces, without:
        The scores [parts, pieces], and the same without one cluster each [clusters, parts, pieces].

    >>> pieces = np.array([[1.0, 9.0], [5.0, 5.0]])
    >>> without = pieces + np.array([-0.1, 0.0, 0.1])[:, None, None] * np.array([1.0, -1.0])
    >>> every, few = choices_of(pieces, without, 50, "smallest")
    >>> every.scores, few.scores
    (array([3., 3.]), array([3., 3.]))
    """
    parts, count = pieces.shape
    clusters = len(without)
    allowed = [list(range(count))] * parts
    if parts > 1:
        best = pieces.argmax(axis=1)
        if extreme == "smallest":
            best = pieces.argmin(axis=1)
        for part, piece in enumerate(best.tolist()):
            differences = pieces[part] - pieces[part, piece]
            of_clusters = without[:, part] - without[:, part, piece, None]
            squares = ((of_clusters - of_clusters.mean(axis=0)) ** 2).sum(axis=0)
            errors = np.sqrt((clusters - 1) / clusters * squares)
            doubtful = abs(differences) <= float(scipy.special.stdtrit(freedom, 1 - _BEYOND_DOUBT / 2)) * errors
            allowed[part] = [other for other in range(count) if other == piece or doubtful[other]]
    every = np.array(list(product(*allowed)))
    same_piece = []
    for piece in range(count):
        # A part with fewer pieces has its last one in place of those that it lacks.
        same_piece.append([of_part[min(piece, len(of_part) - 1)] for of_part in allowed])
    # Of parts without any doubt both choices are one.
    few = np.unique(np.array(same_piece), axis=0)
    return _choices(pieces, without, every), _choices(pieces, without, few)


def _choices(pieces: Floats, without: Floats, chosen: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Choices:
    """The scores of choices of a piece of each part, ``chosen`` [choices, parts]."""
    parts = np.arange(len(pieces))
    return Choices(pieces[parts, chosen].mean(axis=1), without[:, parts, chosen].mean(axis=2))


def of_extreme(pieces: Floats, without: Floats, freedom: float, extreme: str) -> Interval:
    """The interval of the smallest (``extreme`` is "smallest") or the largest of several smooth scores.

    Each piece has Student's interval. The smallest of the lower ends is below the smallest of the true scores as often
    as the lower end of that piece is, and so is the upper one above it. Where two pieces are equal, the smallest value
    of a sample is too low on average, and so are all resamples of it: the percentiles of a bootstrap missed the truth
    in up to a third of the samples (``tools/simulations/verdicts.py``). The lower end of a mean over parts is the
    smallest of all :func:`choices_of` pieces; its upper one is that of the few, because the smallest of many ends is
    too low.

    Parameters
    ----------
    pieces, without:
        The scores [pieces] or [parts, pieces], and the same without one cluster each [clusters, …].

    >>> interval = of_extreme(np.array([2.0, -2.0]), np.array([[2.5, -2.5], [2.0, -2.0], [1.5, -1.5]]), 2, "largest")
    >>> round(interval.low, 2), round(interval.high, 2)
    (-0.48, 4.48)
    """
    # The largest is the smallest of the negative scores, the other way round.
    sign = -1.0
    if extreme == "smallest":
        sign = 1.0
    pieces, without = _of_parts(sign * pieces, sign * without)
    every, few = choices_of(pieces, without, freedom, "smallest")
    low, _, _ = _ends_of_each(every.scores, every.without, freedom)
    _, high, _ = _ends_of_each(few.scores, few.without, freedom)
    ends = sorted((sign * float(low.min()), sign * float(high.min())))
    return replace(Interval.of(ends[0], ends[1], "extreme", freedom=freedom), p=math.nan)


def difference_of_extremes(
    a: tuple[Floats, Floats], b: tuple[Floats, Floats], freedom: float, extreme: str
) -> Interval:
    """The interval of the smallest (or largest) score of run a minus that of run b, over the same clusters.

    The difference of two smallest scores is min over i of max over j of a_i - b_j, and also max over j of min over i.
    Each a_i - b_j is smooth and has Student's interval [low_ij, high_ij]. The interval of the difference is from the
    min of max of all low_ij to the max of min of all high_ij, so it is the negative one where the runs change places.
    Of means over parts the outer min (max) is over all :func:`choices_of` pieces, the inner one over the few. p is the
    level at which one of its ends is 0.

    Parameters
    ----------
    a, b:
        Of each run the scores [pieces] or [parts, pieces], and the same without one cluster each [clusters, …].

    >>> same = np.array([1.0, 3.0]), np.array([[1.1, 3.0], [0.9, 3.0], [1.0, 3.0]])
    >>> interval = difference_of_extremes(same, same, 2, "smallest")
    >>> interval.low, interval.high, interval.p
    (0.0, 0.0, 1.0)
    """
    # The difference of the largest is that of the smallest of the negative scores, the other way round.
    pieces_a, without_a = _of_parts(a[0], a[1])
    pieces_b, without_b = _of_parts(b[0], b[1])
    if extreme == "smallest":
        every_first, few_first = choices_of(pieces_a, without_a, freedom, "smallest")
        every_second, few_second = choices_of(pieces_b, without_b, freedom, "smallest")
    else:
        every_first, few_first = choices_of(-pieces_b, -without_b, freedom, "smallest")
        every_second, few_second = choices_of(-pieces_a, -without_a, freedom, "smallest")
    lows, _, rises = _ends_of_pairs(every_first, few_second, freedom)
    _, highs, no_falls = _ends_of_pairs(few_first, every_second, freedom)
    low, high = float(lows.max(axis=1).min()), float(highs.min(axis=0).max())
    # One-sided p of no increase and of no decrease, in the same order of min and max as the ends.
    rise, fall = float(rises.min(axis=1).max()), float((1 - no_falls).min(axis=0).max())
    return replace(Interval.of(low, high, "extreme", freedom=freedom), p=min(1.0, 2 * min(rise, fall)))


def _of_parts(pieces: Floats, without: Floats) -> tuple[Floats, Floats]:
    """Pieces with an axis of parts, of which a score without parts has one."""
    if pieces.ndim == 2:
        return pieces, without
    return pieces[None], without[:, None]


def _ends_of_pairs(a: Choices, b: Choices, freedom: float) -> tuple[Floats, Floats, Floats]:
    """What :func:`_ends_of_each` gives [choices of a, choices of b] of each choice of a minus each of b."""
    return _ends_of_each(a.scores[:, None] - b.scores, a.without[:, :, None] - b.without[:, None], freedom)


def _ends_of_each(scores: Floats, without: Floats, freedom: float) -> tuple[Floats, Floats, Floats]:
    """Both ends of :func:`cluster_t` of each score, and the one-sided p that it is not above 0."""
    clusters = len(without)
    errors = np.sqrt((clusters - 1) / clusters * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    reach = student(freedom) * errors
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(errors > 0, scores / errors, np.where(scores == 0, 0.0, np.copysign(np.inf, scores)))
    return scores - reach, scores + reach, scipy.special.stdtr(freedom, -t)


def correlation_within(values: Floats, codes: np.ndarray[tuple[int], np.dtype[np.intp]]) -> float:
    """The intraclass correlation of values [examples] in clusters ``codes``, by the analysis of variance.

    1 says that all values of a cluster are equal, 0 that they are no more alike than those of others. NaN where
    values do not vary, and where no cluster has two.

    >>> halves = np.repeat([0, 1, 2, 3], 2)
    >>> correlation_within(np.array([1.0, 1, 0, 0, 1, 1, 0, 0]), halves)
    1.0
    >>> round(correlation_within(np.array([1.0, 0, 1, 0, 0, 1, 1, 0]), halves), 2)
    -1.0
    """
    sizes = np.bincount(codes).astype(float)
    present = sizes > 0
    sums, squares = np.bincount(codes, values)[present], float((values**2).sum())
    sizes = sizes[present]
    total, clusters = sizes.sum(), len(sizes)
    if clusters < 2 or total <= clusters:
        return math.nan
    explained = float((sums**2 / sizes).sum())
    between = (explained - float(sums.sum()) ** 2 / total) / (clusters - 1)
    within = (squares - explained) / (total - clusters)
    # The size of a cluster that counts where sizes differ.
    size = (total - float((sizes**2).sum()) / total) / (clusters - 1)
    spread = between + (size - 1) * within
    if spread > _ROUNDING * max(squares, 1e-300):
        return float((between - within) / spread)
    return math.nan


def p_of(interval: Interval, value: float, ideal: float) -> float:
    """Two-sided p that a score is ``ideal``, which is below 0.05 where its interval does not hold it.

    The half of the interval on the side of the ideal value is a quantile of Student's t.

    >>> round(p_of(Interval(52.0, 60.0, "cluster-t"), 56.0, 52.0), 3), p_of(Interval(52.0, 60.0, ""), 56.0, 56.0)
    (0.05, 1.0)
    """
    if value > ideal:
        reach = value - interval.low
    else:
        reach = interval.high - value
    if math.isnan(reach):
        return math.nan
    if value == ideal:
        return 1.0
    if reach <= 0:
        return 0.0
    return 2 * float(scipy.special.stdtr(interval.freedom, -abs(value - ideal) / reach * student(interval.freedom)))


def of_rank_correlation(r: float, models: int, quantile: float | None = None) -> tuple[float, float]:
    """Both ends of the interval of Spearman's correlation over so many models, at least four.

    ``quantile`` is of the normal distribution, by default that of 95 %.
    Fisher's z, arctanh, of the correlation has the variance (1 + r² / 2) / (n - 3) (Bonett and Wright, 2000, "Sample
    size requirements for estimating Pearson, Kendall and Spearman correlations").

    >>> [round(end, 2) for end in of_rank_correlation(0.7, 20)]
    [0.32, 0.88]
    """
    reach = (quantile or student(math.inf)) * math.sqrt((1 + r**2 / 2) / (models - 3))
    # The z of a correlation of 1 stays finite.
    z = math.atanh(min(max(r, -1 + 1e-12), 1 - 1e-12))
    return math.tanh(z - reach), math.tanh(z + reach)


def rule_of_three(value: float, clusters: float, span: float) -> Interval:
    """The interval of a value on which all clusters agree, on a range of so much from end to end.

    >>> rule_of_three(0.0, 60, span=1.0).high < 3.7 / 60
    True
    """
    # The share that n clusters could have missed with a probability of the tail: (1 − share)ⁿ = tail.
    reach = span * (1 - _TAIL ** (1 / clusters))
    p = 1.0
    if value != 0:
        p = min(1.0, 2 * 0.5**clusters)
    return Interval.of(value - reach, value + reach, "rule of three", p)


def over_parts(interval: Interval, parts: Floats) -> Interval:
    """The interval of a mean over parts that are drawn at random too, such as wordings, of shape [parts].

    ``interval`` is over clusters, as if the parts were given. The variance of the mean over parts is added, and the
    degrees of freedom are Satterthwaite's, of both. What clusters and parts make together is in both variances, so the
    interval is rather too wide than too narrow (``tools/simulations/wordings.py``). One part leaves it as it is.

    >>> wide = over_parts(Interval(1.0, 3.0, "cluster-t", error=0.5, freedom=20), np.array([1.0, 2.0, 3.0]))
    >>> round(wide.low, 2), round(wide.high, 2), round(wide.error, 2), round(wide.freedom, 1)
    (0.16, 3.84, 0.76, 5.8)
    """
    if len(parts) < 2 or not interval.error >= 0:
        return interval
    between = float(parts.var(ddof=1)) / len(parts)
    variance = interval.error**2 + between
    if not between:
        return interval
    freedom = variance**2 / (interval.error**4 / interval.freedom + between**2 / (len(parts) - 1))
    reach = student(freedom) * math.sqrt(variance)
    # Both ends move by what the interval grows, so one that is not symmetric keeps its form.
    more = max(0.0, reach - student(interval.freedom) * interval.error)
    p = _students((interval.low + interval.high) / 2, math.sqrt(variance), freedom, "").p
    return Interval(interval.low - more, interval.high + more, interval.method, p, math.sqrt(variance), freedom)


def cut(interval: Interval, value: float, least: float, most: float) -> Interval:
    """The interval with both ends inside the range and the value inside the interval."""
    low, high = max(least, min(interval.low, value)), min(most, max(interval.high, value))
    return replace(interval, low=low, high=high)
