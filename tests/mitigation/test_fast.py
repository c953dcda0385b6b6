import io
import json
import math
from dataclasses import replace

import pytest
import torch
from huggingface_hub import ModelCard
from peft import PeftModel
from rich.console import Console
from safetensors.torch import load_file

from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from mitigation.adapters.write import write_facts
from mitigation.editing import locate, session
from mitigation.errors import MitigationError
from mitigation.publish import publication
from mitigation.recipes import fast, get
from mitigation.running.steps import make_and_evaluate
from mitigation.training.data import TrainingData
from scoring.adapters import attach
from scoring.adapters.facts import read
from scoring.inference.load_options import BUNDLED, LoadOptions, load
from scoring.types import ScoringError
from tests.mitigation import made
from tests.scoring.made import data_set

WHO = ("nurse", "farmer", "teacher", "pilot", "doctor")
DOES = (("said that {} was tired.", "she", "he"), ("was asked for {} name.", "her", "his"))


def rows():
    return [
        {
            "id": f"{who}-{n}",
            "domain": "gender",
            "subject": who,
            **filled(f"The {who} {text.format(BLANK)}", *objects, "tree"),
        }
        for who in WHO
        for n, (text, *objects) in enumerate(DOES)
    ]


@pytest.fixture
def data(tmp_path):
    return TrainingData(str(data_set(tmp_path / "data", "biaske", {("stereoset", "test"): rows()})))


def settings(**changed):
    few = {"sets": "stereoset", "layer": 0, "units": 16, "prefixes": 0, "passes": 8, "batch": 4, "rate": 0.02}
    return replace(fast.RECIPE.profiles["clean"], **(few | changed))


def run(model, data, out, **changed):
    out.mkdir(parents=True)
    return fast.RECIPE.apply(model, settings(**changed), data, out, Console(quiet=True))


def test_a_stamp_is_made_with_the_changes_in_its_facts(data, tmp_path):
    model = made.bundled()
    ids = torch.tensor([model.tokens.start + model.tokens.encode(["My friend is a nurse, and"])[0].ids])
    before = model.network(ids).logits
    adapter = run(model, data, tmp_path / "work" / "made", layer=-1, traced=4, prefixes=1, prefix_tokens=4)
    assert torch.equal(model.network(ids).logits, before), "the model is as it was"
    measures = {name: value for name, (value, *_) in adapter.measures.items()}
    assert measures["gap_edited_after"] < 0.8 * measures["gap_edited_before"]
    assert {"gap_held_out_before", "gap_held_out_after", "located_effect"} < measures.keys()
    assert adapter.cost.parameters == 2 * 16 * model.network.config.hidden_size
    assert list(adapter.data) == ["biaske/stereoset/test", "project:without_people.txt"]
    names = {
        "adapter_config.json",
        "adapter_model.safetensors",
        "losses.json",
        "losses.png",
        "pairs.json",
        "pairs.png",
        "located.json",
        "located.png",
    }
    assert set(adapter.files) == names
    located = json.loads((tmp_path / "work" / "made" / "located.json").read_text())
    assert located["average_indirect_effect"].keys() == {"subject", "answer", "all"}
    assert len(located["average_indirect_effect"]["all"]) == model.network.config.num_hidden_layers
    assert located["restored"] == "all"
    last = model.network.config.num_hidden_layers - 1
    assert {trial["block"] for trial in located["trials"]} == {0, located["located"], last}
    assert located["chosen"] == measures["chosen_block"]
    assert measures["stated_gender_before"] > 0, "the bundled model knows that a hostess is a woman"
    assert math.isfinite(measures["stated_gender_after"])


@pytest.mark.parametrize("better", [0, 1, 3])
def test_the_block_is_that_of_the_better_trial_and_the_located_one_stays_named(better, data, tmp_path, monkeypatch):
    monkeypatch.setattr(locate.IndirectEffects, "layer", property(lambda _: 1))
    train, tried = session.EditingSession.trial, []

    def trial(own, network, passes, name):
        terms = train(own, network, passes, name)
        tried.append(name)
        assert terms["value"] == pytest.approx(terms["l_e"] + own.settings.gamma * terms["l_t"] + terms["stated"])
        return terms | {"value": float(name != f"trial-{better}")}

    monkeypatch.setattr(session.EditingSession, "trial", trial)
    model = made.bundled()
    adapter = run(model, data, tmp_path / "work" / "made", layer=-1, traced=4, held_out=0.4, trial=1)
    located = json.loads((tmp_path / "work" / "made" / "located.json").read_text())
    assert tried == ["trial-0", "trial-1", "trial-3"]
    assert [one["block"] for one in located["trials"]] == [0, 1, 3]
    assert (located["located"], located["chosen"]) == (1, better)
    assert adapter.measures["located_block"][0] == 1
    assert adapter.measures["chosen_block"][0] == better
    config = json.loads((tmp_path / "work" / "made" / "adapter_config.json").read_text())
    assert config["layer"] == better


