"""Auto-Debias: its divergence, its prompts by search and by file, and a planted difference that it takes away."""

import doctest
import json
import random
from dataclasses import replace

import numpy as np
import peft
import pytest
import torch
from scipy import stats
from scipy.spatial.distance import jensenshannon

from mitigation.errors import MitigationError
from mitigation.recipes import auto_debias, get
from mitigation.texts.attribute_words import fetched_source
from mitigation.training import alignment
from mitigation.training.data import TrainingData
from scoring.adapters.attach import quiet
from scoring.inference.load_options import BUNDLED, load
from tests.mitigation.made import bundled, silent

pytestmark = pytest.mark.usefixtures("undrawn")
PAIRS = [["he", "she"], ["his", "her"], ["him", "her"], ["men", "women"], ["brother", "sister"], ["man", "woman"],
         ["lord", "lady"], ["boy", "girl"], ["son", "daughter"], ["father", "mother"]]  # fmt: skip
PROMPTS = ("was in the", "and the", "had a very", "of the house is", "or", "with the other")
OTHERS = ("came to a", "at the", "is one of the most")
WORDS = ("good", "little", "great", "old", "work", "poor")
QUICK = {"learning_rate": 5e-3, "rank": 8, "alpha": 8, "batch_size": 8, "validate_every": 50, "measured": 24}


def settings(folder, profile="clean", **changed):
    """Settings with words and prompts of this test."""
    (folder / "words.json").write_text(json.dumps({"gender": PAIRS}))
    (folder / "stereotypes.txt").write_text("\n".join(WORDS))
    (folder / "prompts.txt").write_text("\n".join(PROMPTS) + "\n\n")
    own = {"words": "words.json", "stereotypes": "stereotypes.txt", "prompts": "prompts.txt"}
    paths = {name: str(folder / file) for name, file in own.items()}
    return replace(get("auto_debias").profiles[profile], **paths | QUICK | changed)


def divergences(model, network, words, prompts=OTHERS, pairs=PAIRS):
    """The divergence of each pair of words, the mean over prompts."""
    loss = alignment.AlignmentLoss(model, alignment.token_numbers(model, words), reverse=False)
    kept = alignment.whole_pairs(model, [tuple(pair) for pair in pairs])
    with torch.no_grad():
        rows = [loss.divergences(network, alignment.prompted_pairs(model, prompts, [pair])).mean() for pair in kept]
    return torch.stack(rows).numpy()


def plant(model):
    """Teaches a model half of the words after the first of a pair, and the other half after the second."""
    tokens = alignment.token_numbers(model, WORDS)
    rows = alignment.prompted_pairs(model, PROMPTS, alignment.whole_pairs(model, [tuple(pair) for pair in PAIRS]))
    optimizer = torch.optim.Adam(model.network.parameters(), lr=2e-3)
    loss = alignment.AlignmentLoss(model, tokens, reverse=False)
    model.network.requires_grad_(True)
    for step in range(30):
        some = rows[step % 4 :: 4]
        optimizer.zero_grad()
        (-loss(model.network, some)["loss"]).backward()
        optimizer.step()
    model.network.requires_grad_(False)


@pytest.mark.parametrize("kind", ["tiny-causal", "tiny-masked"])
def test_a_planted_difference_is_taken_away_after_other_prompts_and_held_out_pairs(kind, tmp_path):
    model = load(BUNDLED[kind], device="cpu")
    plant(model)
    weights = {name: weight.clone() for name, weight in model.network.named_parameters()}
    before = divergences(model, model.network, WORDS)
    out = tmp_path / "w" / "made"
    out.mkdir(parents=True)
    facts = get("auto_debias").apply(model, settings(tmp_path, epochs=4), TrainingData(str(tmp_path)), out, silent())
    assert all(torch.equal(weight, weights[name]) for name, weight in model.network.named_parameters())
    with quiet():
        tuned = peft.PeftModel.from_pretrained(model.network, out)
    differences = divergences(model, tuned, WORDS) - before
    high = stats.ttest_1samp(differences, 0).confidence_interval(0.95).high
    assert before.mean() > 0.1
    assert high < -0.3 * before.mean(), (before, differences)
    assert facts.measures["divergence_held_out_after"][0] < facts.measures["divergence_held_out_before"][0]
    assert facts.measures["pairs_held_out"][0] >= 1
    assert {"words:words.json", "words:stereotypes.txt", "words:prompts.txt"} == set(facts.data)
    assert facts.cost.parameters > 0


