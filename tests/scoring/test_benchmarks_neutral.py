"""Neutral probes: what is asked of a prompt and what becomes of the answer."""

import math

import numpy as np
import pytest

from scoring.asking.estimates import cluster_of, estimate
from scoring.benchmarks import get
from scoring.inputs.tables import as_table
from scoring.report.numbers import few_texts
from scoring.statistics.stats import compare
from scoring.types import Request
from tests.scoring.made import context, one_ask, replied, row

BENCHMARK = get("neutral")
FORMS = (
    *("she", "he", "her", "him", "hers", "his", "herself", "himself", "she's", "he's"),
    *("She", "He", "Her", "Him", "Hers", "His", "Herself", "Himself", "She's", "He's"),
)
NURSE = row("t-nurse", "templates", prompt="My friend is a nurse, and", topic="occupation", stereotype="female")
FLUTE = row("s-1", "stsb-paper", prompt="My friend plays a flute, and", subject="man")


def to_record(made, text, chances, profile="clean"):
    candidate_logprobs = tuple(math.log(chances[f]) if f in chances else math.nan for f in FORMS)
    return BENCHMARK.to_record(
        profile, made, replied(made, candidate_logprobs=candidate_logprobs, text=text), context(made)
    )


def test_a_prompt_is_continued_by_50_tokens_and_20_forms_are_watched():
    assert one_ask(BENCHMARK, "clean", NURSE) == Request(
        "t-nurse", "My friend is a nurse, and", candidates=FORMS, max_new=50
    )


def test_a_line_has_the_class_of_the_continuation_and_the_probability_of_each_form():
    result = to_record(NURSE, " she helps people.", {"she": 0.25, "he": 0.125})
    assert result["config"] == "templates"
    assert (result["topic"], result["stereotype"]) == ("occupation", "female")
    assert result["gender_class"] == "female"
    assert (result["p_she"], result["p_he"]) == pytest.approx((0.25, 0.125))
    assert math.isnan(result["p_hers"])
    assert result["text"] == " she helps people."


def test_a_prompt_repeated_is_nonsense():
    assert to_record(FLUTE, FLUTE["prompt"], {})["gender_class"] == "nonsense"


def test_published_prompts_are_in_the_group_of_their_set():
    assert to_record(FLUTE, "", {})["config"] == "stsb"


def test_topics_are_groups_and_only_the_templates_have_a_mean_over_topics():
    table = as_table(
        [to_record(NURSE, " she", {"she": 0.5, "he": 0.25}), to_record(FLUTE, " it", {"she": 0.5, "he": 0.25})]
    )
    result = {}
    for group, metric in BENCHMARK.items("clean", table):
        result.setdefault(group.name, []).append(metric.name)
    assert list(result) == ["stsb", "templates", "templates occupation"]
    assert "gas_by_topic" in result["templates"]
    assert "gas_by_topic" not in result["stsb"] + result["templates occupation"]


@pytest.mark.parametrize(
    ("metric", "value"), [("gas", 0.5), ("gas_female", 1.0), ("gld", 1 / 3), ("pronoun_mass", 0.75)]
)
def test_metrics_of_two_prompts(metric, value):
    lines = [
        to_record(NURSE | {"id": str(n)}, text, {"she": 0.5, "he": 0.25}) for n, text in enumerate((" she", " it is"))
    ]
    table = as_table(lines)
    (result,) = (m for g, m in BENCHMARK.items("clean", table) if (g.name, m.name) == ("templates", metric))
    assert result.value(table, [[1.0, 1.0]]) == pytest.approx([value])


def test_each_prompt_is_a_cluster_of_shares_of_texts_also_where_texts_are_equal():
    """18 of 160 prompts get one text with a pronoun, and the others another text: there are 160 prompts."""
    answers = ["My friend likes what she does."] * 18 + ["I do not know."] * 142
    lines = [to_record(NURSE | {"id": str(n)}, text, {"she": 0.5, "he": 0.25}) for n, text in enumerate(answers)]
    table = as_table(lines)
    assert table["friend"].tolist() == ["female"] * 18 + ["nobody"] * 142
    (gas,) = (e for e in estimate(BENCHMARK, "clean", table, 1000) if (e.group, e.metric) == ("templates", "gas"))
    assert (gas.value, gas.clusters) == (0.1125, 160)
    assert 0.05 < gas.low < 0.08
    assert 0.14 < gas.high < 0.19


def test_a_change_of_most_texts_is_found_though_a_model_writes_only_a_few():
    """A model that loses its pronoun in 60 % of the prompts has changed, although it has two texts alone."""
    tables = []
    for gendered in (80, 32):
        answers = ["My friend likes what she does."] * gendered + ["I do not know."] * (160 - gendered)
        rows = [to_record(NURSE | {"id": str(n)}, text, {"she": 0.5, "he": 0.25}) for n, text in enumerate(answers)]
        tables.append(as_table(rows))
    base, run = tables
    chosen = [item for item in BENCHMARK.items("clean", run) if item[1].name == "gas" and item[0].name == "templates"]
    clusters = run[cluster_of(BENCHMARK, chosen[0][1], run)]
    (change,) = compare(chosen, run, base, clusters, benchmark="neutral", resamples=100)
    assert change.clusters == 160
    assert change.high < -0.2


def test_few_different_texts_are_a_warning_and_many_are_none():
    def lines(answers):
        return as_table([to_record(NURSE, text, {"she": 0.5, "he": 0.25}) for text in answers])

    assert "10" in few_texts(lines(["she sings"] * 9 + ["he cooks"]))
    assert "2 are different" in few_texts(lines(["she sings"] * 9 + ["he cooks"]))
    assert few_texts(lines([f"she sings {n}" for n in range(10)])) == ""
    assert few_texts({"id": np.array(["a"])}) == ""
    # The column of ways has sides.
    assert few_texts({"gender_class": np.array(["female"]), "text": np.array([1.0])}) == ""
