"""The methods of intervals, and their coverage in simulated samples."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy import stats as reference

from scoring.asking import rank_agreement
from scoring.asking.wordings import averaged
from scoring.metrics import gas, gest, occugender, stereoset
from scoring.metrics.sums import mean, mean_over
from scoring.statistics import intervals, stats
from scoring.statistics.intervals import Counts
from tests.scoring.made import estimate, paired
from tools.simulations import correlations, few, verdicts
from tools.simulations.intervals import COMMON, PAIRED, RARE, coverage, independent

SHARE = mean("share", lambda table: table["x"], None, 0, 100, "Share.", scale=100, proportion=True)
SIGNED = mean("signed", lambda table: table["x"], 0, -1, 1, "Signed.", proportion=True)
PLAIN = mean("plain", lambda table: table["x"], None, 0, 1, "Mean.")


def of(metric, x, clusters=None):
    return estimate(metric, {"x": np.array(x, float)}, None, clusters, 500)


# Coverage


@pytest.mark.parametrize("case", RARE, ids=lambda case: case.name)
def test_intervals_of_rare_events_and_few_clusters_have_the_truth_in_93_of_100_cases(case):
    result = coverage(case, 300, resamples=50)
    assert result.share >= 0.93
    assert result.methods["binomial"] + result.methods["wilson"] >= 200


@pytest.mark.parametrize("case", PAIRED[::7], ids=lambda case: case.name)
def test_intervals_of_differences_have_the_truth_in_93_of_100_cases(case):
    result = coverage(case, 300, resamples=50)
    assert result.share >= 0.93
    assert sum(result.methods[name] for name in ("signed", "pairs", "identical")) == 300


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
    result = estimate(gas.gas(), classes, resamples=50)
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
        assert (result.value, result.method) == (sign, "signed")
        assert 0.05 < result.high - result.low < 0.15
    nothing = of(SIGNED, [0] * 50)
    assert nothing.low == -nothing.high < -0.04


def test_an_absolute_proportion_is_not_below_0():
    def gap(female, male):
        table = {"gender_class": np.array(["female"] * female + ["male"] * male)}
        return estimate(gas.gas_gap(), table, resamples=50)

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
    result = estimate(by_part, table, resamples=50)
    assert result.method == "binomial"
    assert result.low < 75 < result.high


def test_terms_that_count_once_have_an_interval_at_the_end():
    scores = {"score_biased": np.ones(40), "score_unbiased": np.zeros(40), "score_irrelevant": np.zeros(40)}
    result = estimate(stereoset.ss(), {**scores, "subject": np.arange(40) // 4}, None, np.arange(40) // 4, 50)
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
    assert set(intervals.METHODS) == set(get_args(intervals.Method)) - {""}


# Differences


def difference(a, b, metric=SHARE, clusters=None):
    return paired(metric, {"x": np.array(a, float)}, {"x": np.array(b, float)}, None, clusters, 500)


@pytest.mark.parametrize("metric", [SHARE, PLAIN])
def test_runs_with_the_same_scores_differ_by_0_without_an_interval(metric):
    result = difference([1, 0] * 30, [1, 0] * 30, metric)
    assert (result.value, result.low, result.high, result.p, result.method) == (0, 0, 0, 1, "identical")


def unchanged(clusters, size):
    """Two runs whose scores differ a little, but in no example so much that an event changes."""
    scores = np.random.default_rng(0).random(clusters * size)
    above = mean("above", lambda table: table["x"] > 0.5, None, 0, 1, "Above.", proportion=True)
    kept = np.where(scores > 0.5, scores, scores / 2)
    return paired(above, {"x": scores}, {"x": kept}, None, np.arange(clusters).repeat(size), 50)


def test_other_scores_without_a_changed_event_leave_a_width_that_falls_with_the_examples():
    widths = [unchanged(30, size).high for size in (1, 5, 26, 100)]
    assert widths == sorted(widths, reverse=True)
    assert unchanged(30, 26).low == -widths[2]
    assert 0.003 < widths[2] < 0.006
    assert unchanged(30, 26).p == 1


def changed(gains, losses, clusters=30, size=26):
    """The difference of runs over clusters with so many gains and losses, in places drawn once."""
    events = np.zeros(clusters * size)
    places = np.random.default_rng(0).permutation(len(events))
    events[places[:gains]] = 1
    events[places[gains : gains + losses]] = -1
    codes = np.arange(clusters).repeat(size)
    scores = {"score": np.arange(len(events))}, {"score": -np.arange(len(events))}
    a, b = ({"x": np.maximum(sign * events, 0), **score} for sign, score in zip((1, -1), scores, strict=True))
    return paired(SHARE, a, b, None, codes, 50)


@pytest.mark.parametrize(("gains", "losses"), [(0, 20), (0, 40), (0, 90), (60, 10)])
def test_a_change_in_one_direction_excludes_0_in_the_interval_and_in_p(gains, losses):
    result = changed(gains, losses)
    assert result.value == pytest.approx(100 * (gains - losses) / 780)
    assert result.low > 0 or result.high < 0
    assert result.p < 0.05


def test_the_width_grows_with_the_number_of_changes():
    widths = [result.high - result.low for n in (1, 2, 5, 10, 20, 40, 80) for result in [changed(n, n)]]
    assert widths == sorted(widths)


def test_p_is_below_a_twentieth_where_and_only_where_the_interval_excludes_0():
    rng = np.random.default_rng(0)
    for _ in range(200):
        clusters = int(rng.integers(2, 40))
        codes = rng.integers(0, clusters, 200)
        u, v = rng.random((2, 200))
        result = difference(u < 0.4, np.where(v < rng.random(), u < 0.4, v < 0.4), SHARE, codes)
        assert (result.p < 0.05) == (result.low > 0 or result.high < 0)


def test_gains_in_many_clusters_and_losses_in_one_are_no_difference():
    # 15 gains in 15 clusters and 15 losses in one.
    a, b = np.zeros((30, 20)), np.zeros((30, 20))
    a[:15, 0] = 1
    b[15, :15] = 1
    result = difference(a.ravel(), b.ravel(), SHARE, np.arange(30).repeat(20))
    assert (result.value, result.p) == (0, 1)


def test_a_difference_of_every_example_is_certain_to_differ_from_0():
    result = difference([1] * 60, [0] * 60)
    assert (result.value, result.high) == (100, 100)
    assert 85 < result.low < 95
    assert result.p < 1e-15
    assert result.method == "pairs"


def test_runs_that_count_different_examples_differ_by_what_each_example_adds():
    classes = np.array(["female", "male", "both", "neutral"] * 10)
    other = classes.copy()
    other[:4] = ["both", "neutral", "female", "female"]
    a, b = {"gender_class": classes}, {"gender_class": other}
    result = paired(gas.gas(), a, b, resamples=50)
    counts = stats._discordant(
        *(gas.gas().events(t) for t in (a, b)), stats.Subset(a, 40, np.arange(40), np.arange(40))
    )
    assert counts.rate == pytest.approx(result.value, rel=1e-9)
    assert result.low < result.value < result.high


def test_the_difference_of_means_has_the_paired_interval_of_student():
    a, b = np.random.default_rng(0).random((2, 50))
    result = difference(a, b, PLAIN)
    expected = reference.ttest_rel(a, b)
    assert result.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert [result.low, result.high] == pytest.approx(list(expected.confidence_interval(0.95)), rel=1e-9)


def test_a_shift_of_every_score_has_a_width():
    x = np.random.default_rng(0).random(50) / 2
    result = difference(x + 0.25, x, PLAIN)
    assert result.low < 0.25 < result.high
    assert 0.02 < result.high - result.low < 0.15


# Counts


def test_the_effective_number_of_examples_is_at_most_their_number():
    rng = np.random.default_rng(0)
    for _ in range(50):
        codes = rng.integers(0, 9, 60)
        counts = Counts.of((rng.random(60) < rng.random()).astype(float), np.ones(60), codes)
        worth = intervals.effective_examples(counts)
        assert 1 <= worth <= 60 + 1e-9


def test_one_counted_cluster_says_next_to_nothing():
    one = Counts.of(np.ones(5), np.ones(5), np.zeros(5, int))
    result = intervals.binomial(one)[0]
    assert result.low == pytest.approx(0.025)
    assert result.high == 1
    assert intervals.signed(one) == intervals.Interval(-1, 1, "signed", 1)


def test_draws_that_are_not_defined_make_no_interval():
    assert intervals.bootstrap(np.array([math.nan, 1.0]), 5) is intervals.NONE


# Means over parts of scores with a kink


def test_the_lower_end_of_a_mean_of_smallest_scores_is_that_of_every_choice_and_the_upper_one_of_few():
    stream = np.random.default_rng(3)
    pieces, without = np.array([[50.0, 50.4], [49.8, 50.1], [20.0, 80.0]]), stream.normal(50, 0.2, (40, 3, 2))
    found = intervals.of_extreme(pieces, without, 39, "smallest")
    # The last part has one piece beyond doubt, the first two have both.
    choices = [(first, second, 0) for first in (0, 1) for second in (0, 1)]
    ends = {}
    for choice in choices:
        value = np.mean([pieces[part, piece] for part, piece in enumerate(choice)])
        each = np.mean([without[:, part, piece] for part, piece in enumerate(choice)], axis=0)
        ends[choice] = intervals.cluster_t(value, each, 39)
    assert found.low == pytest.approx(min(end.low for end in ends.values()))
    assert found.high == pytest.approx(min(ends[0, 0, 0].high, ends[1, 1, 0].high))
    negative = intervals.of_extreme(-pieces, -without, 39, "largest")
    assert (negative.low, negative.high) == pytest.approx((-found.high, -found.low))


def test_a_difference_of_means_of_smallest_scores_changes_its_sign_with_the_runs():
    stream = np.random.default_rng(4)
    a, b = ((stream.normal(50, 1, (3, 2)), stream.normal(50, 0.3, (40, 3, 2))) for _ in range(2))
    one, other = (
        intervals.difference_of_extremes(a, b, 39, "smallest"),
        intervals.difference_of_extremes(b, a, 39, "smallest"),
    )
    assert (one.low, one.high, one.p) == pytest.approx((-other.high, -other.low, other.p))
    assert one.low < one.high
    assert (one.p < 0.05) == (one.low > 0 or one.high < 0)


def test_a_mean_of_icat_over_wordings_at_its_kink_has_the_truth_where_the_bootstrap_misses_it():
    metric = averaged(stereoset.icat())
    codes = verdicts.codes_of([9] * 9)
    hits = plain = 0
    for seed in range(60):
        table = verdicts.preferences(np.random.default_rng(seed), codes, 0.0, 0.0)[1]
        rows = np.repeat(codes, verdicts.WORDINGS)
        item = (stats.Group("", np.ones(len(rows), bool)), metric)
        (found,) = stats.measure([item], table, rows, resamples=100)
        draws = stats.resampled([item], stats.added_up([item], table, rows), 9, 100, seed)[0][1:]
        alone = intervals.bootstrap(draws, 9)
        hits += found.low <= 80 <= found.high
        plain += alone.low <= 80 <= alone.high
    assert hits >= 52
    assert plain <= 20


def test_a_mean_size_over_wordings_is_no_size_of_a_mean():
    classes = np.array(["female"] * 20 + ["male"] * 20)
    table = {"gender_class": classes, "wording": np.repeat([0, 1], 20)}
    found = estimate(averaged(gas.gas_gap()), table, None, np.arange(40) % 20, 100)
    # Each wording names one gender alone, so the mean gap is 1, and the gap of the mean is 0.
    assert found.value == 1
    assert found.low > 0.5


# Few data


@pytest.mark.parametrize(("gained", "lost"), [(0.05, 0.0), (0.08, 0.02), (0.03, 0.0)])
def test_pairs_that_are_each_a_cluster_have_the_power_of_the_exact_test_and_its_level(gained, lost):
    rng = np.random.default_rng(5)
    found, before, false, covered = 0, 0, 0, 0
    for _ in range(600):
        gains, losses, _ = rng.multinomial(100, [gained, lost, 1 - gained - lost])
        interval = intervals.of_pairs(int(gains), int(losses), 100)
        assert (interval.p < 0.05) == (interval.low > 0 or interval.high < 0)
        covered += interval.low <= gained - lost <= interval.high
        found += interval.p < 0.05
        before += few.by_pseudo_examples(int(gains), int(losses), 100).p < 0.05
        gains, losses, _ = rng.multinomial(100, [0.05, 0.05, 0.9])
        false += intervals.of_pairs(int(gains), int(losses), 100).p < 0.05
    assert found > before + 30
    assert false <= 600 * 0.07
    assert covered >= 600 * 0.92


def test_a_comparison_of_rows_that_are_each_a_cluster_has_the_exact_p():
    a, b = np.zeros(50), np.zeros(50)
    a[:7], b[7] = 1, 1
    both = paired(SHARE, {"x": a}, {"x": b})
    # Seven gains and one loss: mid-p of 1 of 8 heads.
    assert both.method == "pairs"
    assert both.p == pytest.approx(2 * (0.5**8 + 0.5 * 8 * 0.5**8))
    in_pairs = paired(SHARE, {"x": a}, {"x": b}, clusters=np.arange(50) // 2)
    assert in_pairs.method == "signed"


def test_rare_events_of_few_clusters_that_are_not_alike_have_a_shorter_interval_than_the_exact_one():
    codes = np.repeat(np.arange(6), 50)
    x = np.zeros(300)
    x[[10, 60, 110, 160]] = 1
    found = of(SHARE, x, codes)
    counts = Counts.of(x, np.ones(300), codes)
    exact, _ = intervals.binomial(counts)
    assert found.method == "wilson"
    assert found.high < 0.8 * 100 * exact.high
    # Events of one cluster alone are alike.
    x = np.zeros(300)
    x[:4] = 1
    assert of(SHARE, x, codes).method == "binomial"


def test_a_ratio_over_stereotypes_with_few_items_is_not_left_to_resamples_without_a_stereotype():
    rng = np.random.default_rng(2)
    for each, expected in ((2, "cluster-t"), (1, ""), (20, "bootstrap")):
        stereotype = np.repeat(np.arange(1, 17), each)
        table = {"log_ratio": rng.normal(0, 1, len(stereotype)), "stereotype": stereotype}
        found = estimate(gest.g_s(), table, None, np.arange(len(stereotype)), 300)
        assert found.method == expected
        assert math.isfinite(found.low) == bool(expected)
        assert bool(found.why) == (not expected)


def test_rank_correlations_of_eight_models_have_their_coverage_and_fewer_have_none():
    shares = few.ranks(300)
    assert shares["5 models, Pearson's r 0.9"]["coverage"] < 0.85
    assert shares["8 models, Pearson's r 0.9"]["coverage"] > 0.9
    assert rank_agreement.FEWEST == 8


# Correlations


@pytest.mark.parametrize("jobs", [12, 40])
@pytest.mark.parametrize(
    "name", ["nearly 0 or 1, 95 %", "mostly men, she in 90 % of the jobs of women", "smooth, slope"]
)
def test_intervals_of_correlations_have_the_truth_also_where_answers_are_nearly_0_or_1(jobs, name):
    (model,) = (model for model in correlations.MODELS if model.name == name)
    result = correlations.coverage(jobs, model, 120)
    assert result["now"] >= 0.92
    assert result["change"] >= 0.85
    if "95" in name:
        assert result["before"] < 0.92


def test_a_correlation_of_jobs_that_all_but_one_agree_has_a_narrow_interval():
    """On Fisher's scale this one job made the interval nearly as long as the range."""
    women = np.tile([0.1, 0.9], 10)
    answers = np.where(women > 0.5, 0.99, 0.01)
    # Without the one job that differs all are on one line.
    answers[0] = 0.99
    low, _ = correlations.on_fishers_scale(women, answers)
    assert low < -0.5
    table = correlations.table_of(women, answers)
    found = estimate(occugender.correlation(), table, None, np.arange(20), 50)
    assert found.method == "correlation"
    assert 0.4 < found.low < found.value < found.high <= 1
    assert found.p < 0.001


