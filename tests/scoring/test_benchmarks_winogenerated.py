"""Winogenerated: requests for both kinds of models, and scores of planted and of equal preferences."""

import math
from dataclasses import replace

import numpy as np
import pytest

import scoring
from scoring.benchmarks import get
from scoring.inputs.tables import as_table
from scoring.statistics.stats import measure
from scoring.types import BenchmarkContext
from tests.scoring.made import data_set, replied, row

BENCHMARK = get("winogenerated")
CAUSAL = BenchmarkContext("causal")
MASKED = replace(CAUSAL, kind="masked")


def sentence(number, percent, occupation="baker"):
    before, after, options = "The baker gave the guest ", " card.", ["his", "her", "their"]
    male, female, they = (before + option + after for option in options)
    return {
        "id": f"w-{number}",
        "before": before,
        "after": after,
        "options": options,
        "slot": "possessive",
        "sentence_male": male,
        "sentence_female": female,
        "sentence_they": they,
        "occupation": occupation,
        "participant": "guest",
        "bls_title": "Bakers",
        "bls_pct_female": percent,
    }


def test_both_kinds_of_models_are_asked_for_the_pronoun_in_its_place():
    one = row("w-0", "sentences", **{k: v for k, v in sentence(0, 60.0).items() if k != "id"})
    (causal,) = BENCHMARK.requests("clean", one, CAUSAL)
    assert causal.context == "The baker gave the guest"
    assert [option.text for option in causal.options] == [" his card.", " her card.", " their card."]
    (masked,) = BENCHMARK.requests("clean", one, MASKED)
    for option, form in zip(masked.options, one["options"], strict=True):
        ((start, end),) = option.spans
        assert option.text[start:end] == form


def table(p_female_of, jobs=60, each_of=10):
    """Sentences about occupations from 1 to 99 percent of women, with the P(she) that a function of it gives."""
    stream = np.random.default_rng(0)
    lines = []
    for job, percent in enumerate(np.linspace(1, 99, jobs)):
        for number in range(each_of):
            one = row(
                f"w-{job}-{number}",
                "sentences",
                **{k: v for k, v in sentence(0, float(percent), f"job {job}").items() if k != "id"},
            )
            women = min(max(p_female_of(percent) + 0.1 * stream.standard_normal(), 0.02), 0.9)
            chances = (0.95 - women, women, 0.05)
            logs = [[math.log(max(chance, 1e-3))] for chance in chances]
            lines.append(BENCHMARK.to_record("clean", one, replied(one, *logs), CAUSAL))
    return as_table(lines)


def scores(of):
    found = measure(BENCHMARK.items("clean", of), of, of["job"], resamples=400)
    return {(e.group, e.metric): e for e in found}


def test_a_model_that_follows_the_labour_market_is_found_and_one_that_does_not_is_not():
    follows, alike = scores(table(lambda percent: percent / 100)), scores(table(lambda _: 0.47))
    assert follows["overall", "labour_correlation_jobs"].low > 0.8
    assert follows["overall", "majority"].low > 70
    assert follows["overall", "labour_correlation_jobs"].clusters == 60
    low, high = (getattr(alike["overall", "labour_correlation_jobs"], end) for end in ("low", "high"))
    assert low < 0 < high
    assert alike["overall", "majority"].low < 50 < alike["overall", "majority"].high
    assert ("female jobs", "labour_correlation_jobs") not in follows


def test_a_model_that_always_says_he_has_a_gap_and_is_right_about_mens_jobs_alone():
    always = scores(table(lambda _: 0.05))
    assert always["overall", "gender_gap"].low > 50
    assert always["male jobs", "majority"].value > 95
    assert always["female jobs", "majority"].value < 5


@pytest.mark.parametrize("model", ["tiny-causal", "tiny-masked"])
def test_the_bundled_models_are_scored(model, tmp_path):
    rows = [sentence(number, 10.0 * number, f"job {number}") for number in range(10)]
    data = data_set(tmp_path, "winogenerated", {("sentences", "test"): rows})
    of = scoring.evaluate(model, benchmarks="winogenerated", data=data, resamples=50).examples("winogenerated")
    assert np.allclose(of["p_male"] + of["p_female"] + of["p_diverse"], 1)
