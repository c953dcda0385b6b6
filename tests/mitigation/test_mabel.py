"""MABEL: its losses, its pairs from SNLI, and a planted difference between pairs and their swapped copies."""

import json
from dataclasses import replace

import peft
import pytest
import torch
from safetensors.torch import load_file
from scipy import stats

from builders.parsers import snli
from mitigation.errors import MitigationError
from mitigation.recipes import get, mabel
from mitigation.texts.attribute_words import AttributeWords, attribute_words
from mitigation.texts.swaps import Swapper
from mitigation.training import losses, train
from mitigation.training.data import TrainingData
from scoring.adapters.attach import quiet
from scoring.inference.load_options import BUNDLED, load
from tests.mitigation.made import silent
from tests.support.helpers import made, mirrored

pytestmark = pytest.mark.usefixtures("undrawn")
WORDS = AttributeWords((("man", "woman"), ("men", "women"), ("boy", "girl"), ("he", "she")), "", "")
WHO = ("man", "woman", "boy", "girl")
DOES = ("sings in the house", "has a red hat", "works at night", "reads to the dog", "walks by the river", "is at home")
#: By how much the cosine of a pair about women is lowered, at least.
PLANTED = 0.4
QUICK = {
    "batch_size": 12,
    "learning_rate": 2e-3,
    "rank": 8,
    "alpha": 8,
    "validate_every": 50,
    "length": 32,
    "patience": 0,
}


def pairs():
    return [(f"A {who} {does}.", f"The {who} {does.split()[0]}.") for does in DOES for who in WHO]


def differences(model, network, rows):
    """By how much the cosine of each pair differs from that of its swapped copy."""
    loss = losses.EntailmentLoss(model, 1.0, 0.0, 0.0, 0.15)
    states = loss.states(network, rows)
    plain, swapped = (torch.nn.functional.cosine_similarity(*states[[n, n + 1]], dim=-1) for n in (0, 2))
    return (plain - swapped).abs()


def plant(model):
    """Teaches a masked model that a pair about women is less alike than its copy about men."""
    rows = [
        row
        for row, (premise, _) in zip(made_rows(model), pairs(), strict=True)
        if any(word in premise.split() for word in ("woman", "girl"))
    ]
    loss = losses.EntailmentLoss(model, 1.0, 0.0, 0.0, 0.15)
    model.network.requires_grad_(True)
    optimizer = torch.optim.Adam(model.network.parameters(), lr=3e-4)
    for _ in range(40):
        states = loss.states(model.network, rows)
        female, male = (torch.nn.functional.cosine_similarity(*states[[n, n + 1]], dim=-1) for n in (0, 2))
        difference = (male - female).mean()
        if difference > PLANTED:
            break
        optimizer.zero_grad()
        (-difference).backward()
        optimizer.step()
    model.network.requires_grad_(False)


def made_rows(model):
    return losses.entailment_rows(model, pairs(), Swapper(WORDS), 32)


def trained(model, folder, **changed):
    out = folder / "w" / "made"
    out.mkdir(parents=True)
    settings = replace(get("mabel").profiles["clean"], **QUICK | changed)
    return get("mabel").apply(model, settings, TrainingData(str(folder)), out, silent()), out


@pytest.mark.mirror
def test_a_planted_difference_between_pairs_and_swapped_pairs_is_taken_away(tmp_path, monkeypatch):
    (tmp_path / "words.json").write_text(json.dumps({"gender": WORDS.groups}))
    model = load(BUNDLED["tiny-masked"], device="cpu")
    plant(model)
    weights = {name: weight.clone() for name, weight in model.network.named_parameters()}
    rows = made_rows(model)
    with torch.no_grad():
        before = differences(model, model.network, rows)
    others = [(premise.replace("A ", "The "), hypothesis) for premise, hypothesis in pairs()]
    monkeypatch.setattr(mabel, "entailment_pairs", lambda _: others)
    words = {"words": str(tmp_path / "words.json"), "aligned": 1.0, "temperature": 0.2, "epochs": 12, "held_out": 0.25}
    facts, out = trained(model, tmp_path, **words)
    assert all(torch.equal(weight, weights[name]) for name, weight in model.network.named_parameters())
    with quiet(), torch.no_grad():
        tuned = peft.PeftModel.from_pretrained(model.network, out).eval()
        after = differences(model, tuned, rows)
    assert before.mean() > PLANTED / 2
    high = stats.ttest_1samp((after - before).numpy(), 0).confidence_interval(0.95).high
    assert high < -0.3 * before.mean(), (before, after)
    assert facts.measures["alignment_held_out_after"][0] < facts.measures["alignment_held_out_before"][0]


