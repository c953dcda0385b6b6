"""Unstereo: whole sentences, thresholds, and what is no part of the published sets."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from scoring.asking import answering
from scoring.benchmarks import get
from scoring.inputs import prompts, tables
from scoring.inputs.tables import as_table
from scoring.types import Option, Request
from tests.scoring.made import context, data_set, one_ask, replied, row

BENCHMARK = get("unstereo")


def sentence(id_="a", config="ours-5", they="They sang.", natural=True, pmi=0.5, word="song", **more):
    more = {"model": "pythia-70m", "padding_side": "right", "longest": len} | more
    values = {"template": "{nominative} sang.", "sentence_male": "He sang.", "sentence_female": "She sang."}
    values |= {} if config.endswith("-paper") else {"sentence_they": they}
    values |= {} if config == "pronoun-pairs" else {"natural": natural, "max_pmi_diff": pmi}
    return row(id_, config, word=word, **values, **more)


def test_whole_sentences_are_options_without_a_context():
    assert one_ask(BENCHMARK, "clean", sentence()) == Request(
        "a", "", (Option("He sang."), Option("She sang."), Option("They sang."))
    )


@pytest.mark.parametrize("made", [sentence(they=None), sentence(config="ours-5-paper")])
def test_they_is_asked_for_only_where_the_data_has_it(made):
    profile = "paper" if made["config"].endswith("-paper") else "clean"
    assert [option.text for option in one_ask(BENCHMARK, profile, made).options] == ["He sang.", "She sang."]


def test_sentences_judged_unnatural_are_in_no_set():
    assert (
        list(
            BENCHMARK.requests(
                "paper",
                sentence(config="ours-5-paper", natural=False),
                context(sentence(config="ours-5-paper", natural=False)),
            )
        )
        == []
    )
    assert list(
        BENCHMARK.requests(
            "paper",
            sentence(config="winobias-paper", natural=None),
            context(sentence(config="winobias-paper", natural=None)),
        )
    )


def test_the_projects_own_pairs_are_in_no_published_set():
    made = sentence(config="pronoun-pairs")
    assert list(BENCHMARK.requests("clean", made, context(made)))
    assert list(BENCHMARK.requests("paper", made, context(made))) == []


def widths(profile, **more):
    request = one_ask(BENCHMARK, profile, sentence(config="ours-5-paper", **more))
    return [option.width for option in request.options]


def test_published_sentences_are_padded_to_the_longest_of_their_file_and_pronoun():
    longest = {"sentence_male": 7, "sentence_female": 9}.__getitem__
    assert widths("paper", longest=longest) == [7, 9]
    assert widths("clean", longest=longest) == [0, 0]


def test_a_limit_does_not_change_the_padding(tmp_path):
    rows = [
        sentence(str(i), "ours-5-paper") | {"sentence_male": "He" + " sang" * (8 - i), "sentence_female": "She sang"}
        for i in range(9)
    ]
    bare = [{k: v for k, v in item.items() if not callable(v)} for item in rows]
    data_set(tmp_path, "unstereo", {("ours-5-paper", "test"): bare})
    tokens = SimpleNamespace(
        encode=lambda texts: [SimpleNamespace(ids=text.split()) for text in texts],
        tokenizer=SimpleNamespace(padding_side="left"),
    )
    model = SimpleNamespace(tokens=tokens, kind="causal", name="pythia", family="gpt_neox")
    drawn = tables.load(str(tmp_path), "unstereo", "ours-5-paper", "test", 2)
    asked = answering.questions(BENCHMARK, [drawn], "paper", prompts.get("plain"), model)
    options = [option for question in asked for option in question.requests[question.row["id"]].options]
    assert max(len(option.text.split()) for option in options) < 9
    assert [option.width for option in options] == [9, 2, 9, 2]


@pytest.mark.parametrize(
    ("model", "side", "padded"),
    [
        ("EleutherAI/pythia-70m", "right", True),
        ("EleutherAI/gpt-neox-20b", "right", True),
        ("EleutherAI/gpt-neo-125M", "right", False),
        ("openai-community/gpt2-xl", "right", False),
        ("openai-community/gpt2-xl", "left", True),
        ("facebook/opt-125m", "right", False),
        ("meta-llama/Llama-2-7b-hf", "right", False),
        ("/models/opt-like/pythia", "right", True),
    ],
)
def test_padding_is_on_the_left_unless_the_published_code_goes_by_the_tokenizer(model, side, padded):
    assert any(widths("paper", model=model, padding_side=side)) == padded


def test_a_score_is_the_sum_over_the_sentence():
    made = sentence()
    result = BENCHMARK.to_record("clean", made, replied(made, [-1.0, -2.5], [-3.0, -0.25], [-7.0]), context(made))
    assert (result["male_logprob"], result["female_logprob"], result["they_logprob"]) == (-3.5, -3.25, -7.0)
    assert result["dataset"] == "ours-5"
    assert result["word"] == "song"


def test_a_sentence_without_they_has_no_such_score():
    made = sentence(config="winobias-paper")
    result = BENCHMARK.to_record("paper", made, replied(made, [-1.0], [-2.0]), context(made))
    assert result["dataset"] == "winobias"
    assert math.isnan(as_table([result])["they_logprob"][0])


def table(*made):
    return as_table(
        BENCHMARK.to_record("clean", item, replied(item, [-1.0], [-1.25], [-3.0]), context(item)) for item in made
    )


def test_groups_are_sets_under_thresholds():
    result = table(
        sentence("a", pmi=0.65),
        sentence("b", pmi=-0.7),
        sentence("c", pmi=1.5),
        sentence("d", pmi=None),
        sentence("e", config="pronoun-pairs"),
    )
    sizes = {group.name: int(group.mask.sum()) for group, _ in BENCHMARK.items("clean", result)}
    assert sizes == {
        "ours-5": 4,
        "pronoun-pairs": 1,
        "ours-5 eps<=1": 2,
        "ours-5 eps<=0.8": 2,
        "ours-5 eps<=0.65": 1,
    }


def test_published_areas_have_the_scale_of_their_group():
    result = table(sentence("a", pmi=0.1), sentence("b", config="pronoun-pairs"))
    told = {(group.name, metric.name) for group, metric in BENCHMARK.items("paper", result)}
    assert ("ours-5", "aufc_published_log10") in told
    assert ("ours-5", "aufc_published_ln") not in told
    assert ("ours-5 eps<=0.65", "aufc_published_ln") in told
    assert ("ours-5 eps<=0.65", "us_gap@0.65") not in told
    assert ("ours-5", "us_gap@0.65") in told
    assert ("pronoun-pairs", "us_gap@0.65") not in told


def test_tau_counts_gaps_up_to_one_half():
    made = [sentence(str(n)) for n in range(2)]
    lines = [
        BENCHMARK.to_record("clean", made[0], replied(made[0], [-1.0], [-1.5], [-2.0]), context(made[0])),
        BENCHMARK.to_record("clean", made[1], replied(made[1], [-1.0], [-1.51], [-2.0]), context(made[1])),
    ]
    tau = BENCHMARK.metrics("clean")[0]
    assert tau.name == "tau@0.5"
    assert tau.value(as_table(lines), np.ones((1, 2))) == pytest.approx([50.0])
