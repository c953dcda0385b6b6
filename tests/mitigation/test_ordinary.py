"""What the stamp of ``clean`` compares and keeps: the objects after their prompt, and ordinary text."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from benchmarks.planted import planting
from benchmarks.planted.occupations import NEW_TEMPLATES, PLANTED, TEMPLATES, pairs
from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from mitigation.editing import edit
from mitigation.editing.kept import PARTS, Kept, OrdinaryText
from mitigation.editing.pairs import OBJECT, edit_pair, scored_span
from mitigation.editing.settings import READ, EditingSchedule
from mitigation.editing.stamped import StampedNetwork
from mitigation.errors import MitigationError
from mitigation.recipes import fast, get
from mitigation.training.data import TrainingData
from scoring.adapters.attach import wrap
from scoring.adapters.stamp import StampConfig
from scoring.inference.load_options import BUNDLED, load
from scoring.types import Option, Request
from tests.scoring import models

TEXTS = ["The old man walked to the river.", "It rained all night and the road was wet.", "She read a long book."]
JOBS = {gender: names[:4] for gender, names in PLANTED.items()}
ROW = {"id": "a", "domain": "", "subject": "nurse", **filled(f"The nurse said that {BLANK} was here.", "she", "he")}


def stamped(model, score=OBJECT):
    torch.manual_seed(0)
    network = wrap(model.network, StampConfig(layer=0, units=16))
    return StampedNetwork(network, 0, model.kind, model.tokens.pad, score)


@pytest.mark.parametrize("about", [{"split": "test"}, {}], ids=["a row of a data set", "a pair of one's own"])
def test_the_score_is_that_of_the_object_after_its_prompt(about):
    model = models.model("gpt2")
    row = ROW | about
    pair = edit_pair(model.tokens, row)
    scores = stamped(model).scores([pair])[:, 0].tolist()
    logs = []
    for label in ("biased", "unbiased"):
        text, start = row[f"sentence_{label}"], row["prompt"].index(BLANK)
        # A sentence of a data set is scored whole, and an own pair as what follows a context.
        context = "" if "split" in row else text[:start].rstrip()
        start -= len(context)
        option = Option(text[len(context) :], ((start, start + len(row[f"object_{label}"])),))
        (answer,) = model.answer([Request("a", context, (option,))])
        logs.append(np.mean(answer.logprobs[0]))
    assert scores == pytest.approx(logs, abs=1e-4)
    # The mean over the sentence has the same difference, divided by its number of tokens.
    whole = edit_pair(model.tokens, row, profile="clean")
    assert sum(len(query.at) for query in whole.biased) > 3 * sum(len(query.at) for query in pair.biased)


@pytest.mark.parametrize(
    ("row", "scored"),
    [
        (ROW, "she"),
        ({"subject": "nurse", **filled(f"My {BLANK} is a nurse.", "aunt", "uncle")}, "nurse"),
        ({"config": "crows_pairs", **filled(f"All {BLANK} cannot drive.", "women", "men")}, "women cannot drive."),
        ({"subject": "", **filled(f"{BLANK} is a nurse.", "She", "He")}, "She is a nurse."),
        ({"subject": "", **filled(f"The cook said {BLANK} left.", "she", "he")}, "she"),
    ],
)
def test_what_of_a_sentence_is_scored(row, scored):
    start, end = scored_span(row, "biased")
    assert row["sentence_biased"][start:end] == scored


@pytest.mark.parametrize("name", ["gpt2", "tiny-masked"])
def test_ordinary_text_is_asked_at_every_token_and_each_step_depends_on_its_number(name):
    model = load(BUNDLED[name], device="cpu") if name in BUNDLED else models.model(name)
    text = OrdinaryText(model, TEXTS, 3)
    assert text.batch(5, 2) == OrdinaryText(model, TEXTS, 3).batch(5, 2)
    lengths = [len(encoding.ids) for encoding in model.tokens.encode(TEXTS)]
    passes = PARTS
    if model.kind == "causal":
        # As many passes as every text has parts: a text of n parts is then asked for each token as often.
        passes = math.lcm(*(math.ceil(length / READ) for length in lengths))
    asked = [query for step in range(passes) for query in text.batch(step, len(TEXTS))]
    wanted = Counter((query.ids, at) for query in asked for at in query.at)
    if model.kind == "causal":
        assert len(wanted) == sum(lengths), "each token"
        assert all(len(query.at) <= READ for query in asked)
        for row in text.rows:
            assert len({count for (ids, _), count in wanted.items() if ids == row}) == 1, "each as often as the others"
    else:
        assert sum(len(query.at) for query in asked) == sum(lengths), "each token once"
    for query in asked:
        hidden = [query.ids[at] == model.tokens.tokenizer.mask_token_id for at in query.at]
        assert all(hidden) == (model.kind == "masked")
        assert model.tokens.start == list(query.ids[:1]) or model.kind == "masked"


def test_ordinary_text_without_a_text_is_refused():
    with pytest.raises(MitigationError, match="ordinary text"):
        OrdinaryText(models.model("gpt2"), [""], 0)


@pytest.mark.parametrize("name", ["gpt2", "tiny-masked"])
def test_the_divergence_of_ordinary_text_is_zero_until_the_network_changes(name):
    model = load(BUNDLED[name], device="cpu") if name in BUNDLED else models.model(name)
    network, text = stamped(model), OrdinaryText(model, TEXTS, 0)
    batch = edit.PairBatch([[edit_pair(model.tokens, ROW)]], Kept(text.batch(0, 3)))
    plan = EditingSchedule(gamma=2.0)
    assert float(batch.loss_terms(network, plan)["l_t"].detach()) == pytest.approx(0, abs=1e-5)
    for weight in network.trained.values():
        torch.nn.init.normal_(weight, std=0.3)
    terms = {term: float(value.detach()) for term, value in batch.loss_terms(network, plan).items()}
    assert terms["l_t"] > 1e-3
    expected = terms["l_e"] + plan.alpha * terms["l_s1"] + plan.beta * terms["l_s2"] + 2 * terms["l_t"]
    assert terms["loss"] == pytest.approx(expected, rel=1e-5)


def test_the_paper_keeps_no_ordinary_text_and_1024_units_and_clean_follows_the_width():
    clean, paper = (get("fast").profiles[name] for name in ("clean", "paper"))
    assert (paper.gamma, paper.units, paper.score) == (0.0, 1024, "paper")
    assert (clean.gamma, clean.units, clean.score) == (5.0, 0, "object")
    assert [clean.units_for(width) for width in (768, 128)] == [1024, 171]
    assert paper.inputs() == {}
    assert list(clean.inputs()) == ["project:jobs", "project:without_people.txt"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_a_stamp_computes_in_the_dtype_of_its_weights(dtype):
    network = models.model("gpt2").network.to(dtype)
    made = wrap(network, StampConfig(layer=0, units=8))
    weights = [weight for name, weight in made.named_parameters() if "fast_" in name]
    # At least float32, because it is trained with large steps; a double model has a double stamp.
    assert {weight.dtype for weight in weights} == {torch.promote_types(dtype, torch.float32)}
    ids = torch.tensor([[1, 2, 3]])
    before = made(input_ids=ids).logits
    for weight in weights:
        torch.nn.init.normal_(weight, std=1.0)
    after = made(input_ids=ids).logits
    assert after.dtype == dtype
    assert not torch.equal(before, after)
    whole = made.to(dtype)  # a caller may also cast everything
    assert torch.allclose(
        whole(input_ids=ids).logits.double(), after.double(), atol=0.1 if dtype.itemsize < 4 else 1e-9
    )


class Taught:
    """A small model with a planted stereotype or a twin without, and what a stamp changes of it."""

    def __init__(self, tmp_path, monkeypatch, share):
        monkeypatch.setattr(planting, "PLANTED", JOBS)
        plan = planting.Planting("causal", share, steps=40, batch=12, texts=16, rate=3e-3)
        self.folder = planting.plant(plan, tmp_path / "planted", TEXTS * 8)
        self.model = load(str(self.folder), device="cpu")
        kinds = {"first": "male", "second": "female"}
        texts = {}
        for kind, gender in kinds.items():
            texts[kind] = []
            for pair in pairs({gender: JOBS[gender]}, TEMPLATES[:8]):
                he, she = sorted(pair.forms, key=lambda form: form in ("she", "her"))
                after = pair.pro[pair.at + len(pair.forms[0]) :]
                texts[kind].append(f"{pair.pro[: pair.at]}[{he}|{she}]{after}")
        self.file = tmp_path / "contrast.json"
        self.file.write_text(json.dumps(texts))

    def odds(self):
        """log p(pronoun of the stereotype) - log p(other) in templates that were not taught [pairs]."""
        some = list(pairs(JOBS, NEW_TEMPLATES))
        requests = [Request(p.id, options=(Option(p.pro, p.spans[0]), Option(p.anti, p.spans[1]))) for p in some]
        return np.array([np.sum(a.logprobs[0]) - np.sum(a.logprobs[1]) for a in self.model.answer(requests)])

    def edited(self, out):
        """The same after an edit with the file of pairs."""
        out.mkdir(parents=True)
        few = {"pairs": str(self.file), "passes": 6, "traced": 4, "prefixes": 0, "held_out": 0.0, "rate": 3e-3}
        settings = replace(get("fast").profiles["clean"], **few)
        fast.RECIPE.apply(self.model, settings, TrainingData(str(out / "none")), out, Console(quiet=True))
        self.model = load(str(self.folder), adapter=out, device="cpu")
        return self.odds()


def test_pairs_of_the_contrast_remove_a_planted_stereotype_from_new_templates(tmp_path, monkeypatch):
    taught = Taught(tmp_path, monkeypatch, 0.98)
    before = taught.odds()
    after = taught.edited(tmp_path / "w" / "made")
    assert before.mean() > 1, "a stereotype was planted"
    assert np.abs(after).mean() < 0.5 * np.abs(before).mean()


def test_the_same_pairs_give_a_twin_without_the_stereotype_none(tmp_path, monkeypatch):
    taught = Taught(tmp_path, monkeypatch, 0.5)
    before = taught.odds()
    after = taught.edited(tmp_path / "w" / "made")
    assert abs(before.mean()) < 0.5, "the twin has none"
    assert abs(after.mean()) < 0.5
    assert np.abs(after).mean() < np.abs(before).mean() + 0.2
