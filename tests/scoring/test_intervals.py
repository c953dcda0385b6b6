"""The methods of intervals, and their coverage in simulated samples."""

import math

import numpy as np
import pytest
from scipy import stats as reference

from benchmarks.intervals import COMMON, PAIRED, RARE, coverage, independent
from scoring.metrics import gas, stereoset
from scoring.metrics.sums import mean, mean_over
from scoring.statistics import intervals, stats
from scoring.statistics.intervals import Counts
from tests.scoring.made import paired

SHARE = mean("share", lambda table: table["x"], None, 0, 100, "Share.", scale=100, proportion=True)
SIGNED = mean("signed", lambda table: table["x"], 0, -1, 1, "Signed.", proportion=True)
PLAIN = mean("plain", lambda table: table["x"], None, 0, 1, "Mean.")


def of(metric, x, clusters=None):
    return stats.estimate(metric, {"x": np.array(x, float)}, None, clusters, 500)


# Coverage


@pytest.mark.parametrize("case", RARE, ids=lambda case: case.name)
def test_intervals_of_rare_events_and_few_clusters_have_the_truth_in_93_of_100_cases(case):
    result = coverage(case, 300, resamples=50)
    assert result.share >= 0.93
    assert result.methods["binomial"] == 300


@pytest.mark.parametrize("case", PAIRED[:-1], ids=lambda case: case.name)
def test_intervals_of_differences_in_few_examples_have_the_truth_in_93_of_100_cases(case):
    result = coverage(case, 300, resamples=50)
    assert result.share >= 0.93
    assert result.methods["binomial"] == 300


def test_the_bootstrap_alone_does_not_cover_rare_events():
    result = coverage(independent(100, 0.02), 300)
    assert result.plain < 0.9
    assert result.empty > 0.08


@pytest.mark.parametrize("case", COMMON, ids=lambda case: case.name)
def test_common_outcomes_over_many_clusters_keep_the_bootstrap(case):
    result = coverage(case, 20)
    assert result.methods["bootstrap"] >= 18
    assert result.width == pytest.approx(result.plain_width, rel=0.03)


# Exact values


def test_independent_examples_have_the_interval_of_clopper_and_pearson():
    for events in (0, 1, 5, 55, 60):
        result = of(SHARE, [1] * events + [0] * (60 - events))
        exact = reference.binomtest(events, 60).proportion_ci(0.95, "exact")
        assert [result.low, result.high] == pytest.approx([100 * exact.low, 100 * exact.high], rel=1e-9)
        assert result.method == "binomial"


def test_sixty_of_sixty_events_have_a_width_and_say_the_method():
    classes = {"gender_class": np.array(["female"] * 60)}
    result = stats.estimate(gas.gas(), classes, resamples=50)
    assert (result.value, result.high, result.sd, result.method) == (1, 1, 0, "binomial")
    assert result.low == pytest.approx(0.025 ** (1 / 60))


@pytest.mark.parametrize(("examples", "clusters"), [(100, 20), (1000, 20), (60, 60)])
def test_without_an_event_the_number_of_clusters_decides(examples, clusters):
    result = of(SHARE, np.zeros(examples), np.arange(examples) % clusters)
    assert result.high == pytest.approx(100 * (1 - 0.025 ** (1 / clusters)))
    assert result.low == 0


def test_examples_that_are_equal_within_their_cluster_are_worth_one_each():
    events = np.repeat(np.arange(40) < 8, 10)
    alone = of(SHARE, events[::10])
    repeated = of(SHARE, events, np.repeat(np.arange(40), 10))
    assert [repeated.low, repeated.high] == pytest.approx([alone.low, alone.high], rel=0.05)