def test_the_divergence_is_that_of_scipy_or_the_published_one():
    logits = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    one, other = logits.log_softmax(-1)
    p, q = one.exp().numpy(), other.exp().numpy()
    assert alignment.divergence(one, other).numpy() == pytest.approx(jensenshannon(p, q, axis=1) ** 2, abs=1e-6)
    # The published code: 0.5 * (kl_div(log p, m) + kl_div(log q, m)).
    middle = (p + q) / 2
    published = 0.5 * sum(
        torch.nn.functional.kl_div(log, torch.from_numpy(middle), reduction="none").sum(1) for log in (one, other)
    )
    assert alignment.divergence(one, other, reverse=True).numpy() == pytest.approx(published.numpy(), abs=1e-6)


@pytest.mark.parametrize("kind", ["tiny-causal", "tiny-masked"])
def test_predictions_are_read_at_the_mask_or_after_the_last_token(kind):
    model = load(BUNDLED[kind], device="cpu")
    (row,) = alignment.prompted_pairs(model, ["was a"], [("he", "she")])
    text = model.tokens.tokenizer.decode(row[1].ids)
    assert "she was a" in text
    if kind == "tiny-masked":
        assert row[0].ids[row[0].at] == model.tokens.tokenizer.mask_token_id
        assert text.replace(" ", "").endswith("[MASK].[SEP]")
    else:
        assert row[0].at == len(row[0].ids) - 1
    loss = alignment.AlignmentLoss(model, None, reverse=False)
    with torch.no_grad():
        logs = [
            model.network(input_ids=torch.tensor([side.ids])).logits[0, side.at].log_softmax(-1)[None] for side in row
        ]
        assert loss.divergences(model.network, [row]).item() == pytest.approx(
            alignment.divergence(*logs).item(), abs=1e-5
        )


def test_the_search_keeps_the_prompts_that_differ_most_and_goes_on_after_an_interruption(tmp_path, monkeypatch):
    model, pairs = bundled(), [("he", "she"), ("his", "her")]
    loss = alignment.AlignmentLoss(model, alignment.token_numbers(model, WORDS), reverse=True)
    words = alignment.candidates(model, 9)
    path = tmp_path / "found.json"

    def found(length):
        return alignment.search(model, loss, pairs, words, length, 3, path, silent())

    first = found(1)
    with torch.no_grad():
        means = [
            loss.divergences(model.network, alignment.prompted_pairs(model, [word], pairs)).mean() for word in words
        ]
    assert first == [words[n] for n in np.argsort([-mean for mean in means])[:3]]
    both = found(2)
    assert both[:3] == first
    assert len(both) == 6
    assert all(prompt.split()[0] in first and prompt.split()[1] in words for prompt in both[3:])
    monkeypatch.setattr(loss, "divergences", lambda *_: pytest.fail("measured again"))
    assert found(2) == both


def test_searched_prompts_are_trained_and_kept_with_the_adapter(tmp_path):
    out = tmp_path / "w" / "made"
    out.mkdir(parents=True)
    small = {"search_length": 2, "search_beam": 2, "search_words": 6, "search_pairs": 2, "prompts": "search"}
    facts = get("auto_debias").apply(
        bundled(), settings(tmp_path, "paper", **small), TrainingData(str(tmp_path)), out, silent()
    )
    prompts = (out / "prompts.txt").read_text().splitlines()
    assert [len(prompt.split()) for prompt in prompts] == [1, 1, 2, 2]
    assert facts.measures["prompts"][0] == 4
    assert facts.measures["pairs_held_out"][0] == 0
    assert "divergence_trained_after" in facts.measures
    assert set(facts.files) >= {"adapter_config.json", "adapter_model.safetensors", "prompts.txt", "losses.json"}


