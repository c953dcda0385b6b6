"""Debias tuning on small models: what each loss does, what clean keeps, 4 bits, and where it goes on."""

import json
import subprocess
import sys
from dataclasses import replace

import matplotlib.image
import numpy as np
import pytest
import torch

from mitigation.adapters.temporary import attached
from mitigation.errors import MitigationError
from mitigation.recipe import Job
from mitigation.recipes import get
from mitigation.recipes.debias_tuning import DebiasTuningSettings
from mitigation.running import cost, plots
from mitigation.running.plots import plot_losses
from mitigation.running.quantization import load_for_training
from mitigation.training import trainable
from mitigation.training.data import TrainingData
from mitigation.training.train import TrainingSchedule
from scoring.adapters.facts import read
from scoring.inference.load_options import BUNDLED, LoadOptions, load
from scoring.metrics import pronouns
from scoring.types import Option, Request
from tests.mitigation.made import bundled, data, probes, quick, scores, silent, statements, tuned
from tests.scoring.models import folder

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return data(tmp_path_factory.mktemp("data"))


def test_the_folder_has_the_losses_by_step_and_their_picture(source, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "plot_losses", plot_losses)
    tuned(bundled(), quick("clean"), source, tmp_path / "a")
    curve = json.loads((tmp_path / "a" / "losses.json").read_text())
    assert [set(terms) for terms in curve["train"]] == [{"loss", "l_d", "l_g", "l_l", "retention"}] * 6
    assert [terms["step"] for terms in curve["held"]] == [0, 3, 6]
    last = curve["train"][-1]
    assert last["loss"] == pytest.approx(last["l_d"] + last["l_l"] + last["retention"], rel=1e-5)
    assert curve["held"][0]["retention"] == pytest.approx(0, abs=1e-6)
    pixels = matplotlib.image.imread(tmp_path / "a" / "losses.png")
    assert pixels.shape[1] > pixels.shape[0] > 300
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20


@pytest.mark.fault(55)
def test_a_second_run_of_the_same_training_only_reads_its_checkpoint(source, tmp_path, monkeypatch):
    tuned(bundled(), quick(), source, tmp_path / "a")
    curve = (tmp_path / "a" / "losses.json").read_bytes()
    monkeypatch.setattr("mitigation.training.train._step", lambda *_: pytest.fail("a step was done again"))
    tuned(bundled(), quick(), source, tmp_path / "a")
    assert (tmp_path / "a" / "losses.json").read_bytes() == curve


@pytest.mark.fault(55)
def test_other_settings_or_data_do_not_resume_from_a_checkpoint(source, tmp_path):
    for name, settings in {"one": quick(), "two": quick(learning_rate=1e-3)}.items():
        tuned(bundled(), settings, source, tmp_path / "a")
        assert read(tmp_path / "a").settings["learning_rate"] == settings.learning_rate, name
    assert len(list((tmp_path / "a-work").glob("debias_tuning-*.pt"))) == 2


@pytest.mark.fault(55)
def test_nan_weights_stop_the_training_and_the_model_is_unwrapped(source, tmp_path):
    model = load(bundled().name, device="cpu")
    with torch.no_grad():
        model.network.model.norm.weight[0] = float("nan")
    with pytest.raises(MitigationError, match=r"^Step 1 .*\(loss nan,"):
        tuned(model, quick(), source, tmp_path / "a")
    assert not any("lora" in name for name, _ in model.network.named_modules())


def test_activations_computed_twice_give_the_same_losses(source, tmp_path):
    for name, twice in {"once": False, "twice": True}.items():
        tuned(bundled(), quick(gradient_checkpointing=twice), source, tmp_path / name)
    one, two = (json.loads((tmp_path / name / "losses.json").read_text())["train"] for name in ("once", "twice"))
    assert [terms["loss"] for terms in one] == pytest.approx([terms["loss"] for terms in two], rel=1e-5)
    assert not bundled().network.model.gradient_checkpointing


@pytest.mark.mirror
def test_four_bits_are_trained_on_a_cpu_and_the_base_stays_unchanged(source, tmp_path):
    pytest.importorskip("bitsandbytes")
    model = load_for_training(LoadOptions(str(folder("stories260K")), quantize="4bit", device="cpu"))
    request = Request("a", f"{statements('test')[0]}, and", candidates=pronouns.FORMS)
    before, mass = model.answer([request]), scores(model)["pronoun_mass"]
    adapter = tuned(model, quick(), source, tmp_path / "a")
    assert adapter.dtype == "float32-4bit"
    assert str(model.answer([request])) == str(before)  # no NaN equals another
    with attached(model, tmp_path / "a") as adapted:
        assert scores(adapted)["pronoun_mass"] < 0.8 * mass


@pytest.mark.fault(56)
def test_tuning_refuses_rows_of_a_test_split(tmp_path):
    leaky = data(tmp_path, stsb_train=[*probes("train"), *probes("test")[:3]])
    with pytest.raises(MitigationError, match=r"^3 .*stsb/test"):
        tuned(bundled(), quick(), leaky, tmp_path / "a")
    facts = tuned(bundled(), quick(leaked=True), leaky, tmp_path / "b")
    assert facts.measures["leaked training rows"][0] == 3