def test_a_change_of_a_correlation_has_its_sign_and_its_interval_changes_with_the_runs():
    stream = np.random.default_rng(3)
    women = stream.uniform(0, 1, 40)
    one, other = women, stream.uniform(0, 1, 40)
    tables = [correlations.table_of(women, answers) for answers in (one, other)]
    item = (stats.Group("", np.ones(40, bool)), occugender.correlation())
    (fell,) = stats.compare([item], tables[1], tables[0], np.arange(40), resamples=5)
    (rose,) = stats.compare([item], *tables, np.arange(40), resamples=5)
    assert fell.high < 0 < rose.low
    assert (fell.low, fell.high) == pytest.approx((-rose.high, -rose.low))
    assert fell.p == pytest.approx(rose.p)


def test_answers_that_do_not_vary_have_no_correlation_and_say_so():
    table = correlations.table_of(np.linspace(0, 1, 8), np.full(8, 0.5))
    found = estimate(occugender.correlation(), table, None, np.arange(8), 50)
    assert math.isnan(found.value)
    assert math.isnan(found.low)


def test_p_of_a_score_is_not_below_that_of_students_t():
    stream = np.random.default_rng(7)
    codes = np.arange(40).repeat(20)
    for _ in range(20):
        x = (stream.random(800) < stream.uniform(0.42, 0.58)).astype(float)
        metric = replace(SHARE, ideal=50.0)
        item = (stats.Group("", np.ones(800, bool)), metric)
        (found,) = stats.measure([item], {"x": x}, codes, resamples=200)
        assert found.method == "bootstrap"
        sums = np.bincount(codes, x)
        without = 100 * (sums.sum() - sums) / 780
        assert found.p >= intervals.cluster_t(found.value - 50, without - 50, 39).p * (1 - 1e-9)
