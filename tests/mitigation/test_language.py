"""Further training: CDA moves a planted bias of pronouns and dropout does not; swaps, masks, rates and resuming."""

import json
import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import peft
import pytest
import torch

from mitigation.errors import MitigationError
from mitigation.recipes import cda, get
from mitigation.texts.attribute_words import AttributeWords, attribute_words, name_pairs
from mitigation.texts.swaps import Swapper
from mitigation.training import losses, trainable
from mitigation.training.data import TrainingData
from mitigation.training.train import TrainingSchedule, fit
from scoring.adapters.attach import quiet
from scoring.inference.load_options import BUNDLED, load
from scoring.types import Option, Request
from tests.mitigation.made import silent
from tests.mitigation.texts import corpus, snli_lines
from tests.scoring import models

pytestmark = pytest.mark.usefixtures("undrawn")
FEMALE, MALE = ("nurse", "secretary", "dancer"), ("farmer", "pilot", "soldier")
ENDS = ("was late", "went home", "saw it", "came back", "was right", "had time", "knew him", "was here")
QUICK = {
    "steps": 60, "batch_size": 16, "learning_rate": 1e-2, "rank": 8, "alpha": 8, "validate_every": 30,
    "checkpoint_every": 30, "length": 48, "patience": 0,
}  # fmt: skip


def biased_lines():
    """Sentences in which three jobs always have she and three always he."""
    return [
        f"the {job} said that {pronoun} {end}."
        for pronoun, jobs in (("she", FEMALE), ("he", MALE))
        for job in jobs
        for end in ENDS
    ]


def planted_settings(folder, name, **changed):
    """Settings for a few steps on these sentences with the words she and he."""
    path = folder / "biased.txt"
    path.write_text("\n".join(biased_lines()) + "\n")
    (folder / "words.json").write_text(json.dumps({"gender": [["he", "she"]]}))
    own = {"words": str(folder / "words.json")} if name == "cda" else {}
    return replace(get(name).profiles["clean"], **QUICK | {"corpus": str(path)} | own | changed)


def gaps(model):
    """By how much each job's own pronoun is more probable than the other one, in nats."""
    request = [
        Request(
            f"{job}/{pronoun}",
            f"the {job} said that",
            (Option(f" {pronoun} was late.", ((1, 1 + len(pronoun)),), "left"),),
        )
        for job in (*FEMALE, *MALE)
        for pronoun in ("she", "he")
    ]
    logs = {response.id: sum(response.logprobs[0]) for response in model.answer(request)}
    sides = [(job, ("she", "he")) for job in FEMALE] + [(job, ("he", "she")) for job in MALE]
    return np.array([logs[f"{job}/{own}"] - logs[f"{job}/{other}"] for job, (own, other) in sides])


def trained(model, name, settings, out):
    """The facts of an adapter, and the gaps of the model with it."""
    out.mkdir(parents=True)
    facts = get(name).apply(model, settings, TrainingData(str(out)), out, silent())
    with quiet():
        adapted = peft.PeftModel.from_pretrained(load(model.name, device="cpu").network, out)
        merged = adapted.merge_and_unload()
    fresh = load(model.name, device="cpu")
    fresh.network = merged
    return facts, fresh


@pytest.fixture(scope="module")
def biased(tmp_path_factory, undrawn):
    """tiny-causal after training on the biased sentences, as a folder, and its gaps."""
    folder = tmp_path_factory.mktemp("biased")
    model = load(BUNDLED["tiny-causal"], device="cpu")
    settings = planted_settings(folder, "dropout", hidden=0.0, attention=0.0)
    _, taught = trained(model, "dropout", settings, folder / "work" / "made")
    taught.network.save_pretrained(folder / "model")
    taught.tokens.tokenizer.save_pretrained(folder / "model")
    return folder / "model", gaps(taught)


