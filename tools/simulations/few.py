"""Power and coverage where data are few: paired rows, rare events of few clusters, pages of few clusters, few models.

``python -m tools.simulations.few`` draws samples with known truth and writes ``few.json`` beside this file. Parts:

``pairs``
    Differences of two runs over rows that are each a cluster: the exact test with mid-p, and pseudo examples before.
``rare``
    Rare proportions of 6 to 20 clusters: Wilson's interval with a design effect, and the exact one before.
``pages``
    Pages of a headline and other rows over few clusters, by how p-values are corrected together.
``ranks``
    Rank correlations of few models.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from scipy.special import stdtr  # type: ignore[import-untyped]
from scipy.stats import multivariate_normal, rankdata  # type: ignore[import-untyped]

from cards.common.verdict import LEVEL, holm, smallest_p
from scoring.statistics import intervals
from scoring.statistics.intervals import Counts, Interval, of_rank_correlation
from scoring.types import Floats
from tools.simulations.parts import run_parts

#: Shares of gains and of losses: none, and true differences of several sizes.
RATES = ((0.01, 0.01), (0.05, 0.05), (0.15, 0.15), (0.03, 0.0), (0.05, 0.0), (0.08, 0.02), (0.1, 0.04), (0.3, 0.1))


@cache
def by_pseudo_examples(gains: int, losses: int, pairs: int) -> Interval:
    """The interval before."""
    events = np.repeat([1.0, -1.0, 0.0], [gains, losses, pairs - gains - losses])
    return intervals.signed(Counts(events, np.ones(pairs), pairs))


@cache
def by_mcnemar(gains: int, losses: int, pairs: int) -> Interval:
    """The interval of a run."""
    return intervals.of_pairs(gains, losses, pairs)


def pairs(samples: int) -> dict[str, Any]:
    """Coverage, width and the share of p below .05, by the number of rows and the rates."""
    results = {}
    for rows, (gained, lost) in product((50, 100, 262), RATES):
        rng = np.random.default_rng([1, rows, round(1000 * gained), round(1000 * lost)])
        drawn = rng.multinomial(rows, [gained, lost, 1 - gained - lost], samples)
        numbers = {}
        for name, method in (("before", by_pseudo_examples), ("now", by_mcnemar)):
            found = [method(int(gains), int(losses), rows) for gains, losses, _ in drawn]
            numbers[f"coverage {name}"] = np.mean([i.low <= gained - lost <= i.high for i in found])
            numbers[f"width {name}"] = np.mean([i.high - i.low for i in found])
            numbers[f"found {name}"] = np.mean([i.p < LEVEL for i in found])
        key = f"{rows} rows, gains {gained:g}, losses {lost:g}"
        results[key] = {name: round(float(value), 4) for name, value in numbers.items()}
    return results


def rates_of(rng: np.random.Generator, rate: float, icc: float, size: tuple[int, ...]) -> Floats:
    """Rates of clusters with this mean and intraclass correlation."""
    if not icc:
        return np.full(size, rate)
    return rng.beta(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1), size)


def rare(samples: int) -> dict[str, Any]:
    """Coverage and width of rare proportions, by clusters, rate and intraclass correlation."""
    results = {}
    for (clusters, size), rate, icc in product(
        ((6, 20), (6, 50), (10, 20), (20, 50)), (0.01, 0.03, 0.08), (0, 0.05, 0.1, 0.3)
    ):
        rng = np.random.default_rng([2, clusters, size, round(100 * rate), round(100 * icc)])
        events = rng.binomial(size, rates_of(rng, rate, icc, (samples, clusters))).astype(float)
        seen: dict[str, list[float]] = {"coverage before": [], "coverage now": [], "width before": [], "width now": []}
        codes = np.repeat(np.arange(clusters), size)
        for happened in events:
            counts = Counts(happened, np.full(clusters, float(size)), float(clusters * size))
            values = (np.arange(clusters * size) % size < happened[codes]).astype(float)
            for name, correlation in (("before", np.nan), ("now", intervals.correlation_within(values, codes))):
                interval, method = intervals.binomial(counts, correlation)
                if method not in ("binomial", "wilson"):
                    without = (happened.sum() - happened) / (clusters - 1) / size
                    interval = intervals.cluster_t(counts.rate, without, clusters - 1)
                seen[f"coverage {name}"].append(interval.low <= rate <= interval.high)
                seen[f"width {name}"].append(min(1.0, interval.high) - max(0.0, interval.low))
        key = f"{clusters} clusters of {size}, rate {rate:g}, icc {icc:g}"
        results[key] = {name: round(float(np.mean(values)), 4) for name, values in seen.items()}
    return results


def pages(samples: int) -> dict[str, Any]:
    """The share of pages with a claim and with one of the headline, of a headline and other rows over few clusters.

    ``before`` is Holm's correction of p-values that are not below the smallest p of their clusters, ``floor after``
    has this lower limit after the correction, and ``now`` gives two thirds of the level to the headline. The change of
    the headline is so many standard errors; no other row changes.
    """
    results = {}
    for clusters, rows, icc, change in product((6, 8, 20), (2, 5), (0.0, 0.5), (0, 5)):
        rng = np.random.default_rng([3, clusters, rows, round(10 * icc), change])
        size = 20
        sums = 2 * rng.binomial(size, rates_of(rng, 0.5, icc, (samples, rows, clusters))) - size
        value = sums.mean(axis=-1)
        error = sums.std(axis=-1, ddof=1) / np.sqrt(clusters)
        value[:, 0] += change * sums.std() / np.sqrt(clusters)
        p = 2 * stdtr(clusters - 1, -abs(value) / np.maximum(error, 1e-12))
        least = smallest_p(clusters)
        first = [True] + [False] * (rows - 1)
        claims = {"before": np.zeros(2), "floor after": np.zeros(2), "now": np.zeros(2)}
        for page in p.tolist():
            limited = [max(one, least) for one in page]
            adjusted = {
                "before": holm(limited),
                "floor after": [max(one, least) for one in holm(page)],
                "now": holm(limited, first),
            }
            for name, values in adjusted.items():
                claims[name] += [min(values) < LEVEL, values[0] < LEVEL]
        key = f"{clusters} clusters, {rows} rows, icc {icc:g}, change {change:g}"
        results[key] = {name: [round(float(share), 4) for share in counts / samples] for name, counts in claims.items()}
    return results


def ranks(samples: int) -> dict[str, Any]:
    """Coverage of Spearman's correlation over models, by their number and the true correlation."""
    results = {}
    for models, r in product((5, 6, 7, 8, 10, 15, 30), (0.0, 0.5, 0.9)):
        rng = np.random.default_rng([4, models, round(10 * r)])
        # Spearman's correlation of a normal distribution with Pearson's correlation r.
        truth = 6 / np.pi * np.arcsin(r / 2)
        draws = multivariate_normal([0, 0], [[1, r], [r, 1]]).rvs((samples, models), random_state=rng)
        hits = 0
        for x in draws:
            first, second = (rankdata(x[:, side]) for side in (0, 1))
            low, high = of_rank_correlation(float(np.corrcoef(first, second)[0, 1]), models)
            hits += low <= truth <= high
        results[f"{models} models, Pearson's r {r:g}"] = {"coverage": round(hits / samples, 4)}
    return results


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {"pairs": pairs, "rare": rare, "pages": pages, "ranks": ranks}


def main() -> None:
    """Runs the parts and writes their results beside this file."""
    run_parts(PARTS, "Power and coverage where data are few.", 4000, __file__)


if __name__ == "__main__":
    main()
