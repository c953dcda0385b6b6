"""How often 95 % intervals contain the truth: a simulation of rare events, few clusters and paired differences.

``python -m benchmarks.intervals`` prints the table of ``docs/LEDGER.md``, in about three minutes. Each case draws
samples whose true rate is known and computes the interval of each as a run does.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scoring.metrics.sums import mean
from scoring.statistics.bootstrap import added_up, resampled
from scoring.statistics.intervals import bootstrap
from scoring.statistics.stats import compare, estimate
from scoring.types import Difference, Floats, Group, Table

RATE = mean("rate", lambda table: table["x"], None, 0, 1, "Share of events.", proportion=True)
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
#: Draws events [examples] and the cluster of each.
Draw = Callable[[np.random.Generator], tuple[Floats, Ints]]


@dataclass(frozen=True, slots=True)
class Case:
    """A population: its true rate (or difference of rates), and how a sample is drawn."""

    name: str
    truth: float
    draw: Draw


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of one case: the shares of intervals that contain the truth, and the mean widths.

    ``plain`` and ``plain_width`` are those of the percentile bootstrap alone, ``empty`` is its share of
    intervals without width, and ``methods`` counts which method gave the interval.
    """

    share: float
    width: float
    plain: float
    plain_width: float
    empty: float
    methods: Counter[str]


def independent(examples: int, rate: float) -> Case:
    """Examples that do not depend on each other."""

    def draw(rng: np.random.Generator) -> tuple[Floats, Ints]:
        return (rng.random(examples) < rate).astype(float), np.arange(examples)

    return Case(f"{examples} examples, rate {rate:g}", rate, draw)


def clustered(clusters: int, rate: float, equality: float, size: int, *, skewed: bool = False) -> Case:
    """Clusters whose rates are Beta(rate · equality, (1 - rate) · equality).

    ``equality`` of 1 has most clusters near 0 or 1 and 9 has them alike. ``skewed`` sizes are geometric
    with the mean ``size``.
    """

    def draw(rng: np.random.Generator) -> tuple[Floats, Ints]:
        sizes = rng.geometric(1 / size, clusters) if skewed else np.full(clusters, size)
        codes = np.repeat(np.arange(clusters), sizes)
        rates = rng.beta(rate * equality, (1 - rate) * equality, clusters)
        return (rng.random(len(codes)) < rates[codes]).astype(float), codes

    sizes = f"of about {size} (geometric)" if skewed else f"of {size}"
    return Case(f"{clusters} clusters {sizes}, rate {rate:g}, Beta sum {equality:g}", rate, draw)


def discordant(examples: int, gained: float, lost: float, size: int = 1) -> Case:
    """Two runs that differ in few examples; the events are 1 for a gain and -1 for a loss, equal in a cluster."""

    def draw(rng: np.random.Generator) -> tuple[Floats, Ints]:
        u = rng.random(examples // size)
        events = (u < gained).astype(float) - (u > 1 - lost)
        return np.repeat(events, size), np.repeat(np.arange(examples // size), size)

    clusters = f", clusters of {size} equal" if size > 1 else ""
    return Case(f"difference, {examples} examples{clusters}, gains {gained:g}, losses {lost:g}", gained - lost, draw)


#: Rare outcomes and few clusters.
RARE = (
    independent(100, 0.02),
    independent(200, 0.01),
    independent(60, 0.98),
    independent(60, 0.995),
    independent(500, 0.02),
    clustered(5, 0.1, 1, 20),
    clustered(5, 0.1, 3, 20, skewed=True),
    clustered(5, 0.1, 9, 20, skewed=True),
    clustered(5, 0.5, 3, 20, skewed=True),
    clustered(12, 0.1, 3, 10, skewed=True),
    clustered(20, 0.02, 9, 50),
    clustered(40, 0.02, 9, 10, skewed=True),
)
#: Outcomes that are common over many clusters, where the bootstrap stays.
COMMON = (independent(300, 0.5), independent(300, 0.1), clustered(60, 0.4, 3, 10), clustered(200, 0.2, 3, 10))
#: Paired differences.
PAIRED = (
    discordant(60, 0.0, 0.0),
    discordant(100, 0.02, 0.0),
    discordant(100, 0.02, 0.01),
    discordant(400, 0.01, 0.01, size=10),
    discordant(400, 0.3, 0.2),
)


def coverage(case: Case, runs: int, resamples: int = 400, seed: int = 0) -> Coverage:
    """Draws ``runs`` samples of a case and counts the intervals that contain its truth."""
    hits = plain_hits = empty = 0
    width = plain_width = 0.0
    methods: Counter[str] = Counter()
    difference = case in PAIRED
    for run in range(runs):
        events, codes = case.draw(np.random.default_rng([seed, run]))
        table: Table = {"x": events}
        results = (
            _paired(table, codes, resamples, run) if difference else estimate(RATE, table, None, codes, resamples, run)
        )
        item = (Group("", np.ones(len(codes), bool)), RATE)
        _, names = np.unique(codes, return_inverse=True)
        sums = added_up([item], {"x": events}, names)
        clusters = int(names.max()) + 1
        plain = bootstrap(resampled([item], sums, clusters, resamples, run)[0][1:], clusters)
        hits += results.low <= case.truth <= results.high
        plain_hits += plain.low <= case.truth <= plain.high
        empty += plain.low == plain.high
        width += results.high - results.low
        plain_width += plain.high - plain.low
        methods[results.method] += 1
    return Coverage(hits / runs, width / runs, plain_hits / runs, plain_width / runs, empty / runs, methods)


def _paired(table: Table, codes: Ints, resamples: int, seed: int) -> Difference:
    """One run has 1 where there is a gain, the other where there is a loss; both have 0 elsewhere."""
    gains, losses = ({"x": np.maximum(sign * table["x"], 0)} for sign in (1, -1))
    items = [(Group("", np.ones(len(codes), bool)), RATE)]
    return compare(items, gains, losses, codes, resamples=resamples, seed=seed)[0]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Coverage of 95 % intervals in simulated samples, as a table.")
    parser.add_argument("--runs", type=int, default=2000, help="samples of each case")
    runs = parser.parse_args().runs
    print("| population | coverage, % | mean width | bootstrap alone, % | mean width | of width 0, % | method |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for case in (*RARE, *COMMON, *PAIRED):
        c = coverage(case, runs)
        methods = ", ".join(f"{name} {100 * n / runs:.0f} %" for name, n in c.methods.most_common())
        print(
            f"| {case.name} | {100 * c.share:.1f} | {c.width:.3f} | {100 * c.plain:.1f} | {c.plain_width:.3f} | "
            f"{100 * c.empty:.1f} | {methods} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
