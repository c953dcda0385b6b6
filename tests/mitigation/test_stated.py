"""Sentences that state a gender, and the term of the loss that keeps their pronoun."""

import copy
import itertools

import pytest
import torch
from rich.console import Console

from benchmarks.planted import occupations
from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from mitigation.editing import edit, kept, pairs
from mitigation.editing.settings import EditingSchedule
from mitigation.editing.stamped import StampedNetwork
from mitigation.recipes import get
from scoring.adapters.attach import wrap
from scoring.adapters.stamp import StampConfig
from scoring.benchmarks import stated_gender
from scoring.inference.load_options import BUNDLED, load
from scoring.inference.tokens import Query
from scoring.types import BenchmarkContext

MEN = ("he", "He", "his", "him", "himself")
KINDS = ("causal", "masked")


@pytest.fixture
def model(request):
    """A bundled model, for a test alone."""
    return load(BUNDLED[f"tiny-{request.param}"], device="cpu")


def test_what_measures_stated_gender_shares_no_template_noun_or_name_with_what_keeps_it():
    frames = {template.replace("{job}", "").partition(" ")[2] for template in occupations.NEW_TEMPLATES}
    assert not [template for template in kept.TEMPLATES if any(template in frame for frame in frames)]
    measured = {person.split()[-1] for people in occupations.GENDERED.values() for person in people}
    nouns = {person.split()[-1] for people in kept.PEOPLE for person in people}
    nouns |= set(itertools.chain(*kept.KINDS))
    assert not nouns & measured


def test_as_many_sentences_have_a_pronoun_of_men_as_of_women_and_each_states_its_gender():
    every = list(itertools.chain(*kept.sentences()))
    for man, woman in kept.sentences():
        assert man.forms[0] in MEN
        assert man.forms == woman.forms[::-1]
        assert man.after == woman.after
    assert len({(one.before, one.after) for one in every}) == len(every)
    for one in every:
        assert (one.forms[0] in MEN) != (one.forms[1] in MEN)
        gender = int(one.forms[0] not in MEN)
        words = {person.lower() for person in kept.PEOPLE[gender]} | set(kept.KINDS[gender])
        words |= {f"'s {relative}" for relative in kept.RELATIVES[gender]}
        words |= {name.lower() for name in kept.NAMES[gender]} | set(kept.FACTS[gender])
        words |= {f" {form} " for form in (("he", "his") if gender == 0 else ("she", "her"))}
        assert any(word in one.before.lower() for word in words), one


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_batches_take_every_sentence_once_in_a_pass_and_halves_have_none_in_common(model):
    made = kept.StatedGender(model, 3)
    assert made.count == 2 * len(list(kept.sentences()))
    batch = made.batch(0, made.count)
    assert len({query.ids + query.at for query in batch.queries}) > 0.9 * made.count
    assert made.batch(1, 6) == kept.StatedGender(model, 3).batch(1, 6)
    assert len(made.batch(0, 1).queries) == 2, "a pair at least"
    one, two = made.halves()
    assert one.count + two.count == made.count
    first, second = ({query.ids for query in half.batch(0, half.count).queries} for half in (one, two))
    assert not first & second
    for query, (right, other) in zip(batch.queries, batch.forms, strict=True):
        assert query.want == (right,)
        assert right != other


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_an_unchanged_model_has_no_l_g_and_a_changed_one_has_its_divergence_at_the_pronoun(model):
    text = kept.KeptText(stated=kept.StatedGender(model, 0))
    network = StampedNetwork(wrap(model.network, StampConfig(layer=1, units=8)), 1, model.kind, model.tokens.pad)
    row = {"id": "a", "subject": "nurse", **filled(f"The nurse said that {BLANK} left.", "she", "he")}
    pair = pairs.edit_pair(model.tokens, row)
    # Of four pairs, six sentences.
    batch = edit.PairBatch([[pair]], text.batch(0, 4))
    schedule = EditingSchedule(delta=3.0, kappa=2.0, margin=0.0)
    unchanged = _terms(batch, network, schedule)
    assert (unchanged["l_g"], unchanged["l_k"]) == pytest.approx((0, 0), abs=1e-5)
    torch.manual_seed(0)
    for weight in network.trained.values():
        torch.nn.init.normal_(weight, std=0.1)
    schedule = EditingSchedule(delta=3.0, kappa=2.0, margin=0.5)
    terms = _terms(batch, network, schedule)
    parts = terms["l_e"] + 10 * terms["l_s1"] + 0.1 * terms["l_s2"] + 3 * terms["l_g"] + 2 * terms["l_k"]
    assert terms["loss"] == pytest.approx(parts, rel=1e-4)
    divergences, squares = [], []
    stated = text.stated.batch(0, 6)
    for query, (right, other) in zip(stated.queries, stated.forms, strict=True):
        now = _logs(network.network, query)
        with network.network.disable_adapter():
            before = _logs(network.network, query)
        divergences.append(float((before.exp() * (before - now)).sum()))
        lean = float(before[right] - before[other])
        lacking = lean + 0.5 * max(lean, 0) - float(now[right] - now[other])
        squares.append(max(lacking, 0) ** 2)
    assert terms["l_g"] > 0
    assert any(squares)
    assert not all(squares)
    assert terms["l_g"] == pytest.approx(sum(divergences) / len(divergences), rel=1e-3)
    assert terms["l_k"] == pytest.approx(sum(squares) / len(squares), rel=1e-3)


