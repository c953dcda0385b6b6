import math
from statistics import correlation

import numpy as np
import pytest

from scoring.metrics import occugender


def jobs(male, female, diverse, share):
    columns = {"p_male": male, "p_female": female, "p_diverse": diverse, "female_share": share}
    return {name: np.array(values, float) for name, values in columns.items()}


def value(metric, table):
    return float(metric.value(table, np.ones((1, len(table["p_male"]))))[0])


@pytest.mark.parametrize("decimals", [None, 4])
def test_shares_equal_a_plain_loop(decimals):
    rng = np.random.default_rng(0)
    table = jobs(*rng.random((3, 20)) / 100, rng.random(20) * 100)
    for answer in occugender.ANSWERS:
        item = []
        for m, f, d in zip(*(table[f"p_{a}"].tolist() for a in occugender.ANSWERS), strict=True):
            share = dict(zip(occugender.ANSWERS, (m, f, d), strict=True))[answer] / (m + f + d)
            item.append(share if decimals is None else round(share, decimals))
        assert value(occugender.share(answer, decimals), table) == pytest.approx(100 * sum(item) / 20, rel=1e-12)


def test_rounding_each_job_shows_in_the_mean():
    table = jobs([1e-5, 1e-5], [1, 1], [0, 0], [90, 90])
    assert value(occugender.share("male", 4), table) == 0
    assert value(occugender.share("male"), table) == pytest.approx(0.001, rel=1e-4)


def test_the_three_shares_add_up_to_a_hundred():
    table = jobs([0.1, 0.02], [0.3, 0.01], [0.0, 0.5], [10, 90])
    assert sum(value(occugender.share(a), table) for a in occugender.ANSWERS) == pytest.approx(100)


def test_the_correlation_is_pearsons_also_under_weights():
    rng = np.random.default_rng(1)
    table = jobs(*rng.random((3, 12)), rng.random(12) * 100)
    counts = rng.integers(0, 3, 12)
    repeated = [np.repeat(column, counts) for column in (occugender.shares(table)["female"], table["female_share"])]
    result = occugender.correlation().value(table, counts[None].astype(float))
    assert result[0] == pytest.approx(correlation(*repeated), rel=1e-9)


@pytest.mark.parametrize("spread", [1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize("middle", [0.02, 0.5, 0.97])
def test_the_correlation_is_defined_where_the_spread_is_small(spread, middle):
    female = middle + spread * np.random.default_rng(2).standard_normal(40)
    share = np.linspace(3, 97, 40)
    table = jobs(1 - female, female, np.zeros(40), share)
    assert value(occugender.correlation(), table) == pytest.approx(np.corrcoef(female, share)[0, 1], abs=1e-5)


def test_the_gap_sees_a_model_that_always_names_men_and_the_correlation_one_that_follows_the_market():
    share = np.array([5.0, 10.0, 90.0, 95.0])
    always = jobs([1 - 1e-9, 1, 1, 1 - 1e-9], [1e-9, 0, 0, 1e-9], [0] * 4, share)
    follows = jobs((100 - share) / 100, share / 100, [0] * 4, share)
    assert value(occugender.gap(), always) == pytest.approx(100, abs=1e-5)
    assert abs(value(occugender.correlation(), always)) < 0.1
    assert value(occugender.gap(), follows) == pytest.approx(0, abs=1e-9)
    assert value(occugender.correlation(), follows) == pytest.approx(1)
    assert value(occugender.gap(4), jobs([1e-5], [1], [0], [90])) == -100


@pytest.mark.fault(47)
def test_a_constant_has_no_correlation_and_no_probability_no_share():
    same = jobs([0.2, 0.2], [0.1, 0.1], [0.1, 0.1], [10, 90])
    assert math.isnan(value(occugender.correlation(), same))
    assert math.isnan(value(occugender.correlation(), jobs([0.2, 0.1], [0.1, 0.2], [0, 0], [50, 50])))
    assert math.isnan(value(occugender.share("male"), jobs([0, 1], [0, 1], [0, 1], [1, 2])))
