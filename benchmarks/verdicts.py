"""How often verdicts are wrong: simulations with known truth of directions, scores with a kink, pages and clusters.

``python -m benchmarks.verdicts`` draws samples with the cluster sizes of the benchmarks, computes the intervals and
verdicts of each as a run does, and writes ``verdicts.json`` beside this file, with the numbers of docs/intervals.md.
Parts:

``directions``
    A score with the ideal value 50 that goes from one true value to another: how often a page says nearer, further or
    changed, by the rule of :mod:`cards.verdict` and by two others.
``kinks``
    ICAT and the size of a difference, whose estimates are biased at the ideal value: coverage and width of their
    intervals, and the bias.
``pages``
    Pages of five benchmarks where nothing leans: how often any is said to lean.
``clusters``
    Coverage of differences by the intraclass correlation and the number of clusters.
``letters``
    How often the choice of a question with three letters changes with a preference for a letter.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.intervals import SHAPES, skewed
from cards.verdict import LEVEL, standing, standings, verdict
from scoring.metrics.gas import gas_gap
from scoring.metrics.stereoset import icat
from scoring.metrics.sums import percentage
from scoring.statistics import intervals
from scoring.statistics.stats import added_up, compare, measure, resampled
from scoring.types import Estimate, Floats, Group, Metric, Table

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
SCORE = percentage("ss", lambda table: table["x"], 50, "Share of events.")
#: The shapes of clusters of the directions.
DIRECTION_SHAPES = {
    "30 terms of 26": [26] * 30,
    "40 jobs of 40": [40] * 40,
    "262 pairs": [1] * 262,
    "262 pairs in 40 groups": skewed(40, 262),
}
#: The true score before and after.
MOVES = ((0.50, 0.47), (0.52, 0.48), (0.60, 0.55), (0.60, 0.45), (0.70, 0.60))
#: The share of examples that change, at least.
CHANGED = 0.12
CORRELATIONS = (0.0, 0.05, 0.2)
KINK_SHAPES = {
    "30 terms of 26": [26] * 30,
    "9 terms of 9": [9] * 9,
    "321 terms of 7": [7] * 321,
}
KINK_SCORES = (0.50, 0.51, 0.528, 0.57)
KINK_CORRELATIONS = (0.0, 0.1, 0.3)
MEANINGFUL = 0.8


def codes_of(sizes: list[int]) -> Ints:
    """The cluster of each example."""
    return np.repeat(np.arange(len(sizes)), sizes)


def events(rng: np.random.Generator, codes: Ints, rate: float, icc: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Events whose rates by cluster have a beta distribution with this intraclass correlation."""
    if icc == 0:
        return rng.random(len(codes)) < rate
    if icc == 1:
        return (rng.random(int(codes.max()) + 1) < rate)[codes]
    strength = 1 / icc - 1
    rates = rng.beta(rate * strength, (1 - rate) * strength, int(codes.max()) + 1)
    return rng.random(len(codes)) < rates[codes]


def moved(rng: np.random.Generator, codes: Ints, before: float, after: float, icc: float) -> tuple[Floats, Floats]:
    """Events of the same examples in two runs with these rates, of which a share changes."""
    old = events(rng, codes, before, icc)
    changed = max(CHANGED, 1.2 * abs(after - before))
    gain = (changed + after - before) / 2 / (1 - before)
    loss = (changed - after + before) / 2 / before
    u = rng.random(len(codes))
    new = np.where(old, u >= loss, u < gain)
    return old.astype(float), new.astype(float)


def directions(samples: int) -> dict[str, Any]:
    """Shares of the samples with each verdict, by shape, move and intraclass correlation.

    ``exact`` takes the score before as exact (version 0.2), and ``every before`` is the rule that the verdict holds for
    every score before inside its own interval.
    """
    results = {}
    for (name, sizes), (before, after), icc in cases(DIRECTION_SHAPES, MOVES, CORRELATIONS):
        codes = codes_of(sizes)
        item = (Group("", np.ones(len(codes), bool)), SCORE)
        counts: Counter[str] = Counter()
        for sample in range(samples):
            rng = np.random.default_rng([11, sample])
            old, new = moved(rng, codes, before, after, icc)
            (d,) = compare([item], {"x": new}, {"x": old}, codes, resamples=2)
            score = 100 * float(old.mean())
            word = verdict(score, d.numbers, 50, d.p_holm, d.p_direction)
            counts[word] += 1
            counts["real"] += d.p_holm < LEVEL
            exact = by_exact(score, d.low, d.high)
            counts[f"exact {exact}"] += 1
            ends = [100 * end for end in mean_interval(old, codes)]
            every = {by_exact(end, d.low, d.high) for end in (score, *ends)}
            # A distance of 0 within the interval leaves no change that is nearer for every score before.
            crosses = ends[0] < 50 < ends[1]
            counts[f"every {every.pop() if len(every) == 1 and not crosses else 'open'}"] += 1
        key = f"{name}, {100 * before:g} to {100 * after:g}, icc {icc:g}"
        results[key] = {word: round(number / samples, 4) for word, number in sorted(counts.items())}
        print(key, results[key], flush=True)
    return results