def test_cda_moves_a_planted_bias_and_dropout_keeps_it(biased, tmp_path):
    path, planted = biased
    assert planted.min() > 1
    after = {}
    for name in ("cda", "dropout"):
        model = load(str(path), device="cpu")
        _, adapted = trained(model, name, planted_settings(tmp_path, name, steps=40), tmp_path / name / "made")
        after[name] = gaps(adapted)
    assert abs(after["cda"].mean()) < 0.35 * planted.mean()
    assert np.abs(after["cda"]).mean() < 0.5 * after["dropout"].mean()
    assert after["dropout"].mean() > 0.6 * planted.mean()


def test_negation_takes_away_a_mild_bias_in_proportion_to_its_strength(tmp_path):
    few = {"steps": 12, "learning_rate": 3e-3}
    settings = planted_settings(tmp_path, "dropout", hidden=0.0, attention=0.0, **few)
    _, mild = trained(load(BUNDLED["tiny-causal"], device="cpu"), "dropout", settings, tmp_path / "w" / "made")
    mild.network.save_pretrained(tmp_path / "mild")
    mild.tokens.tokenizer.save_pretrained(tmp_path / "mild")
    left = [gaps(mild).mean()]
    for strength in (0.5, 1.0):
        settings = planted_settings(tmp_path, "task_vector", strength=strength, **few)
        model = load(str(tmp_path / "mild"), device="cpu")
        _, adapted = trained(model, "task_vector", settings, tmp_path / f"{strength}" / "made")
        left.append(gaps(adapted).mean())
    assert left[0] > 0.3
    assert left[1] < 0.8 * left[0]
    assert left[2] < 0.6 * left[0]


@pytest.mark.mirror
@pytest.mark.parametrize("kind", ["tiny-causal", "tiny-masked"])
def test_real_text_trains_both_kinds_and_the_base_stays(kind, tmp_path):
    model = load(BUNDLED[kind], device="cpu")
    weights = {name: weight.clone() for name, weight in model.network.named_parameters()}
    settings = replace(
        get("cda").profiles["clean"], **QUICK | {"corpus": corpus(tmp_path), "lines": 200, "steps": 12, "seed": 1}
    )
    (tmp_path / "w" / "made").mkdir(parents=True)
    facts = get("cda").apply(model, settings, TrainingData(str(tmp_path)), tmp_path / "w" / "made", silent())
    assert all(torch.equal(weight, weights[name]) for name, weight in model.network.named_parameters())
    curve = json.loads((tmp_path / "w" / "made" / "losses.json").read_text())
    assert curve["held"][-1]["loss"] < curve["held"][0]["loss"]
    assert facts.cost.parameters > 0
    assert facts.measures["changed texts"][0] > 100
    with quiet():
        peft.PeftModel.from_pretrained(load(BUNDLED[kind], device="cpu").network, tmp_path / "w" / "made")


@pytest.mark.fault(55)
def test_a_changed_corpus_does_not_resume_from_a_checkpoint(tmp_path):
    model = load(BUNDLED["tiny-causal"], device="cpu")
    settings = planted_settings(tmp_path, "dropout", steps=3, checkpoint_every=1, attention=0.0)
    for _ in range(2):
        (tmp_path / "w" / "made").mkdir(parents=True, exist_ok=True)
        get("dropout").apply(model, settings, TrainingData(str(tmp_path)), tmp_path / "w" / "made", silent())
        with (tmp_path / "biased.txt").open("a") as file:
            file.write("the pilot said that he was new.\n")
    assert len(list((tmp_path / "w").glob("dropout-*.pt"))) == 2


def test_parts_of_a_batch_give_the_gradient_of_the_batch(tmp_path):
    weights = {}
    for at_once in (0, 2):
        torch.manual_seed(0)
        network = torch.nn.Linear(3, 1)
        network.device = torch.device("cpu")
        rows = [[n, n + 1, 2 * n] for n in range(6)]

        def loss(module, batch):
            return {"loss": module(torch.tensor(batch, dtype=torch.float32)).square().mean()}

        schedule = TrainingSchedule(steps=2, batch_size=6, learning_rate=0.1, at_once=at_once)
        fit(network, loss, rows, rows[:1], schedule, tmp_path / f"{at_once}.pt", silent())
        weights[at_once] = network.weight.detach().numpy()
    assert weights[0] == pytest.approx(weights[2], abs=1e-6)


