"""Scoring from Python: names and loaded models, tables, examples, comparisons and files."""

from __future__ import annotations

import pytest
import torch
import transformers

import scoring
from cards.common.verdict import verdict
from scoring.inference.load_options import BUNDLED
from tests.scoring.made import data_set
from tests.scoring.test_run import job_rows

OPTIONS = {"benchmarks": ["occugender"], "resamples": 50}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data_set(folder, "occugender", {("explicit", "test"): list(job_rows())})
    return folder


@pytest.fixture(scope="module")
def result(data):
    return scoring.evaluate("tiny-causal", data=data, **OPTIONS)


@pytest.fixture
def network():
    return transformers.AutoModelForCausalLM.from_pretrained(BUNDLED["tiny-causal"])


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.AutoTokenizer.from_pretrained(BUNDLED["tiny-causal"])


def test_a_result_is_a_table_of_scores_and_one_of_examples(result):
    table = result.table()
    assert list(table.columns) == [*("benchmark", "group", "metric", "value", "low", "high", "ideal", "n", "clusters")]
    assert set(table.benchmark) == {"occugender"}
    assert len(result.examples("occugender")) == 3
    with pytest.raises(scoring.ScoringError, match="'stereoset'"):
        result.examples("stereoset")


def test_a_loaded_model_has_the_scores_of_its_folder_and_comes_back_as_it_was(result, data, network, tokenizer):
    network.train()
    network.lm_head.eval()
    generation, weights = network.generation_config, [weight.clone() for weight in network.parameters()]
    again = scoring.evaluate(network, tokenizer=tokenizer, data=data, **OPTIONS)
    assert again.table().equals(result.table())
    assert network.training
    assert not network.lm_head.training
    assert network.generation_config is generation
    assert all(map(torch.equal, weights, network.parameters()))
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in network.modules())


def test_responses_of_other_weights_are_not_taken(result, data, network, tokenizer, tmp_path):
    scoring.evaluate(network, tokenizer=tokenizer, data=data, out=tmp_path, **OPTIONS)
    with torch.no_grad():
        network.get_input_embeddings().weight.mul_(0.5)
    with pytest.raises(scoring.ScoringError, match="out=…, or overwrite=…"):
        scoring.evaluate(network, tokenizer=tokenizer, data=data, out=tmp_path, **OPTIONS)
    changed = scoring.evaluate(network, tokenizer=tokenizer, data=data, out=tmp_path, overwrite=True, **OPTIONS)
    assert not changed.table().equals(result.table())


def test_a_result_is_saved_and_loaded(result, tmp_path):
    result.save(tmp_path)
    loaded = scoring.load(tmp_path)
    assert loaded.table().equals(result.table())
    assert list(loaded.examples("occugender").id) == list(result.examples("occugender").id)
    assert (tmp_path / "report.html").is_file()


def test_a_comparison_is_a_table_with_a_verdict(result, data, network, tokenizer):
    with torch.no_grad():
        network.get_input_embeddings().weight.mul_(0.5)
    other = scoring.evaluate(network, tokenizer=tokenizer, data=data, **OPTIONS)
    table = other.compare(result).table()
    rows = table.dropna(subset=["difference"])
    assert len(rows)
    assert (rows.after - rows.before - rows.difference).abs().max() < 1e-9
    assert set(table.verdict) <= {"nearer", "further", "changed", "unclear", ""}
    for shown in (result, other.compare(result)):
        assert "tiny-causal" in repr(shown)
        assert "occugender" in repr(shown)
        assert len(repr(shown)) < 500
        page = shown._repr_html_()
        assert page.index("occugender") < page.index("<details>")
        assert page.count("<svg") == 2, "a picture for the headline, and one for the row of the side"


@pytest.mark.parametrize(
    ("before", "low", "high", "ideal", "said"),
    [
        (0.30, 0.05, 0.09, 0.0, "further"),  # a GAS that leaves its ideal
        (0.30, -0.09, -0.05, 0.0, "nearer"),
        (0.30, -0.09, 0.05, 0.0, "unclear"),
        (60.0, -25.0, -21.0, 50.0, "further"),  # to the other side, and further away there
        (60.0, -19.0, -1.0, 50.0, "nearer"),
        (50.0, 1.0, 2.0, 50.0, "further"),
        (51.0, -3.0, -1.0, 50.0, "changed"),  # as far below as it was above
        (5.0, 0.5, 1.0, float("inf"), "nearer"),
        (5.0, 0.5, 1.0, None, ""),
    ],
)
def test_the_verdict_is_by_the_distance_from_the_ideal(before, low, high, ideal, said):
    change = ((low + high) / 2, low, high)
    p_direction = 0.06 if said == "changed" else 0.01
    assert verdict(before, change, ideal, 0.01, p_direction) == said
    assert verdict(before, change, ideal, 0.01, 0.06) in ("changed", "unclear", "")
    assert verdict(before, change, ideal, 0.06, 0.06) in ("unclear", "")


@pytest.mark.parametrize(
    ("model", "options", "problem"),
    [
        ("tiny-causal", {"benchmark": "occugender"}, "'benchmark'"),
        (torch.nn.Linear(2, 2), {}, "Linear"),
    ],
)
def test_wrong_arguments_are_named(model, options, problem, data):
    with pytest.raises((TypeError, scoring.ScoringError), match=problem):
        scoring.evaluate(model, data=data, **options)


def test_a_loaded_model_needs_its_tokenizer(network, data):
    with pytest.raises(scoring.ScoringError, match=r"give tokenizer=…\."):
        scoring.evaluate(network, data=data, **OPTIONS)
