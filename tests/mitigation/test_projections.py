"""Projections: the sentences and matrices of bias-bench, a LoRA that equals the hook, and planted directions."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import peft
import pytest
import torch
from safetensors.torch import load_file

from cards.common.text import CardError
from mitigation.adapters.temporary import attached
from mitigation.adapters.write import text
from mitigation.errors import MitigationError
from mitigation.projections import sentences, states, subspaces
from mitigation.projections.subspaces import Projection
from mitigation.publish import training_data
from mitigation.recipes import get
from mitigation.running.steps import make_adapter
from mitigation.texts.attribute_words import attribute_words
from mitigation.training.data import TrainingData
from scoring.adapters.attach import attach, quiet
from scoring.adapters.facts import WEIGHTS
from scoring.inference.load_options import BUNDLED, load
from scoring.types import Option, Request
from tests.mitigation.made import bundled, silent
from tests.mitigation.texts import corpus, snli_lines
from tests.scoring import models

#: What the code of bias-bench, commit 291426a, gives for the same text and the same networks, with its sentence
#: splitter replaced by ours and the width of the hidden state set to that of the network.
RECORDED = json.loads((Path(__file__).parent / "peers" / "bias_bench.json").read_text())
METHODS = ("inlp", "sentence_debias", "leace")


def digest(parts):
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def random_projection(width, *, mean, rank=3):
    """A projection with random directions; an oblique one with a mean, as LEACE gives."""
    draw = np.random.default_rng(1)
    left = np.linalg.qr(draw.normal(size=(width, rank)))[0]
    if not mean:
        return Projection.orthogonal(left)
    right = draw.normal(size=(rank, width))
    return Projection(left @ np.linalg.inv(right @ left), right, draw.normal(size=width))


def logits_with_hook(model, ids, projection):
    """Logits of a network whose last hidden state is projected by a hook on the map that reads it."""
    _, module = states.reading_map(model)
    left, right, mean = (
        torch.from_numpy(part).float() for part in (projection.left, projection.right, projection.mean)
    )
    handle = module.register_forward_pre_hook(lambda _, given: (given[0] - (given[0] - mean) @ right.T @ left.T,))
    try:
        return model.network(input_ids=ids).logits
    finally:
        handle.remove()


@pytest.mark.mirror
@pytest.mark.parametrize("domain", ["gender", "race"])
def test_the_sentences_are_those_of_bias_bench(domain):
    words = attribute_words("bias-bench", domain)
    result = sentences.published_classes(snli_lines(), words, 10_000, seed=0)
    recorded = RECORDED[f"sentences {domain}"]
    assert [[len(one), digest(one)] for one in result.sentences] == list(recorded.values())
    tuples = sentences.published_tuples(snli_lines(), words, 0)
    count, *columns = RECORDED[f"tuples {domain}"]  # its code calls the first word of a pair, the male one, female
    assert len(tuples) == count
    assert sorted(digest(column) for column in zip(*tuples, strict=True)) == sorted(columns)


def test_the_matrix_of_inlp_is_that_of_bias_bench():
    draw = np.random.default_rng(7)
    features, labels = draw.normal(size=(600, 12)), np.repeat([0, 1, 2], 200)
    features[labels == 0, 0] += 2
    features[labels == 1, 1] -= 1.5
    fitted, chosen, _ = subspaces.split(features, labels, 0)
    result = subspaces.inlp(*fitted, *chosen, 3)
    assert np.eye(12) - result.basis @ result.basis.T == pytest.approx(np.array(RECORDED["matrix"]), abs=1e-5)


@pytest.mark.mirror
@pytest.mark.parametrize("name", ["gpt2", "tiny-masked"])
def test_matrix_and_direction_of_a_network_are_those_of_bias_bench(name):
    model = models.model(name) if name == "gpt2" else load(BUNDLED[name], device="cpu")
    words = attribute_words("bias-bench", "gender")
    result = sentences.published_classes(snli_lines(), words, 10_000, seed=0)
    encoded = np.concatenate([states.mean_states(model, one[:80], 96) for one in result.sentences])
    fitted, chosen, _ = subspaces.split(encoded, np.repeat([0, 1, 2], 80), 0)
    basis = subspaces.inlp(*fitted, *chosen, 1).basis
    matrix = np.eye(len(basis)) - basis @ basis.T
    assert matrix[:8] == pytest.approx(np.array(RECORDED[name]["inlp"]), abs=2e-3)
    tuples = sentences.published_tuples(snli_lines(), words, 64)
    columns = [states.mean_states(model, column, 96) for column in zip(*tuples, strict=True)]
    direction = subspaces.principal_directions(columns, 1)[:, 0]
    recorded = np.array(RECORDED[name]["direction"])
    assert direction * np.sign(direction @ recorded) == pytest.approx(recorded, abs=1e-3)


@pytest.mark.parametrize("mean", [False, True], ids=["projection", "with-mean"])
@pytest.mark.parametrize("name", [*models.CAUSAL, *models.MASKED])
def test_the_lora_equals_the_hook_and_plain_peft_loads_it(name, mean, tmp_path):
    model = models.model(name)
    projection = random_projection(model._network.width, mean=mean)
    ids = torch.arange(6, 26).reshape(2, 10)
    before = model.network(input_ids=ids).logits
    expected = logits_with_hook(model, ids, projection)
    subspaces.write_projection(model, projection, tmp_path)
    assert torch.equal(model.network(input_ids=ids).logits, before)
    with quiet():
        loaded = peft.PeftModel.from_pretrained(models.network(name), tmp_path).eval()
    scale = expected.abs().max()
    assert (loaded(input_ids=ids).logits - expected).abs().max() <= 2e-6 * scale
    assert (expected - before).abs().max() > 1e-3 * scale


def test_a_projection_twice_is_the_projection(tmp_path):
    draw = np.random.default_rng(3)
    for mean in (False, True):
        projection = random_projection(12, mean=mean)
        once = projection(draw.normal(size=(40, 12)))
        assert projection(once) == pytest.approx(once, abs=1e-9)


def planted(strength=6.0, words=("he", "she"), width=32):
    """A GPT-2 that only embeds: a male and a female word differ in one known direction, all else is random."""
    model = models.model("gpt2")
    network = model.network
    direction = torch.zeros(width)
    direction[3], direction[4] = 1.0, -1.0
    with torch.no_grad():
        for block in network.transformer.h:
            for part in (block.attn.c_proj, block.mlp.c_proj):
                part.weight.zero_()
                part.bias.zero_()
        network.transformer.wpe.weight.zero_()
        network.transformer.wte.weight.normal_(generator=torch.Generator().manual_seed(0))
        for word, sign in zip(words, (1.0, -1.0), strict=True):
            ids = model.tokens.tokenizer(f" {word}")["input_ids"]
            network.transformer.wte.weight[ids] = sign * strength * direction
    return model, (direction / direction.norm()).double().numpy()


def planted_corpus(folder, words=("he", "she")):
    """Sentences with one of two words among others that say nothing."""
    draw = np.random.default_rng(0)
    others = "told went home idea friend teacher pilot work clever people morning they".split()
    lines = [" ".join([*draw.choice(others, 5), words[n % 2], *draw.choice(others, 3)]) + "." for n in range(480)]
    path = folder / "planted.txt"
    path.write_text("\n".join(lines) + "\n")
    (folder / "words.json").write_text(json.dumps({"gender": [list(words)]}))
    return {"corpus": str(path), "words": str(folder / "words.json"), "sentences": 200}


@pytest.mark.parametrize("method", METHODS)
def test_a_planted_direction_is_removed_and_a_new_probe_is_at_chance(method, tmp_path):
    model, direction = planted()
    settings = replace(get(method).profiles["clean"], **planted_corpus(tmp_path))
    out = tmp_path / "made"
    out.mkdir()
    facts = get(method).apply(model, settings, TrainingData(str(tmp_path)), out, silent())
    stored = load_file(out / WEIGHTS)
    assert all(".lm_head.lora_" in name for name in stored), "no copy of the head that the LoRA is on"
    assert sum(weight.numel() for weight in stored.values()) == facts.cost.parameters
    adapted = attach(model.network, out, base=model.name, revision=model.revision)
    layer = adapted.get_base_model().lm_head
    # What the head makes of a step in the planted direction, without and with the LoRA.
    step = torch.from_numpy(direction).float()
    removed = layer.lora_B["default"].weight @ (layer.lora_A["default"].weight @ step)
    plain = layer.base_layer.weight @ step
    assert (plain + removed).norm() < 0.35 * plain.norm()  # LEACE removes the difference of the means, not every step
    if method == "sentence_debias":
        assert facts.measures["difference after"][0] < 0.2 * facts.measures["difference before"][0]
    else:
        assert facts.measures["probe before"][0] > 0.95
        low, high = facts.measures["probe after"][1:]
        assert low <= 0.6
        assert facts.measures["probe after"][0] < 0.7
        assert high < facts.measures["probe before"][1]
    adapted.unload()


@pytest.mark.mirror
@pytest.mark.parametrize("method", METHODS)
def test_an_adapter_from_real_text_has_its_probe_and_changes_answers(method, tmp_path):
    model = bundled()
    few = {"corpus": corpus(tmp_path), "sentences": 150, "lines": 800}
    settings = replace(get(method).profiles["clean"], **few | ({"classifiers": 3} if method == "inlp" else {}))
    request = Request("a", options=(Option("The nurse said that she was late."),))
    before = model.answer([request])[0].logprobs[0]
    facts = make_adapter(get(method), settings, model, TrainingData(str(tmp_path)), tmp_path / "made", silent())
    assert model.answer([request])[0].logprobs[0] == before
    assert set(facts.data) == {"corpus:snli.txt", "project:words.json"}
    if method == "leace":  # the classes of fitted sentences have one mean, and held-out ones nearly
        after, low, _ = facts.measures["probe after"]
        assert low <= facts.measures["largest class"][0] + 0.1
        assert after < facts.measures["probe before"][0]
    with quiet():
        adapted = peft.PeftModel.from_pretrained(model.network, tmp_path / "made")
    try:
        assert np.isfinite(adapted(input_ids=torch.arange(5, 15)[None]).logits.detach().numpy()).all()
    finally:
        adapted.unload()


@pytest.mark.fault(55)
def test_a_changed_corpus_makes_another_adapter(tmp_path):
    model, _ = planted()
    settings = replace(get("leace").profiles["clean"], **planted_corpus(tmp_path))
    data = TrainingData(str(tmp_path))
    first = make_adapter(get("leace"), settings, model, data, tmp_path / "made", silent())
    again = make_adapter(get("leace"), settings, model, TrainingData(str(tmp_path)), tmp_path / "made", silent())
    assert text(again) == text(first)
    with (tmp_path / "planted.txt").open("a") as file:
        file.write("he told people in the morning about work at home.\n" * 30)
    other = make_adapter(get("leace"), settings, model, TrainingData(str(tmp_path)), tmp_path / "made", silent())
    assert other.data != first.data
    assert other.files != first.files


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"corpus": "nowhere.txt"}, "There is no file nowhere.txt; give files"),
        ({"words": "nowhere.json"}, r"nowhere\.json cannot be read \("),
        ({"domain": "age"}, r".*words\.json has 0 groups of words for 'age'; give groups of equal size"),
        ({"sentences": 3}, r"The corpus has 3 male, 3 female sentences, and a class needs at least 20; give a larger"),
    ],
)
def test_text_that_does_not_do_is_refused(changed, message, tmp_path):
    settings = replace(get("leace").profiles["clean"], **planted_corpus(tmp_path) | changed)
    with pytest.raises(MitigationError, match=f"^{message}"):
        get("leace").apply(models.model("gpt2"), settings, TrainingData(str(tmp_path)), tmp_path, silent())


def test_a_sentence_longer_than_the_window_is_cut_to_it():
    model = load(BUNDLED["tiny-masked"], device="cpu")
    words = ["she"] * (2 * model.tokens.window)
    whole = states.mean_states(model, [" ".join(words)], 10 * model.tokens.window)
    cut = states.mean_states(model, [" ".join(words)], model.tokens.window)
    assert np.array_equal(whole, cut)


def test_a_network_with_no_such_map_is_refused():
    model = models.model("gpt2")
    model.network.lm_head = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Identity())
    with pytest.raises(MitigationError, match="none of its"):
        states.reading_map(model)


def test_words_of_the_users_own_and_their_faults(tmp_path):
    path = tmp_path / "own.json"
    path.write_text('{"age": [["old", "young"]]}')
    assert attribute_words(str(path), "age").groups == (("old", "young"),)
    path.write_text('{"age": [["old", "young"], ["x"]]}')
    with pytest.raises(MitigationError, match=r"\b2\b.*'age'"):
        attribute_words(str(path), "age")
    path.write_text("[]")
    with pytest.raises(MitigationError, match=r"own\.json"):
        attribute_words(str(path), "age")


def test_a_card_names_the_word_list_and_refuses_text_of_unknown_licence():
    version = "0" * 64
    (facts,) = training_data({"project:words.json": version})
    assert facts.name.startswith("words.json, written for this project")
    assert facts.licence == "Apache-2.0"
    with pytest.raises(CardError, match=r"a\.txt"):
        training_data({"corpus:a.txt": version})
    with pytest.raises(CardError, match=r"--corpus-licence.*--corpus-citation.*BibTeX"):
        training_data({"corpus:a.txt": version}, "CC-BY-4.0", "no entry")
    (facts,) = training_data({"corpus:a.txt": version}, "CC-BY-4.0", "@misc{a}")
    assert (facts.name, facts.licence, facts.citations) == ("a.txt", "CC-BY-4.0", {"corpus": "@misc{a}"})


TEXTS = [
    ("The nurse said that he left.", "The nurse said that she left."),
    ("His bag fell.", "Extraordinary bag fell."),
]
KINDS = pytest.mark.parametrize("kind", ["causal", "masked"])


@torch.no_grad()
def odds(model, job="nurse"):
    """The log-odds of he and she after a job."""
    tokenizer = model.tokens.tokenizer
    he, she = (tokenizer(f" {word}", add_special_tokens=False)["input_ids"][0] for word in ("he", "she"))
    ids = tokenizer(f"The {job} said that he left.", return_tensors="pt")["input_ids"]
    place = ids[0].tolist().index(he)
    if model.kind == "masked":
        ids[0, place] = tokenizer.mask_token_id
    logits = model.network(input_ids=ids).logits[0, place - (model.kind == "causal")]
    return float(logits[he] - logits[she])


@KINDS
def test_a_step_along_the_gradient_changes_the_odds_by_its_length(kind):
    model = load(BUNDLED[f"tiny-{kind}"], device="cpu")
    gradient = states.prediction_gradients(model, TEXTS, 128)
    assert gradient.shape == (1, model.network.config.hidden_size), "texts of different lengths are left out"
    size = np.linalg.norm(gradient[0])
    step = torch.from_numpy(0.1 * gradient[0] / size).float()
    before = odds(model)
    _, module = states.reading_map(model)
    with module.register_forward_pre_hook(lambda _, given: (given[0] + step,)):
        assert odds(model) - before == pytest.approx(0.1 * size, rel=0.01)
    assert odds(model) == before


@KINDS
def test_without_the_direction_of_predictions_a_model_tells_the_words_less_apart(kind, tmp_path):
    model = load(BUNDLED[f"tiny-{kind}"], device="cpu")
    settings = get("tie").profiles["clean"]
    data, jobs = TrainingData(str(tmp_path)), ("nurse", "pilot", "clerk", "judge", "guard", "maid")
    before = np.abs([odds(model, job) for job in jobs]).mean()
    make_adapter(get("tie"), settings, model, data, tmp_path / "made", silent())
    with attached(model, tmp_path / "made") as adapted:
        after = np.abs([odds(adapted, job) for job in jobs]).mean()
    # The bundled masked model has next to no preference for these jobs.
    assert after < (0.5 * before if kind == "causal" else before + 0.1)


def test_predictions_need_words_of_one_token(tmp_path):
    (tmp_path / "words.json").write_text('{"gender": [["he", "extraordinary"]]}')
    settings = replace(get("tie").profiles["clean"], words=str(tmp_path / "words.json"))
    with pytest.raises(MitigationError, match=r"^0 sentences"):
        get("tie").apply(bundled(), settings, TrainingData(str(tmp_path)), tmp_path, silent())


def test_few_similar_sentences_do_not_ruin_a_model(tmp_path):
    model = bundled()
    request = Request("a", options=(Option("The old house stood near the river, and nobody had lived there."),))
    before = -np.mean(model.answer([request])[0].logprobs[0])
    settings, data = get("leace").profiles["clean"], TrainingData(str(tmp_path))
    make_adapter(get("leace"), settings, model, data, tmp_path / "made", silent())
    with attached(model, tmp_path / "made") as adapted:
        assert -np.mean(adapted.answer([request])[0].logprobs[0]) < before + 0.2
