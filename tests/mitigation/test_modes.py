"""Training in mixed precision, and with a base model in 4 bits."""

import gc
import io
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from mitigation import recipes
from mitigation.__main__ import app
from mitigation.errors import MitigationError
from mitigation.running import steps
from mitigation.running.evaluate import changes_table
from mitigation.running.steps import full_precision_measures
from scoring.adapters.facts import Change, read
from scoring.inference.load_options import LoadOptions
from tests.mitigation.made import bundled, data, quick, tuned
from tests.scoring import models

pytestmark = pytest.mark.usefixtures("undrawn")
FEW = "--steps 4 --batch-size 4 --rank 4 --learning-rate 0.005 --corpora stsb --dropout 0 --checkpoint-every 2".split()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return data(tmp_path_factory.mktemp("data"))


def losses(folder):
    return [terms["loss"] for terms in json.loads((folder / "losses.json").read_text())["train"]]


@pytest.mark.parametrize("twice", [False, True])
def test_mixed_precision_starts_at_the_same_loss_and_reduces_it_as_much(source, tmp_path, twice):
    for name, precision in {"whole": "no", "mixed": "bf16"}.items():
        more = {"mixed_precision": precision, "gradient_checkpointing": twice, "dropout": 0.0}
        tuned(bundled(), quick(**more), source, tmp_path / name)
    whole, mixed = losses(tmp_path / "whole"), losses(tmp_path / "mixed")
    assert mixed[0] == pytest.approx(whole[0], rel=0.02)
    assert mixed[0] != whole[0]
    for name in ("whole", "mixed"):
        held = json.loads((tmp_path / name / "losses.json").read_text())["held"]
        assert held[-1]["loss"] < 0.6 * held[0]["loss"]


CHANGES = (
    Change("neutral", "stsb", "gas", (0.5, 0.4, 0.6), (0.1, 0.0, 0.2), (-0.4, -0.5, -0.3), 40),
    Change("text", "held-out texts", "perplexity", (4.0, 3.0, 5.0), (5.0, 4.0, 6.0), (1.0, 0.9, 1.1), 9),
)
WHOLE = {("neutral", "stsb", "gas"): (0.45, 0.3, 0.6), ("neutral", "stsb", "other"): (0.0, 0.0, 0.0)}


def test_the_table_has_a_column_of_full_precision_where_measured():
    assert "full precision" not in changes_table(CHANGES)
    shown = changes_table(CHANGES, WHOLE)
    assert list(shown)[3:6] == ["full precision", "before", "after"]
    assert shown["full precision"].tolist() == [0.45, pytest.approx(math.nan, nan_ok=True)]
    assert shown["before"].tolist() == [0.5, 4.0]
    assert shown[["low", "high"]].to_numpy().tolist() == [[-0.5, -0.3], [0.9, 1.1]]


def test_the_facts_have_full_precision_for_the_changes_only():
    assert full_precision_measures(CHANGES, WHOLE) == {"neutral stsb gas in full precision": (0.45, 0.3, 0.6)}


def test_every_group_and_metric_is_in_the_table():
    many = [Change("b", f"g{n}", f"m{n}", *((math.nan,) * 3,) * 3, 1) for n in range(30)]
    assert changes_table(many)["metric"].tolist() == [f"m{n}" for n in range(30)]


