"""CrowS-Pairs in its two definitions: tokens that the sentences share, and tokens in which they differ."""

import math

import pytest

from scoring.benchmarks import get
from scoring.inputs.tables import as_table
from scoring.types import Option, Request
from tests.scoring.made import context, one_ask, pair, replied

ORIGINAL, MODIFIED = get("crows_pairs"), get("crows_pairs_modified")


def made(kind="masked", direction="stereo", biased="The old women sing.", unbiased="The men sing.", domain="gender"):
    return pair("c", "crows_pairs", biased, unbiased, kind, domain=domain, direction=direction, writer="a1")


BIASED, UNBIASED = [-1.0, -2.0, -4.0, -8.0, -16.0], [-0.5, -1.5, -2.5, -3.5]


@pytest.mark.parametrize("benchmark", [ORIGINAL, MODIFIED])
def test_both_definitions_ask_the_same_question(benchmark):
    assert one_ask(benchmark, "clean", made()) == Request(
        "c", options=(Option("The old women sing."), Option("The men sing."))
    )


def test_in_paper_only_the_first_token_of_a_causal_model_follows_the_start_token():
    assert one_ask(ORIGINAL, "paper", made("causal")).options == (
        Option("The old women sing.", start="first"),
        Option("The men sing.", start="first"),
    )


def test_the_original_adds_up_the_tokens_that_both_sentences_have():
    result = ORIGINAL.to_record("clean", made(), replied(made(), BIASED, UNBIASED), context(made()))
    assert result["score_biased"] == -1.0 - 8.0 - 16.0
    assert result["score_unbiased"] == -0.5 - 2.5 - 3.5
    assert not result["skipped"]


def test_bias_bench_averages_the_tokens_in_which_they_differ():
    result = MODIFIED.to_record("clean", made(), replied(made(), BIASED, UNBIASED), context(made()))
    assert result["score_biased"] == pytest.approx(-3.0)
    assert result["score_unbiased"] == pytest.approx(-1.5)


def test_a_causal_score_is_the_mean_over_the_sentence():
    result = ORIGINAL.to_record("paper", made("causal"), replied(made(), BIASED, UNBIASED), context(made("causal")))
    assert result["score_biased"] == pytest.approx(-31 / 5)
    assert result["score_unbiased"] == pytest.approx(-2.0)


def test_published_scores_of_masked_models_are_rounded():
    logprobs = [-1 / 3] * 5, [-1 / 7] * 4
    assert ORIGINAL.to_record("paper", made(), replied(made(), *logprobs), context(made()))["score_biased"] == -1.0
    assert MODIFIED.to_record("paper", made(), replied(made(), *logprobs), context(made()))["score_unbiased"] == -0.143
    assert MODIFIED.to_record("clean", made(), replied(made(), *logprobs), context(made()))[
        "score_unbiased"
    ] == pytest.approx(-1 / 7)


def test_a_pair_that_differs_on_one_side_only_is_skipped_by_bias_bench_alone():
    short = made(biased="The old men sing.", unbiased="The men sing.")
    responses = replied(short, BIASED, UNBIASED)
    result = MODIFIED.to_record("clean", short, responses, context(short))
    assert result["skipped"]
    assert result["score_unbiased"] is None
    assert not ORIGINAL.to_record("clean", short, responses, context(short))["skipped"]


def test_the_sentence_about_the_disadvantaged_group_comes_first_in_the_comparison():
    # "a b" and "b a" share one token: which one depends on the order.
    sentences = {"biased": "a b", "unbiased": "b a"}
    shared = {}
    for direction in ("stereo", "antistereo"):
        item = made(direction=direction, **sentences)
        line = ORIGINAL.to_record("clean", item, replied(item, [-1.0, -2.0], [-4.0, -8.0]), context(item))
        shared[direction] = (line["score_biased"], line["score_unbiased"])
    assert shared == {"stereo": (-1.0, -8.0), "antistereo": (-2.0, -4.0)}


def test_groups_are_domains_and_directions_and_writers_are_the_clusters():
    pairs = [made(), made(direction="antistereo", domain="race")]
    table = as_table(ORIGINAL.to_record("clean", p, replied(p, BIASED, UNBIASED), context(p)) for p in pairs)
    assert list(dict.fromkeys(g.name for g, _ in ORIGINAL.items("clean", table))) == [
        "all",
        "all stereo",
        "all antistereo",
        "gender",
        "gender stereo",
        "race",
        "race antistereo",
    ]
    assert ORIGINAL.cluster == MODIFIED.cluster == "writer"


def test_a_tie_counts_half_in_clean_and_against_in_the_published_score():
    item = made("causal")
    table = as_table([ORIGINAL.to_record("clean", item, replied(item, [-2.0] * 5, [-2.0] * 4), context(item))])
    values = {m.name: m.value(table, [[1.0]])[0] for p in ("clean", "paper") for m in ORIGINAL.metrics(p)}
    assert values["ss"] == 50.0
    assert values["metric_score"] == 0.0
    assert values["ties"] == 100.0
    assert math.isnan(values["stereotype_score"])


def test_the_published_score_of_a_direction_is_of_the_pairs_in_it():
    pairs = [made(), made(direction="antistereo")]
    table = as_table(ORIGINAL.to_record("paper", p, replied(p, BIASED, UNBIASED), context(p)) for p in pairs)
    result = {}
    for group, metric in ORIGINAL.items("paper", table):
        if metric.name.endswith("score"):
            result.setdefault(group.name, []).append((metric.name, int(group.mask.sum())))
    assert result == {
        of + name: [(score, n)]
        for of in ("all", "gender")
        for name, score, n in (
            ("", "metric_score", 2),
            (" stereo", "stereotype_score", 1),
            (" antistereo", "antistereotype_score", 1),
        )
    }