@torch.no_grad()
def _terms(batch, network, schedule):
    return {name: float(term) for name, term in batch.loss_terms(network, schedule).items()}


@torch.no_grad()
def _logs(network, query: Query):
    return network(input_ids=torch.tensor([query.ids])).logits[0, query.at[0]].double().log_softmax(-1)


@pytest.mark.parametrize("model", ["causal"], indirect=True)
def test_an_edit_with_l_g_moves_the_pronoun_of_unseen_sentences_less(model, tmp_path):
    jobs = ("nurse", "farmer", "teacher", "pilot")
    rows = [{"id": job, "subject": job, **filled(f"The {job} said that {BLANK} left.", "she", "he")} for job in jobs]
    made = [pairs.edit_pair(model.tokens, row) for row in rows]
    seen, unseen = kept.KeptText(stated=kept.StatedGender(model, 0)).halves()
    moved = {}
    for weight in (0.0, 40.0):
        torch.manual_seed(0)
        network = wrap(copy.deepcopy(model.network), StampConfig(layer=3, units=32))
        parts = StampedNetwork(network, 3, model.kind, model.tokens.pad)
        plan = EditingSchedule(batch=4, rate=0.01, alpha=0.0, passes=30, delta=weight, seed=0)
        path = tmp_path / f"{weight}.pt"
        curve = edit.edit(parts, lambda n, _: [made[n]], len(made), [], plan, path, Console(quiet=True), seen)
        assert curve.train[-1]["l_e"] < 0.5 * curve.train[0]["l_e"]
        moved[weight] = _terms(edit.PairBatch([[made[0]]], unseen.batch(0, 60)), parts, plan)["l_g"]
    assert moved[40.0] < 0.7 * moved[0.0]


def test_a_shift_of_both_sentences_to_one_pronoun_leaves_the_lean_of_a_pair():
    logs = torch.randn(4, 6, dtype=torch.float64)
    forms = torch.tensor([[2, 3], [3, 2], [2, 3], [3, 2]])
    before = kept.leans(logs, forms)
    logs[:, 2] += 0.7
    assert kept.leans(logs, forms).tolist() == pytest.approx(before.tolist())
    logs[0, 2] += 0.4
    assert (kept.leans(logs, forms) - before).tolist() == pytest.approx([0.2, 0], abs=1e-9)


def test_the_paper_has_no_l_g_and_no_l_k():
    for name in ("fast", "fine_tuning"):
        paper = get(name).profiles["paper"]
        assert paper.delta == paper.kappa == 0


@pytest.mark.parametrize("model", ["causal"], indirect=True)
def test_pairs_and_kept_sentences_begin_with_the_tokens_of_what_measures_them(model):
    model.tokens.prefix = []  # as of a tokenizer that puts nothing before a text, though it has a start token
    row = next(stated_gender.rows())
    requests = list(stated_gender.requests("", row, BenchmarkContext("causal")))
    ((options, _),) = model.tokens.queries(requests)
    job = {"id": "a", "subject": "nurse", **filled(f"The nurse said that {BLANK} left.", "she", "he")}
    pair = pairs.edit_pair(model.tokens, job)
    texts = [query.ids for query in kept.StatedGender(model, 0).batch(0, 400).queries]
    said = [ids for ids in texts if model.tokens.tokenizer.decode(ids).strip().startswith("The ")]
    # All three begin with the same word; a start token before some of them would be another text.
    assert options[0][0].ids[0] == pair.biased[0].ids[0] == pair.unbiased[0].ids[0] == said[0][0]
