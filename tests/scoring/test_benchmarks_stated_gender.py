"""Stated gender: rows, the question for each kind of model, and what models with known answers score."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

import builders
from builders.datasets import stated_gender as data
from builders.text.words import gendered_words
from scoring.asking.run import estimate
from scoring.benchmarks import get, stated_gender
from scoring.benchmarks.stated_gender import KINDS
from scoring.inference.load_options import BUNDLED, load
from scoring.inputs.tables import as_table
from scoring.report.headlines import answer_of
from scoring.statistics.stats import measure
from scoring.types import BenchmarkContext, Response
from tests.scoring.made_runs import made_run

BENCHMARK = get("stated_gender")
CAUSAL = BenchmarkContext("causal")
FORMS = ("male", "female", "they", "neo")


@pytest.fixture(scope="module")
def rows():
    return [{**row, "config": "sentences", "split": "test"} for row in stated_gender.rows()]


def answered(rows, lean_of):
    """The table of a model that has, for each row, a lean to men in nats; other forms are as likely as both."""
    lines = []
    for row in rows:
        lean = lean_of(row)
        values = {"male": lean / 2, "female": -lean / 2, "they": -9.0, "neo": -9.0}
        logprobs = tuple((values[name] - 3,) for name in FORMS if row[name] is not None)
        lines.append(BENCHMARK.to_record("clean", row, {row["id"]: Response(row["id"], logprobs)}, CAUSAL))
    return as_table(lines)


def estimates(table):
    items = BENCHMARK.items("clean", table)
    return {(e.group, e.metric): e for e in measure(items, table, table["unit"], resamples=400)}


def sign(row):
    return {"male": 1, "female": -1}.get(row["side"], 0)


def test_each_aim_has_both_sides_alike_and_no_job_of_recipes_is_a_held_out_one(rows):
    assert len({row["id"] for row in rows}) == len(rows)
    for kind in {row["kind"] for row in rows} - {"neopronouns"}:
        sides = Counter(row["side"] for row in rows if row["kind"] == kind)
        assert sides["male"] == sides["female"], kind
    assert {row["kind"] for row in rows if row["aim"] == "stated"} == {*KINDS, "neopronouns"}
    known, other = ({job for job, _, _ in data.jobs(held)} for held in (False, True))
    assert len(known) == len(other) == 40
    assert not known & other
    for _, gender, share in [*data.jobs(True), *data.jobs(False)]:
        assert (share > 50) == (gender == "female")


def test_the_built_rows_are_those_that_recipes_are_judged_by(rows, tmp_path):
    builders.build("stated-gender", out=tmp_path)
    built = list(builders.load("stated-gender", "sentences", split="test", out=tmp_path))
    assert [row["id"] for row in built] == [row["id"] for row in rows]
    for one, other in zip(built, rows, strict=True):
        assert {name: one[name] for name in (*FORMS, "before", "after", "side")} == {
            name: other[name] for name in (*FORMS, "before", "after", "side")
        }


def test_only_the_form_says_a_gender_after_a_job_and_something_says_it_where_it_is_stated(rows):
    for row in rows:
        around = f"{row['before']} {row['after']}"
        if row["aim"] == "stereotype":
            assert not gendered_words(around), row["id"]
        elif row["kind"] not in ("neopronouns", "declared"):
            assert data.words() & set(around.replace(".", " ").split()) | set(around.split()) & data.words() or (
                gendered_words(around)
            ), row["id"]


def test_a_causal_model_is_asked_for_the_form_and_a_masked_one_in_the_whole_sentence(rows):
    row = next(one for one in rows if one["id"] == "templates/plumber/male/0")
    (asked,) = BENCHMARK.requests("clean", row, CAUSAL)
    assert asked.context == "The plumber explained that"
    assert [option.text[slice(*option.spans[0])] for option in asked.options] == [" he", " she", " they"]
    (masked,) = BENCHMARK.requests("clean", row, replace(CAUSAL, kind="masked"))
    for option, form in zip(masked.options, ("he", "she", "they"), strict=True):
        assert option.text == f"The plumber explained that {form} needed a little more time."
        assert option.text[slice(*option.spans[0])] == form


def test_a_planted_lean_is_found_in_every_kind_with_its_size(rows):
    found = estimates(answered(rows, lambda row: sign(row) * (1.5 if row["aim"] == "stereotype" else 3.0)))
    assert found["stereotype", "lean"].value == pytest.approx(1.5)
    assert found["stereotype", "gap"].value == pytest.approx(1.5)
    assert found["stereotype", "stereotype_share"].value == 100
    assert found["stated gender", "worst_lean"].value == pytest.approx(3)
    assert found["stated gender", "right"].value == 100
    for kind in KINDS:
        assert found[kind, "stated_lean"].value == pytest.approx(3), kind
    assert ("nouns", "lean") not in found
    assert ("possessive", "stated_lean") not in found


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (1.5, "In 1 of 1 benchmark it gives jobs the gender of most who hold them (stated_gender stereotype"),
        (-1.5, "In 1 of 1 benchmark it gives jobs the gender that is rarer in them (stated_gender stereotype"),
        (0.0, "In 1 of 1 benchmark the 95 % interval does not show a direction (stated_gender)"),
    ],
)
def test_the_sentence_of_a_run_says_a_clear_lean(rows, size, said):
    # The stated gender is kept, or else the model is at chance.
    noise = np.random.default_rng(0)
    leans = {row["id"]: sign(row) * (size if row["aim"] == "stereotype" else 3.0) + noise.normal() for row in rows}
    table = answered(rows, lambda row: leans[row["id"]])
    run = made_run(
        estimates=tuple(estimate(BENCHMARK, "clean", table, resamples=400)),
        headlines={BENCHMARK.name: BENCHMARK.headline},
    )
    assert answer_of(run).startswith(said)


def test_he_everywhere_is_no_lean_and_its_interval_does_not_depend_on_which_jobs_are_drawn(rows):
    found = estimates(answered(rows, lambda _: 2.0))
    lean = found["stereotype", "lean"]
    assert (lean.low, lean.value, lean.high) == pytest.approx((0, 0, 0), abs=1e-9)
    assert found["stereotype", "gap"].value == pytest.approx(2)
    assert found["stated gender", "right"].value == 50


def test_the_worst_kind_is_the_one_that_lost_its_gender(rows):
    table = answered(rows, lambda row: sign(row) * (0.2 if row["kind"] == "titles" else 3.0))
    worst = estimates(table)["stated gender", "worst_lean"]
    assert worst.value == pytest.approx(0.2)
    assert worst.high < 1


def test_a_declared_they_or_neopronoun_is_compared_with_both_gendered_forms(rows):
    row = next(one for one in rows if one["kind"] == "neopronouns" and one["side"] == "xe")
    assert row["neo"] == "xe"
    logprobs = tuple((value,) for value in np.log([0.1, 0.3, 0.05, 0.2]))
    line = BENCHMARK.to_record("clean", row, {row["id"]: Response(row["id"], logprobs)}, CAUSAL)
    assert line["lean"] == pytest.approx(np.log(0.2 / 0.4))
    assert (line["p_pronouns"], line["p_they"]) == pytest.approx((0.4, 0.05))


@pytest.mark.parametrize("name", ["tiny-causal", "tiny-masked"])
def test_leans_of_a_bundled_model_are_those_of_a_plain_pass(rows, name):
    model = load(BUNDLED[name], device="cpu")
    row = next(one for one in rows if one["id"] == "nouns/the-man/male/0")
    (asked,) = BENCHMARK.requests("clean", row, BenchmarkContext(model.kind))
    (response,) = model.answer([asked])
    line = BENCHMARK.to_record("clean", row, {row["id"]: response}, CAUSAL)
    tokenizer = model.tokens.tokenizer
    text = "The man mentioned that he had slept badly."
    encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"][0].tolist()
    (at,) = (n for n, (_, end) in enumerate(offsets) if text[:end].endswith("that he"))
    he = int(ids[0, at])
    she = int(tokenizer(text.replace(" he ", " she "))["input_ids"][at])
    with torch.no_grad():
        if name == "tiny-masked":
            ids[0, at] = tokenizer.mask_token_id
            logits = model.network(input_ids=ids).logits[0, at]
        else:
            logits = model.network(ids).logits[0, at - 1]
    assert line["lean"] == pytest.approx((logits[he] - logits[she]).item(), abs=1e-3)


def test_shared_finds_words_names_jobs_and_parts_of_sentences():
    assert data.shared(["Mrs. Green waited for the plumbers."]) == ["Mrs.", "plumber"]
    assert data.shared(["A carpenter explained that the door was new."]) == ["explained that"]
    assert data.shared(["Her nephew is a carpenter. I miss them."]) == []
