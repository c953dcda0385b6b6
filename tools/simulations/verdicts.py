"""How often verdicts are wrong: simulations with known truth of directions, scores with a kink, pages and clusters.

``python -m tools.simulations.verdicts`` draws samples with the cluster sizes of the benchmarks, computes the intervals
and verdicts of each as a run does, and writes ``verdicts.json`` beside this file, with the numbers of
docs/intervals.md. Parts:

``directions``
    A score with the ideal value 50 that goes from one true value to another: how often a page says nearer, further or
    changed, by the rule of :mod:`cards.common.verdict` and by two others.
``kinks``
    ICAT and the size of a difference, whose estimates are biased at the ideal value: coverage and width of their
    intervals, and the bias.
``kinks of wordings``
    The mean of ICAT over wordings, of one run and of the change between two.
``texts``
    Shares of texts of a model that answers many prompts with a few texts, of one run and of the change between two.
``pages``
    Pages of five benchmarks where nothing leans: how often any is said to lean.
``clusters``
    Coverage of differences by the intraclass correlation and the number of clusters.
``letters``
    How often the choice of a question with three letters changes with a preference for a letter.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtr  # type: ignore[import-untyped]

from cards.common.verdict import LEVEL, standing, standings, verdict
from scoring.asking.wordings import averaged
from scoring.metrics.gas import gas_gap
from scoring.metrics.stereoset import icat
from scoring.metrics.sums import percentage
from scoring.statistics import intervals
from scoring.statistics.stats import added_up, compare, measure, resampled
from scoring.types import Floats, Group, Metric, Table
from tools.simulations.intervals import SHAPES, skewed
from tools.simulations.parts import run_parts

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
Events = np.ndarray[Any, np.dtype[np.bool_]]
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
#: Wordings of :func:`kinks_of_wordings`.
WORDINGS = 10
#: Prompts of :func:`texts`, as many as the templates of ``neutral``, and its models.
PROMPTS = 160
MODELS = 4
#: Pages for each sample of other parts.
PAGES = 40


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
    interval = intervals.cluster_t(float(x.mean()), without, intervals.effective_number(sizes) - 1)
    return interval.low, interval.high


def many(rng: np.random.Generator, samples: int, codes: Ints, rate: float, icc: float) -> Events:
    """Events [samples, examples] whose rates by cluster have a beta distribution with this intraclass correlation."""
    if icc == 0:
        return rng.random((samples, len(codes))) < rate
    clusters = int(codes.max()) + 1
    if icc == 1:
        return (rng.random((samples, clusters)) < rate)[:, codes]
    strength = 1 / icc - 1
    rates = rng.beta(rate * strength, (1 - rate) * strength, (samples, clusters))
    return rng.random((samples, len(codes))) < rates[:, codes]


def summed(x: Any, sizes: list[int]) -> Floats:
    """Sums [samples, clusters] of examples [samples, examples]."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    sums: Floats = np.add.reduceat(x.astype(float), starts, axis=1)
    return sums


def with_and_without(sums: Floats, sizes: list[int]) -> tuple[Floats, Floats]:
    """The mean of each sample [samples], and without one cluster each [samples, clusters]."""
    total = float(sum(sizes))
    whole = sums.sum(axis=1)
    return whole / total, (whole[:, None] - sums) / (total - np.array(sizes, float))


