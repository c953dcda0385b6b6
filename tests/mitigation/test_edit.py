import json
import math
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from mitigation import recipes
from mitigation.editing import edit, pairs
from mitigation.editing import stamped as stamped_module
from mitigation.editing.settings import EditingSchedule
from mitigation.editing.stamped import StampedNetwork
from mitigation.errors import MitigationError
from mitigation.training import train
from scoring.adapters.attach import wrap
from scoring.adapters.stamp import StampConfig
from scoring.benchmarks import stereoset
from scoring.inference.load_options import BUNDLED, load
from scoring.types import BenchmarkContext
from tests.scoring import models

ROWS = [
    {
        "id": "a",
        "domain": "gender",
        "subject": "nurse",
        **filled(f"The nurse said that {BLANK} was here.", "she", "he"),
    },
    {"id": "b", "domain": "gender", "subject": "farmer", **filled(f"The farmer is {BLANK}.", "unhappy", "careful")},
    {"id": "c", "domain": "gender", **filled(f"{BLANK} like the teacher.", "Girls", "Boys")},
    {"id": "d", "domain": "gender", "subject": "pilot", **filled(f"It was {BLANK} idea.", "his", "her")},
    {"id": "e", "domain": "gender", "subject": "doctor", **filled(f"A doctor told {BLANK} daughter.", "his", "her")},
]
IRRELEVANT = {"config": "stereoset", "context": None, "object_irrelevant": "tables"}
NAMES = ["gpt2", "llama", "tiny-masked", "roberta"]
PLAN = EditingSchedule(batch=2, iterations=16, rate=0.03, alpha=1.0, beta=0.1, passes=1, seed=0)
TOGETHER = replace(PLAN, iterations=1, passes=3, seed=5)


def ready(name):
    """A bundled model or a tiny random one, for a test alone."""
    return load(BUNDLED[name], device="cpu") if name in BUNDLED else models.model(name)


def logs(network, ids, at):
    with torch.no_grad():
        return network(input_ids=torch.tensor([ids])).logits[0, at].double().log_softmax(-1)


def plain(network, query):
    return [float(logs(network, query.ids, at)[want]) for at, want in zip(query.at, query.want, strict=True)]


def stamped(model, seed=0, layer=0, profile="clean"):
    torch.manual_seed(seed)
    network = wrap(model.network, StampConfig(layer=layer, units=16))
    return StampedNetwork(network, layer, model.kind, model.tokens.pad, profile)


def asked(model):
    return [pairs.edit_pair(model.tokens, row) for row in ROWS]


def trained(network):
    return list(network.trained.values())


def run(model, network, path, plan=PLAN, held=(), frame=None):
    made = asked(model)
    frame = frame or (lambda number, _: [made[number]])
    return edit.edit(network, frame, len(made), held, plan, path, Console(quiet=True))


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_computed_in_parts_is_what_the_whole_network_gives(name, layer):
    model = ready(name)
    network = stamped(model, layer=layer)
    for weight in network.trained.values():
        torch.nn.init.normal_(weight, std=0.1)
    pairs_of_rows = asked(model)
    queries = [query for pair in pairs_of_rows for side in pair.sides for query in side]
    places = [pairs.Place(n, len(query.at) - 1) for n, query in enumerate(queries)]
    for _ in range(2):  # the second time from what was kept
        logprobs, edited, base = network.answers(queries, places)
        assert network.in_parts
        expected = [value for query in queries for value in plain(network.network, query)]
        assert logprobs.tolist() == pytest.approx(expected, abs=1e-4)
        for query, own, without in zip(queries, edited, base, strict=True):
            assert torch.allclose(own.double(), logs(network.network, query.ids, query.at[-1]), atol=1e-4)
            with network.network.disable_adapter():
                assert torch.allclose(without.double(), logs(network.network, query.ids, query.at[-1]), atol=1e-4)
    assert network.entering
    assert network.leaving


def test_a_network_that_cannot_be_run_in_parts_is_run_whole(monkeypatch):
    model = ready("gpt2")
    network, other = stamped(model), stamped(ready("gpt2"))
    monkeypatch.setattr(other, "_measured", lambda _: False)
    for pair in asked(model):
        places = [pair.prompt]
        for one, whole in zip(network.answers(pair.biased, places), other.answers(pair.biased, places), strict=True):
            assert torch.allclose(one, whole, atol=1e-4)
    assert not other.entering