@pytest.mark.mirror
@pytest.mark.parametrize("kind", ["tiny-causal", "tiny-masked"])
def test_the_published_words_and_prompts_train_both_kinds(kind, tmp_path):
    published = get("auto_debias").profiles["paper"]
    prompts = auto_debias.read_lines("auto-debias", "auto-debias/prompts-gender")
    assert len(prompts) == 500
    assert [sum(len(prompt.split()) == length for prompt in prompts) for length in range(1, 6)] == [100] * 5
    assert ("fathers", "mothers") in auto_debias.read_word_pairs(published)
    assert ("black", "white") in auto_debias.read_word_pairs(replace(published, domain="race"))
    (tmp_path / "few.txt").write_text("\n".join(prompts[::100]))
    few = replace(published, prompts=str(tmp_path / "few.txt"), rank=4, learning_rate=1e-3)
    out = tmp_path / "w" / "made"
    out.mkdir(parents=True)
    model = load(BUNDLED[kind], device="cpu")
    facts = get("auto_debias").apply(model, few, TrainingData(str(tmp_path)), out, silent())
    assert facts.measures["divergence_trained_after"][0] < facts.measures["divergence_trained_before"][0]
    assert set(facts.data) == {
        "words:few.txt", "source:auto-debias/male", "source:auto-debias/female", "source:auto-debias/stereotypes"
    }  # fmt: skip
    with quiet():
        peft.PeftModel.from_pretrained(model.network, out)


@pytest.mark.mirror
def test_a_changed_file_has_another_fingerprint(tmp_path):
    own = settings(tmp_path, words="auto-debias")
    before = own.inputs()
    assert "source:auto-debias/female" in before
    with (tmp_path / "prompts.txt").open("a") as file:
        file.write("is very\n")
    after = own.inputs()
    assert {name for name in after if after[name] != before[name]} == {"words:prompts.txt"}
    assert fetched_source("auto-debias/male").path.name == "male.txt"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"prompts": "nowhere.txt"},
            r"nowhere\.txt.*\(No such file or directory\)",
        ),
        ({"domain": "age"}, r"\b0\b.*'age'"),
        ({"words": "auto-debias", "domain": "age"}, "'age'"),
        ({"prompts": "auto-debias", "domain": "faith"}, r"^Guo et al. published no prompts-faith; give a file\.$"),
        ({"domain": "triples"}, "'triples'"),
    ],
)
def test_words_and_prompts_that_cannot_be_used_are_refused(changed, message, tmp_path):
    few = settings(tmp_path, **changed)
    extra = {"faith": PAIRS[:2], "triples": [["a", "b", "c"]]}
    (tmp_path / "words.json").write_text(json.dumps({"gender": PAIRS} | extra))
    with pytest.raises(MitigationError, match=message):
        get("auto_debias").apply(bundled(), few, TrainingData(str(tmp_path)), tmp_path, silent())


def test_pairs_that_share_a_word_are_held_out_together():
    pairs = [("he", "she"), ("him", "her"), ("his", "her"), ("his", "hers"), ("man", "woman")]
    for seed in range(10):
        trained, held = auto_debias.split_pairs(pairs, 0.2, random.Random(seed))
        assert sorted(trained + held) == sorted(pairs)
        assert not {word for pair in trained for word in pair} & {word for pair in held for word in pair}
    with pytest.raises(MitigationError, match=r"cannot be held out"):
        auto_debias.split_pairs(pairs[:1], 0.9, random.Random(0))


def test_the_doctests_pass():
    assert doctest.testmod(alignment).failed == 0
