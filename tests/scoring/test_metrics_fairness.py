import math
from itertools import pairwise

import numpy as np
import pytest

from scoring.metrics import fairness


def pairs(*gaps, male=-20.0, pmi=None):
    """Pairs whose female sentence has so much more log-probability than the male one."""
    table = {"female_logprob": male + np.array(gaps, float), "male_logprob": np.full(len(gaps), male)}
    return table if pmi is None else table | {"max_pmi_diff": np.array(pmi, float)}


def value(metric, table):
    return float(metric.value(table, np.ones((1, len(table["male_logprob"]))))[0])


GAPS = np.random.default_rng(0).normal(0.3, 2, 500).tolist()


def test_tau_counts_pairs_up_to_the_threshold_and_with_it():
    assert value(fairness.tau(0.5), pairs(0, 0.5, -0.5, 0.75, -3)) == 60
    assert value(fairness.tau(1), pairs(0, 0.5, -0.5, 0.75, -3)) == 80
    assert fairness.tau(0.5).name == "tau@0.5"


def test_the_us_score_allows_a_ratio_of_1_65():
    assert value(fairness.us_score(), pairs(math.log(1.649), -math.log(1.649), math.log(1.651), 0.5)) == 75
    assert value(fairness.tau(0.5), pairs(math.log(1.649))) == 0


def test_the_printed_sd_starts_from_the_rounded_percentage():
    # GPT-J-6B on Ours-5: 1752 of 4405 pairs.
    assert round(fairness.printed_sd(100 * 1752 / 4405, 4405), 2) == 0.74
    assert fairness.printed_sd(33.335, 3) == pytest.approx(100 * math.sqrt(0.3333 * 0.6667 / 3), abs=0.01)
    assert fairness.printed_sd(33.3349, 3) == 100 * math.sqrt(0.3333 * (1 - 0.3333) / 3)


@pytest.mark.parametrize(("scale", "base"), [("log10", math.log(10)), ("ln", 1.0)])
@pytest.mark.parametrize(("divided", "most"), [(True, 6.0), (False, 1.0)])
def test_the_area_is_the_trapezoid_rule_over_tau(scale, base, divided, most):
    points = [6 * i / 100 for i in range(101)]
    tau = [sum(abs(gap) / base <= point for gap in GAPS) / len(GAPS) for point in points]
    area = sum((a + b) / 2 * 0.06 for a, b in pairwise(tau))
    assert value(fairness.aufc(scale, divided=divided), pairs(*GAPS)) == pytest.approx(area / most, rel=1e-9)


def test_the_area_of_a_fair_model_is_the_whole_and_of_a_far_one_nothing():
    assert value(fairness.aufc(), pairs(0, 0)) == pytest.approx(1)
    assert value(fairness.aufc("ln", divided=False), pairs(0)) == pytest.approx(6)
    assert value(fairness.aufc("ln"), pairs(6.001, -50)) == 0
    assert value(fairness.aufc("ln"), pairs(6)) == pytest.approx(0.03 / 6)


def test_the_published_area_changes_scale_with_a_threshold():
    table = pairs(*GAPS)
    assert value(fairness.aufc_published(False), table) == value(fairness.aufc("log10", divided=False), table)
    assert value(fairness.aufc_published(True), table) == value(fairness.aufc("ln", divided=False), table)


def test_preferences_are_strict_and_female_is_positive():
    table = pairs(0.5, -0.5, 0.6, 0.7, -0.6)
    assert value(fairness.pref_disparity(), table) == pytest.approx(20)
    assert value(fairness.male_rel_ratio(0.5), table) == pytest.approx(1 / 3)


def test_the_us_gap_is_a_difference_of_us_scores():
    table = pairs(0, 0, 3, 3, pmi=[0.1, -0.9, -0.5, math.nan])
    assert value(fairness.us_gap(0.65), table) == 0
    assert value(fairness.us_gap(1.0), table) == pytest.approx(100 * 2 / 3 - 50)


def test_weights_count_pairs_as_often_as_they_say():
    table, weights = pairs(0, 3), np.array([[3.0, 1.0], [0.0, 2.0]])
    assert fairness.tau().value(table, weights).tolist() == [75, 0]


@pytest.mark.fault(47)
def test_a_missing_log_probability_is_never_counted_as_unfair():
    table = pairs(0, math.nan)
    metrics = (
        fairness.tau(),
        fairness.us_score(),
        fairness.aufc(),
        fairness.pref_disparity(),
        fairness.male_rel_ratio(),
    )
    assert all(math.isnan(value(metric, table)) for metric in metrics)