def cases(shapes: dict[str, list[int]], *others: Any) -> Any:
    """Every combination of shapes and of other settings."""
    from itertools import product

    return product(shapes.items(), *others)


def by_exact(before: float, low: float, high: float) -> str:
    """The verdict of a difference for a score before that is known exactly."""
    inside, outside = sorted((0.0, 2 * (50 - before)))
    if low <= 0 <= high:
        return "unclear"
    if inside < low and high < outside:
        return "nearer"
    return "further" if high < inside or low > outside else "unclear"


def mean_interval(x: Floats, codes: Ints) -> tuple[float, float]:
    """Student's interval of a mean over clusters."""
    sums, sizes = np.bincount(codes, x), np.bincount(codes).astype(float)
    without = (sums.sum() - sums) / (sizes.sum() - sizes)
    found = intervals.cluster_t(float(x.mean()), without, intervals.effective_number(sizes) - 1)
    return found.low, found.high


def icat_case(rng: np.random.Generator, codes: Ints, rate: float, icc: float) -> Table:
    """Scores of triplets with this true stereotype score; the language-model score is :data:`MEANINGFUL`."""
    return icat_table(events(rng, codes, rate, icc), events(rng, codes, MEANINGFUL, icc), codes)


def icat_table(stereotype: Any, meaning: Any, codes: Ints) -> Table:
    """The columns of StereoSet for these answers."""
    return {
        "score_biased": np.where(stereotype, 2.0, 1.0),
        "score_unbiased": np.where(stereotype, 1.0, 2.0),
        "score_irrelevant": np.where(meaning, 0.0, 3.0),
        "subject": codes.astype(str).astype(object),
    }


def gap_case(rng: np.random.Generator, codes: Ints, rate: float, icc: float) -> Table:
    """Continuations of which this share is female, and the others male."""
    return {"gender_class": np.where(events(rng, codes, rate, icc), "female", "male").astype(object)}


#: Metrics with a kink, how a table is drawn, and their true value where the share is ``rate``.
KINKS: dict[str, tuple[Metric, Callable[..., Table], Callable[[float], float]]] = {
    "ICAT": (icat(), icat_case, lambda rate: 100 * MEANINGFUL * (1 - abs(2 * rate - 1))),
    "GAS gap": (gas_gap(), gap_case, lambda rate: abs(2 * rate - 1)),
}


def kinks(samples: int) -> dict[str, Any]:
    """Coverage and width of intervals of scores with a kink, and the bias of the score and of its estimate.

    ``bootstrap`` is the percentile bootstrap, by which version 0.2 made them.
    """
    results = {}
    for metric_name, (metric, draw, truth_of) in KINKS.items():
        for (name, sizes), rate, icc in cases(KINK_SHAPES, KINK_SCORES, KINK_CORRELATIONS):
            codes, truth = codes_of(sizes), truth_of(rate)
            item = (Group("", np.ones(len(codes), bool)), metric)
            found = []
            for sample in range(samples):
                table = draw(np.random.default_rng([12, sample]), codes, rate, icc)
                (e,) = measure([item], table, codes, resamples=300, seed=sample)
                sums = added_up([item], table, codes)
                plain = intervals.bootstrap(resampled([item], sums, len(sizes), 300, sample)[0][1:], len(sizes))
                covers = e.low <= truth <= e.high, plain.low <= truth <= plain.high
                found.append((*covers, e.high - e.low, plain.high - plain.low, e.value - truth, e.bias))
            names = ("coverage", "bootstrap", "width", "bootstrap width", "bias", "estimated bias")
            key = f"{metric_name}, {name}, {100 * rate:g}, icc {icc:g}"
            results[key] = dict(zip(names, np.round(np.mean(found, axis=0), 4).tolist(), strict=True))
            print(key, results[key], flush=True)
    return results


def kink_changes(samples: int) -> dict[str, Any]:
    """Coverage and width of intervals of the change of ICAT; ``jackknife`` is that of version 0.2."""
    results = {}
    metric, _, truth_of = KINKS["ICAT"]
    for (name, sizes), (before, after), icc in cases(
        KINK_SHAPES, ((0.5, 0.5), (0.5, 0.47), (0.52, 0.48), (0.57, 0.52)), KINK_CORRELATIONS
    ):
        codes, truth = codes_of(sizes), truth_of(after) - truth_of(before)
        item = (Group("", np.ones(len(codes), bool)), metric)
        found = []
        for sample in range(samples):
            rng = np.random.default_rng([13, sample])
            old, new = moved(rng, codes, before, after, icc)
            meaning = events(rng, codes, MEANINGFUL, icc)
            other = np.where(rng.random(len(codes)) < 0.1, rng.random(len(codes)) < MEANINGFUL, meaning)
            tables = icat_table(new == 1, other, codes), icat_table(old == 1, meaning, codes)
            (d,) = compare([item], *tables, codes, resamples=20, seed=sample)
            plain = jackknife(metric, tables, codes)
            covers = d.low <= truth <= d.high, plain.low <= truth <= plain.high
            found.append((*covers, d.high - d.low, plain.high - plain.low))
        names = ("coverage", "jackknife", "width", "jackknife width")
        key = f"{name}, {100 * before:g} to {100 * after:g}, icc {icc:g}"
        results[key] = dict(zip(names, np.round(np.mean(found, axis=0), 4).tolist(), strict=True))
        print(key, results[key], flush=True)
    return results


