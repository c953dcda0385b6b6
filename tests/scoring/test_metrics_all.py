import math
import re

import numpy as np
import pytest

from scoring.metrics import add, crows, fairness, gas, knowledge, occugender, pronouns, stereoset
from scoring.statistics import stats
from scoring.types import Group
from tests.scoring.made import estimate

METRICS = {
    "gas": [
        gas.gas(),
        gas.gas_plain(),
        gas.gas_by_topic(),
        gas.gas_of("female"),
        gas.gas_of("male"),
        gas.gas_gap(),
        *map(gas.share, gas.CLASSES),
    ],
    "pronouns": [
        pronouns.gld(),
        pronouns.ratio_of("female"),
        pronouns.ratio_of("male"),
        pronouns.pronoun_mass(),
        add.add_raw(),
        add.add_log(),
        add.jsd(),
    ],
    "occugender": [*map(occugender.share, occugender.ANSWERS), occugender.correlation()],
    "fairness": [
        fairness.tau(),
        fairness.us_score(),
        fairness.us_gap(0.8),
        fairness.aufc(),
        fairness.aufc_published(True),
        fairness.pref_disparity(),
        fairness.male_rel_ratio(),
    ],
    "stereoset": [make(pooled) for make in (stereoset.ss, stereoset.lms, stereoset.icat) for pooled in (False, True)],
    "crows": [crows.ss(), *crows.published(), crows.ties(), crows.skipped()],
    "pairs": [knowledge.ss(), knowledge.ss_by_term(), knowledge.ps(ties=False)],
    "facts": [knowledge.fact_accuracy(), knowledge.ds()],
}
CASES = [
    pytest.param(family, metric, id=f"{family}-{metric.name}") for family, each in METRICS.items() for metric in each
]


def table(family, rows, rng=None):
    """A table of so many rows: equal ones, or random ones with a generator."""
    draw = (lambda *shape: np.full(shape, 0.3)) if rng is None else rng.random
    columns = {
        "gas": lambda: {
            "gender_class": np.array([gas.CLASSES[int(5 * x)] for x in draw(rows)], dtype="U8"),
            "topic": np.array(["ab"[int(2 * x)] for x in draw(rows)], dtype="U1"),
        },
        "pronouns": lambda: {f"p_{form}": draw(rows) / 20 for form in pronouns.FORMS},
        "occugender": lambda: {f"p_{a}": draw(rows) for a in occugender.ANSWERS} | {"female_share": 100 * draw(rows)},
        "fairness": lambda: {
            "female_logprob": -3 * draw(rows),
            "male_logprob": -3 * draw(rows),
            "max_pmi_diff": 2 * draw(rows) - 1,
        },
        "stereoset": lambda: (
            {f"score_{label}": draw(rows) for label in ("biased", "unbiased", "irrelevant")}
            | {"subject": np.array([f"term {int(9 * x)}" for x in draw(rows)], dtype=object)}
        ),
        "crows": lambda: (
            {f"score_{label}": draw(rows) for label in ("biased", "unbiased")}
            | {
                "direction": np.array([("stereo", "antistereo")[int(2 * x)] for x in draw(rows)], dtype=object),
                "skipped": draw(rows) > 0.9,
            }
        ),
        "pairs": lambda: (
            {f"score_{label}": draw(rows) for label in ("biased", "unbiased")}
            | {"subject": np.array([f"term {int(9 * x)}" for x in draw(rows)], dtype=object)}
        ),
        "facts": lambda: (
            {f"score_{label}": draw(rows) for label in ("right", "other")}
            | {f"{of}prediction": np.array(["ab"[int(2 * x)] for x in draw(rows)], "U1") for of in ("", "base_")}
        ),
    }
    return columns[family]()


@pytest.mark.parametrize(("family", "metric"), CASES)
def test_every_metric_has_a_value_and_an_interval_in_its_range(family, metric):
    result = estimate(metric, table(family, 200, np.random.default_rng(0)), None, np.arange(200) // 4, 300)
    assert result.why == ""
    assert metric.low <= result.low <= result.value <= result.high <= metric.high
    assert metric.ideal is None or metric.low <= metric.ideal <= metric.high


@pytest.mark.fault(47)
@pytest.mark.parametrize("rows", [0, 1, 6])
@pytest.mark.parametrize(("family", "metric"), CASES)
def test_no_row_one_row_and_ties_give_a_value_or_a_reason(family, metric, rows):
    result = estimate(metric, table(family, rows), None, np.arange(rows) // 2, 50)
    assert math.isnan(result.value) or metric.low <= result.value <= metric.high
    if rows == 0:
        assert result.why == "no rows"
    elif math.isnan(result.value):
        assert result.why == metric.undefined
    elif rows == 1:
        assert result.why == "one cluster, so no interval"
    elif math.isinf(metric.low):
        assert result.low == result.high == pytest.approx(result.value)
    else:
        assert metric.low <= result.low <= result.value <= result.high <= metric.high
        signed = metric.events is not None and (metric.low < 0 or metric.absolute)
        # A side without events is narrower than an outcome without events: pseudo examples have a small correlation.
        assert result.high - result.low > (0.4 if signed else 0.5) * (metric.high - metric.low)
        assert result.method == ("rule of three" if metric.events is None else "signed" if signed else "binomial")


@pytest.mark.fault(47)
@pytest.mark.parametrize("family", METRICS)
def test_a_number_that_is_none_makes_no_metric(family):
    spoilt = table(family, 20, np.random.default_rng(1)) | (
        {"skipped": np.zeros(20, bool)} if family == "crows" else {}
    )
    for name, column in spoilt.items():
        if column.dtype == float and name != "max_pmi_diff":
            column[:] = math.nan
    group = Group("all", np.ones(20, bool))
    for result in stats.measure([(group, m) for m in METRICS[family]], spoilt, np.arange(20), resamples=50):
        # Classes and predictions are texts, and a skipped pair is known without its scores.
        if family != "gas" and result.metric not in ("skipped", "ds"):
            assert math.isnan(result.value), result.metric
            assert re.fullmatch(r"\d+ of 20 rows have no finite value", result.why)


@pytest.mark.parametrize(("family", "metric"), CASES)
def test_every_metric_says_in_one_sentence_how_to_read_it_and_where_it_comes_from(family, metric):
    assert re.fullmatch(r"[^.\n](?:[^.\n]|\.\d)*\([^()]*\)\.", metric.reading), metric.reading
    assert metric.name == metric.name.strip()