PAIRS = AttributeWords((("he", "she"), ("him", "her"), ("his", "her"), ("man", "woman")), "", "")
TRIPLES = AttributeWords((("jewish", "christian", "muslim"), ("torah", "bible", "quran")), "", "")


@pytest.mark.parametrize(
    ("text", "swapped", "published"),
    [
        ("the man saw her.", "the woman saw him.", "the woman saw his."),
        ("She met a MAN, he said", "He met a WOMAN, she said", "She met a MAN, she said"),
        ("her son told her", "his son told him", "his son told his"),
        ("the human shed", "the human shed", "the human shed"),
    ],
)
def test_words_are_replaced_as_described_in_both_ways(text, swapped, published):
    assert Swapper(PAIRS).swap(text) == swapped
    assert cda.published_swap(text, PAIRS, random.Random(0)) == published


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("She hugged her and him.", "He hugged him and her."),
        ("He gave her the book she wanted.", "She gave him the book he wanted."),
        ("They told her to wait for her turn.", "They told him to wait for his turn."),
        ("I saw her with her old dog.", "I saw him with his old dog."),
        ("He asked her what she did.", "She asked him what he did."),
        ("Her own car; they sold her a car.", "His own car; they sold him a car."),
        ("Her lovely well and her past", "His lovely well and his past"),
        ("Mr. Man met Mrs. King and the King.", "Mrs. Man met Mr. King and the Queen."),
        ("J. King saw the king and a man.", "J. King saw the queen and a woman."),
        ("Dr. Hall. He left.", "Dr. Hall. She left."),
        ("I miss King Arthur", "I miss Queen Arthur"),
    ],
)
def test_her_before_a_word_that_no_possessive_stands_before_is_an_object_and_names_after_titles_stay(text, swapped):
    words = AttributeWords((*PAIRS.groups, ("king", "queen"), ("mr.", "mrs.")), "", "")
    assert Swapper(words).swap(text) == swapped


def test_a_word_of_a_triple_becomes_another_of_its_group():
    result = {cda.published_swap("a jewish man read the torah", TRIPLES, random.Random(seed)) for seed in range(20)}
    assert result == {"a christian man read the bible", "a muslim man read the quran"}
    swapper = Swapper(TRIPLES)
    assert [swapper.swap("The Bible", turn) for turn in (0, 1)] == ["The Quran", "The Torah"]


@pytest.mark.mirror
def test_names_are_swapped_where_they_are_written_like_names(tmp_path):
    lines = [*snli_lines()[:400], "Jordan met Will's uncle.", "will the pilot rest?", "Her friend Jordan will rest."]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    (tmp_path / "names.json").write_text('{"names": [["Will", "Jordan"]]}')
    given = {"corpus": str(tmp_path / "a.txt"), "names": str(tmp_path / "names.json")}
    settings = replace(get("cda").profiles["clean"], **given)
    names = name_pairs(settings.names).groups
    found = dict(cda.changed(lines, attribute_words("bias-bench", "gender"), published=False, seed=0, names=names))
    assert found["Jordan met Will's uncle."] == "Will met Jordan's aunt."
    assert found["Her friend Jordan will rest."] == "His friend Will will rest."
    assert "will the pilot rest?" not in found
    plain = cda.changed(lines[:400], attribute_words("bias-bench", "gender"), published=False, seed=0)
    assert len(plain) > 100
    assert [found[line] for line, _ in plain] == [other for _, other in plain]
    before = settings.inputs()
    (tmp_path / "names.json").write_text('{"names": [["Will", "Kim"]]}')
    assert settings.inputs() != before
    with pytest.raises(MitigationError, match=r"^First names"):
        replace(settings, published=True)
    (tmp_path / "names.json").write_text('{"names": [["A", "B", "C"]]}')
    with pytest.raises(MitigationError, match=r"names\.json.*\b3\b"):
        settings.inputs()


