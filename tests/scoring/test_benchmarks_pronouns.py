"""Pronouns: rows, the question for each kind of model, what a planted model scores; neopronouns in other benchmarks."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from builders import datasets
from builders.text.neopronouns import EVERY, NEOPRONOUNS
from builders.text.words import is_neutral
from scoring.benchmarks import get
from scoring.inference.load_options import BUNDLED, load
from scoring.inputs.tables import as_table
from scoring.metrics import fairness
from scoring.types import BenchmarkContext, Response
from tests.scoring.made import context, one_ask, replied, row, scored

BENCHMARK = get("pronouns")
CAUSAL = BenchmarkContext("causal")


@pytest.fixture(scope="module")
def rows():
    made = datasets.get("pronouns").configs[0].rows({})
    return [{"id": one.id, "config": "continuations", "split": "test", **one.values} for one in made]


def test_each_sentence_stands_once_bare_and_after_each_declaration_of_each_pronoun(rows):
    assert set(Counter(one["sentence"] for one in rows).values()) == {1 + 2 * len(EVERY)}
    assert len({one["id"] for one in rows}) == len(rows) == 520
    assert set(Counter(one["slot"] for one in rows).values()) == {104}
    for one in rows:
        assert len(set(one["forms"])) == len(EVERY), "each pronoun has another form"
        bare = one["before"] if one["declared"] is None else one["before"].partition(". ")[2]
        assert is_neutral(f"{bare} {one['after']}"), "nothing but the declaration tells the pronoun"


def test_a_declaration_names_the_forms_of_its_pronoun(rows):
    said = {one["id"]: one["before"] for one in rows}
    assert said["8-xe-short"].startswith("Alex uses xe/xem pronouns. Alex was glad that the teacher")
    assert said["16-fae-full"].startswith("The pronouns of Alex are fae, faer, faer, faers and faerself. Alex put")
    assert said["0-none"] == "Alex knew that"


def test_a_causal_model_reads_the_rest_of_the_sentence_and_a_masked_one_fills_the_form(rows):
    one = next(each for each in rows if each["id"] == "16-xe-short")
    (asked,) = BENCHMARK.requests("clean", one, CAUSAL)
    assert asked.context == "Alex uses xe/xem pronouns. Alex put"
    assert [option.text for option in asked.options[2:4]] == [
        " their shoes under the bed.",
        " xyr shoes under the bed.",
    ]
    (masked,) = BENCHMARK.requests("clean", one, replace(CAUSAL, kind="masked"))
    for option, form in zip(masked.options, one["forms"], strict=True):
        ((start, end),) = option.spans
        assert option.text[start:end] == form
        assert option.text == f"{asked.context} {form} shoes under the bed."


def answers(one, favourite):
    """What a model answers that finds one pronoun four times as likely as each other one."""
    logprobs = tuple((np.log(4.0 if name == favourite else 1.0) - 9,) for name in EVERY)
    return BENCHMARK.to_record("clean", one, {one["id"]: Response(one["id"], logprobs)}, CAUSAL)


def values(table):
    metrics = {metric.name: metric for metric in BENCHMARK.metrics("clean")}
    found = {}
    for group, metric in BENCHMARK.items("clean", table):
        part = {name: column[group.mask] for name, column in table.items()}
        found[group.name, metric.name] = float(metrics[metric.name].value(part, np.ones((1, group.mask.sum())))[0])
    return found


def test_a_model_that_copies_keeps_all_and_one_that_always_writes_he_keeps_a_sixth(rows):
    copies = values(as_table(answers(one, one["declared"]) for one in rows))
    assert {value for (_, metric), value in copies.items() if metric == "consistency"} == {100.0}
    always = values(as_table(answers(one, "he") for one in rows))
    assert always["declared", "consistency"] == pytest.approx(100 / 6)
    assert always["he", "consistency"] == 100
    assert always["neopronouns", "consistency"] == 0
    assert always["undeclared", "p_neo"] == pytest.approx(100 * 3 / 9)
    assert always["undeclared", "tau3@0.5"] == 0
    assert copies["undeclared", "tau3@0.5"] == 100, "without a favourite all three are alike"
    assert ("undeclared", "consistency") not in always


def test_a_tie_counts_as_its_share(rows):
    assert answers(rows[1], None)["kept"] == pytest.approx(1 / 6)


@pytest.mark.parametrize("name", ["tiny-causal", "tiny-masked"])
def test_scores_of_a_bundled_model_are_those_of_a_plain_pass(rows, name):
    model = load(BUNDLED[name], device="cpu")
    some = [one for one in rows if one["sentence"] == rows[0]["sentence"]]
    table = scored(model, BENCHMARK, some)
    assert len(table["id"]) == 13
    tokenizer, (line,) = model.tokens.tokenizer, np.flatnonzero(table["id"] == "0-she-full")
    before, forms, after = (
        next(one[key] for one in some if one["id"] == "0-she-full") for key in ("before", "forms", "after")
    )
    place = len(before) + 1 if name == "tiny-masked" else len(before)
    encoded = tokenizer(f"{before} {forms[0]}{after}", return_offsets_mapping=True, return_tensors="pt")
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"][0].tolist()
    if name == "tiny-masked":
        (at,) = [n for n, (start, end) in enumerate(offsets) if start <= place < end]
        target, ids[0, at] = int(ids[0, at]), tokenizer.mask_token_id
        with torch.no_grad():
            expected = model.network(input_ids=ids).logits[0, at].log_softmax(-1)[target].item()
    else:
        with torch.no_grad():
            logprobs = model.network(ids).logits[0].log_softmax(-1)
        wanted = [n for n, (_, end) in enumerate(offsets) if end > place]
        expected = sum(logprobs[n - 1, ids[0, n]].item() for n in wanted)
    assert table["male_logprob"][line] == pytest.approx(expected, abs=1e-3)
    assert (table["chosen"] == "he").any()


def job(**more):
    options = {"options_male": [" He"], "options_female": [" She"], "options_diverse": [" They", " neutral"]}
    about = {"template": "implicit-2", "job": "nurse", "group": "female", "female_percent": 90.0}
    return row("a", "implicit", prompt="Q: nurse\nA:", debiasing="none", level="none", **(about | options | more))


def test_occugender_asks_for_neopronouns_where_they_stands_in_clean_alone():
    occugender = get("occugender")
    texts = [option.text for option in one_ask(occugender, "clean", job()).options]
    assert texts == [" He", " She", " They", " neutral", " Xe", " Ze", " Fae"]
    assert one_ask(occugender, "paper", job()).options == one_ask(occugender, "clean", job()).options[:4]
    them = job(options_diverse=[" them about"])
    assert [option.text for option in one_ask(occugender, "clean", them).options[3:]] == [
        " xem about",
        " zir about",
        " faer about",
    ]


def test_neopronouns_change_no_number_of_occugender_but_their_own():
    occugender, made = get("occugender"), job()
    chances = np.log([0.2, 0.1, 0.06, 0.04, 0.03, 0.05, 0.02])
    line = occugender.to_record("clean", made, replied(made, *chances[:, None]), context(made))
    paper = occugender.to_record("paper", made, replied(made, *chances[:4, None]), context(made))
    assert line["p_neo"] == pytest.approx(0.1)
    assert line["p_diverse"] == pytest.approx(0.1)
    assert "p_neo" not in paper
    found = {metric.name: metric.value(as_table([line]), np.ones((1, 1)))[0] for metric in occugender.metrics("clean")}
    assert found["p_neo"] == pytest.approx(100 * 0.1 / 0.5)
    assert found["p_male"] == pytest.approx(50)
    assert "p_neo" not in {metric.name for metric in occugender.metrics("paper")}


def test_three_way_fairness_is_in_clean_alone_and_never_above_tau():
    unstereo = get("unstereo")
    assert "tau3@0.5" in {metric.name for metric in unstereo.metrics("clean")}
    assert "tau3@0.5" not in {metric.name for metric in unstereo.metrics("paper")}
    gaps = np.random.default_rng(0).normal(0, 0.5, (3, 200))
    table = dict(zip(("female_logprob", "male_logprob", "they_logprob"), gaps, strict=True))
    ones = np.ones((1, 200))
    assert 0 < fairness.tau3().value(table, ones)[0] < fairness.tau().value(table, ones)[0]
    table["they_logprob"][:100] = np.nan
    rest = {name: column[100:] for name, column in table.items()}
    assert fairness.tau3().value(table, ones) == fairness.tau3().value(rest, ones[:, 100:])


def test_the_neopronouns_are_those_of_the_list():
    assert list(NEOPRONOUNS) == ["xe", "ze", "fae"]
    assert list(EVERY) == ["he", "she", "they", "xe", "ze", "fae"]
