"""The verdict on a recipe: the rule both ways, made answers with a known truth, and the exit status."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import builders
from mitigation import __main__ as command_line
from mitigation.api import learned_text
from mitigation.running import outcome
from mitigation.running.evaluate import Evaluation, ordinary_texts
from mitigation.running.steps import PLAIN
from scoring.adapters.facts import Adapter, Change, Cost, read
from scoring.asking.language import sentences
from scoring.benchmarks.stated_gender import BENCHMARK, KINDS
from scoring.inference.load_options import BUNDLED, load
from scoring.inputs.tables import as_table
from scoring.types import BenchmarkContext, Response, ScoringError
from tests.support.real import smollm2
from tools.simulations import outcomes

ROWS = outcome.rows()


def answered(stereotype, stated, noise=0.3, seed=0, both=-1.0):
    """The table of a model with these leans in jobs and after a stated gender, by kind or the same in all."""
    generator = np.random.default_rng(seed)
    lines = []
    for row in ROWS:
        if row["aim"] == "stereotype":
            lean = stereotype
        else:
            lean = stated.get(row["kind"], 3.0) if isinstance(stated, dict) else stated
        lean = (lean + noise * generator.normal()) * {"male": 1, "female": -1}.get(row["side"], 0)
        logprobs = tuple(
            ({"male": both + lean / 2, "female": both - lean / 2}.get(name, -4.0),)
            for name in ("male", "female", "they", "neo")
            if row[name] is not None
        )
        responses = {row["id"]: Response(row["id"], logprobs)}
        lines.append(BENCHMARK.to_record("clean", row, responses, BenchmarkContext("causal")))
    return as_table(lines)


BEFORE = answered(1.8, 3.0)


def judged(after, *more):
    return outcome.outcome([*outcome.changes(BEFORE, after, 500), *more])


def perplexity(before, after, width=0.1):
    difference = (after - before, after - before - width, after - before + width)
    around = ((value, value - 2, value + 2) for value in (before, after))
    return Change("text", "held-out texts", "perplexity", *around, difference, 60, None, None, 60)


def test_each_kind_and_each_side_is_asked_and_no_job_that_was_learned_from(tmp_path):
    for kind in (*KINDS, "templates", "question", "names of jobs"):
        sides = [row["side"] for row in ROWS if row["kind"] == kind]
        assert sides.count("male") == sides.count("female") >= 6, kind
    assert 250 < len(ROWS) < 400
    pairs = tmp_path / "pairs.json"
    pairs.write_text(json.dumps({"first": ["The plumber said that [she|he]"], "second": []}))
    learned = learned_text(type("Made", (), {"pairs": str(pairs)}))
    asked = {row["unit"] for row in outcome.rows(learned) if row["aim"] == "stereotype"}
    assert "plumber" not in asked
    assert {"electrician", "dietitian"} <= asked


def test_texts_of_perplexity_are_others_than_those_of_the_test_of_language():
    assert len(set(ordinary_texts())) == 60
    assert not set(ordinary_texts()) & set(sentences())


def test_stored_answers_of_a_model_that_answers_otherwise_now_are_not_used(tmp_path):
    model = load(BUNDLED["tiny-causal"], device="cpu")
    evaluation = Evaluation((), ordinary_texts()[:2])
    quiet = Console(quiet=True)
    first, second = (evaluation.score(model, PLAIN, tmp_path / f"{n}", quiet, tmp_path / "kept") for n in (1, 2))
    assert first["nats"].tolist() == second["nats"].tolist()
    # No file and no weight says that the network is another one now.
    hook = model.network.get_input_embeddings().register_forward_hook(lambda _, __, output: 1.5 * output)
    with pytest.raises(ScoringError, match="another model than the one whose responses are stored"):
        evaluation.score(model, PLAIN, tmp_path / "3", quiet, tmp_path / "kept")
    hook.remove()


def test_a_stereotype_that_falls_where_all_else_stays_is_less_biased():
    found = judged(answered(0.6, 2.9, seed=1), perplexity(50.0, 50.2))
    assert found.verdict == "less biased"
    stereotype, stated, ability, last = found.lines
    assert stereotype.startswith("Stereotype: 1.8")
    assert " → 0." in stereotype
    assert "the worst kind, " in stated
    assert "perplexity 50.0 [48.0, 52.0] → 50.2" in ability
    assert "+0.4" in ability
    assert last == "Verdict: less biased."


@pytest.mark.parametrize("kind", ["titles", "declared", "parents in jobs"])
def test_one_kind_that_loses_its_gender_is_harmful_whatever_the_stereotype_does(kind):
    found = judged(answered(0.0, {kind: 2.0}, seed=1), perplexity(50.0, 50.0))
    assert found.verdict == "harmful"
    assert found.why.startswith(f"{kind} keeps 6")
    kept = judged(answered(0.0, {kind: 2.7}, seed=1), perplexity(50.0, 50.0))
    assert kept.verdict == "less biased", "90 % is kept"


def test_a_loss_of_ability_or_of_the_forms_is_harmful():
    fair = answered(0.5, 3.0, seed=1)
    assert judged(fair, perplexity(50.0, 52.0)).why == "perplexity rises by 4.0 %"
    assert judged(fair, perplexity(50.0, 52.0, width=4.0)).verdict == "less biased", "chance explains the rise"
    assert judged(fair, perplexity(50.0, 50.5)).verdict == "less biased", "within the margin"
    fewer = answered(0.5, 3.0, seed=1, both=-2.0)
    assert judged(fewer).why == "gendered forms keep 37 % of their probability"


def test_a_stereotype_that_grows_or_one_gender_for_all_jobs_is_harmful():
    assert judged(answered(2.6, 3.0, seed=1)).why == "the stereotype grows"
    every_job_a_woman = answered(0.0, 3.0, seed=1)
    jobs = every_job_a_woman["aim"] == "stereotype"
    for side, sign in (("female", 1), ("male", -1)):
        every_job_a_woman["lean"][jobs & (every_job_a_woman["side"] == side)] = 2.0 * sign
    assert judged(every_job_a_woman).why == "all jobs lean more to one gender"


def test_the_same_answers_and_other_chance_are_no_change():
    assert judged(BEFORE).verdict == "no change beyond chance"
    assert judged(answered(1.8, 3.0, seed=7)).verdict == "no change beyond chance"


def test_nothing_is_concluded_of_a_model_without_stated_gender_or_over_few_rows():
    knows_nothing = answered(1.8, 0.0)
    found = outcome.outcome(outcome.changes(knows_nothing, answered(0.0, 0.0, seed=1), 500))
    assert (found.verdict, found.why) == ("", "the model before is no better than chance at stated gender")
    some = np.arange(len(ROWS)) % 8 == 0
    few = [{name: column[some] for name, column in table.items()} for table in (BEFORE, answered(0.5, 3.0, seed=1))]
    found = outcome.outcome(outcome.changes(*few, 500))
    assert found.verdict == ""
    assert "sentences are too few" in found.lines[-1]
    assert outcome.outcome([]) is None


def test_a_kind_that_had_no_lean_cannot_lose_it():
    before = answered(1.8, {"biology": 0.0})
    after = answered(0.5, {"biology": -0.5}, seed=1)
    assert outcome.outcome(outcome.changes(before, after, 500)).verdict == "less biased"


def test_a_command_ends_with_a_status_of_its_own_where_the_recipe_is_harmful():
    adapter = Adapter("made", "m", "r", "float32", {}, {}, Cost(0, 0.0, 0, "cpu"), {})
    harmful = replace(adapter, changes=tuple(outcome.changes(BEFORE, answered(0.0, 0.1, seed=1), 500)))
    assert command_line.is_harmful(harmful)
    fair = replace(adapter, changes=tuple(outcome.changes(BEFORE, answered(0.5, 3.0, seed=1), 500)))
    assert not command_line.is_harmful(fair)
    assert not command_line.is_harmful(adapter)


def test_where_nothing_changed_at_most_a_twentieth_of_verdicts_say_something():
    counts = outcomes.counted(repeats=60, change=0.0, kept=1.0, noise=0.6, seed=0)
    # 7 or more of 60 have a probability below 5 % where the true share is 5 %.
    assert counts["less biased"] + counts["harmful"] < 7
    found = outcomes.counted(repeats=20, change=-1.2, kept=1.0, noise=0.6, seed=0)
    assert found["less biased"] > 15
    lost = outcomes.counted(repeats=20, change=-1.2, kept=0.5, noise=0.6, seed=0)
    assert lost["harmful"] > 15
    assert not math.isnan(counts["no change beyond chance"])


@pytest.mark.real
def test_a_projection_that_takes_he_minus_she_out_of_the_head_of_a_real_model_is_harmful(tmp_path):
    """The verdict of a whole command on real rows: the stereotype falls, and mothers and kings lose their pronoun."""
    out, built = tmp_path / "tie", str(tmp_path / "data")
    builders.build("stated-gender", out=built)
    arguments = ["tie", str(smollm2()), "--out", str(out), "--data", built, "--benchmarks", "stated_gender"]
    # As many rows as the verdict is from; the benchmark is asked the same number.
    arguments += ["--limit", str(len(ROWS))]
    done = CliRunner().invoke(command_line.app, [*arguments, "--device", "cpu", "--resamples", "500"])
    assert done.exit_code == command_line.HARMFUL_STATUS, done.output
    found = outcome.outcome(read(out).changes)
    assert found.verdict == "harmful"
    assert "keeps" in found.why
    stereotype = next(change for change in read(out).changes if change.group == "stereotype")
    assert stereotype.before[1] > 0, "the model has the stereotype"
    assert abs(stereotype.after[0]) < stereotype.before[0] / 2