@pytest.mark.mirror
def test_every_swapped_premise_swaps_back_where_words_are_in_one_pair():
    pairs = AttributeWords((("he", "she"), ("man", "woman"), ("men", "women"), ("boy", "girl")), "", "")
    swapper = Swapper(pairs)
    changed = [line for line in snli_lines() if swapper.swap(line) != line]
    assert len(changed) > 500
    assert all(swapper.swap(swapper.swap(line)) == line for line in changed)


def test_masked_tokens_are_ordinary_ones_in_the_published_shares():
    model = load(BUNDLED["tiny-masked"], device="cpu")
    loss = losses.LanguageLoss(model, 0.15)
    ids = torch.tensor(trainable.token_rows(model, ["she was here and he was there " * 30], 128, join=False)[:1] * 200)
    corrupted, chosen = loss.corrupt(ids, torch.Generator().manual_seed(0))
    ordinary = ~torch.isin(ids, loss.special)
    assert not (chosen & ~ordinary).any()
    assert (chosen.sum() / ordinary.sum()).item() == pytest.approx(0.15, abs=0.01)
    assert ((corrupted == loss.mask) & chosen).sum().item() / chosen.sum().item() == pytest.approx(0.8, abs=0.02)
    assert ((corrupted == ids) & chosen).sum().item() / chosen.sum().item() == pytest.approx(0.1, abs=0.02)
    assert torch.equal(corrupted[~chosen], ids[~chosen])
    special = ids[:1, :1]
    assert loss.corrupt(torch.cat([special, ids[:1, 1:2]], 1), torch.Generator().manual_seed(1))[1].sum() == 1


@pytest.mark.parametrize(
    ("name", "attention", "hidden"), [("gpt2", 2, 5), ("bert", 2, 5), ("roberta", 2, 5), ("opt", 2, 3), ("llama", 2, 0)]
)
def test_rates_are_raised_where_they_are_and_set_back(name, attention, hidden):
    network = models.network(name)

    def rates():
        result = [module.p for module in network.modules() if isinstance(module, torch.nn.Dropout)]
        for attribute in ("attention_dropout", "dropout"):
            values = [getattr(module, attribute, None) for module in network.modules()]
            result += [value for value in values if type(value) is float]
        return result

    before = rates()
    with trainable.dropout(network, {"hidden": 0.31, "attention": 0.17}):
        assert rates().count(0.17) == attention
        assert rates().count(0.31) >= hidden
    assert rates() == before


@pytest.mark.parametrize(("kind", "rate"), [("masked", 0.2), ("causal", 0.15)])
def test_profile_paper_of_dropout_has_the_published_rate_of_each_kind(kind, rate, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("one line\n")
    seen = []
    monkeypatch.setattr(trainable, "train_on", lambda *given: seen.append(given[-1]))
    settings = replace(get("dropout").profiles["paper"], corpus=str(tmp_path / "a.txt"))
    data = TrainingData(str(tmp_path))
    model = SimpleNamespace(kind=kind, device=torch.device("cpu"), environment={"device": "cpu"})
    get("dropout").apply(model, settings, data, tmp_path, silent())
    assert seen == [{"hidden": rate, "attention": 0.15}]


def test_too_little_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("one line\n")
    settings = replace(get("dropout").profiles["clean"], corpus=str(tmp_path / "a.txt"))
    with pytest.raises(MitigationError, match=r"1 texts .*least 8"):
        get("dropout").apply(models.model("gpt2"), settings, TrainingData(str(tmp_path)), tmp_path, silent())
    network = torch.nn.Linear(2, 2)
    with (
        pytest.raises(MitigationError, match=r"^Linear .*dropout rate"),
        trainable.dropout(network, {"hidden": 0.2, "attention": 0.2}),
    ):
        pass