def test_kept_states_do_not_grow_without_bound(monkeypatch):
    monkeypatch.setattr(stamped_module, "KEPT", 0)
    model = ready("gpt2")
    network = stamped(model)
    scores = network.scores(asked(model))
    assert not network.entering
    assert torch.equal(network.scores(asked(model)), scores)


@pytest.mark.parametrize("profile", ["clean", "paper"])
@pytest.mark.parametrize("name", NAMES)
def test_an_edit_compares_the_scores_of_the_benchmark(name, profile):
    model = ready(name)
    network = stamped(model, profile=profile)
    context = BenchmarkContext(model.kind, family=model.family)
    rows = [{**row, **IRRELEVANT, "sentence_irrelevant": row["prompt"].replace(BLANK, "tables")} for row in ROWS]
    made = [pairs.edit_pair(model.tokens, row, profile=profile, family=model.family) for row in rows]
    requests = [request for row in rows for request in stereoset.requests(profile, row, context)]
    scores = network.scores(made).T.tolist()
    for row, own, response in zip(rows, scores, model.answer(requests), strict=True):
        record = stereoset.to_record(profile, {**row, "split": "test", "subject": ""}, {row["id"]: response}, context)
        assert own == pytest.approx([record["score_biased"], record["score_unbiased"]], abs=1e-4)


@pytest.mark.parametrize("profile", ["clean", "paper"])
@pytest.mark.parametrize("name", NAMES)
def test_the_place_of_the_prompt_is_where_the_object_is_predicted(name, profile):
    model = ready(name)
    for row in ROWS:
        pair = pairs.edit_pair(model.tokens, row, profile=profile)
        query, at = pair.biased[pair.prompt.query], pair.biased[pair.prompt.query].at[pair.prompt.answer]
        assert query.want[pair.prompt.answer] == pair.objects[0]
        if model.kind == "masked":
            assert query.ids[at] == model.tokens.tokenizer.mask_token_id
        else:
            before = model.tokens.tokenizer.decode(query.ids[: at + 1], skip_special_tokens=True)
            assert before.strip() == row["prompt"].split(BLANK)[0].strip()


def test_a_prefix_is_put_before_the_prompt_and_not_scored():
    model = models.model("gpt2")
    (query,) = pairs.edit_pair(model.tokens, ROWS[2], "They say that").biased
    assert model.tokens.tokenizer.decode(query.ids).startswith("<|endoftext|>They say that Girls")
    assert model.tokens.tokenizer.decode(query.want).strip() == ROWS[2]["sentence_biased"]


def test_losses_have_the_value_computed_by_hand():
    both = torch.tensor([[0.6, 0.2], [0.1, 0.3]]).log()
    assert edit.pair_gap(*both, "probability").tolist() == pytest.approx([0.5, 0.1])
    assert edit.pair_gap(*both, "log").tolist() == pytest.approx([math.log(6), math.log(1.5)])
    base, edited = torch.tensor([[[0.5, 0.25, 0.25]], [[0.5, 0.4, 0.1]]]).log()
    whole = 0.25 * math.log(0.25 / 0.4) + 0.25 * math.log(0.25 / 0.1)
    assert edit.kl_divergence(base, edited).item() == pytest.approx(whole, abs=1e-6)
    apart = 0.5 * math.log(0.5 / 0.8) + 0.5 * math.log(0.5 / 0.2)
    assert edit.kl_divergence(base, edited, torch.tensor([[0, 0]])).item() == pytest.approx(apart, abs=1e-5)