def test_the_losses_are_those_of_the_published_code():
    states = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(0))
    premise, hypothesis, swapped_premise, swapped_hypothesis = states

    def similarity(x, y):
        return torch.nn.functional.cosine_similarity(x.unsqueeze(1), y.unsqueeze(0), dim=-1) / 0.05

    table = similarity(torch.cat([premise, swapped_premise]), torch.cat([hypothesis, swapped_hypothesis]))
    expected = torch.nn.functional.cross_entropy(table, torch.arange(10))
    assert losses.contrastive(states, 0.05).item() == pytest.approx(expected.item(), rel=1e-5)
    difference = similarity(premise, hypothesis) - similarity(swapped_premise, swapped_hypothesis)
    aligned = difference.norm(p=2, dim=1).pow(2).mean()
    assert losses.alignment(states, 0.05).item() == pytest.approx(aligned.item(), rel=1e-5)


@pytest.mark.parametrize("profile", ["clean", "paper"])
def test_paper_trains_a_network_above_the_first_token_and_saves_none(tmp_path, monkeypatch, profile):
    (tmp_path / "words.json").write_text(json.dumps({"gender": WORDS.groups}))
    monkeypatch.setattr(mabel, "entailment_pairs", lambda _: pairs())
    monkeypatch.setattr(mabel.MabelSettings, "inputs", lambda _: {})
    seen = []
    fit = train.fit

    def watched(network, *others):
        seen.extend(name for name, weight in network.named_parameters() if "sentence_head" in name)
        return fit(network, *others)

    monkeypatch.setattr(train, "fit", watched)
    model = load(BUNDLED["tiny-masked"], device="cpu")
    out = tmp_path / "made"
    out.mkdir()
    few = {"words": str(tmp_path / "words.json"), "epochs": 1, "batch_size": 8, "length": 16}
    settings = replace(get("mabel").profiles[profile], **few)
    get("mabel").apply(model, settings, TrainingData(str(tmp_path)), out, silent())
    assert len(seen) == (4 if profile == "paper" else 0)
    assert not hasattr(model.network, "sentence_head")
    (file,) = out.glob("*.safetensors")
    assert not any("sentence_head" in name for name in load_file(file))


@pytest.mark.mirror
def test_entailment_pairs_of_the_mirror_train_a_masked_model(tmp_path):
    model = load(BUNDLED["tiny-masked"], device="cpu")
    facts, out = trained(model, tmp_path, pairs=120, epochs=1, batch_size=16, learning_rate=1e-3, held_out=0.1)
    measures = {name: value for name, (value, *_) in facts.measures.items()}
    assert 50 < measures["pairs_trained"] + measures["pairs_held_out"] < 120
    assert measures["contrastive_held_out_after"] < measures["contrastive_held_out_before"]
    assert set(facts.data) == {"project:words.json", "source:snli/train"}
    with quiet():
        peft.PeftModel.from_pretrained(load(BUNDLED["tiny-masked"], device="cpu").network, out)


@pytest.mark.mirror
def test_pairs_are_those_with_the_label_entailment_in_each_copy():
    files = mirrored("snli/train", "snli/validation")
    for name, count in (("snli/train", 6015), ("snli/validation", 3329)):
        labels = [label for *_, label in snli.pairs(files[name])]
        assert set(labels) <= set(snli.GOLD)
        assert labels.count(snli.ENTAILMENT) == count
    assert (
        mabel.entailment_pairs(2)
        == [
            (premise, hypothesis)
            for premise, hypothesis, label in snli.pairs(files["snli/train"])
            if label == "entailment"
        ][:2]
    )


def test_a_label_that_is_unknown_is_in_quotes_and_the_original_form_is_read(tmp_path):
    lines = [{"sentence1": "a", "sentence2": "b", "gold_label": label} for label in ("entailment", "-", "maybe")]
    files = made(tmp_path, "snli/train.jsonl", "\n".join(map(json.dumps, lines)))
    labels = [label for *_, label in snli.pairs(files["snli/train.jsonl"])]
    assert labels == ["entailment", "-", "'maybe'"]


@pytest.mark.mirror
def test_rows_have_a_listed_word_and_swapped_copies():
    model = load(BUNDLED["tiny-masked"], device="cpu")
    some = mabel.entailment_pairs(200)
    swapper = Swapper(attribute_words("bias-bench", "gender"))
    rows = losses.entailment_rows(model, some, swapper, 16)
    assert 50 < len(rows) < 200
    assert all(row[:2] != row[2:] for row in rows)
    assert max(len(ids) for row in rows for ids in row) == 16


def test_what_cannot_be_trained_is_refused(tmp_path, monkeypatch):
    (tmp_path / "words.json").write_text(json.dumps({"gender": [["he", "she"]], "faith": [["a", "b", "c"]]}))
    words = {"words": str(tmp_path / "words.json")}
    monkeypatch.setattr(mabel.MabelSettings, "inputs", lambda _: {})
    monkeypatch.setattr(mabel, "entailment_pairs", lambda _: [("He is here.", "He is.")] * 3)
    with pytest.raises(MitigationError, match=r"^3 entailment .*least 8"):
        trained(load(BUNDLED["tiny-masked"], device="cpu"), tmp_path, **words)
    monkeypatch.undo()
    with pytest.raises(MitigationError, match="'faith'"):
        mabel.MabelSettings(**words, domain="faith").inputs()
