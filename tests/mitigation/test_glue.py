"""GLUE before and after: real rows, a planted task, where each kind of adapter is, resuming, and zero-shot tasks."""

import gc
import importlib.util
import json
import math
import sys
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import torch
import yaml
from peft import LoraConfig
from rich.console import Console
from typer.testing import CliRunner

from cards.common.files import put
from mitigation.__main__ import app
from mitigation.ability import glue, tasks
from mitigation.ability.glue import Classifiers, Effect, GlueSettings
from mitigation.ability.tasks import PINNED, TASKS, TaskData
from mitigation.adapters.write import describe, save_peft, write_facts
from mitigation.commands.glue import write_changes
from mitigation.errors import MitigationError
from mitigation.projections.states import last_hidden_state
from mitigation.projections.subspaces import Projection, write_projection
from scoring.adapters.attach import attach, wrap
from scoring.adapters.facts import Cost, read
from scoring.adapters.stamp import StampConfig
from scoring.inference.load_options import LoadOptions
from tests.mitigation.made import silent
from tests.scoring import models
from tests.support.helpers import missing

KINDS = {"bert": "masked", "gpt2": "causal"}
QUICK = GlueSettings(seeds=2, learning_rate=5e-3, epochs=8, batch_size=20, length=32)
#: Settings for models without dropout, so that what an adapter does can be compared bit for bit.
STILL = {
    "bert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "gpt2": {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
}