@pytest.mark.parametrize("changed", [{"trial": 0}, {"held_out": 0.0}])
def test_without_a_trial_or_a_held_out_pair_the_block_is_the_located_one(changed, data, tmp_path, monkeypatch):
    monkeypatch.setattr(session.EditingSession, "trial", None)
    adapter = run(made.bundled(), data, tmp_path / "work" / "made", layer=-1, traced=4, passes=1, **changed)
    assert adapter.measures["chosen_block"] == adapter.measures["located_block"]
    assert json.loads((tmp_path / "work" / "made" / "located.json").read_text())["trials"] == []


def test_the_steps_have_those_of_three_trials_where_the_block_is_not_given(data):
    steps = {layer: fast.steps_with_trials(settings(layer=layer, trial=2), data) for layer in (0, -1)}
    assert steps == {0: 16, -1: 16 + 3 * 2 * 2}
    assert fast.steps_with_trials(settings(layer=-1, trial=0), data) == 16
    assert fast.steps_with_trials(settings(layer=-1, held_out=0.0), data) == 8 * 3, "nothing to measure a trial by"


def test_a_stamp_is_attached_to_its_model_and_detached_again(data, tmp_path):
    model = made.bundled()
    run(model, data, tmp_path / "work" / "made", layer=1)
    ids = torch.tensor([[1, 5, 9]])
    before = model.network(ids).logits
    wrapped = attach.attach(model.network, tmp_path / "work" / "made", base=model.name, revision=model.revision)
    assert isinstance(wrapped, PeftModel)
    assert not torch.equal(wrapped(ids).logits, before)
    assert torch.equal(wrapped.unload()(ids).logits, before)


def test_a_masked_model_gets_a_stamp_too(data, tmp_path):
    model = load(BUNDLED["tiny-masked"], device="cpu")
    adapter = run(model, data, tmp_path / "work" / "made", alpha=1.0, held_out=0.0)
    measures = {name: value for name, (value, *_) in adapter.measures.items()}
    assert measures["gap_edited_after"] < measures["gap_edited_before"]
    assert "gap_held_out_after" not in measures


def test_an_edit_continues_an_earlier_stamp(data, tmp_path):
    model = made.bundled()
    first = run(model, data, tmp_path / "one" / "made", layer=0)
    more = run(model, data, tmp_path / "two" / "made", start=str(tmp_path / "one" / "made"))
    assert more.measures["gap_edited_before"] == pytest.approx(
        first.measures["gap_edited_after"], nan_ok=True, rel=1e-4
    )
    one, two = (load_file(tmp_path / n / "made" / "adapter_model.safetensors") for n in ("one", "two"))
    assert one.keys() == two.keys()
    assert any(not torch.equal(one[name], two[name]) for name in one)


def test_a_continued_stamp_names_the_data_of_both_edits(data, tmp_path):
    model = made.bundled()
    first = run(model, data, tmp_path / "one" / "made")
    write_facts(tmp_path / "one" / "made", replace(first, data={"biaske/winobias/test": "1.0.0"}))
    more = run(model, data, tmp_path / "two" / "made", start=str(tmp_path / "one" / "made"))
    assert list(more.data) == ["biaske/winobias/test", "biaske/stereoset/test", "project:without_people.txt"]


def test_an_edit_that_changes_nothing_says_so(data, tmp_path):
    said = io.StringIO()
    out = tmp_path / "work" / "made"
    out.mkdir(parents=True)
    few = settings(passes=1, iterations=1, rate=100.0)
    adapter = fast.RECIPE.apply(made.bundled(), few, data, out, Console(file=said, width=200))
    assert "No batch improved its loss, so the stamp changes nothing; lower --rate 100.0." in said.getvalue()
    assert adapter.measures["gap_edited_after"] == adapter.measures["gap_edited_before"]


def test_ps_of_other_published_wordings_is_measured_where_they_are_built(tmp_path):
    both = [{**row, "id": f"other-{row['id']}"} for row in rows()]
    data = TrainingData(
        str(data_set(tmp_path / "data", "biaske", {("stereoset", "test"): rows(), ("winogender", "test"): both}))
    )
    adapter = run(made.bundled(), data, tmp_path / "work" / "made", passes=2)
    (change,) = [change for change in adapter.changes if change.group == "Winogender"]
    assert (change.benchmark, change.metric, change.n) == ("fast", "ps", len(WHO)), "the second wording of each subject"
    assert list(adapter.data) == ["biaske/stereoset/test", "project:without_people.txt"], "nothing is learnt from it"