@pytest.fixture(scope="module")
def four_bits(source, tmp_path_factory):
    """The folder of an adapter of a base model in 4 bits, with its evaluation, and the output of the command."""
    pytest.importorskip("bitsandbytes")
    out = tmp_path_factory.mktemp("four") / "q"
    few = "--benchmarks neutral --resamples 50 --limit 4 --device cpu --quantize 4bit".split()
    command = ["debias_tuning", models.folder("stories260K"), "--data", source, "--out", out, *FEW, *few]
    measure, seen = steps.evaluate_full_precision, []

    def measured(*given):
        gc.collect()
        seen.append(sum(type(thing).__name__ == "Linear4bit" for thing in gc.get_objects()))
        assert (out / "adapter_model.safetensors").is_file()
        return measure(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "evaluate_full_precision", measured)
        done = CliRunner().invoke(app, list(map(str, command)), env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert seen == [0], "the model in 4 bits is in memory while the one in full precision is loaded"
    return out, done.output


def report(out, side):
    return json.loads((out.with_name("q-work") / side / "results.json").read_text())


@pytest.mark.mirror
def test_four_bits_are_compared_with_four_bits_and_full_precision_is_reported_too(four_bits):
    out, printed = four_bits
    assert "There is no GPU, so weights in 4 bits are computed on the CPU, which is slow." in printed
    reports = {name: report(out, name) for name in ("before", "after", "control")}
    assert [report["dtype"] for report in reports.values()] == ["float32-4bit", "float32-4bit", "float32"]
    assert [bool(report["adapter"]) for report in reports.values()] == [False, True, False]
    assert (out.with_name("q-work") / "before" / "compare.json").is_file()


def test_where_full_precision_does_not_fit_a_sentence_says_so(tmp_path, monkeypatch):
    def load(options):
        raise torch.OutOfMemoryError(f"{options.quantize} does not fit")

    monkeypatch.setattr(LoadOptions, "load", load)
    console = Console(file=io.StringIO(), width=200)
    assert steps.evaluate_full_precision(LoadOptions("some-model", quantize="4bit"), None, tmp_path, console) == {}
    assert console.file.getvalue() == (
        "some-model in full precision does not fit into the memory, so all scores are in 4 bits.\n"
    )


def some_model():
    """What a failing recipe needs of a model: names and the device."""
    device = torch.device("cpu")
    return SimpleNamespace(name="some-model", device=device, dtype="float16", environment={"device": "cpu"})


@pytest.mark.parametrize(
    ("name", "said", "unsaid"),
    [
        ("debias_tuning", ["--gradient-checkpointing", "--batch-size", "--rank", "--quantize 4bit"], []),
        ("fast", ["--batch"], ["--gradient-checkpointing", "--quantize"]),
        ("gradiend", ["--batch-size", "--most-tokens"], ["--rank", "--quantize"]),
        ("leace", ["--most-tokens"], ["--rank"]),
    ],
)
def test_too_little_memory_for_a_recipe_is_one_sentence_with_the_settings_that_help(tmp_path, name, said, unsaid):
    def run_out(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.50 GiB.")

    recipe = replace(recipes.get(name), make=run_out)
    with pytest.raises(MitigationError) as error:
        steps.apply_recipe(recipe, recipe.profiles["clean"], some_model(), None, tmp_path, Console(file=io.StringIO()))
    assert "some-model" in str(error.value)
    for option in said:
        assert option in str(error.value)
    for option in unsaid:
        assert option not in str(error.value)


def test_other_errors_of_a_recipe_are_not_called_too_little_memory(tmp_path):
    def fail(*_):
        raise RuntimeError("shapes differ")

    recipe = replace(recipes.get("dpo"), make=fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        steps.apply_recipe(recipe, recipe.profiles["clean"], some_model(), None, tmp_path, Console(file=io.StringIO()))


@pytest.mark.mirror
def test_after_training_in_four_bits_full_precision_is_reported_too(four_bits):
    out, _ = four_bits
    facts, sides = read(out), {}
    for side in ("control", "before"):
        sides[side] = {(e["group"], e["metric"]): e["value"] for e in report(out, side)["estimates"]}
    assert facts.dtype == "float32-4bit"
    assert "full precision" in (out.with_name("q-work") / "changes.csv").read_text().splitlines()[0]
    assert facts.measures["neutral stsb gld in full precision"][0] == sides["control"]["stsb", "gld"]
    assert sides["control"]["stsb", "gld"] != sides["before"]["stsb", "gld"]
    perplexity = next(c for c in facts.changes if c.metric == "perplexity")
    assert facts.measures["text held-out texts perplexity in full precision"][0] != perplexity.before[0]
