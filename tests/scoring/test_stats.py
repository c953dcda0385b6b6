import hashlib
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from cards.common.verdict import holm, verdict
from scoring.metrics.sums import mean, percentage, ratio, side_by_side
from scoring.statistics import intervals, stats
from scoring.statistics import stats as resample
from scoring.types import Group, Metric, ScoringError
from tests.scoring.made import estimate, paired

SHARE = mean("share", lambda table: table["x"], None, 0, 1, "How many.", undefined="nothing counts")


def drawn(clusters, resamples, seed):
    """Counts as the docstring of draw says, one number at a time."""
    numbers = iter(np.random.PCG64(seed).random_raw(resamples * ((clusters + 1) // 2)).tolist())
    counts = []
    for _ in range(resamples):
        halves = [h for _ in range((clusters + 1) // 2) for n in [next(numbers)] for h in (n & 0xFFFFFFFF, n >> 32)]
        row = [0] * clusters
        for half in halves[:clusters]:
            row[half * clusters >> 32] += 1
        counts.append(row)
    return counts


def weights(clusters, resamples, seed=0):
    counts = np.empty((resamples, clusters))
    resample.draw(np.random.PCG64(seed), counts)
    return counts


# Weights


@pytest.mark.fault(48)
@pytest.mark.parametrize("clusters", [1, 2, 7, 600])
def test_counts_follow_from_the_raw_stream_by_integer_arithmetic(clusters):
    assert weights(clusters, 20, seed=3).tolist() == drawn(clusters, 20, seed=3)


@pytest.mark.fault(48)
def test_a_seed_gives_the_recorded_counts_on_every_platform():
    counts = weights(41, 1000, seed=7).astype("u1")
    recorded = "c67795cdeff8b3c84861c95569bc63f7db1bb7bd0847a6719448e4395a0fb38c"
    assert hashlib.sha256(counts.tobytes()).hexdigest() == recorded


@pytest.mark.fault(48)
def test_how_much_is_drawn_at_once_changes_nothing(monkeypatch):
    x, clusters = population(np.random.default_rng(0), 30)
    whole = weights(30, 100), estimate(SHARE, {"x": x}, None, clusters, 100)
    monkeypatch.setattr(resample, "_DRAWN", 50)
    monkeypatch.setattr(resample, "_COUNTED", 70)
    again = weights(30, 100), estimate(SHARE, {"x": x}, None, clusters, 100)
    assert np.array_equal(whole[0], again[0])
    assert whole[1] == again[1]


def test_a_resample_has_as_many_clusters_as_the_table_and_each_equally_often():
    counts = weights(13, 20_000)
    assert (counts.sum(axis=1) == 13).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(13), abs=0.04)
    assert counts.var() == pytest.approx(12 / 13, abs=0.02)


def test_no_cluster_makes_an_empty_matrix():
    assert weights(0, 5).shape == (5, 0)


# Intervals


def population(rng, clusters):
    """A share that differs between clusters of different sizes: rows of a cluster resemble each other."""
    sizes = rng.integers(1, 12, clusters)
    codes = np.repeat(np.arange(clusters), sizes)
    x = rng.normal(0, 1, clusters)[codes] + rng.normal(0, 1, len(codes)) > 0.4
    return x.astype(float), codes


TRUTH = 1 - 0.5 * (1 + math.erf(0.4 / 2))  # P(N(0, 2) > 0.4)


def coverage(clusters, *, ignore=False, parts=1, runs=1000):
    """How often the interval of a group, a ``parts``-th of the clusters, has the true share."""
    hits = 0
    for seed in range(runs):
        x, codes = population(np.random.default_rng(seed), clusters * parts)
        result = estimate(
            SHARE, {"x": x}, codes < clusters, np.arange(len(x)) if ignore else codes, resamples=400, seed=seed
        )
        hits += result.low <= TRUTH <= result.high
    return hits / runs


@pytest.mark.fault(48)
@pytest.mark.parametrize(("clusters", "parts"), [(12, 1), (60, 1), (20, 3)])
def test_the_interval_has_the_truth_of_a_clustered_population_in_93_to_97_of_100_cases(clusters, parts):
    assert 0.93 <= coverage(clusters, parts=parts) <= 0.97


def test_an_interval_that_ignores_clusters_has_the_truth_far_less_often():
    assert coverage(60, ignore=True, runs=300) < 0.85


@pytest.mark.parametrize(("freedom", "quantile"), [(2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (1000, 1.962)])
def test_the_small_sample_correction_is_students(freedom, quantile):
    assert intervals.student(freedom) == pytest.approx(quantile, rel=0.0005)


def test_an_estimate_equals_that_of_tables_with_rows_repeated():
    rng = np.random.default_rng(2)
    x, codes = population(rng, 40)
    result = estimate(SHARE, {"x": x}, None, codes, 500, seed=5)
    values = np.array([np.repeat(x, counts[codes].astype(int)).mean() for counts in weights(40, 500, seed=5)])
    tail = 0.5 * math.erfc(intervals.student(39) * math.sqrt(40 / 39) / math.sqrt(2))
    assert result.value == pytest.approx(x.mean(), rel=1e-11)
    assert [result.low, result.high] == pytest.approx(np.quantile(values, [tail, 1 - tail]), rel=1e-9)
    assert result.sd == pytest.approx(values.std(ddof=1), rel=1e-9)
    assert (result.n, result.clusters, result.why) == (len(x), 40, "")


def test_clusters_may_be_names_and_rows_may_be_in_any_order():
    x, codes = population(np.random.default_rng(3), 25)
    order = np.random.default_rng(4).permutation(len(x))
    names = np.array([f"word {code:02}" for code in codes], dtype=object)
    a = estimate(SHARE, {"x": x}, None, codes, 200)
    assert estimate(SHARE, {"x": x[order]}, None, names[order], 200) == a


def test_metrics_measured_together_equal_metrics_measured_alone():
    rng = np.random.default_rng(5)
    x, codes = population(rng, 30)
    table = {"x": x, "y": rng.random(len(x))}
    other = mean("mean of y", lambda t: t["y"], None, 0, 1, "y.")
    groups = [Group("all", np.ones(len(x), bool)), Group("some", table["y"] < 0.5)]
    items = [(group, metric) for group in groups for metric in (SHARE, other)]
    together = stats.measure(items, table, codes, benchmark="b", resamples=300, seed=1)
    alone = [stats.measure([item], table, codes, benchmark="b", resamples=300, seed=1)[0] for item in items]
    assert together == alone
    assert [(e.group, e.metric) for e in together] == [(g.name, m.name) for g, m in items]


def test_an_estimate_carries_the_range_ideal_and_reading_of_its_metric():
    x, codes = population(np.random.default_rng(6), 20)
    result = estimate(mean("m", lambda t: t["x"], 0.5, 0, 1, "Read so."), {"x": x}, None, codes, 50)
    assert (result.least, result.most, result.ideal, result.reading) == (0, 1, 0.5, "Read so.")
    endless = estimate(mean("m", lambda t: t["x"], None, -math.inf, 2, "r."), {"x": x}, None, codes, 50)
    assert (endless.least, endless.most) == (-math.inf, 2)


def test_a_metric_sees_the_rows_of_its_group():
    items = [(Group("g", np.array([True, False, True])), SHARE)] * 2
    table = {"x": np.array([1.0, 2.0, 3.0])}
    assert [e.value for e in stats.measure(items, table, np.arange(3), resamples=20)] == [2.0, 2.0]


# Defined, or NaN with its reason


@pytest.mark.fault(47)
@pytest.mark.parametrize(
    ("x", "clusters", "value", "why"),
    [
        ([], [], math.nan, "no rows"),
        ([1.0], ["a"], 1.0, "one cluster, so no interval"),
        ([1.0, 0.0, 1.0, 0.0], ["a"] * 4, 0.5, "one cluster, so no interval"),
        ([1.0, math.nan, math.inf], ["a", "b", "c"], math.nan, "2 of 3 rows have no finite value"),
    ],
)
def test_without_rows_clusters_or_numbers_there_is_a_reason(x, clusters, value, why):
    result = estimate(SHARE, {"x": np.array(x)}, None, np.array(clusters), 50)
    assert result.value == pytest.approx(value, nan_ok=True)
    assert math.isnan(result.low)
    assert math.isnan(result.high)
    assert math.isnan(result.sd)
    assert result.why == why


@pytest.mark.fault(47)
def test_zero_over_zero_is_not_a_number_and_says_why():
    metric = Metric("r", lambda t: side_by_side(t["x"], t["x"]), ratio, None, 0, 1, "r.", "x is 0 everywhere")
    result = estimate(metric, {"x": np.zeros(5)}, None, np.arange(5), 50)
    assert math.isnan(result.value)
    assert result.why == "x is 0 everywhere"


@pytest.mark.fault(47)
def test_equal_rows_have_an_interval_whose_width_follows_from_their_number():
    result = estimate(SHARE, {"x": np.ones(6)}, None, np.arange(6), 50)
    assert (result.value, result.high, result.sd, result.why) == (1, 1, 0, "")
    assert result.low == pytest.approx(0.025 ** (1 / 6))


@pytest.mark.fault(47)
def test_resamples_in_which_a_small_group_is_empty_do_not_count():
    x = np.array([1.0, 0.0] + [0.0] * 100)
    result = estimate(SHARE, {"x": x}, np.arange(102) < 2, np.arange(102), 500)
    assert (result.value, result.low, result.high, result.clusters) == (0.5, 0, 1, 2)


def test_what_does_not_fit_together_is_refused():
    x = np.zeros(3)
    with pytest.raises(ScoringError, match=r"2 cluster .*3 rows"):
        estimate(SHARE, {"x": x}, None, np.arange(2))
    with pytest.raises(ScoringError, match="odd marks 2"):
        stats.measure([(Group("odd", np.ones(2, bool)), SHARE)], {"x": x}, np.arange(3))
    with pytest.raises(ScoringError, match=r"columns of different lengths \(x 3, y 2\); give one value for each row\."):
        estimate(SHARE, {"x": x, "y": np.zeros(2)})
    with pytest.raises(ScoringError, match="1 resamples"):
        estimate(SHARE, {"x": x}, resamples=1)
    for columns in (lambda t: (t["x"], t["x"]), lambda t: t["x"][:2]):
        with pytest.raises(ScoringError, match=r"pair.*\b3\b"):
            estimate(replace(SHARE, name="pair", columns=columns), {"x": x})


# Two runs


def runs(rng, shift, clusters=40):
    """Two runs over the same examples: what is common to them is large, their difference small."""
    codes = np.repeat(np.arange(clusters), 5)
    common = rng.normal(0, 1, clusters)[codes]
    own = rng.normal(0, 0.2, (2, clusters))[:, codes]
    return {"x": common + own[0] + shift}, {"x": common + own[1]}, codes


def test_a_run_does_not_differ_from_itself():
    a, _, codes = runs(np.random.default_rng(0), 0)
    result = paired(SHARE, a, a, None, codes, 200)
    assert (result.value, result.sd, result.p, result.p_holm) == (0, 0, 1, 1)
    assert result.high == result.low == 0


def test_the_paired_interval_is_that_of_the_differences_of_rows():
    a, b, codes = runs(np.random.default_rng(1), 0.3)
    result = paired(SHARE, a, b, None, codes, 2000, seed=4)
    of_rows = estimate(SHARE, {"x": a["x"] - b["x"]}, None, codes, 2000, seed=4)
    assert [result.value, result.low, result.high, result.sd] == pytest.approx(
        [of_rows.value, of_rows.low, of_rows.high, of_rows.sd], rel=0.03
    )
    assert result.high - result.low < 0.6 * (
        estimate(SHARE, a, None, codes, 2000).high - estimate(SHARE, a, None, codes, 2000).low
    )
    assert result.p < 1e-6


def test_without_a_difference_p_is_below_a_twentieth_about_once_in_twenty():
    below = sum(
        paired(SHARE, a, b, None, codes, 400, seed).p < 0.05
        for seed in range(500)
        for a, b, codes in [runs(np.random.default_rng(seed), 0)]
    )
    assert 0.03 <= below / 500 <= 0.08


def test_p_values_of_one_comparison_are_held_against_each_other():
    a, b, codes = runs(np.random.default_rng(2), 0.08)
    halves = [Group("left", codes < 20), Group("right", codes >= 20), Group("none", codes < 0)]
    result = stats.compare([(group, SHARE) for group in halves], a, b, codes, resamples=1000)
    assert [d.p_holm for d in result] == pytest.approx(holm([d.p for d in result]), nan_ok=True)
    assert result[2].why == "no rows"
    assert math.isnan(result[2].p)


def test_holm_multiplies_the_smallest_most_keeps_the_order_and_ignores_what_is_not_a_number():
    assert holm([0.02, math.nan, 0.01, 0.5]) == pytest.approx([0.04, math.nan, 0.03, 0.5], nan_ok=True)
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


def shares(before, after, seed, flips=0.12):
    """Events of two runs over 30 terms of 26, whose rates differ between terms; a share of them flips."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(30), 26)
    rates = rng.beta(before * 9, (1 - before) * 9, 30)[codes]
    old = rng.random(len(codes)) < rates
    gain, loss = (flips + after - before) / 2 / (1 - before), (flips - after + before) / 2 / before
    u = rng.random(len(codes))
    return old.astype(float), np.where(old, u >= loss, u < gain).astype(float), codes


def said_of(before, after, samples=200):
    """How often each verdict is given for a score with the ideal value 50 that goes from one rate to another."""
    score = mean("ss", lambda table: table["x"], 50, 0, 100, "", scale=100, proportion=True)
    found = Counter()
    for seed in range(samples):
        old, new, codes = shares(before, after, seed)
        (d,) = stats.compare(
            [(Group("all", np.ones(len(old), bool)), score)], {"x": new}, {"x": old}, codes, resamples=2
        )
        found[verdict(100 * old.mean(), d.numbers, d.ideal, d.p_holm, d.p_direction)] += 1
    return {word: number / samples for word, number in found.items()}


def test_a_score_that_is_equally_far_on_both_sides_is_neither_nearer_nor_further():
    found = said_of(0.52, 0.48)
    assert found.get("nearer", 0) + found.get("further", 0) <= 0.05
    assert found["changed"] > 0.5


def test_the_wrong_direction_is_rare_and_a_clear_one_is_found():
    assert said_of(0.50, 0.47).get("nearer", 0) <= 0.05
    clear = said_of(0.70, 0.60)
    assert clear["nearer"] > 0.8
    assert clear.get("further", 0) == 0


def test_a_side_is_known_where_the_ideal_value_is_an_end_of_the_range_and_unknown_without_one():
    old, new, codes = shares(0.3, 0.4, 0)
    for ideal, p_side in ((0, 0.0), (None, math.nan)):
        metric = mean("x", lambda table: table["x"], ideal, 0, 1, "", proportion=True)
        assert paired(metric, {"x": new}, {"x": old}, None, codes, 2).p_side == pytest.approx(p_side, nan_ok=True)


def test_runs_over_other_examples_are_not_compared():
    one, other = ({"id": np.array(ids), "x": np.zeros(2)} for ids in (["a", "b"], ["a", "c"]))
    with pytest.raises(ScoringError, match="b and c"):
        paired(SHARE, one, other)
    with pytest.raises(ScoringError, match="2 and 3"):
        paired(SHARE, one, {"x": np.zeros(3)})


def by_analysis_of_variance(values, clusters):
    """The intraclass correlation from sums of squares between and within clusters, in plain loops."""
    groups = [values[clusters == name] for name in np.unique(clusters)]
    total, middle = len(values), values.mean()
    between = sum(len(group) * (group.mean() - middle) ** 2 for group in groups) / (len(groups) - 1)
    within = sum(((group - group.mean()) ** 2).sum() for group in groups) / (total - len(groups))
    size = (total - sum(len(group) ** 2 for group in groups) / total) / (len(groups) - 1)
    return (between - within) / (between + (size - 1) * within)


@pytest.mark.parametrize("alike", [0.0, 0.3, 1.0])
def test_a_score_and_a_change_say_how_alike_the_examples_of_a_cluster_are(alike):
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(200), rng.integers(5, 15, 200))
    # With this chance an example has the event of its cluster, so two of one cluster correlate by its square.
    shared = rng.random(len(clusters)) < math.sqrt(alike)
    x, y = (np.where(shared, rng.random(200)[clusters], rng.random(len(clusters))) < 0.4 for _ in range(2))
    rate = percentage("rate", lambda table: table["x"], 50, "Percentage of events.")
    one, other = {"x": x.astype(float)}, {"x": y.astype(float)}
    score, change = estimate(rate, one, clusters=clusters), paired(rate, one, other, clusters=clusters)
    assert score.icc == pytest.approx(by_analysis_of_variance(one["x"], clusters))
    assert score.icc == pytest.approx(alike, abs=0.08)
    assert change.icc == pytest.approx(by_analysis_of_variance(one["x"] - other["x"], clusters))


def test_a_mean_that_is_no_proportion_has_no_intraclass_correlation():
    table = {"x": np.arange(20.0)}
    assert math.isnan(
        estimate(mean("x", lambda t: t["x"], None, 0, 20, "Mean."), table, clusters=np.arange(20) // 2).icc
    )


def test_items_in_parts_have_the_intervals_of_all_together(monkeypatch):
    draws = np.random.default_rng(0)
    table = {"a": draws.random(60), "b": draws.random(60)}
    other = {"a": draws.random(60), "b": draws.random(60)}
    every = Group("all", np.ones(60, bool))
    half = Group("half", np.arange(60) < 30)
    items = []
    for group in (every, half):
        for name in ("a", "b"):
            items.append((group, mean(name, lambda t, name=name: t[name], None, 0, 1, "Mean.")))
    clusters = np.arange(60) // 3
    found = []
    for together in (1, 3, 100):
        monkeypatch.setattr(stats, "_TOGETHER", together)
        estimates = stats.measure(items, table, clusters, resamples=300)
        differences = stats.compare(items, table, other, clusters, resamples=300)
        found.append(([(e.value, e.low, e.high) for e in estimates], [(d.low, d.high, d.p_holm) for d in differences]))
    assert found[0] == found[1] == found[2]