@pytest.mark.parametrize("compare", ["probability", "log"])
def test_gradients_agree_with_finite_differences(compare):
    torch.manual_seed(0)
    base, apart = torch.randn(3, 5, dtype=torch.float64).log_softmax(1), torch.tensor([[0, 2], [1, 3], [0, 4]])

    def loss(logits):
        edited = logits.log_softmax(1)
        return edit.pair_gap(edited[:, 0], edited[:, 1], compare).sum() + edit.kl_divergence(base, edited, apart).sum()

    assert torch.autograd.gradcheck(loss, torch.randn(3, 5, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("name", NAMES)
def test_an_edit_makes_pairs_equally_probable_and_keeps_the_rest(name, tmp_path):
    model = ready(name)
    network = stamped(model)
    made = asked(model)
    before = edit.mean_terms(network, made, PLAN)
    curve = run(model, network, tmp_path / "a.pt")
    after = edit.mean_terms(network, made, PLAN)
    assert len(curve.train) == 3
    assert before["l_s1"] == pytest.approx(0, abs=1e-6)
    assert after["l_e"] < 0.9 * before["l_e"]
    assert all(part["loss"] <= before["l_e"] * 2 for part in curve.train)


def test_one_pass_trains_each_batch_to_its_best_with_an_adam_of_its_own(tmp_path):
    model = models.model("gpt2")
    network, other = stamped(model), stamped(models.model("gpt2"))
    run(model, network, tmp_path / "a.pt")
    for start in (0, 2, 4):
        batch = edit.PairBatch([[pair] for pair in asked(model)[start : start + 2]])
        adam, states = torch.optim.Adam(trained(other), lr=PLAN.rate), []
        for _ in range(PLAN.iterations + 1):
            loss = batch.loss_terms(other, PLAN)["loss"]
            states.append((float(loss.detach()), [weight.detach().clone() for weight in trained(other)]))
            adam.zero_grad()
            loss.backward()
            adam.step()
        with torch.no_grad():
            for weight, best in zip(trained(other), min(states, key=lambda state: state[0])[1], strict=True):
                weight.copy_(best)
    assert all(torch.equal(*weight) for weight in zip(trained(network), trained(other), strict=True))


def test_the_readings_of_the_paper_divide_the_other_losses_and_keep_the_last_step(tmp_path):
    model = models.model("gpt2")
    network = stamped(model)
    batch = edit.PairBatch([[pair] for pair in asked(model)[:2]])
    one = replace(PLAN, batch=8, iterations=1, rate=0.1, keep="last", value_rate=1 / 16)
    before = [weight.detach().clone() for weight in trained(network)]
    run(model, network, tmp_path / "a.pt", one)
    moves = {
        name: float((weight - old).detach().abs().max())
        for (name, weight), old in zip(network.trained.items(), before, strict=True)
    }
    assert {round(move, 5) for name, move in moves.items() if "fast_values" in name} == {round(0.1 / 16, 5)}
    assert all(move == 0 for name, move in moves.items() if "fast_keys" in name), "no gradient while the values are 0"
    with torch.no_grad():
        of_sum, of_mean = (batch.loss_terms(network, replace(one, divergence=way)) for way in ("sum", "mean"))
    size = model.network.config.vocab_size
    assert float(of_sum["l_s1"]) > 1e-6
    assert [float(of_mean[name] * size) for name in ("l_s1", "l_s2")] == pytest.approx(
        [float(of_sum[name]) for name in ("l_s1", "l_s2")], rel=1e-4
    )
    assert float(of_mean["l_e"]) == float(of_sum["l_e"])


def test_the_paper_profile_restores_the_subject_and_keeps_the_last_step():
    for recipe in ("fast", "fine_tuning"):
        settings = recipes.get(recipe).profiles["paper"]
        assert (settings.keep, settings.divergence, settings.rate) == (
            "last",
            "mean",
            0.1 if recipe == "fast" else 1e-4,
        )
    assert (recipes.get("fast").profiles["paper"].restored, recipes.get("fast").profiles["clean"].restored) == (
        "subject",
        "all",
    )


def test_each_pass_goes_over_all_pairs_in_an_order_of_its_own():
    def orders(plan):
        return [[n for visit in range(2) for n in plan.pair_numbers(2 * part + visit, 20)] for part in range(3)]

    plan = replace(TOGETHER, batch=16)
    first, second, third = orders(plan)
    assert sorted(first) == sorted(second) == sorted(third) == list(range(20))
    assert first != second != third
    assert orders(plan) == [first, second, third]
    assert orders(replace(plan, seed=6))[0] != first
    assert replace(plan, passes=1).pair_numbers(1, 20) == [16, 17, 18, 19]


def test_the_rate_and_the_other_losses_fall_from_pass_to_pass():
    plan = replace(TOGETHER, rate=0.3, alpha=9.0, beta=0.9)
    weights = [(now.rate, now.alpha, now.beta) for now in (plan.at_step(visit, 5) for visit in (0, 2, 3, 8))]
    assert weights[0] == weights[1] == (0.3, 9.0, 0.9)
    assert weights[2] == pytest.approx((0.2, 4.0, 0.4))
    assert weights[3] == pytest.approx((0.1, 1.0, 0.1))
    assert replace(plan, passes=1).at_step(2, 5) == replace(plan, passes=1)


def test_several_passes_reduce_gaps_that_one_pass_of_as_many_steps_does_not(tmp_path):
    left = {}
    for plan in (replace(PLAN, iterations=20), replace(TOGETHER, passes=20)):
        model = models.model("gpt2")
        network = stamped(model)
        run(model, network, tmp_path / f"{plan.passes}.pt", plan)
        left[plan.passes] = edit.mean_terms(network, asked(model), plan)["l_e"]
    assert left[20] < 0.7 * left[1]


@pytest.mark.parametrize("held_back", ["l_s1", "l_s2"])
def test_without_a_loss_the_metric_of_another_loss_still_falls(held_back, tmp_path):
    losses = {}
    for weight in (0.0, 20.0):
        model = models.model("gpt2")
        network = stamped(model)
        weights = {"alpha": weight, "beta": 0.0} if held_back == "l_s1" else {"alpha": 0.0, "beta": weight}
        plan = EditingSchedule(batch=5, iterations=12, rate=0.02, passes=1, seed=0, **weights)
        run(model, network, tmp_path / f"{weight}.pt", plan)
        # Without a weight of L_s2 the subjects alone are not asked for, so both are measured with weights.
        losses[weight] = edit.mean_terms(network, asked(model), replace(plan, alpha=1.0, beta=1.0))[held_back]
    assert losses[20.0] < 0.5 * losses[0.0]


@pytest.mark.fault(55)
def test_a_killed_edit_resumes_after_its_last_batch(tmp_path, monkeypatch):
    whole = run(models.model("gpt2"), stamped(models.model("gpt2")), tmp_path / "whole.pt")
    kept = train.save
    calls = []

    def dying(*arguments):
        kept(*arguments)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(train, "save", dying)
    with pytest.raises(KeyboardInterrupt):
        run(models.model("gpt2"), stamped(models.model("gpt2")), tmp_path / "cut.pt")
    monkeypatch.setattr(train, "save", kept)
    again = run(models.model("gpt2"), stamped(models.model("gpt2"), seed=7), tmp_path / "cut.pt")
    assert [part["loss"] for part in again.train] == pytest.approx([part["loss"] for part in whole.train], rel=1e-5)


@pytest.mark.fault(55)
@pytest.mark.parametrize(("seconds", "step"), [(3600, 3), (0, 4)])
def test_an_edit_killed_within_a_pass_comes_to_the_same_stamp(seconds, step, tmp_path, monkeypatch):
    monkeypatch.setattr(edit, "CHECKPOINT_SECONDS", seconds)
    networks = {name: stamped(models.model("gpt2"), seed) for name, seed in (("whole", 0), ("cut", 0), ("again", 7))}
    model, calls = models.model("gpt2"), []
    made = asked(model)

    def dying(number, _):
        calls.append(number)
        if len(calls) > 8:
            raise KeyboardInterrupt
        return [made[number]]

    whole = run(model, networks["whole"], tmp_path / "whole.pt", TOGETHER, made[:1])
    with pytest.raises(KeyboardInterrupt):
        run(model, networks["cut"], tmp_path / "cut.pt", TOGETHER, made[:1], dying)
    kept = torch.load(tmp_path / "cut.pt", weights_only=True)
    assert len(json.loads(kept["curve"])["train"]) == step
    again = run(model, networks["again"], tmp_path / "cut.pt", TOGETHER, made[:1])
    # States are computed in other batches after the interruption, so both are equal up to rounding.
    assert [part["loss"] for part in again.train] == pytest.approx([part["loss"] for part in whole.train], rel=1e-4)
    again_weights, whole_weights = (trained(networks[name]) for name in ("again", "whole"))
    assert all(torch.allclose(*weights, atol=1e-4) for weights in zip(again_weights, whole_weights, strict=True))


@pytest.mark.fault(55)
def test_a_nan_loss_stops_training_at_once(tmp_path):
    model = models.model("gpt2")
    network = stamped(model)
    with torch.no_grad():
        next(w for n, w in network.network.named_parameters() if "fast_values" in n).fill_(math.nan)
    with pytest.raises(MitigationError, match=r"Batch 1 .*\(loss nan,"):
        run(model, network, tmp_path / "a.pt")
    assert not (tmp_path / "a.pt").exists()


@pytest.mark.parametrize(("plan", "steps"), [(PLAN, [0, 3]), (TOGETHER, [0, 3, 6, 9])])
def test_held_out_pairs_are_measured_before_and_after_each_pass_and_not_edited(plan, steps, tmp_path):
    model = models.model("gpt2")
    curve = run(model, stamped(model), tmp_path / "a.pt", plan, held=asked(model)[:1])
    assert [terms["step"] for terms in curve.held] == steps
    assert len(curve.train) == steps[-1]