@pytest.fixture(scope="module", autouse=True)
def _frozen():
    """Has the garbage collection that ends every training pass over the objects of other tests and of imports."""
    import_module("transformers.trainer")
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of a masked and a causal model."""
    found = {}
    for name in KINDS:
        found[name] = tmp_path_factory.mktemp(name)
        model = models.model(name, **STILL[name])
        model.network.save_pretrained(found[name])
        model.tokens.tokenizer.save_pretrained(found[name])
    return found


def planted(count=40):
    """A task whose label is which of two words a text has, in a place that differs."""
    ends = ("came in the morning.", "likes children.", "went home again.", "is clever.")
    rows = [((f"The {('farmer', 'nurse')[n % 2]} {ends[n // 2 % 4]}",), float(n % 2)) for n in range(count)]
    return TaskData(replace(TASKS["sst2"], name="planted"), rows, rows[:16])


def lora(name, **more):
    """A LoRA of all linear maps in the body; those of GPT-2 have their weights the other way round."""
    return LoraConfig(r=2, target_modules="all-linear", fan_in_fan_out=name == "gpt2", **more)


def inside(folder, out, config, strength=0.0):
    """An adapter in the body of a model; its output matrices have random weights of this strength."""
    model = LoadOptions(str(folder)).load()
    torch.manual_seed(1)
    network = wrap(model.network, config)
    for name, weight in network.named_parameters():
        if "lora_B" in name or "fast_values" in name:
            torch.nn.init.normal_(weight, std=strength)
    out.mkdir()
    save_peft(network, out, model.name)
    model.network = network.unload()
    write_facts(out, describe(out, model, "made", GlueSettings(), data={}, cost=Cost(0, 0.0, 0, "cpu")))
    return out


def everything_removed(folder, out):
    """A projection that leaves nothing of the last hidden state."""
    model = LoadOptions(str(folder)).load()
    width = model.network.config.hidden_size
    write_projection(model, Projection.orthogonal(np.eye(width)), out)
    return out


def options(folder):
    return LoadOptions(str(folder), device="cpu")


def ids(classifiers):
    return dict(classifiers.tokenizer("The nurse came home", return_tensors="pt", return_token_type_ids=False))


@pytest.mark.mirror
def test_the_rows_are_those_of_glue():
    data = {d.task.name: d for d in tasks.load(PINNED)}
    sizes = {name: (len(d.train), len(d.validation)) for name, d in data.items()}
    assert sizes == {
        "cola": (8551, 1043),
        "mrpc": (3667, 408),  # one row less than on the Hub
        "rte": (2490, 277),
        "stsb": (5749, 1500),
        "wnli": (635, 71),
    }
    shares = {name: round(float(np.mean([label for _, label in d.validation])), 4) for name, d in data.items()}
    assert shares == {"cola": 0.6913, "mrpc": 0.6838, "rte": 0.4729, "stsb": 2.3639, "wnli": 0.4366}
    ((premise, hypothesis), label) = data["rte"].validation[0]
    assert label == TASKS["rte"].pinned.classes.index("not_entailment")
    assert (premise[:10], hypothesis[:10]) == ("Dana Reeve", "Christophe")


@pytest.mark.parametrize("name", TASKS)
def test_right_outputs_have_full_scores_and_constant_ones_do_not(name):
    task = TASKS[name]
    labels = np.arange(12) % max(task.classes, 2) + 0.0
    right = labels[:, None] if task.classes == 1 else np.eye(task.classes)[labels.astype(int)]
    assert tasks.scores(task, labels, right) == pytest.approx(dict.fromkeys(task.metrics, 100.0))
    constant = tasks.scores(task, labels, np.ones_like(right))
    if task.metrics[0] != "accuracy":
        assert constant[task.metrics[0]] == 0
    assert all(value < 100 for value in constant.values())


def test_other_tasks_come_from_the_hub(monkeypatch):
    asked = []

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        return [{"premise": "a", "hypothesis": "b", "label": 2}]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    (data,) = tasks.load(["mnli"])
    assert asked == [("nyu-mll/glue", "mnli", "train"), ("nyu-mll/glue", "mnli", "validation_matched")]
    assert data.validation == [(("a", "b"), 2.0)]


def test_a_hub_that_cannot_be_had_is_one_sentence(monkeypatch):
    def load_dataset(*_, **__):
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(MitigationError, match="nyu-mll/glue"):
        tasks.load(["qnli"])


@pytest.mark.mirror
@pytest.mark.parametrize("name", KINDS)
def test_the_command_measures_real_rows_and_repeats_no_run(name, folders, tmp_path, monkeypatch):
    few = "--tasks cola,mrpc,rte,wnli,stsb --limit 10 --epochs 1 --seeds 2 --length 24 --batch-size 10".split()
    command = ["glue", str(folders[name]), "--out", str(tmp_path), *few]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    result = json.loads((tmp_path / "glue.json").read_text())
    assert list(result["before"]) == ["cola", "mrpc", "rte", "wnli", "stsb", "average"]
    assert all(len(scores["scores"]) == 2 for scores in result["before"].values())
    means = [scores["mean"] for task, scores in result["before"].items() if task != "average"]
    assert result["before"]["average"]["mean"] == pytest.approx(np.mean(means))
    assert result["after"] is None
    monkeypatch.setattr(glue, "fine_tune", None)
    second = CliRunner().invoke(app, command)
    assert second.stdout == first.stdout
    assert json.loads((tmp_path / "glue.json").read_text()) == result


def test_an_interrupted_measurement_goes_on(folders, tmp_path, monkeypatch):
    made = []

    def fine_tune(_, data, __, seed, ___):
        if len(made) == 3 and not resumed:
            raise KeyboardInterrupt
        made.append((data.task.name, seed))
        return {"accuracy": 50.0 + seed}

    monkeypatch.setattr(glue, "fine_tune", fine_tune)
    data = [planted(), replace(planted(), task=replace(TASKS["rte"], name="other"))]
    base = Classifiers(options(folders["bert"]))
    resumed = False
    with pytest.raises(KeyboardInterrupt):
        glue.measure(base, data, QUICK, tmp_path, silent())
    resumed = True
    runs = glue.measure(base, data, QUICK, tmp_path, silent())
    assert made == [("planted", 0), ("planted", 1), ("other", 0), ("other", 1)]
    assert runs["other", 1] == {"accuracy": 51.0}
    glue.measure(base, data, replace(QUICK, epochs=2), tmp_path, silent())
    assert len(made) == 8  # other settings are other runs
    path = tmp_path / "runs" / "base" / "other-seed-0.json"
    path.write_text("[]")
    with pytest.raises(MitigationError, match="run of GLUE"):
        glue.measure(base, data, replace(QUICK, epochs=2), tmp_path, silent())


@pytest.mark.parametrize("name", KINDS)
def test_a_planted_task_is_learnt_and_is_lost_with_the_hidden_state(name, folders, tmp_path):
    data = [planted()]
    base = Classifiers(options(folders[name]))
    harmless = Classifiers(
        options(folders[name]),
        inside(folders[name], tmp_path / "harmless", lora(name), strength=1e-3),
    )
    destroys = Classifiers(options(folders[name]), everything_removed(folders[name], tmp_path / "destroys"))
    assert (harmless.effect, destroys.effect) == (Effect.INSIDE, Effect.PROJECTION)
    three = replace(QUICK, seeds=3)
    kept, average = glue.changes(*glue.compare(base, harmless, data, three, tmp_path, silent()))
    assert (kept.group, average.group, kept.n) == ("planted", "average", 3)
    assert min(kept.before[0], kept.after[0]) > 90
    lost, _ = glue.changes(*glue.compare(base, destroys, data, three, tmp_path, silent()))
    assert lost.after[0] == 50
    assert lost.difference[2] < 0  # the whole interval over seeds


def test_the_interval_is_of_differences_by_seed():
    def runs(*values):
        return {("rte", seed): {"accuracy": value} for seed, value in enumerate(values)}

    change, _ = glue.changes(runs(60.0, 70.0, 80.0), runs(59.0, 69.0, 79.0))
    assert change.difference == (-1.0, -1.0, -1.0)
    assert change.before[1] == pytest.approx(70 - 4.30265 * 10 / math.sqrt(3), abs=1e-3)
    alone, _ = glue.changes(runs(60.0), runs(50.0))
    assert alone.difference[0] == -10
    assert all(map(math.isnan, alone.difference[1:]))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("method", ["lora", "stamp"])
def test_an_adapter_stays_as_it_is_while_the_body_is_trained(name, method, folders, tmp_path):
    config = lora(name, lora_dropout=0.5) if method == "lora" else StampConfig(layer=1, units=32)
    adapter = inside(folders[name], tmp_path / "made", config, strength=0.5)
    classifiers = Classifiers(options(folders[name]), adapter)
    network = classifiers.make(2, 0).train()  # the dropout of the LoRA's own training is off
    adapted = LoadOptions(str(folders[name])).load()
    adapted.network = attach(adapted.network, adapter, base=adapted.name, revision=adapted.revision).get_base_model()
    given = ids(classifiers)
    hidden = network.base_model(**given).last_hidden_state
    assert torch.equal(hidden, last_hidden_state(adapted.network, given))
    assert not torch.allclose(hidden, Classifiers(options(folders[name])).make(2, 0).base_model(**given)[0])
    own = {n for n, weight in network.named_parameters() if not weight.requires_grad}
    assert own
    assert all("lora_" in n or "fast_" in n for n in own)
    before = {n: weight.clone() for n, weight in network.state_dict().items()}
    classifiers.make = lambda *_: network
    glue.fine_tune(classifiers, planted(8), replace(QUICK, epochs=1), 0, lambda: None)
    changed = {n for n, weight in network.state_dict().items() if not torch.equal(weight, before[n])}
    assert not changed & own
    assert any(".base_layer." in n for n in changed)


@pytest.mark.parametrize("name", KINDS)
def test_a_projection_is_put_before_the_new_head(name, folders, tmp_path):
    model = LoadOptions(str(folders[name])).load()
    left = np.linalg.qr(np.random.default_rng(1).normal(size=(32, 3)))[0]
    projection = Projection(left, left.T, np.ones(32))
    write_projection(model, projection, tmp_path / "made")
    classifiers = Classifiers(options(folders[name]), tmp_path / "made")
    assert classifiers.effect is Effect.PROJECTION
    network, plain = classifiers.make(2, 0).eval(), Classifiers(options(folders[name])).make(2, 0).eval()
    given = ids(classifiers)
    before, after = (one.base_model(**given) for one in (plain, network))
    states = projection(before.last_hidden_state.detach().numpy().astype(float))
    np.testing.assert_allclose(after.last_hidden_state.detach().numpy(), states, atol=1e-4)
    if name == "bert":
        pooled = torch.tanh(plain.bert.pooler.dense(torch.from_numpy(states[:, 0]).float()))
        torch.testing.assert_close(after.pooler_output, pooled, atol=1e-4, rtol=1e-4)


def test_an_adapter_of_the_vocabulary_head_leaves_glue_as_it_is(folders, tmp_path):
    adapter = inside(folders["gpt2"], tmp_path / "head", LoraConfig(r=2, target_modules=["lm_head"]), strength=0.5)
    base, adapted = Classifiers(options(folders["gpt2"])), Classifiers(options(folders["gpt2"]), adapter)
    console = Console(record=True, file=sys.stderr, width=200)
    quick = replace(QUICK, epochs=1)
    before, after = glue.compare(base, adapted, [planted(8)], quick, tmp_path, console)
    assert "GLUE is unchanged by construction" in console.export_text()
    assert [change.difference[0] for change in glue.changes(before, after)] == [0, 0]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["base"]


@pytest.mark.mirror
def test_changes_are_recorded_once_in_the_facts_of_an_adapter(folders, tmp_path):
    adapter = inside(folders["gpt2"], tmp_path / "made", lora("gpt2"))
    few = "--tasks wnli --limit 8 --epochs 1 --seeds 2 --length 16 --record".split()
    command = ["glue", str(folders["gpt2"]), "--adapter", str(adapter), "--out", str(tmp_path / "glue"), *few]
    for _ in range(2):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        facts = read(adapter)
        assert [(c.benchmark, c.group, c.metric) for c in facts.changes] == [
            ("glue", "wnli", "score"),
            ("glue", "average", "score"),
        ]
        assert facts.changes[0].difference[0] == 0  # the LoRA is zero
    other = replace(facts.changes[0], benchmark="text")
    write_changes(adapter, [other])
    assert len(read(adapter).changes) == 3
    result = json.loads((tmp_path / "glue" / "glue-made.json").read_text())
    assert result["effect"] == str(Effect.INSIDE)
    assert result["after"]["wnli"]["scores"] == result["before"]["wnli"]["scores"]


def test_wrong_input_is_one_sentence(folders, tmp_path):
    def said(*arguments):
        done = CliRunner().invoke(app, ["glue", str(folders["bert"]), "--out", str(tmp_path / "out"), *arguments])
        assert done.exit_code == 1
        assert done.output.count("\n") == 1
        return done.output

    assert "'rtee' is no task of GLUE; give some of cola, mnli" in said("--tasks", "rtee")
    assert "There is no task" in said("--tasks", "")
    assert "There is no adapter whose facts" in said("--record")
    assert "learning_rate is -1" in said("--learning-rate", "-1")
    assert "asks causal ones; leave out --lm-eval" in said("--tasks", "", "--lm-eval", "hellaswag")
    put(tmp_path / "prompt" / "prompt.json", b"{}")
    assert "is a prompt, and GLUE fine-tunes weights" in said(
        "--tasks", "", "--lm-eval", "x", "--adapter", str(tmp_path / "prompt")
    )


@pytest.mark.mirror
def test_methods_side_by_side_have_glue_where_it_can_be_measured(folders, tmp_path):
    adapter = inside(folders["gpt2"], tmp_path / "made", lora("gpt2"))
    facts = read(adapter)
    put(tmp_path / "prompts" / "prompt.json", b"{}")
    write_facts(tmp_path / "prompts", replace(facts, files={}))
    command = ["methods", str(folders["gpt2"]), "--out", str(tmp_path), "--methods", "none"]
    done = CliRunner().invoke(app, [*command, "--glue", "wnli", "--limit", "4"])
    assert done.exit_code == 0, done.output
    assert "is a prompt, and GLUE fine-tunes weights" in " ".join(done.output.split())
    made, prompts = json.loads((tmp_path / "methods.json").read_text())["methods"]
    assert [(c["benchmark"], c["group"], c["n"]) for c in made["changes"]] == [
        ("glue", "wnli", 3),
        ("glue", "average", 3),
    ]
    assert prompts["changes"] == []
    wrong = CliRunner().invoke(app, [*command, "--glue", "wnlii"])
    assert wrong.exit_code == 1
    assert "'wnlii' is no task of GLUE" in wrong.output


#: A task in the form of the harness, on a local file.
LOCAL = {
    "task": "made_words",
    "dataset_path": "json",
    "output_type": "multiple_choice",
    "test_split": "test",
    "doc_to_text": "The {{who}} said that",
    "doc_to_choice": ["she went home.", "he went home."],
    "doc_to_target": "{{label}}",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    "metadata": {"version": 1},
}


@pytest.mark.filterwarnings("ignore")
def test_zero_shot_tasks_run_before_and_after_and_once(folders, tmp_path, monkeypatch):
    if not importlib.util.find_spec("lm_eval"):
        missing("needs lm-evaluation-harness: pip install lm-eval==0.4.13")
    rows = [{"who": who, "label": n % 2} for n, who in enumerate(("nurse", "farmer", "pilot", "teacher") * 3)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "tasks").mkdir()
    files = {"dataset_kwargs": {"data_files": {"test": str(tmp_path / "rows.jsonl")}}}
    (tmp_path / "tasks" / "made_words.yaml").write_text(yaml.safe_dump(LOCAL | files))
    adapter = inside(folders["gpt2"], tmp_path / "made", lora("gpt2"), strength=0.5)
    command = ["glue", str(folders["gpt2"]), "--adapter", str(adapter), "--out", str(tmp_path / "out"), "--tasks", ""]
    command += ["--lm-eval", "made_words", "--lm-eval-path", str(tmp_path / "tasks"), "--record"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    (change,) = read(adapter).changes
    assert (change.benchmark, change.group, change.metric, change.n) == ("lm-eval", "made_words", "acc", 12)
    assert change.before[1] < change.before[0] < change.before[2]
    assert change.difference[1] < change.difference[0] < change.difference[2]
    assert change.difference[0] == pytest.approx(change.after[0] - change.before[0])
    from mitigation.ability import zero_shot

    monkeypatch.setattr(zero_shot, "measure", None)
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    # The files of further tasks are a part of the key, so a changed one is asked anew.
    monkeypatch.setattr(zero_shot, "measure", lambda *_: pytest.fail("asked"))
    with (tmp_path / "tasks" / "made_words.yaml").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(pytest.fail.Exception, match="asked"):
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_the_key_of_a_run_has_all_that_it_depends_on_and_not_the_number_of_seeds():
    models = {"options": SimpleNamespace(model="m"), "revision": "r", "files": "f", "digest": "", "effect": Effect.NONE}
    data = SimpleNamespace(task=SimpleNamespace(name="rte"), digest="d")
    key = glue.run_key(SimpleNamespace(**models), data, GlueSettings(seeds=3), 0)
    assert key == glue.run_key(SimpleNamespace(**models), data, GlueSettings(seeds=5), 0)
    others = [glue.run_key(SimpleNamespace(**models), SimpleNamespace(task=data.task, digest="e"), GlueSettings(), 0)]
    changed = [models | {name: "other"} for name in ("revision", "files", "digest", "effect")]
    others += [glue.run_key(SimpleNamespace(**one), data, GlueSettings(), 0) for one in changed]
    others.append(glue.run_key(SimpleNamespace(**models), data, GlueSettings(), 1))
    others.append(glue.run_key(SimpleNamespace(**models), data, GlueSettings(epochs=9), 0))
    assert not [other for other in others if other == key]
