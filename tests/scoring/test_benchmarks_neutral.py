"""Neutral probes: what is asked of a prompt and what becomes of the answer."""

import math

import numpy as np
import pytest

from scoring.asking.result import joint_clusters
from scoring.benchmarks import get
from scoring.inputs.tables import as_table
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


def test_continuations_that_begin_alike_are_one_cluster():
    same = {"id": "a", "config": "templates", "prompt": "My friend sings, and"}
    texts = ["I like it very much when she sings.", "I  LIKE it very much indeed.", "she sings all day long."]
    lines = BENCHMARK.sampled.to_records(same, texts)
    openings = [line["opening"] for line in lines]
    assert openings == ["i like it very much", "i like it very much", "she sings all day long."]
    clusters = {metric.name: metric.cluster for metric in BENCHMARK.metrics("clean")}
    assert (BENCHMARK.cluster, clusters["gas"], clusters["gld"]) == ("id", "opening", "")
    assert [line["friend"] for line in lines] == ["female", "nobody", "female"]


def test_a_comparison_joins_what_depends_on_each_other_in_either_run():
    run, base = np.array(["a", "b", "c", "d"]), np.array(["x", "x", "y", "z"])
    joined = joint_clusters(run, base)
    assert joined[0] == joined[1]
    assert len(set(joined.tolist())) == 3
    assert joint_clusters(run, run) is run