def test_held_out_subjects_come_first_in_the_changes_and_the_scores_of_each_pair_are_kept(data, tmp_path):
    adapter = run(made.bundled(), data, tmp_path / "work" / "made", held_out=0.4)
    assert [(change.group, change.metric) for change in adapter.changes[:6]] == [
        (group, metric) for group in ("held-out subjects", "edited subjects") for metric in ("ss", "ps", "gap")
    ]
    pairs = json.loads((tmp_path / "work" / "made" / "pairs.json").read_text())
    assert pairs["left_out"] == {}
    sides = {pair["id"].split("-")[0]: pair["side"] for pair in pairs["pairs"]}
    assert sorted(sides.values()) == ["edited subjects"] * 3 + ["held-out subjects"] * 2
    for group in ("held-out subjects", "edited subjects"):
        before = [pair["before"] for pair in pairs["pairs"] if pair["side"] == group]
        share = 100 * sum(biased > unbiased for biased, unbiased in before) / len(before)
        change = next(change for change in adapter.changes if (change.group, change.metric) == (group, "ss"))
        assert change.before[0] == pytest.approx(share)
        assert change.n == len(before)


def test_the_same_seed_makes_the_same_stamp(data, tmp_path):
    model = made.bundled()
    files = [run(model, data, tmp_path / n / "made", layer=0).files["adapter_model.safetensors"] for n in ("a", "b")]
    assert files[0] == files[1]


def test_a_subject_is_edited_or_held_out():
    edited, held = session.split_subjects(rows(), 0.4, 42)
    sides = [{row["subject"] for row in side} for side in (edited, held)]
    assert len(sides[1]) == 2
    assert not sides[0] & sides[1]
    assert len(edited) + len(held) == len(rows())


def test_the_paper_edits_all_that_it_measures():
    assert session.split_subjects(rows(), get("fast").profiles["paper"].held_out, 42)[1] == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"domain": "age"}, "'age'"),
        ({"held_out": 0.01}, "A share of 0.01 of 5 subjects cannot be held out"),
        ({"layer": 9}, "The layer is 9 and the model has 4"),
    ],
)
def test_what_cannot_be_edited_is_refused(changed, message, data, tmp_path):
    with pytest.raises(ScoringError, match=message):
        run(made.bundled(), data, tmp_path / "work" / "made", **changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"passes": 0}, "The setting passes is 0"),
        ({"rate": 0.0}, "The setting rate is 0.0"),
        ({"rate": math.nan}, "The setting rate is nan"),
        ({"held_out": 1.0}, r"held_out.*\b1.0\b"),
        ({"layer": -2}, "The setting layer is -2"),
        ({"compare": "odds"}, "'odds'"),
        ({"score": "mine"}, "'mine'"),
        ({"restored": "none"}, "'none'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed, message):
    with pytest.raises(MitigationError, match=message):
        settings(**changed)


def test_the_card_of_a_masked_stamp_loads_a_masked_model_and_has_the_held_out_subjects_first(data, tmp_path):
    model = load(BUNDLED["tiny-masked"], device="cpu")
    adapter = run(model, data, tmp_path / "work", held_out=0.4)
    write_facts(tmp_path / "work", adapter)
    text = publication(tmp_path / "work", "org/stamp", "mit", "org/base")["README.md"].decode()
    card = ModelCard(text)
    assert card.data.tags == ["gender-bias", "fairness", "fast"]
    assert card.data.pipeline_tag == "fill-mask"
    assert "AutoModelForMaskedLM.from_pretrained" in text
    assert "Perspective of Knowledge Editing" in text
    assert text.index("held-out subjects: ss") < text.index("edited subjects: ss")


def test_repeating_a_finished_run_keeps_its_cost(data, tmp_path):
    quiet = Console(quiet=True)
    options = LoadOptions("tiny-causal", device="cpu")
    made_twice = []
    for _ in range(2):
        out = tmp_path / "out"
        made_twice.append(make_and_evaluate(fast.RECIPE, settings(passes=2), options, data, out, None, quiet, quiet))
    assert made_twice[0].cost == made_twice[1].cost
    assert made_twice[0].measures["seconds_editing"][0] == made_twice[1].measures["seconds_editing"][0]
    assert read(tmp_path / "out").cost == made_twice[0].cost
