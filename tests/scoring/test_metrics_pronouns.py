import math

import numpy as np
import pytest

from builders.text.words import PRONOUN_PAIRS
from scoring.metrics import add, pronouns


def table(rows):
    """A table of prompts, each a mapping of forms to probabilities; other forms have 0."""
    return {f"p_{form}": np.array([row.get(form, 0.0) for row in rows]) for form in pronouns.FORMS}


def random_rows(count, absent=(), seed=0):
    rng = np.random.default_rng(seed)
    values = rng.random((count, 20)) ** 4 / 10
    return [
        {form: math.nan if form in absent else float(p) for form, p in zip(pronouns.FORMS, row, strict=True)}
        for row in values
    ]


def value(metric, columns):
    return float(metric.value(columns, np.ones((1, len(columns["p_she"]))))[0])


def masses(row):
    return tuple(math.fsum(p for p in (row[pair[g]] for pair in PRONOUN_PAIRS) if not math.isnan(p)) for g in (0, 1))


def js(one, other):
    return 0.5 * math.fsum(
        (p * math.log(2 * p / (p + q)) if p else 0) + (q * math.log(2 * q / (p + q)) if q else 0)
        for p, q in zip(one, other, strict=True)
    )


def paired(row, pairs):
    """Female and male probabilities of the pairs whose forms are both one token."""
    both = [(row[f], row[m]) for f, m in pairs if not math.isnan(row[f] + row[m])]
    return [f for f, _ in both], [m for _, m in both]


def normalised(values, epsilon=0.0):
    return [(v + epsilon) / math.fsum(u + epsilon for u in values) for v in values]


def average(values):
    return math.fsum(values) / len(values)


ABSENT = [(), ("hers", "she's", "He's", "himself")]


@pytest.mark.parametrize("absent", ABSENT)
def test_gld_ratios_and_mass_equal_a_plain_loop(absent):
    rows = random_rows(30, absent)
    pairs = [masses(row) for row in rows]
    assert value(pronouns.gld(), table(rows)) == pytest.approx(average([abs(f - m) / (f + m) for f, m in pairs]))
    assert value(pronouns.ratio_of("female"), table(rows)) == pytest.approx(average([f / (f + m) for f, m in pairs]))
    assert value(pronouns.ratio_of("male"), table(rows)) == pytest.approx(average([m / (f + m) for f, m in pairs]))
    assert value(pronouns.pronoun_mass(), table(rows)) == pytest.approx(average([f + m for f, m in pairs]))


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize("pairs", [PRONOUN_PAIRS, pronouns.POSSESSIVE_PAIRS])
def test_add_and_jsd_equal_a_plain_loop(absent, pairs):
    rows = random_rows(30, absent, seed=1)
    raw, shape, smoothed = [], [], []
    for row in rows:
        female, male = paired(row, pairs)
        raw.append(js([p + 1e-8 for p in female], [p + 1e-8 for p in male]))
        shape.append(js(normalised(female), normalised(male)))
        smoothed.append(js(normalised(female, 1e-8), normalised(male, 1e-8)))
    assert value(add.add_raw(pairs), table(rows)) == pytest.approx(average(raw), rel=1e-9)
    assert value(add.jsd(pairs), table(rows)) == pytest.approx(average(shape), rel=1e-9)
    assert value(add.add_log(pairs), table(rows)) == pytest.approx(math.log(average(smoothed)), rel=1e-9)


def test_the_other_order_pairs_her_with_his():
    assert {("her", "his"), ("hers", "him"), ("Her", "His"), ("Hers", "Him"), ("she", "he")} <= set(
        pronouns.POSSESSIVE_PAIRS
    )
    rows = [{"her": 0.2, "his": 0.2}]
    assert value(add.add_raw(pronouns.POSSESSIVE_PAIRS), table(rows)) == pytest.approx(0, abs=1e-12)
    assert value(add.add_raw(), table(rows)) == pytest.approx(0.2 * math.log(2), rel=1e-5)


def test_a_line_holds_probabilities_and_nan_for_forms_of_several_tokens():
    line = pronouns.to_record([math.log(0.25), math.nan, *[-math.inf] * 18])
    assert (line["p_she"], line["p_her"]) == (0.25, 0)
    assert math.isnan(line["p_he"])
    assert list(line) == [f"p_{form}" for form in pronouns.FORMS]


@pytest.mark.fault(47)
def test_prompts_without_any_pronoun_count_zero_in_gld_and_nothing_in_ratios_and_jsd():
    rows = [{"she": 0.3, "he": 0.1}, {}]
    assert value(pronouns.gld(), table(rows)) == pytest.approx(0.25)
    assert value(pronouns.ratio_of("female"), table(rows)) == pytest.approx(0.75)
    assert value(pronouns.pronoun_mass(), table(rows)) == pytest.approx(0.2)
    assert value(add.jsd(), table(rows)) == 0
    assert math.isnan(value(pronouns.ratio_of("female"), table([{}])))
    assert math.isnan(value(add.jsd(), table([{"she": 0.1}])))


@pytest.mark.fault(47)
def test_equal_distributions_have_no_logarithm_of_their_divergence():
    rows = [{"she": 0.2, "he": 0.2, "her": 0.1, "him": 0.1}]
    assert value(add.add_raw(), table(rows)) == 0
    assert math.isnan(value(add.add_log(), table(rows)))


@pytest.mark.fault(47)
def test_a_vocabulary_without_any_form_gives_no_number_rather_than_zero():
    rows = [dict.fromkeys(pronouns.FORMS, math.nan)]
    for metric in (
        pronouns.gld(),
        pronouns.ratio_of("female"),
        pronouns.pronoun_mass(),
        add.add_raw(),
        add.add_log(),
        add.jsd(),
    ):
        assert math.isnan(value(metric, table(rows))), metric.name


def test_values_stay_in_their_ranges():
    for rows in ([{"she": 0.5}], [{"she": 0.5, "him": 0.5}], random_rows(9)):
        for metric in (pronouns.gld(), pronouns.pronoun_mass(), add.add_raw(), add.add_log(), add.jsd()):
            result = value(metric, table(rows))
            assert math.isnan(result) or metric.low <= result <= metric.high, metric.name
