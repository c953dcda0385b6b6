"""Self-Debias: the published formula, scoring and generation as a plain loop gives them, and prompt files."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from mitigation import api
from mitigation.recipes import get
from mitigation.running import evaluate
from mitigation.running.steps import make_and_evaluate
from mitigation.training.data import TrainingData
from scoring.inference.generation import Decoding
from scoring.inference.load_options import BUNDLED, LoadOptions
from scoring.inference.self_debias import SelfDebiased, SelfDebiasing, debiased_logprobs, with_prompt
from scoring.inputs import prompts
from scoring.inputs.prompts import PROMPTS
from scoring.types import Option, Request, ScoringError
from tests.mitigation.made import bundled, data, silent
from tests.scoring import models

PREFIXES = ("The following people are careful:", "Girls tend to be gentle:")
SENTENCES = ("The nurse said that she would come.", "The farmer told his daughter.", "He went home.")
#: What the class SelfDebiasingLogitsProcessor of bias-bench, commit 291426a, gives for the logits of the test.
RECORDED = [-4.017646, -9.667672, -7.508194, -6.178063, -0.141691, -2.194371]


def test_the_formula_is_the_published_one():
    logits = torch.from_numpy(np.random.default_rng(5).normal(size=(3, 6)) * 2)
    assert debiased_logprobs(logits[0], logits[1:], 50.0, 0.01).tolist() == pytest.approx(RECORDED, abs=1e-5)


def test_a_planted_rise_is_lowered_and_nothing_else_but_the_sum_changes():
    plain = torch.tensor([0.4, 0.4, 0.2]).log()
    prefixed = torch.tensor([[0.6, 0.3, 0.1], [0.35, 0.45, 0.2]]).log()
    after = debiased_logprobs(plain, prefixed, 10.0, 0.01).exp()
    factors = torch.tensor([np.exp(-2.0), np.exp(-0.5), 1.0])
    assert after.tolist() == pytest.approx((plain.exp() * factors / (plain.exp() * factors).sum()).tolist(), rel=1e-5)


def looped(model, ids, at, settings):
    """Debiased log-probabilities at a position, from one row at a time."""
    first = 1 if ids[0] in model.tokens.tokenizer.all_special_ids else 0
    encode = [model.tokens.tokenizer(prefix, add_special_tokens=False)["input_ids"] for prefix in settings.prefixes]
    with torch.inference_mode():
        plain = model.network(input_ids=torch.tensor([ids])).logits[0, at]
        after = [
            model.network(input_ids=torch.tensor([[*ids[:first], *prefix, *ids[first:]]])).logits[0, at + len(prefix)]
            for prefix in encode
        ]
    return debiased_logprobs(plain, torch.stack(after), settings.decay, settings.epsilon)


@pytest.mark.parametrize("name", ["gpt2", "llama", "neox", "bert", "roberta"])
def test_sentences_are_scored_as_a_plain_loop_scores_them(name):
    model, settings = models.model(name), SelfDebiasing(PREFIXES, 50.0, 0.01)
    debiased = SelfDebiased(model, settings)
    requests = [Request(text, options=(Option(text),)) for text in SENTENCES]
    answers = debiased.answer(requests)
    queries = [options[0] for options, _ in model.tokens.queries(requests)]
    for answer, own in zip(answers, queries, strict=True):
        expected = [
            looped(model, list(query.ids), at, settings)[want].item()
            for query in own
            for at, want in zip(query.at, query.want, strict=True)
        ]
        assert sum(answer.logprobs[0]) == pytest.approx(sum(expected), abs=1e-3)
    plain = model.answer(requests)
    assert any(abs(sum(a.logprobs[0]) - sum(b.logprobs[0])) > 1e-3 for a, b in zip(answers, plain, strict=True))


def test_without_decay_the_model_is_the_plain_one():
    model = bundled()
    requests = [Request(text, options=(Option(text),)) for text in SENTENCES]
    for one, two in zip(
        SelfDebiased(model, SelfDebiasing(PREFIXES, 0.0)).answer(requests), model.answer(requests), strict=True
    ):
        assert one.logprobs[0] == pytest.approx(two.logprobs[0], abs=1e-4)


def test_greedy_text_takes_the_most_probable_debiased_token_each_time():
    model, settings = bundled(), SelfDebiasing(PREFIXES, 200.0, 0.001)
    request = Request("a", "The nurse said that", max_new=6)
    debiased = SelfDebiased(model, settings)
    (prompt,) = debiased._prompts([request], Decoding())
    ids = list(prompt.ids)
    for _ in range(6):
        ids.append(int(looped(model, ids, len(ids) - 1, settings).argmax()))
    expected = model.tokens.tokenizer.decode(ids[len(prompt.ids) :])
    assert debiased.answer([request])[0].text.strip() == expected.strip()


def test_the_recipe_writes_a_prompt_and_the_scores_after_are_with_it(tmp_path):
    source = data(tmp_path / "data")
    settings = replace(get("self_debias").profiles["paper"], domains="gender,race")
    assert settings.all_prefixes[1].endswith("because of their race/color:")
    rows = TrainingData(str(source), 2)
    evaluation = api.planned_evaluation(get("self_debias"), api.Options(benchmarks="neutral", resamples=20), rows)
    options = LoadOptions(str(BUNDLED["tiny-causal"]), device="cpu")
    recipe, out = get("self_debias"), tmp_path / "out"
    facts = make_and_evaluate(recipe, settings, options, rows, out, evaluation, silent(), silent())
    change = next(change for change in facts.changes if change.benchmark == evaluate.TEXT)
    assert change.before[0] != change.after[0]
    prompt = prompts.read(tmp_path / "out" / "prompt.json")
    assert prompt.self_debias["decay"] == 50
    assert isinstance(with_prompt(bundled(), prompt), SelfDebiased)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"prefixes": []}, "self_debias"),
        ({"prefixes": ["a"], "epsilon": 0}, "self_debias"),
        ({"prefixes": ["a"], "decai": 1}, "self_debias"),
    ],
)
def test_a_prompt_file_with_faults_is_refused(tmp_path, content, message):
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"name": "own", "version": "1.0.0", "self_debias": content}))
    with pytest.raises(ScoringError, match=message):
        prompts.read(path)


def test_what_cannot_be_debiased_is_refused():
    prompt = replace(PROMPTS["plain"], name="own", self_debias={"prefixes": ["a"]})
    with pytest.raises(ScoringError, match="on a server"):
        with_prompt(type("Served", (), {"name": "server"})(), prompt)
    model = SelfDebiased(models.model("gpt2"), SelfDebiasing(("word " * 90,)))
    with pytest.raises(ScoringError, match="96 that gpt2"):
        model.answer([Request("a", options=(Option(SENTENCES[0]),))])