def test_a_prompt_that_is_too_long_is_refused(source, tmp_path):
    with pytest.raises(MitigationError, match=r"'My friend .*, and'.*\d+.*max_length"):
        tuned(bundled(), quick(max_length=5), source, tmp_path / "a")


def test_modules_that_are_not_there_are_refused(source, tmp_path):
    with pytest.raises(MitigationError, match="'c_attn,x'"):
        tuned(bundled(), quick(target_modules="c_attn,x"), source, tmp_path / "a")


def test_the_defaults_are_the_published_ones():
    paper = get("debias_tuning").profiles["paper"]
    assert (paper.rank, paper.alpha, paper.dropout, paper.learning_rate) == (64, 16, 0.1, 2e-4)
    assert (paper.steps, paper.batch_size, paper.max_length) == (500, 16, 512)
    assert (paper.l_d, paper.l_g, paper.l_l, paper.retention, paper.epsilon) == (1, 1, 1, 0, 1e-8)
    clean = get("debias_tuning").profiles["clean"]
    assert (clean.l_g, clean.retention) == (0, 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rank": 0}, "The setting rank is 0"),
        ({"dropout": 1.0}, "The setting dropout is 1.0"),
        ({"learning_rate": float("nan")}, "The setting learning_rate is nan"),
        ({"l_d": -1.0}, "The setting l_d is -1.0"),
        ({"l_d": 0.0, "l_g": 0.0, "l_l": 0.0}, "All three losses are switched off; give l_d, l_g or l_l a weight"),
        ({"mixed_precision": "fp8"}, "The setting mixed_precision is 'fp8'; give auto, no or bf16."),
    ],
)
def test_settings_without_sense_are_refused(changed, message):
    with pytest.raises(MitigationError) as error:
        replace(DebiasTuningSettings(), **changed)
    assert str(error.value).startswith(message)


def test_the_cost_counts_seconds_and_memory():
    meter = cost.CostMeter(bundled())
    measured = meter.cost(5)
    assert (measured.parameters, measured.device) == (5, "cpu")
    assert measured.seconds >= 0
    assert measured.memory > 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="other systems report the peak since the start of the process only")
def test_the_memory_of_a_recipe_is_not_that_of_one_before_it():
    code = """
import torch
from mitigation.running import cost
from tests.mitigation.made import bundled

meter = cost.CostMeter(bundled())
torch.ones(100 * 2**20).sum()
print(meter.cost(0).memory, cost.CostMeter(bundled()).cost(0).memory)
"""
    # In a process of its own: in one that has freed much memory, new tensors do not raise its peak.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    with_tensor, after = map(int, done.stdout.split())
    assert with_tensor > 400 * 2**20
    assert after < with_tensor - 200 * 2**20


def test_the_schedule_of_a_processor_is_not_mixed():
    assert DebiasTuningSettings().precision(torch.device("cpu")) == "no"
    assert DebiasTuningSettings(mixed_precision="bf16").precision(torch.device("cpu")) == "bf16"


@pytest.mark.parametrize("limit", [0.3, 100.0])
def test_training_with_a_loss_limit_ends_before_language_is_lost_and_takes_the_least_gap(tmp_path, limit):
    source, console = data(tmp_path / "data"), silent()
    made = tmp_path / "out-work" / "made"
    made.mkdir(parents=True)
    settings = quick(loss_limit=limit, learning_rate=5e-2, steps=24)
    before = bundled()
    get("debias_tuning").apply(before, settings, TrainingData(str(source)), made, console)
    curve = json.loads((made / "losses.json").read_text())
    languages = [terms["language"] for terms in curve["held"]]
    if limit == 100:
        assert len(curve["train"]) == 24
    else:
        assert len(curve["train"]) < 24
        assert languages[-1] > languages[0] + limit
    inside = [terms for terms in curve["held"] if terms["language"] <= languages[0] + limit]
    best = min(inside, key=lambda terms: terms["gap"])
    # What is measured of the model that is left is what was measured while training.
    adapted = load(BUNDLED["tiny-causal"], adapter=str(made), device="cpu")
    pairs = [Request(row["id"], row["prompt"], (Option(" he"), Option(" she"))) for row in probes("validation")]
    texts = [Request(text, options=(Option(text),)) for text in statements("validation")]
    sides = [[sum(values) for values in response.logprobs] for response in adapted.answer(pairs)]
    nats = [-value for response in adapted.answer(texts) for value in response.logprobs[0]]
    assert np.mean(nats) == pytest.approx(best["language"], abs=1e-4)
    assert np.mean([abs(he - she) for he, she in sides]) == pytest.approx(best["gap"], abs=1e-4)
    assert f"with the weights of step {best['step']:g}: gap " in " ".join(console.file.getvalue().split())


def test_a_loss_limit_that_cannot_be_followed_is_refused(tmp_path):
    job = Job("task_vector", bundled(), quick(), TrainingData(str(tmp_path)), tmp_path, silent())
    with pytest.raises(MitigationError, match="neutral probes"):
        trainable.watcher(job)
    with pytest.raises(MitigationError, match="opposite of what"):
        trainable.tune(job, None, [], [], TrainingSchedule(1, 1, 0.1, loss_limit=1), factor=-1)