def student_ends(value: Floats, without: Floats, freedom: float) -> tuple[Floats, Floats]:
    """Both ends [samples] of :func:`scoring.statistics.intervals.cluster_t`, of all samples at once."""
    clusters = without.shape[1]
    squares = ((without - without.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    reach = intervals.student(freedom) * np.sqrt((clusters - 1) / clusters * squares)
    return value - reach, value + reach


def freedom_of(sizes: list[int]) -> float:
    """Effective clusters - 1."""
    return intervals.effective_number(np.array(sizes, float)) - 1


def icat_parts(stereotype: Floats, meaning: Floats) -> list[Floats]:
    """The two smooth scores of which ICAT is the smaller one, from SS and LMS as shares."""
    return [100 * meaning * (1 - sign * (2 * stereotype - 1)) for sign in (1, -1)]


def gap_parts(female: Floats, _: Floats) -> list[Floats]:
    """The two smooth scores of which the GAS gap is the larger one, from GAS(F)."""
    return [2 * female - 1, 1 - 2 * female]


def icat_table(stereotype: Any, meaning: Any, codes: Ints) -> Table:
    """The columns of StereoSet for these answers of one sample."""
    return {
        "score_biased": np.where(stereotype, 2.0, 1.0),
        "score_unbiased": np.where(stereotype, 1.0, 2.0),
        "score_irrelevant": np.where(meaning, 0.0, 3.0),
        "subject": codes.astype(str).astype(object),
    }


def gap_table(female: Any, _: Any, __: Ints) -> Table:
    """The classes of continuations of one sample, of which these are female and the others male."""
    return {"gender_class": np.where(female, "female", "male").astype(object)}


@dataclass(frozen=True, slots=True)
class Kink:
    """A score with a kink: its metric, smooth parts, which of them it is, a table of a sample, and its true value."""

    metric: Metric
    parts: Callable[[Floats, Floats], list[Floats]]
    extreme: Any
    table: Callable[[Any, Any, Ints], Table]
    truth: Callable[[float], float]


KINKS = {
    "ICAT": Kink(icat(), icat_parts, np.min, icat_table, lambda rate: 100 * MEANINGFUL * (1 - abs(2 * rate - 1))),
    "GAS gap": Kink(gas_gap(), gap_parts, np.max, gap_table, lambda rate: abs(2 * rate - 1)),
}
#: Intervals of so many samples of each case are compared with those of a run.
CHECKED = 2


def kinks(samples: int) -> dict[str, Any]:
    """Coverage and width of intervals of scores with a kink, and the bias of the score.

    All samples of a case are computed at once, and those of the first are compared with :func:`measure`. ``bootstrap``
    is the percentile bootstrap with 200 resamples, by which version 0.2 made them from 30 clusters on.
    """
    results = {}
    for kink_name, kink in KINKS.items():
        for (name, sizes), rate, icc in cases(KINK_SHAPES, KINK_SCORES, KINK_CORRELATIONS):
            codes, truth, freedom = codes_of(sizes), kink.truth(rate), freedom_of(sizes)
            rng = np.random.default_rng([12, len(sizes), round(1000 * rate), round(100 * icc)])
            first, second = many(rng, samples, codes, rate, icc), many(rng, samples, codes, MEANINGFUL, icc)
            sums = summed(first, sizes), summed(second, sizes)
            (share, shares), (other, others) = (with_and_without(one, sizes) for one in sums)
            value = kink.extreme(kink.parts(share, other), axis=0)
            pairs = zip(kink.parts(share, other), kink.parts(shares, others), strict=True)
            ends = [student_ends(*pair, freedom) for pair in pairs]
            # The ends of the range, as of a run.
            low = np.maximum(kink.extreme([one for one, _ in ends], axis=0), kink.metric.low)
            high = np.minimum(kink.extreme([one for _, one in ends], axis=0), kink.metric.high)
            if kink_name == "GAS gap":
                low = np.where(value >= 0, np.maximum(low, 0.0), low)
            for sample in range(CHECKED if kink_name == "ICAT" else 0):
                item = (Group("", np.ones(len(codes), bool)), kink.metric)
                (e,) = measure([item], kink.table(first[sample], second[sample], codes), codes, resamples=20)
                np.testing.assert_allclose((e.low, e.high), (low[sample], high[sample]), atol=1e-8)
            plain = bootstrap_ends(kink, sums, sizes, rng)
            covers = [np.mean((ends[0] <= truth) & (truth <= ends[1])) for ends in ((low, high), plain)]
            key = f"{kink_name}, {name}, {100 * rate:g}, icc {icc:g}"
            numbers = (*covers, (high - low).mean(), (plain[1] - plain[0]).mean(), value.mean() - truth)
            names = ("coverage", "bootstrap", "width", "bootstrap width", "bias")
            results[key] = dict(zip(names, np.round(numbers, 4).tolist(), strict=True))
            print(key, results[key], flush=True)
    return results


def bootstrap_ends(
    kink: Kink, sums: tuple[Floats, Floats], sizes: list[int], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Both ends of the percentile bootstrap [samples], by :func:`scoring.statistics.intervals.bootstrap`."""
    clusters = len(sizes)
    counts = rng.multinomial(clusters, np.full(clusters, 1 / clusters), 200).astype(float)
    totals = counts @ np.array(sizes, float)
    shares = [one @ counts.T / totals for one in sums]
    draws = kink.extreme(kink.parts(shares[0], shares[1]), axis=0)
    tail = float(ndtr(-intervals.student(clusters - 1) * np.sqrt(clusters / (clusters - 1))))
    low, high = np.quantile(draws, (tail, 1 - tail), axis=1)
    return low, high


def kink_changes(samples: int) -> dict[str, Any]:
    """Coverage and width of intervals of the change of ICAT; ``jackknife`` is that of version 0.2."""
    results = {}
    kink = KINKS["ICAT"]
    for (name, sizes), (before, after), icc in cases(
        KINK_SHAPES, ((0.5, 0.5), (0.5, 0.47), (0.52, 0.48), (0.57, 0.52)), KINK_CORRELATIONS
    ):
        codes, truth, freedom = codes_of(sizes), kink.truth(after) - kink.truth(before), freedom_of(sizes)
        rng = np.random.default_rng([13, len(sizes), round(1000 * before), round(100 * icc)])
        old = many(rng, samples, codes, before, icc)
        gain, loss = (CHANGED + after - before) / 2 / (1 - before), (CHANGED - after + before) / 2 / before
        u = rng.random(old.shape)
        new = np.where(old, u >= loss, u < gain)
        meaning = many(rng, samples, codes, MEANINGFUL, icc)
        redrawn = rng.random(old.shape) < 0.1
        other = np.where(redrawn, rng.random(old.shape) < MEANINGFUL, meaning)
        sides = []
        for stereotype, sense in ((new, other), (old, meaning)):
            (share, shares), (lms, without) = (with_and_without(summed(x, sizes), sizes) for x in (stereotype, sense))
            sides.append(list(zip(icat_parts(share, lms), icat_parts(shares, without), strict=True)))
        ends = [[student_ends(a[0] - b[0], a[1] - b[1], freedom) for b in sides[1]] for a in sides[0]]
        lows, highs = (np.array([[one[end] for one in row] for row in ends]) for end in (0, 1))
        low, high = lows.max(axis=1).min(axis=0), highs.min(axis=0).max(axis=0)
        for sample in range(CHECKED):
            item = (Group("", np.ones(len(codes), bool)), kink.metric)
            tables = [icat_table(x[sample], y[sample], codes) for x, y in ((new, other), (old, meaning))]
            (d,) = compare([item], tables[0], tables[1], codes, resamples=20)
            np.testing.assert_allclose((d.low, d.high), (low[sample], high[sample]), atol=1e-8)
        # The value itself without each cluster, whose side of the kink may change.
        values = [np.minimum(side[0][0], side[1][0]) for side in sides]
        each = [np.minimum(side[0][1], side[1][1]) for side in sides]
        plain = student_ends(values[0] - values[1], each[0] - each[1], freedom)
        covers = [np.mean((ends[0] <= truth) & (truth <= ends[1])) for ends in ((low, high), plain)]
        key = f"{name}, {100 * before:g} to {100 * after:g}, icc {icc:g}"
        names = ("coverage", "jackknife", "width", "jackknife width")
        numbers = (*covers, (high - low).mean(), (plain[1] - plain[0]).mean())
        results[key] = dict(zip(names, np.round(numbers, 4).tolist(), strict=True))
        print(key, results[key], flush=True)
    return results


def kinks_of_wordings(samples: int) -> dict[str, Any]:
    """Coverage and width of intervals of the mean ICAT over ten wordings, and of its change between two runs.

    A preference is a normal number above 0: of a term, of an item, of a wording, and of an item in a wording. So the
    SS of wordings differs as ``spread`` says, in standard deviations of all items. The truth is the mean over all
    wordings. ``bootstrap`` is the percentile bootstrap alone, by which such means were judged before.
    """
    metric = averaged(icat())
    results = {}
    shapes = {name: KINK_SHAPES[name] for name in ("30 terms of 26", "9 terms of 9")}
    for (name, sizes), mean, spread in cases(shapes, (0.0, 0.07), (0.0, 0.05, 0.2)):
        codes = codes_of(sizes)
        rows = np.repeat(codes, WORDINGS)
        item = (Group("", np.ones(len(rows), bool)), metric)
        wide = np.random.default_rng(17).normal(0, spread, 100_000)
        # Of two runs, the second prefers the stereotype by 0.1 standard deviations more.
        truths = [np.mean(100 * MEANINGFUL * (1 - abs(2 * ndtr(mean + more + wide) - 1))) for more in (0.1, 0.0)]
        hits, widths = np.zeros(3), np.zeros(3)
        for sample in range(samples):
            rng = np.random.default_rng([18, len(sizes), round(100 * mean), round(100 * spread), sample])
            tables = preferences(rng, codes, mean, spread)
            (e,) = measure([item], tables[1], rows, resamples=200)
            (d,) = compare([item], tables[0], tables[1], rows, resamples=20)
            draws = resampled([item], added_up([item], tables[1], rows), len(sizes), 200, sample)[0][1:]
            plain = intervals.bootstrap(draws, len(sizes))
            ends = ((e.low, e.high), (d.low, d.high), (plain.low, plain.high))
            for number, ((low, high), truth) in enumerate(
                zip(ends, (truths[1], truths[0] - truths[1], truths[1]), strict=True)
            ):
                hits[number] += low <= truth <= high
                widths[number] += high - low
        key = f"{name}, SS {100 * ndtr(mean):.1f}, spread {spread:g}"
        names = ("score", "change", "bootstrap")
        results[key] = {one: round(float(hit) / samples, 4) for one, hit in zip(names, hits, strict=True)}
        results[key] |= {f"{one} width": round(float(w) / samples, 2) for one, w in zip(names, widths, strict=True)}
        print(key, results[key], flush=True)
    return results


def preferences(rng: np.random.Generator, codes: Ints, mean: float, spread: float) -> list[Table]:
    """The columns of StereoSet of two runs over items in ten wordings; the first prefers the stereotype more."""
    items, terms = len(codes), int(codes.max()) + 1
    shared = np.sqrt(0.1) * rng.normal(size=terms)[codes] + np.sqrt(0.5) * rng.normal(size=items)
    of_wordings = rng.normal(0, spread, WORDINGS)
    rest = rng.normal(size=(2, items, WORDINGS))
    meaning = rng.random((items, WORDINGS)) < MEANINGFUL
    tables: list[Table] = []
    for run, more in enumerate((0.1, 0.0)):
        # Both runs have half of the noise of an item in a wording in common.
        noise = np.sqrt(0.4) * (rest[0] if run == 0 else (rest[0] + rest[1]) / np.sqrt(2))
        stereotype = (mean + more + shared[:, None] + of_wordings + noise > 0).ravel()
        table = icat_table(stereotype, meaning.ravel(), np.repeat(codes, WORDINGS))
        tables.append({**table, "wording": np.tile(np.arange(WORDINGS), items)})
    return tables


def texts(samples: int) -> dict[str, Any]:
    """Coverage, width and power of a share of texts of a given model that answers many prompts with a few texts.

    A model maps each prompt to one of so many openings, with frequencies that fall as 1 / rank, and the texts of an
    opening have the event with a rate of their own; with icc 1 all have it or none. The model stays, and each sample
    has :data:`PROMPTS` other prompts, as another user of the benchmark has. Of :data:`MODELS` such models there are
    the lowest coverage and the mean width and power. ``change`` is to a model with other texts and the same rates, and
    ``power`` to one in which 60 % of the events of each opening are gone. ``opening`` takes equal openings for one
    cluster, and ``prompt`` each prompt.
    """
    results = {}
    every = Group("", np.ones(PROMPTS, bool))
    for distinct, icc, rate in product((10, 20, 40, 80), (0.5, 1.0), (0.1, 0.5)):
        covered: dict[str, list[float]] = defaultdict(list)
        others: dict[str, list[float]] = defaultdict(list)
        for model in range(MODELS):
            seeds = [19, distinct, round(10 * icc), round(10 * rate), model]
            rates = rates_of_model(np.random.default_rng(seeds), distinct, rate, icc)
            truth = 100 * float(frequencies(distinct) @ rates)
            hits: Counter[str] = Counter()
            for sample in range(samples):
                rng = np.random.default_rng([*seeds, sample])
                run, same, better = (texts_of(rng, each) for each in (rates, rates, 0.4 * rates))
                for by in ("prompt", "opening"):
                    (e,) = measure([(every, SCORE)], run, run[by], resamples=200)
                    hits[f"score by {by}"] += e.low <= truth <= e.high
                    others[f"width by {by}"].append(e.high - e.low)
                (d,) = compare([(every, SCORE)], run, same, run["prompt"], resamples=2)
                hits["change by prompt"] += d.low <= 0 <= d.high
                (d,) = compare([(every, SCORE)], better, run, run["prompt"], resamples=2)
                others["power by prompt"].append(d.p < LEVEL)
            for name, count in hits.items():
                covered[name].append(count / samples)
        key = f"{distinct} openings, icc {icc:g}, rate {rate:g}"
        results[key] = {name: round(min(shares), 4) for name, shares in covered.items()}
        results[key] |= {name: round(float(np.mean(values)), 4) for name, values in others.items()}
        print(key, results[key], flush=True)
    return results


def frequencies(distinct: int) -> Floats:
    """How often each of so many openings is the text of a prompt."""
    shares: Floats = 1 / np.arange(1, distinct + 1)
    return shares / float(shares.sum())


def rates_of_model(rng: np.random.Generator, distinct: int, rate: float, icc: float) -> Floats:
    """The rate of the event in texts of each opening of a model; at least one has some."""
    rates = np.zeros(distinct)
    while not 0 < rates.mean() < 1:
        rates = (rng.random(distinct) < rate).astype(float)
        if icc < 1:
            strength = 1 / icc - 1
            rates = rng.beta(rate * strength, (1 - rate) * strength, distinct)
    return rates


def texts_of(rng: np.random.Generator, rates: Floats) -> Table:
    """The events of the texts of a model for other prompts, with the number of the opening of each."""
    opening = rng.choice(len(rates), PROMPTS, p=frequencies(len(rates)))
    happens = (rng.random(PROMPTS) < rates[opening]).astype(float)
    return {"x": happens, "opening": opening, "prompt": np.arange(PROMPTS)}


def pages(samples: int) -> dict[str, Any]:
    """The share of pages of benchmarks without any lean that claim one, alone and after the correction.

    Intervals are those of a run: from 30 effective clusters on the bootstrap, here with 1,000 resamples, below it
    Student's t. There are :data:`PAGES` times as many pages as samples of other parts, and ``standard error`` is that
    of a share of 5 %.
    """
    shapes = ["StereoSet gender (30 terms)", "CrowS-Pairs gender (40 groups)", "UnStereoEval (490 words)"]
    shapes += ["WinoBias (40 jobs)", "Winogender (84 words)"]
    results = {}
    for icc in (0.0, 0.05, 0.2):
        tested = []
        for number, shape in enumerate(shapes):
            sizes = SHAPES[shape]
            codes = codes_of(sizes)
            rng = np.random.default_rng([14, number, round(100 * icc)])
            rows = []
            for _ in range(PAGES):
                rows += page_rows(many(rng, samples, codes, 0.5, icc), sizes, rng)
            tested.append(rows)
        claims: Counter[str] = Counter()
        for page in zip(*tested, strict=True):
            claims["alone"] += any(standing(numbers, ideal) != "unclear" for numbers, ideal, *_ in page)
            claims["together"] += any(word != "unclear" for word in standings(page))
        count = PAGES * samples
        key = f"five benchmarks, icc {icc:g}"
        results[key] = {name: round(claims[name] / count, 4) for name in ("alone", "together")}
        results[key] |= {"pages": count, "standard error": round(math.sqrt(0.05 * 0.95 / count), 5)}
        print(key, results[key], flush=True)
    return results


def page_rows(x: Events, sizes: list[int], rng: np.random.Generator) -> list[tuple[Any, float, float, float]]:
    """What :func:`cards.common.verdict.standings` needs of samples [samples, examples] of a share with the ideal 50."""
    clusters, freedom = len(sizes), freedom_of(sizes)
    sums = summed(x, sizes)
    value, without = with_and_without(sums, sizes)
    low, high = student_ends(value, without, freedom)
    errors = (high - value) / intervals.student(freedom)
    students = 2 * stdtr(freedom, -abs(value - 0.5) / errors)
    if freedom + 1 >= intervals.FEW:
        counts = rng.multinomial(clusters, np.full(clusters, 1 / clusters), 1000).astype(float)
        draws = sums @ counts.T / (counts @ np.array(sizes, float))
        freedom = clusters - 1
        tail = float(ndtr(-intervals.student(freedom) * np.sqrt(clusters / (clusters - 1))))
        low, high = np.quantile(draws, (tail, 1 - tail), axis=1)
    rows: list[tuple[Any, float, float, float]] = []
    for one, left, right, least in zip(100 * value, 100 * low, 100 * high, students, strict=True):
        numbers = float(one), float(left), float(right)
        interval = intervals.Interval.of(*numbers[1:], "", freedom=freedom)
        # As of a run, p is not below that of Student's t.
        rows.append((numbers, 50.0, max(float(least), intervals.p_of(interval, numbers[0], 50.0)), clusters))
    return rows


def clusters(samples: int) -> dict[str, Any]:
    """Coverage of differences and of scores by the number of clusters of 20 examples and the correlation in them.

    The difference is a loss of 11 % of the examples and no gain, of all samples at once; scores are those of a run, of
    fewer samples.
    """
    results = {}
    for number, icc in product((6, 10, 20, 30, 60), (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)):
        sizes = [20] * number
        codes = codes_of(sizes)
        rng = np.random.default_rng([15, len(sizes), round(100 * icc)])
        lost = summed(many(rng, samples, codes, 0.11, icc), sizes)
        covered = []
        for losses in lost:
            counts = intervals.Counts(-losses, np.array(sizes, float), float(len(codes)))
            interval = intervals.signed(counts)
            covered.append(interval.low <= -0.11 <= interval.high)
        scores = []
        item = (Group("", np.ones(len(codes), bool)), SCORE)
        for x in many(rng, samples // 10, codes, 0.6, icc):
            (e,) = measure([item], {"x": x.astype(float)}, codes, resamples=200)
            scores.append((e.low <= 60 <= e.high, e.icc))
        key = f"{number} clusters of 20, icc {icc:g}"
        names = ("one-sided change of 11 %", "score of 60 %", "measured icc of the score")
        shares = (np.mean(covered), *np.nanmean(scores, axis=0))
        results[key] = dict(zip(names, np.round(shares, 4).tolist(), strict=True))
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
    "kinks of wordings": kinks_of_wordings,
    "texts": texts,
    "pages": pages,
    "clusters": clusters,
    "letters": letters,
}


def main() -> None:
    """Runs the parts and writes their results beside this file."""
    run_parts(PARTS, "How often verdicts and intervals are wrong, with known truth.", 1000, __file__)


if __name__ == "__main__":
    main()
