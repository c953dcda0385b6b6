"""How often 95 % intervals contain the truth, and how wide they are: simulations with known truth.

``python -m tools.simulations.intervals`` draws samples of rare events, few clusters, paired differences with the
cluster sizes of the benchmarks, computes the interval of each as a run does, and writes
``intervals.json`` beside this file and ``docs/intervals.png`` (about 20 minutes; ``--before FILE`` adds the figures of
another version to the picture). ``python -m tools.simulations.intervals runs RUN BASE`` takes two real runs instead: it
exchanges the runs in half of the clusters, so that there is no difference, and counts the rows and pages of ``compare``
that find one; and it draws clusters with replacement, where the truth is that of all clusters.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mitigation.methods.comparison import over_seeds
from scoring import benchmarks
from scoring.asking.result import read_examples
from scoring.metrics.sums import mean
from scoring.statistics.intervals import bootstrap, student
from scoring.statistics.stats import added_up, compare, measure, resampled
from scoring.types import Difference, Estimate, Floats, Group, Table

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


def discordant(name: str, sizes: Sequence[int], gained: float, lost: float, icc: float = 0.0) -> Case:
    """Two runs that differ in few examples; the events are 1 for a gain and -1 for a loss.

    The rates of a cluster are Beta with the intraclass correlation ``icc``.
    """

    def rates(rng: np.random.Generator, rate: float) -> Floats:
        if not icc or not rate:
            return np.full(len(sizes), rate)
        return rng.beta(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1), len(sizes))

    def draw(rng: np.random.Generator) -> tuple[Floats, Ints]:
        codes = np.repeat(np.arange(len(sizes)), sizes)
        gains, losses = rates(rng, gained), rates(rng, lost)
        u, v = rng.random((2, len(codes)))
        # A loss among what is not gained, so that the rate of losses is as given.
        lose = v < np.minimum(losses / np.maximum(1 - gains, 1e-9), 1)[codes]
        gain = u < gains[codes]
        return gain.astype(float) - (~gain & lose), codes

    return Case(f"{name}, gains {gained:g}, losses {lost:g}, ICC {icc:g}", gained - lost, draw)


def skewed(clusters: int, examples: int) -> list[int]:
    """Sizes of clusters that fall as 1 / rank."""
    shares = 1 / np.arange(1, clusters + 1)
    return [max(1, round(examples * share / shares.sum())) for share in shares.tolist()]


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
#: The sizes of clusters of the benchmarks; those of CrowS-Pairs and Winogender fall about as 1 / rank.
SHAPES = {
    "StereoSet gender (30 terms)": [26] * 30,
    "StereoSet religion (9 terms)": [27] * 9,
    "6 terms of 27": [27] * 6,
    "3 terms of 27": [27] * 3,
    "WinoBias (40 jobs)": [40] * 40,
    "UnStereoEval (490 words)": [9] * 490,
    "Winogender (84 words)": skewed(84, 240),
    "CrowS-Pairs gender (40 groups)": skewed(40, 262),
    "200 pairs": [1] * 200,
}
#: Coverage over real runs is of groups with so many clusters.
FEWEST = 6
#: Rates of gains and of losses: rare, one-sided, common.
RATES = ((0.002, 0.002), (0.01, 0.01), (0.07, 0.07), (0.02, 0.0), (0.1, 0.0), (0.3, 0.1))
#: Paired differences.
PAIRED = tuple(
    discordant(name, sizes, *rates, icc) for name, sizes in SHAPES.items() for rates in RATES for icc in (0.0, 0.02)
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
        item = (Group("", np.ones(len(codes), bool)), RATE)
        results: Difference | Estimate = (
            _paired(table, codes, resamples, run)
            if difference
            else measure([item], table, codes, resamples=resamples, seed=run)[0]
        )
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
    """One run has 1 where there is a gain, the other where there is a loss; both have 0 elsewhere.

    Their scores differ also where no event changes, as those of two models do.
    """
    a, b = ({"x": np.maximum(sign * table["x"], 0), "score": np.full(len(codes), sign)} for sign in (1.0, -1.0))
    item = (Group("", np.ones(len(codes), bool)), RATE)
    return compare([item], a, b, codes, resamples=resamples, seed=seed)[0]


def of_seeds(seeds: int, sd: float, runs: int, shared: float = 0.7) -> dict[str, float]:
    """Coverage and width of the mean change over seeds: 30 terms of 26 pairs, 10 % losses and 3 % gains.

    Losses of a term vary by 3 points (SD) in all seeds alike, those of a seed by ``sd`` in all terms alike, and the
    share ``shared`` of the examples answers alike in all seeds. ``ends`` is what a mean of the intervals' ends gives,
    and ``only seeds`` Student's t over the seeds alone.
    """
    codes = np.repeat(np.arange(30), 26)
    bounds: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for run in range(runs):
        rng = np.random.default_rng([seeds, run])
        terms, common = rng.normal(0, 0.03, 30)[codes], rng.random(len(codes))
        alike = rng.random(len(codes)) < shared
        numbers = []
        for loss in np.clip(rng.normal(0.1, sd, seeds), 0.02, None):
            u = np.where(alike, common, rng.random(len(codes)))
            events = (u < 0.03).astype(float) - ((u >= 0.03) & (u < 0.03 + np.clip(loss + terms, 0, 1)))
            change = _paired({"x": events}, codes, 50, run)
            numbers.append((change.value, change.low, change.high))
        values, lows, highs = np.array(numbers).T
        half = student(seeds - 1) * values.std(ddof=1) / math.sqrt(seeds)
        bounds["share", "width"].append(over_seeds(numbers)[1:])
        bounds["ends", "ends_width"].append((float(lows.mean()), float(highs.mean())))
        bounds["only seeds", "only seeds_width"].append((values.mean() - half, values.mean() + half))
    results = {}
    for (share, width), ends in bounds.items():
        low, high = np.array(ends).T
        results[share] = float(np.mean((low <= -0.07) & (high >= -0.07)))
        results[width] = float(np.mean(high - low))
    return results


def of_runs(run: Path, base: Path, name: str, times: int) -> dict[str, Any]:
    """False positives and coverage of the differences of two real runs of a benchmark.

    ``null`` is the share of rows with p below 0.05 where the runs are exchanged in half of the clusters, ``page``
    that of comparisons with any row below after the correction, and ``coverage`` that of intervals of resampled
    clusters with the difference over all clusters. ``alone`` is that of the scores of the first run. Coverage is of
    groups with six clusters or more: a sample of three clusters often has one of them twice.
    """
    benchmark = benchmarks.get(name)
    one, other = (read_examples(folder, name) for folder in (run, base))
    names, codes = np.unique(one[benchmark.cluster].astype(str), return_inverse=True)
    places = [np.flatnonzero(codes == code) for code in range(len(names))]

    def differences(a: Table, b: Table, clusters: Any, seed: int) -> list[Difference]:
        items = benchmark.items("clean", a)
        return compare(items, a, b, clusters, benchmark=name, resamples=50, seed=seed)

    def scores(table: Table, clusters: Any, seed: int) -> list[Estimate]:
        return measure(benchmark.items("clean", table), table, clusters, benchmark=name, resamples=400, seed=seed)

    truth = {(d.group, d.metric): d.value for d in differences(one, other, codes, 0) if d.clusters >= FEWEST}
    alone = {(e.group, e.metric): e.value for e in scores(one, codes, 0) if e.clusters >= FEWEST}
    rng, rows, pages = np.random.default_rng(0), [], 0
    covered: dict[str, list[bool]] = defaultdict(list)
    covered_alone: dict[str, list[bool]] = defaultdict(list)
    for seed in range(times):
        swap = (rng.random(len(names)) < 0.5)[codes]
        a, b = ({c: np.where(swap, x[c], y[c]) for c in one} for x, y in ((one, other), (other, one)))
        null = [d for d in differences(a, b, codes, seed) if not np.isnan(d.p)]
        rows += [d.p < 0.05 for d in null]
        pages += any(d.p_holm < 0.05 for d in null)
        picked = rng.integers(0, len(names), len(names))
        index = np.concatenate([places[code] for code in picked])
        again = np.repeat(np.arange(len(picked)), [len(places[code]) for code in picked])
        a, b = ({c: x[index] for c, x in table.items() if c != "id"} for table in (one, other))
        for d in differences(a, b, again, seed):
            if not np.isnan(d.low) and (d.group, d.metric) in truth:
                covered[d.metric].append(d.low <= truth[d.group, d.metric] <= d.high)
        for e in scores(a, again, seed):
            if not np.isnan(e.low) and (e.group, e.metric) in alone:
                covered_alone[f"{e.group}: {e.metric}"].append(e.low <= alone[e.group, e.metric] <= e.high)
    return {
        "clusters": len(names),
        "rows": len(truth),
        "null": float(np.mean(rows)),
        "page": pages / times,
        "coverage": float(np.mean([hit for hits in covered.values() for hit in hits])),
        "by metric": {metric: float(np.mean(hits)) for metric, hits in covered.items()},
        "alone": {metric: float(np.mean(hits)) for metric, hits in covered_alone.items()},
    }


def picture(results: dict[str, Any], path: Path) -> None:
    """Draws coverage and width of the paired differences, of this version, the plain bootstrap, and another one."""
    import matplotlib.pyplot as plt

    names = [case.name for case in PAIRED]
    kinds = {
        "this version": (results, "share", "width", "o"),
        "plain bootstrap": (results, "plain", "plain_width", "x"),
    }
    if before := results.get("before"):
        kinds["before"] = (before, "share", "width", "s")
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 0.17 * len(names) + 1.2), sharey=True)
    for kind, (numbers, share, width, marker) in kinds.items():
        for axes, key, scale in ((left, share, 100), (right, width, 100)):
            axes.plot(
                [scale * numbers["cases"][name][key] for name in names], range(len(names)), marker, ms=4, label=kind
            )
    left.axvline(95, color="0.6", linewidth=0.8)
    left.set(xlabel="intervals with the truth, %", xlim=(40, 101), yticks=range(len(names)), yticklabels=names)
    right.set(xlabel="mean width, points", xscale="log")
    left.tick_params(axis="y", labelsize=7)
    left.set_ylim(len(names), -1)
    left.legend(loc="lower left")
    figure.savefig(path, dpi=85, bbox_inches="tight")
    plt.close(figure)


def by_shape(results: dict[str, Any]) -> str:
    """A Markdown table: lowest and highest coverage, and mean width, of each shape with rare, one-sided changes."""
    kinds = {"before": (results["before"], "share", "width")} if "before" in results else {}
    kinds |= {"bootstrap": (results, "plain", "plain_width"), "now": (results, "share", "width")}
    head = ["shape", *(f"coverage {kind}, %" for kind in kinds), *(f"width {kind}" for kind in kinds)]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for shape in SHAPES:
        names = [case.name for case in PAIRED if case.name.startswith(f"{shape}, ")]
        row = [shape]
        for numbers, share, _ in kinds.values():
            shares = [100 * numbers["cases"][name][share] for name in names]
            row.append(f"{min(shares):.1f} to {max(shares):.1f}")
        one_sided = f"{shape}, gains 0.02, losses 0, ICC 0.02"
        row += [f"{100 * numbers['cases'][one_sided][width]:.1f}" for numbers, _, width in kinds.values()]
        lines.append(row)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _simulated(runs: int) -> dict[str, Any]:
    cases = {}
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
        numbers = {"share": c.share, "width": c.width, "plain": c.plain, "plain_width": c.plain_width}
        cases[case.name] = {name: round(float(value), 5) for name, value in numbers.items()} | {"method": methods}
    by_seeds = {
        f"{seeds} seeds that differ by {100 * sd:g} points (SD)": of_seeds(seeds, sd, runs)
        for seeds in (3, 5, 10)
        for sd in (0.0, 0.01, 0.03)
    }
    return {"runs": runs, "cases": cases, "seeds": by_seeds}


def main() -> None:
    """Runs the simulations and writes their results beside this file."""
    parser = argparse.ArgumentParser(description="Coverage and width of 95 % intervals in samples with known truth.")
    parser.add_argument("command", nargs="?", choices=("simulate", "runs"), default="simulate")
    parser.add_argument("folders", nargs="*", type=Path, help="two runs of one model each, for the command runs")
    parser.add_argument("--runs", type=int, default=1000, help="samples of each case")
    parser.add_argument("--benchmarks", default="", help="of the two runs; all by default")
    parser.add_argument("--before", type=Path, help="the intervals.json of another version")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    if arguments.command == "runs":
        run, base = arguments.folders
        both = {path.stem for path in (run / "examples").iterdir()} & {p.stem for p in (base / "examples").iterdir()}
        for name in sorted(arguments.benchmarks.split(",") if arguments.benchmarks else both):
            numbers = of_runs(run, base, name, arguments.runs)
            print(name, json.dumps(numbers), flush=True)
            results.setdefault("real runs", {})[f"{name}: {run.name} and {base.name}"] = numbers
    else:
        results |= _simulated(arguments.runs)
        if arguments.before:
            results["before"] = json.loads(arguments.before.read_text())
        picture(results, Path("docs/intervals.png"))
        print(by_shape(results))
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
