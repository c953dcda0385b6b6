"""OccuGender: options, the two definitions of probability, groups."""

import math

import numpy as np
import pytest

from scoring.benchmarks import get
from scoring.inputs.tables import as_table
from scoring.types import Option, Request
from tests.scoring.made import context, one_ask, replied, row

BENCHMARK = get("occugender")


def prompt(template="explicit", job="nurse", group="female", share=90.0, debiasing="none", level="none"):
    options = {
        "options_male": [" Male", " man"],
        "options_female": [" Female"],
        "options_diverse": [" They", " non-binary"],
    }
    config = template.partition("-")[0]
    about = {"template": template, "job": job, "group": group, "female_percent": share}
    about |= {"debiasing": debiasing, "level": level}
    return row(f"{template}-{debiasing}-{job}", config, prompt=f"Q: {job}\nA:", **about, **options)


LOGPROBS = ([-1.0, -2.0], [-3.0], [-1.5], [-2.0, -4.0, -3.0], [-5.0])


def test_the_forms_of_all_genders_are_options_of_one_question():
    assert one_ask(BENCHMARK, "paper", prompt()) == Request(
        "explicit-none-nurse",
        "Q: nurse\nA:",
        (Option(" Male"), Option(" man"), Option(" Female"), Option(" They"), Option(" non-binary")),
    )


@pytest.mark.parametrize(
    ("profile", "template"), [("clean", "explicit"), ("clean", "implicit-2"), ("paper", "explicit")]
)
def test_a_gender_has_the_sum_over_forms_of_the_product_over_tokens(profile, template):
    made = prompt(template)
    result = BENCHMARK.to_record(profile, made, replied(made, *LOGPROBS), context(made))
    assert result["p_male"] == pytest.approx(math.exp(-3) + math.exp(-3))
    assert result["p_female"] == pytest.approx(math.exp(-1.5))
    assert result["p_diverse"] == pytest.approx(math.exp(-9) + math.exp(-5))


def test_the_published_implicit_probability_is_the_geometric_mean_of_the_tokens():
    made = prompt("implicit-4") | {"options_male": [" him"], "options_diverse": [" them"]}
    result = BENCHMARK.to_record("paper", made, replied(made, [-1.0, -2.0], [-3.0], [-1.0, -2.0, -6.0]), context(made))
    assert [result[f"p_{g}"] for g in ("male", "female", "diverse")] == pytest.approx(np.exp([-1.5, -3, -3]))


def test_a_line_tells_the_job_and_its_share_of_women():
    made = prompt(debiasing="3", level="medium")
    result = BENCHMARK.to_record("clean", made, replied(made, *LOGPROBS), context(made))
    told = {name: result[name] for name in ("job", "group", "female_share", "template", "debiasing", "level")}
    assert told == {
        "job": "nurse",
        "group": "female",
        "female_share": 90.0,
        "template": "explicit",
        "debiasing": "3",
        "level": "medium",
    }


@pytest.fixture
def table():
    made = [
        prompt(template, job, group, share, debiasing, level)
        for template in ("explicit", "implicit-2", "implicit-3")
        for job, group, share in (("nurse", "female", 90.0), ("vet", "female", 80.0), ("roofer", "male", 2.0))
        for debiasing, level in (("none", "none"), ("1", "high"), ("2", "high"))
    ]
    return as_table(BENCHMARK.to_record("clean", item, replied(item, *LOGPROBS), context(item)) for item in made)


def masks(table):
    return {group.name: group.mask for group, _ in BENCHMARK.items("clean", table)}


def test_groups_are_by_style_prompt_debiasing_level_group_of_jobs_and_job(table):
    result = {name: int(mask.sum()) for name, mask in masks(table).items()}
    assert result["explicit"] == 3
    assert result["explicit, female jobs"] == 2
    assert result["implicit"] == 6
    assert result["implicit-3"] == 3
    assert result["implicit, debiasing 2, male jobs"] == 2
    assert result["explicit, high-level debiasing"] == 6
    assert result["implicit, nurse"] == 2
    assert not any("low" in name for name in result)
    assert "implicit, debiasing none" not in result


def test_only_groups_of_several_jobs_have_a_correlation(table):
    told = {(group.name, metric.name) for group, metric in BENCHMARK.items("clean", table)}
    assert ("explicit", "labour_correlation") in told
    assert ("explicit, nurse", "p_male") in told
    assert ("explicit, nurse", "labour_correlation") not in told
    assert not any(m.name == "labour_correlation" for m in BENCHMARK.metrics("paper"))


def test_the_paper_rounds_each_share_to_4_decimals():
    made = prompt()
    table = as_table(
        [BENCHMARK.to_record("paper", made, replied(made, [-1.0], [-9.0], [-1.0], [-1.0], [-9.0]), context(made))]
    )
    clean, paper = (BENCHMARK.metrics(profile)[0].value(table, np.ones((1, 1)))[0] for profile in ("clean", "paper"))
    assert paper == pytest.approx(round(clean / 100, 4) * 100, abs=1e-12)
    assert paper != clean


def test_jobs_are_the_clusters():
    assert BENCHMARK.cluster == "job"
