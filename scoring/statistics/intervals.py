"""95 % intervals that keep their coverage for rare events and for few clusters.

The percentile bootstrap has no width where every resample agrees, such as for 0 events in 100 examples,
and is too narrow for few clusters. Each interval therefore names its method:

``bootstrap``
    Percentiles of the bootstrap over clusters, moved outwards for few clusters (Hesterberg, 2015, "What
    teachers should know about the bootstrap"). Used from 30 effective clusters on and, for a
    proportion, from 20 effective examples of the rarer outcome on.
``binomial``
    For proportions otherwise: the exact binomial interval of Clopper and Pearson (1934) with the
    effective number of examples (Korn and Graubard, 1998, "Confidence intervals for proportions with
    small expected number of positive counts estimated from survey data"). For the difference of two
    proportions (gains minus losses), the two exact intervals are combined by MOVER (Zou and Donner,
    2008; Newcombe, 1998).
``cluster-t``
    For other metrics with fewer than 30 effective clusters: value ± t · standard error, with the
    delete-one-cluster jackknife and Student's t (Cameron and Miller, 2015, "A practitioner's guide to
    cluster-robust inference"). Cut off at the ends of the metric's range.
``rule of three``
    For other metrics whose clusters all agree: clusters unlike those seen may be up to
    1 - 0.025 ** (1 / clusters) of all, and each may move the value by the whole range.

The effective number of clusters is (Σ w)² / Σ w² of their weights (Kish, 1965): 10 equal clusters count
10, and one cluster of 91 examples among 9 of 1 example counts 1.2. The degrees of freedom are one less.

A worked example: 6 of 100 examples are events, all 6 in one of 20 clusters of 5 or so. The estimated
design effect (variance between clusters over binomial variance) is about 5, so the 100 examples are
worth 20, of which 1.2 are events. Few events say little about their design effect (one event alone
always shows 1), so the estimate is averaged with the largest possible design effect, that of clusters
whose examples are all equal. The latter has the weight of a quarter of a cluster with events, and all of the
weight where there is no event: 0 events in 20 clusters are 0 of 20, whatever the number of examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, stdtr, stdtrit  # type: ignore[import-untyped]

from scoring.types import Floats

LEVEL = 0.95
#: The bootstrap is used from so many effective examples of the rarer outcome, and effective clusters, on.
RARE, FEW = 20, 30
_TAIL = (1 - LEVEL) / 2
#: The weight of the largest possible design effect, in clusters with events.
_PRIOR = 0.25
#: Shares below this are rounding.
_ROUNDING = 1e-9

Method = Literal["", "bootstrap", "binomial", "cluster-t", "rule of three"]

#: Each method in words, for reports.
METHODS: dict[Method, str] = {
    "bootstrap": "percentiles of the bootstrap over clusters",
    "binomial": "exact binomial interval with the effective number of examples (Korn and Graubard, 1998), for rare "
    "outcomes and few clusters",
    "cluster-t": "Student's t with the delete-one-cluster jackknife, for few clusters",
    "rule of three": "every cluster agrees, so the interval follows from the number of clusters alone",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """Both ends of a 95 % interval, its method, and p of no difference for the interval of a difference."""

    low: float
    high: float
    method: Method
    p: float = math.nan


#: The interval of what has none, such as a value from one cluster.
NONE = Interval(math.nan, math.nan, "")


def effective_number(weights: Floats) -> float:
    """Kish's effective number of weights, (Σ w)² / Σ w²; 0 when all are 0.

    >>> effective_number(np.ones(10)), round(effective_number(np.array([91.0] + [1.0] * 9)), 2)
    (10.0, 1.21)
    """
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def student(freedom: float) -> float:
    """The upper quantile of Student's t for :data:`LEVEL`.

    >>> round(student(4), 3)
    2.776
    """
    return float(stdtrit(freedom, 1 - _TAIL))


@dataclass(frozen=True, slots=True)
class Counts:
    """A proportion, or a difference of two, added up by cluster.

    Parameters
    ----------
    gains, losses:
        The sums of the positive and of the negative events of each cluster, both as numbers ≥ 0.
    weights:
        The sum of the weights of each cluster. The value is (Σ gains - Σ losses) / Σ weights.
    examples:
        The effective number of examples, (Σ w)² / Σ w² over examples.
    """

    gains: Floats
    losses: Floats
    weights: Floats
    examples: float

    @classmethod
    def of(cls, events: Floats, weights: Floats, codes: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Counts:
        """Adds up events and weights of examples, whose clusters are the numbers ``codes``."""
        sums: list[Floats] = [
            np.bincount(codes, x).astype(float) for x in (np.maximum(events, 0), np.maximum(-events, 0), weights)
        ]
        inside = sums[2] > 0
        return cls(sums[0][inside], sums[1][inside], sums[2][inside], effective_number(weights))

    def rates(self) -> tuple[float, float]:
        """The shares of gains and of losses."""
        total = self.weights.sum()
        gained, lost = (float(np.clip(x.sum() / total, 0, 1)) for x in (self.gains, self.losses))
        return gained, lost


def effective_examples(events: Floats, weights: Floats, examples: float) -> float:
    """How many independent examples a proportion is worth; see the module's text.

    Parameters
    ----------
    events, weights:
        The sums of each cluster, of shape [clusters]; weights above 0.
    examples:
        The (effective) number of examples, which is the most that is returned.

    >>> round(effective_examples(np.arange(100) % 2, np.ones(100), 100), 6)
    100.0
    >>> effective_examples(np.zeros(20), 5 * np.ones(20), 100)
    20.0
    """
    total, clusters = weights.sum(), effective_number(weights)
    rate = events.sum() / total
    rarer = events if rate <= 0.5 else weights - events
    with_rarer = effective_number(np.where(rarer > _ROUNDING * weights, rarer, 0.0))
    largest = estimated = max(1.0, examples / clusters)
    correction = 1.0
    if with_rarer and len(weights) > 1:
        between = len(weights) / (len(weights) - 1) * float(((events - rate * weights) ** 2).sum()) / total**2
        estimated = max(1.0, between * (examples - 1) / (rate * (1 - rate)))
        correction = min(1.0, (student(max(1.0, examples - 1)) / student(max(1.0, clusters - 1))) ** 2)
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
    low = 0.0 if rate < _ROUNDING else float(betaincinv(events, rest + 1, _TAIL))
    high = 1.0 if 1 - rate < _ROUNDING else float(betaincinv(events + 1, rest, 1 - _TAIL))
    return low, high


def binomial(counts: Counts, *, signed: bool) -> tuple[Interval, bool]:
    """The exact interval of a proportion, and whether it has enough examples and clusters for the bootstrap.

    ``signed`` gives that of gains minus losses, such as of a difference, where 0 events leave room on
    both sides. p is that of McNemar's exact test with effective numbers of gains and losses.

    >>> counts = Counts.of(np.ones(60), np.ones(60), np.arange(60))
    >>> interval, many = binomial(counts, signed=False)
    >>> round(interval.low, 3), interval.high, many
    (0.94, 1.0, False)
    """
    gained, lost = counts.rates()
    worth = [effective_examples(x, counts.weights, counts.examples) for x in (counts.gains, counts.losses)]
    (low, high), (low_lost, high_lost) = clopper_pearson(gained, worth[0]), clopper_pearson(lost, worth[1])
    size = worth[0]
    if signed:
        difference = gained - lost
        low, high = (
            max(-1.0, difference - math.hypot(gained - low, high_lost - lost)),
            min(1.0, difference + math.hypot(high - gained, lost - low_lost)),
        )
        size = min(worth)
    fewer, more = sorted((gained * worth[0], lost * worth[1]))
    p = min(1.0, 2 * float(betainc(more, fewer + 1, 0.5))) if more else 1.0
    rarer = size * (1 - max(gained, lost, 1 - gained - lost))
    many = rarer >= RARE and effective_number(counts.weights) >= FEW
    return Interval(low, high, "binomial", p), many


def bootstrap(draws: Floats, clusters: int) -> Interval:
    """Percentiles of the defined draws; no interval for fewer than two clusters or draws.

    The percentiles are moved outwards as if the draws were normal: by the factor C / (C - 1) of the
    variance that the bootstrap lacks, and to the tails of Student's t.
    """
    defined = draws[~np.isnan(draws)]
    if clusters < 2 or len(defined) < 2:
        return NONE
    tail = float(ndtr(-student(clusters - 1) * math.sqrt(clusters / (clusters - 1))))
    low, high = np.quantile(defined, (tail, 1 - tail))
    return Interval(float(low), float(high), "bootstrap", _p_of_draws(defined))


def _p_of_draws(draws: Floats) -> float:
    """Two-sided p of no difference; the observed one counts as a resample, so p is never 0."""
    smaller = min((draws <= 0).sum(), (draws >= 0).sum())
    return min(1.0, 2 * (1 + int(smaller)) / (1 + len(draws)))


def cluster_t(value: float, without: Floats, freedom: float) -> Interval:
    """Student's interval from the values ``without`` one cluster each, of shape [clusters].

    >>> interval = cluster_t(2.0, np.array([2.5, 2.0, 1.5]), freedom=2)
    >>> round(interval.low, 2), round(interval.high, 2)
    (-0.48, 4.48)
    """
    clusters = len(without)
    error = math.sqrt((clusters - 1) / clusters * float(((without - without.mean()) ** 2).sum()))
    reach = student(freedom) * error
    p = 2 * float(stdtr(freedom, -abs(value) / error)) if error else float(value == 0)
    return Interval(value - reach, value + reach, "cluster-t", p)


def rule_of_three(value: float, clusters: float, span: float) -> Interval:
    """The interval of a value on which all clusters agree, on a range of so much from end to end.

    >>> rule_of_three(0.0, 60, span=1.0).high < 3.7 / 60
    True
    """
    reach = span * (1 - _TAIL ** (1 / clusters))
    p = 1.0 if value == 0 else min(1.0, 2 * 0.5**clusters)
    return Interval(value - reach, value + reach, "rule of three", p)


def cut(interval: Interval, value: float, least: float, most: float) -> Interval:
    """The interval with both ends inside the range and the value inside the interval."""
    low, high = max(least, min(interval.low, value)), min(most, max(interval.high, value))
    return replace(interval, low=low, high=high)