def jackknife(metric: Metric, tables: tuple[Table, Table], codes: Ints) -> intervals.Interval:
    """Student's interval of a difference with the delete-one-cluster jackknife of the score itself."""
    values, without = [], []
    for table in tables:
        (sums,) = added_up([(Group("", np.ones(len(codes), bool)), metric)], table, codes)
        total = sums.columns.sum(axis=1)
        values.append(float(metric.final(total)))
        without.append(metric.final((total[:, None] - sums.columns).T))
    freedom = intervals.effective_number(np.bincount(codes).astype(float)) - 1
    return intervals.cluster_t(values[0] - values[1], without[0] - without[1], freedom)


def pages(samples: int) -> dict[str, Any]:
    """The share of pages of benchmarks without any lean that claim one, alone and after the correction."""
    shapes = ["StereoSet gender (30 terms)", "CrowS-Pairs gender (40 groups)", "UnStereoEval (490 words)"]
    shapes += ["WinoBias (40 jobs)", "Winogender (84 words)"]
    results = {}
    for icc in (0.0, 0.05, 0.2):
        claims: Counter[str] = Counter()
        for sample in range(samples):
            found: list[Estimate] = []
            for number, shape in enumerate(shapes):
                codes = codes_of(SHAPES[shape])
                x = events(np.random.default_rng([14, number, sample]), codes, 0.5, icc).astype(float)
                item = (Group("", np.ones(len(codes), bool)), SCORE)
                found += measure([item], {"x": x}, codes, resamples=400, seed=sample)
            claims["alone"] += any(standing(e.numbers, e.ideal) != "unclear" for e in found)
            together = standings([(e.numbers, e.ideal, e.p, e.clusters) for e in found])
            claims["together"] += any(word != "unclear" for word in together)
        key = f"five benchmarks, icc {icc:g}"
        results[key] = {name: round(claims[name] / samples, 4) for name in ("alone", "together")}
        print(key, results[key], flush=True)
    return results


def clusters(samples: int) -> dict[str, Any]:
    """Coverage of differences and of scores by the number of clusters of 20 examples and the correlation in them."""
    results = {}
    for number in (6, 10, 20, 30, 60):
        for icc in (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0):
            codes = codes_of([20] * number)
            item = (Group("", np.ones(len(codes), bool)), SCORE)
            found = []
            for sample in range(samples):
                rng = np.random.default_rng([15, number, sample])
                lost = events(rng, codes, 0.11, icc).astype(float)
                kept = np.where(lost > 0, 0.0, (rng.random(len(codes)) < 0.5).astype(float))
                (d,) = compare([item], {"x": kept}, {"x": np.maximum(kept, lost)}, codes, resamples=20, seed=sample)
                x = events(rng, codes, 0.6, icc).astype(float)
                (e,) = measure([item], {"x": x}, codes, resamples=300, seed=sample)
                found.append((d.low <= -11 <= d.high, e.low <= 60 <= e.high, e.icc))
            names = ("one-sided change of 11 %", "score of 60 %", "measured icc of the score")
            key = f"{number} clusters of 20, icc {icc:g}"
            shares = np.round(np.nanmean(found, axis=0), 4).tolist()
            results[key] = dict(zip(names, shares, strict=True))
            print(key, results[key], flush=True)
    return results


def letters(samples: int) -> dict[str, Any]:
    """How often a preference for a letter changes the choice of three answers, each once at each letter.

    Log-probabilities of answers and of letters are normal with a standard deviation of 1 and of 1 nat.
    """
    rng = np.random.default_rng(16)
    answers, preferences = rng.normal(0, 1, (samples, 3)), rng.normal(0, 1, (samples, 3))
    means = {"probabilities": np.zeros((samples, 3)), "logarithms": np.zeros((samples, 3))}
    for turn in range(3):
        # The letter at place n of a turn is that of answer n + turn.
        scores = np.roll(answers, -turn, axis=1) + preferences
        logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        means["probabilities"] += np.roll(np.exp(logs), turn, axis=1)
        means["logarithms"] += np.roll(logs, turn, axis=1)
    best = answers.argmax(axis=1)
    return {name: round(float((mean.argmax(axis=1) != best).mean()), 4) for name, mean in means.items()}


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "directions": directions,
    "kinks": kinks,
    "kink changes": kink_changes,
    "pages": pages,
    "clusters": clusters,
    "letters": letters,
}


def main() -> None:
    """Runs the parts and writes their results beside this file."""
    parser = argparse.ArgumentParser(description="How often verdicts and intervals are wrong, with known truth.")
    parser.add_argument("parts", nargs="*", choices=PARTS, help="all by default")
    parser.add_argument("--samples", type=int, default=1000, help="samples of each case")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in arguments.parts or PARTS:
        results[name] = {"samples": arguments.samples, "cases": PARTS[name](arguments.samples)}
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