def test_events_in_one_cluster_are_worth_less_than_events_in_many():
    x = np.zeros(100)
    x[:5] = 1
    together, apart = of(SHARE, x, np.arange(100) // 5), of(SHARE, x, np.arange(100) % 20)
    assert together.high > 1.4 * apart.high


def test_more_examples_and_more_events_make_the_interval_narrower_without_a_jump():
    widths = [of(SHARE, [1] * events + [0] * (40 * events)).high for events in (1, 2, 4, 8, 16, 19, 20, 21, 32)]
    assert widths == sorted(widths, reverse=True)
    before, after = (of(SHARE, [1] * events + [0] * 800) for events in (19, 21))
    assert (before.method, after.method) == ("binomial", "bootstrap")
    assert after.high - after.low == pytest.approx(before.high - before.low, rel=0.15)


def test_a_signed_proportion_at_its_end_has_a_width():
    for sign in (1, -1):
        result = of(SIGNED, [sign] * 50)
        assert (result.value, result.method) == (sign, "binomial")
        assert 0.05 < result.high - result.low < 0.15
    nothing = of(SIGNED, [0] * 50)
    assert nothing.low == -nothing.high < -0.05


def test_an_absolute_proportion_is_not_below_0():
    def gap(female, male):
        table = {"gender_class": np.array(["female"] * female + ["male"] * male)}
        return stats.estimate(gas.gas_gap(), table, resamples=50)

    balanced, leaning = gap(10, 10), gap(0, 20)
    assert balanced.low == balanced.value == 0
    assert 0.3 < balanced.high < 0.7
    assert (leaning.value, leaning.high) == (1, 1)
    assert 0.5 < leaning.low < 0.9


def test_the_mean_over_parts_is_a_proportion_whose_parts_count_once():
    by_part = mean_over(SHARE, "part", "by part", "Share.")
    table = {"x": np.array([1.0] * 5 + [0.0] * 5 + [1.0] * 90), "part": np.array(["a"] * 10 + ["b"] * 90)}
    events, weights = by_part.events(table).T
    assert 100 * events.sum() / weights.sum() == pytest.approx(by_part.value(table, np.ones((1, 100)))[0])
    result = stats.estimate(by_part, table, resamples=50)
    assert result.method == "binomial"
    assert result.low < 75 < result.high


def test_terms_that_count_once_have_an_interval_at_the_end():
    scores = {"score_biased": np.ones(40), "score_unbiased": np.zeros(40), "score_irrelevant": np.zeros(40)}
    result = stats.estimate(stereoset.ss(), {**scores, "subject": np.arange(40) // 4}, None, np.arange(40) // 4, 50)
    assert (result.value, result.high, result.method) == (100, 100, "binomial")
    assert result.low == pytest.approx(100 * 0.025**0.1)


# Other metrics


def test_a_mean_over_few_clusters_has_students_interval():
    x = np.random.default_rng(0).random(8)
    result = of(PLAIN, x)
    low, high = reference.t.interval(0.95, 7, x.mean(), reference.sem(x))
    assert [result.low, result.high] == pytest.approx([low, high], rel=1e-9)
    assert result.method == "cluster-t"


def test_unequal_clusters_have_fewer_degrees_of_freedom():
    rng = np.random.default_rng(1)
    sizes = np.array([91] + [1] * 9)
    x = rng.random(10).repeat(sizes)
    result = of(PLAIN, x, np.arange(10).repeat(sizes))
    assert result.method == "cluster-t"
    without = np.array([np.delete(x, np.arange(10).repeat(sizes) == c).mean() for c in range(10)])
    error = np.sqrt(9 / 10 * ((without - without.mean()) ** 2).sum())
    freedom = 100**2 / (91**2 + 9) - 1
    assert freedom < 1  # counted as 1
    reach = reference.t.ppf(0.975, 1) * error
    assert [result.low, result.high] == pytest.approx([max(0, x.mean() - reach), min(1, x.mean() + reach)], rel=1e-6)


def test_a_metric_whose_clusters_agree_has_the_rule_of_three():
    result = of(PLAIN, [0.5] * 100)
    assert (result.sd, result.method) == (0, "rule of three")
    assert [result.high - 0.5, 0.5 - result.low] == pytest.approx([1 - 0.025**0.01] * 2)


def test_every_method_but_none_has_words():
    assert set(intervals.METHODS) == {"bootstrap", "binomial", "cluster-t", "rule of three"}


# Differences


def difference(a, b, metric=SHARE, clusters=None):
    return paired(metric, {"x": np.array(a, float)}, {"x": np.array(b, float)}, None, clusters, 500)


def test_without_a_discordant_pair_the_difference_has_a_width_and_p_is_1():
    result = difference([1, 0] * 30, [1, 0] * 30)
    assert (result.value, result.p, result.method) == (0, 1, "binomial")
    assert result.high == -result.low == pytest.approx(100 * (1 - 0.025 ** (1 / 60)), rel=1e-9)


def test_few_discordant_pairs_have_the_p_of_mcnemars_exact_test():
    result = difference([1] * 5 + [0] * 55, [0] * 60)
    assert result.value == pytest.approx(100 * 5 / 60)
    assert result.p == pytest.approx(reference.binomtest(5, 5).pvalue)
    assert result.low < 100 * 5 / 60 < result.high
    both = difference([1] * 6 + [0] * 56, [0] * 6 + [1] + [0] * 55)
    assert both.p == pytest.approx(reference.binomtest(6, 7).pvalue)


def test_a_difference_of_every_example_is_certain_to_differ_from_0():
    result = difference([1] * 60, [0] * 60)
    assert (result.value, result.high) == (100, 100)
    assert 85 < result.low < 95
    assert result.p < 1e-15


def test_runs_that_count_different_examples_differ_by_what_each_example_adds():
    classes = np.array(["female", "male", "both", "neutral"] * 10)
    other = classes.copy()
    other[:4] = ["both", "neutral", "female", "female"]
    a, b = {"gender_class": classes}, {"gender_class": other}
    result = paired(gas.gas(), a, b, resamples=50)
    counts = stats._discordant(
        *(gas.gas().events(t) for t in (a, b)), stats.Subset(a, 40, np.arange(40), np.arange(40))
    )
    gained, lost = counts.rates()
    assert gained - lost == pytest.approx(result.value, rel=1e-9)
    assert result.low < result.value < result.high


def test_many_discordant_pairs_keep_the_bootstrap():
    rng = np.random.default_rng(0)
    result = difference(rng.random(400) < 0.5, rng.random(400) < 0.5)
    assert result.method == "bootstrap"


def test_a_run_beside_itself_has_a_width_for_any_metric():
    x = np.random.default_rng(0).random(50)
    result = difference(x, x, PLAIN)
    assert (result.value, result.p, result.method) == (0, 1, "rule of three")
    assert result.high == -result.low == pytest.approx(1 - 0.025 ** (1 / 50))


# Counts


def test_the_effective_number_of_examples_is_at_most_their_number():
    rng = np.random.default_rng(0)
    for _ in range(50):
        codes = rng.integers(0, 9, 60)
        counts = Counts.of((rng.random(60) < rng.random()).astype(float), np.ones(60), codes)
        worth = intervals.effective_examples(counts.gains, counts.weights, counts.examples)
        assert 1 <= worth <= 60 + 1e-9


def test_one_counted_cluster_says_next_to_nothing():
    result = intervals.binomial(Counts.of(np.ones(5), np.ones(5), np.zeros(5, int)), signed=False)[0]
    assert result.low == pytest.approx(0.025)
    assert result.high == 1


def test_draws_that_are_not_defined_make_no_interval():
    assert intervals.bootstrap(np.array([math.nan, 1.0]), 5) is intervals.NONE
