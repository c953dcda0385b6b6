"""The whole command: a recipe by its name, before and after, interruptions, and what is refused."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from unittest import mock

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from builders.text.embedded import DATA, table
from builders.text.split import leaks
from cards.common.files import locked
from mitigation.__main__ import app
from mitigation.errors import MitigationError
from mitigation.publish import training_data
from mitigation.recipes import get
from mitigation.running import quantization, steps
from mitigation.running.outcome import outcome
from mitigation.running.quantization import choose_quantization
from mitigation.texts import corpora
from scoring.__main__ import app as scoring
from scoring.adapters.facts import CONFIG, FACTS, Adapter, Cost, read
from scoring.report.headlines import headline_changes
from tests.mitigation.made import data, probes
from tests.scoring import models
from tests.scoring.made_runs import made_comparison
from tests.support.helpers import ROOT

pytestmark = pytest.mark.usefixtures("undrawn")
FEW = (
    "--steps",
    "4",
    "--batch-size",
    "4",
    "--rank",
    "4",
    "--learning-rate",
    "0.005",
    "--checkpoint-every",
    "2",
    "--corpora",
    "stsb",
)
SECRET = "hf_" + "a1b2c3d4e5" * 4
SHORT = ("--benchmarks", "neutral", "--resamples", "50", "--limit", "4", "--device", "cpu")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    # The headline of the benchmark is of the group of templates.
    of_templates = [{**row, "topic": "Sports"} for row in probes("test", "templates-paper")]
    return data(tmp_path_factory.mktemp("data"), **{"templates-paper_test": of_templates})


def command(*arguments, of=app):
    return CliRunner().invoke(of, [str(a) for a in arguments])


def refused(*arguments, code=1):
    done = command(*arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code == code, done.output
    return done.output.strip()


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory):
    """An uninterrupted run by somebody with a token, and what it printed."""
    out = tmp_path_factory.mktemp("whole") / "fair"
    arguments = ("debias_tuning", "tiny-causal", "--out", out, "--data", source, "--profile", "paper", *FEW, *SHORT)
    arguments += ("--limit", 24)  # all rows of the benchmark
    with mock.patch.dict(os.environ, HF_TOKEN=SECRET):
        done = command(*arguments)
    assert done.exit_code == 0, done.output
    return out, done.output


def test_a_run_ends_with_its_scores_the_cost_the_page_and_the_three_lines_with_a_verdict(whole):
    out, printed = whole
    facts = read(out)
    *_, held_out, compared, there, cost, place, stereotype, stated, ability, verdict = printed.strip().splitlines()
    assert [stereotype, stated, ability, verdict] == outcome(facts.changes).lines
    assert stereotype.startswith("Stereotype: ")
    assert "perplexity" in ability
    assert verdict.endswith("sentences are too few."), "these rows are limited"
    before = next(c.before for c in facts.changes if c.group == "templates" and c.metric == "gas")
    start = rf"GAS \(gender\): {before[0]:.2f} before, \d\.\d\d after, .* \[.*\]: (nearer|further|unclear)\. Lang.*"
    assert re.fullmatch(start, held_out), held_out
    assert re.match(r"Of 2 scores: 1 .*1 no verdict\.", compared), compared
    assert there.startswith(f"To remove: {before[0]:.2f}, because GAS (gender) was {before[0]:.2f} [")
    assert cost.startswith(f"{facts.cost.parameters:,} parameters trained in {facts.cost.seconds:.1f} s, at most ")
    page = f"the page is {out}-work/after/compare.html, and every change is in {out}-work/changes.csv."
    assert place == f"The adapter is {out}; {page}"


def test_a_score_that_is_not_defined_over_few_rows_is_said_and_no_nan_is_printed(tmp_path):
    of = ("occugender", "labour_correlation")
    changes = headline_changes(made_comparison())
    (change,) = [c for c in changes if (c.difference.benchmark, c.difference.metric) == of]
    undefined = replace(change, before=replace(change.before, value=math.nan))
    adapter = Adapter("prompts", "m", "r", "float32", {}, {}, Cost(0, 0.0, 0, "cpu"), {})
    printed = steps.summary(adapter, [undefined], tmp_path / "out", tmp_path / "work")
    assert printed[0] == "occugender labour corr. is not defined over these rows; give a higher --limit, or none."
    assert printed[1].startswith("Of 1 score: ")
    assert "nan" not in " ".join(printed)
    assert steps.summary(adapter, [change], tmp_path / "out", tmp_path / "work")[2].startswith("To remove: ")


def test_a_recipe_that_makes_ordinary_text_less_probable_is_saved_without_an_evaluation_only_on_request(
    source, tmp_path
):
    out = tmp_path / "worse"
    arguments = ("debias_tuning", "tiny-causal", "--out", out, "--data", source, "--no-evaluate", "--device", "cpu")
    arguments += (*FEW, "--learning-rate", "0.1", "--profile", "paper")
    message = refused(*arguments)
    before, after = (float(number) for number in re.findall(r"\d+\.\d{3}", message)[:2])
    assert after > before + steps.WORSE
    assert "--keep-worse" in message
    assert not out.exists()
    done = command(*arguments, "--keep-worse")
    assert done.exit_code == 0, done.output
    assert f"{before:.3f} nats a token before and {after:.3f} after" in done.output
    assert read(out).recipe == "debias_tuning"


def test_without_built_data_the_three_lines_are_measured_alone_and_a_sentence_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command("prompts", "tiny-causal", "--out", "fair", "--limit", "4", "--resamples", "50", "--device", "cpu")
    assert done.exit_code == 0, done.output
    first, *_, stereotype, stated, ability, verdict = done.output.strip().splitlines()
    assert "probes build" in first
    assert [stereotype, stated, ability, verdict] == outcome(read(tmp_path / "fair").changes).lines
    assert "compare.html" not in done.output
    refused("prompts", "tiny-causal", "--out", "other", "--data", tmp_path / "none", code=2)


def test_every_change_is_in_a_table_beside_the_runs(whole):
    out, printed = whole
    table = pd.read_csv(f"{out}-work/changes.csv")
    assert list(table) == ["benchmark", "group", "metric", "before", "after", "difference", "low", "high", "n"]
    assert len(table) == len(read(out).changes)
    assert {("neutral", "stsb", "gld"), ("text", "held-out texts", "perplexity")} <= set(
        zip(table.benchmark, table.group, table.metric, strict=True)
    )
    assert "pronoun_mass" not in printed


def test_what_a_recipe_reads_is_checked_before_a_model_is_loaded(source, tmp_path, monkeypatch):
    monkeypatch.setattr(steps.quantization, "load_for_training", lambda _: pytest.fail("a model was loaded"))
    common = ("tiny-causal", "--out", tmp_path / "a", "--data", source, "--no-evaluate")
    (tmp_path / "text.pdf").write_text("She left.")
    assert "is not clear from its name; let it end in .txt" in refused(
        "leace", *common, "--corpus", tmp_path / "text.pdf"
    )
    assert "There is no file" in refused("cda", *common, "--corpus", tmp_path / "nothing.txt")
    assert "cannot be read" in refused("inlp", *common, "--words", tmp_path / "nothing.json")
    message = refused("task_vector", *common)
    assert message == "error: The recipe task_vector needs the setting corpus; give it with --corpus."
    shown = " ".join(CliRunner().invoke(app, ["task_vector", "--help"], env={"COLUMNS": "200"}).output.split())
    assert "Biased text: files, folders, globs or addresses, with commas. (required)" in shown


def test_without_a_corpus_a_recipe_learns_from_sentences_of_the_project(source, tmp_path):
    arguments = ("leace", "tiny-causal", "--out", tmp_path / "a", "--data", source, "--no-evaluate")
    done = command(*arguments)
    assert done.exit_code == 0, done.output
    assert set(read(tmp_path / "a").data) == {"project:sentences.txt", "project:words.json"}
    (described, *_) = training_data(read(tmp_path / "a").data)
    assert "the default text and list of words, small" in described.name
    assert described.licence == "Apache-2.0"


def test_the_sentences_of_the_project_are_in_no_test_split():
    own = corpora.SENTENCES.read_text().splitlines()
    tests = {name: (DATA / f"{name}.txt").read_text().splitlines() for name in ("llm-1", "llm-2")}
    tests["templates"] = [str(text) for topic in table("probes")["templates"].values() for text in topic.values()]
    assert not [shared for shared in leaks({"own": own, **tests}) if "own" in shared[1:]]
    sides = [sum(f" {word} " in f" {line} " for line in own) for word in ("he", "she")]
    assert sides[0] == sides[1]


@pytest.mark.fault(54)
def test_without_a_gpu_the_message_says_what_is_missing_and_full_weights_are_used(whole):
    assert "need a GPU;" in whole[1]
    assert "plain LoRA" in whole[1]
    assert read(whole[0]).dtype == "float32"


def test_the_facts_have_every_metric_before_and_after_with_paired_intervals(whole):
    out, _ = whole
    changes = {(c.benchmark, c.group, c.metric): c for c in read(out).changes}
    assert {("neutral", "stsb", m) for m in ("gas", "gld", "add_raw", "pronoun_mass")} < changes.keys()
    assert ("text", "held-out texts", "perplexity") in changes
    for side in ("before", "after"):
        report = json.loads((out.with_name("fair-work") / side / "results.json").read_text())
        for estimate in report["estimates"]:
            change = changes["neutral", estimate["group"], estimate["metric"]]
            if estimate["value"] is not None:
                assert getattr(change, side)[0] == estimate["value"]
    gld = changes["neutral", "stsb", "gld"]
    assert gld.difference[0] == pytest.approx(gld.after[0] - gld.before[0])
    assert gld.difference[1] <= gld.difference[0] <= gld.difference[2]


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_scoring_with_the_adapter_gives_the_same_estimates(whole, source, tmp_path):
    out, _ = whole
    arguments = ("--adapter", out, "--data", source, "--benchmarks", "neutral", "--limit", "24", "--resamples", "50")
    done = command("tiny-causal", *arguments, "--out", tmp_path, of=scoring)
    assert done.exit_code == 0, done.output
    results = json.loads((tmp_path / "results.json").read_text())
    after = {(c.group, c.metric): c.after[0] for c in read(out).changes if c.benchmark == "neutral"}
    values = {(e["group"], e["metric"]): e["value"] for e in results["estimates"] if e["value"] is not None}
    assert values == pytest.approx({key: after[key] for key in values})


def test_the_folder_has_no_path_of_the_machine_except_given_ones(whole):
    text = (whole[0] / CONFIG).read_text() + (whole[0] / FACTS).read_text()
    assert json.loads((whole[0] / CONFIG).read_text())["base_model_name_or_path"] == "tiny-causal"
    assert str(ROOT) not in text


def test_a_prompt_is_measured_like_an_adapter(source, tmp_path):
    arguments = ("--out", tmp_path / "p", "--data", source, "--prompt", "debias-2", *SHORT)
    done = command("prompts", "tiny-causal", *arguments)
    assert done.exit_code == 0, done.output
    assert any(c.difference[0] for c in read(tmp_path / "p").changes if c.metric == "pronoun_mass")
    again = command("tiny-causal", "--prompt", tmp_path / "p" / "prompt.json", "--data", source, "--benchmarks",
                    "neutral", "--limit", "4", "--resamples", "50", "--out", tmp_path / "s", of=scoring)  # fmt: skip
    assert again.exit_code == 0, again.output


KILLED = """
import os, signal, sys, torch
torch.set_num_threads(1)
from mitigation.training import train
from mitigation.__main__ import app
step, count = train._step, [int(sys.argv.pop(1))]
def dying(*arguments):
    terms = step(*arguments)
    count[0] -= 1
    if not count[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return terms
train._step = dying
app()
"""


@pytest.mark.fault(55)
def test_a_killed_command_resumes_to_the_same_losses(whole, source, tmp_path):
    arguments = ["debias_tuning", "tiny-causal", "--out", tmp_path / "fair", "--data", source, "--profile", "paper"]
    arguments = [str(a) for a in (*arguments, *FEW, *SHORT, "--limit", 24)]
    killed = subprocess.run([sys.executable, "-c", KILLED, "3", *arguments], cwd=ROOT, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert not (tmp_path / "fair").exists()
    assert command(*arguments).exit_code == 0
    one, other = (json.loads((f / "losses.json").read_text()) for f in (whole[0], tmp_path / "fair"))
    assert [e["loss"] for e in one["train"]] == pytest.approx([e["loss"] for e in other["train"]], rel=1e-4)


@pytest.mark.mirror
@pytest.mark.fault(55)
@pytest.mark.parametrize("recipe", os.environ.get("PROBES_KILLED", "prompts,debias_tuning").split(","))
def test_a_recipe_killed_at_writes_makes_the_same_adapter_when_it_is_run_again(tmp_path, recipe):
    done = subprocess.run(
        [sys.executable, "-m", "tests.mitigation.killed", str(tmp_path), "2", recipe],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {recipe: {"killed": 2, "same": 2}}


def test_after_an_interrupted_evaluation_the_adapter_is_not_made_again(source, tmp_path, monkeypatch):
    arguments = ("debias_tuning", "tiny-causal", "--out", tmp_path / "a", "--data", source, *FEW, *SHORT)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "evaluate_adapter", interrupted)
    assert refused(*arguments, code=130).endswith("Interrupted; start the same command again to go on.")
    made = (tmp_path / "a-work" / "made" / FACTS).read_bytes()
    monkeypatch.undo()
    monkeypatch.setattr("mitigation.training.train.fit", lambda *_: pytest.fail("trained again"))
    assert command(*arguments).exit_code == 0
    assert json.loads(made)["cost"] == json.loads((tmp_path / "a" / FACTS).read_text())["cost"]


@pytest.fixture
def lacking(monkeypatch):
    """Makes a machine without a GPU, a package, or neither."""

    def lack(gpu, package):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
        find_spec = quantization.importlib.util.find_spec
        monkeypatch.setattr(
            quantization.importlib.util,
            "find_spec",
            lambda n: None if n == "bitsandbytes" and not package else find_spec(n),
        )

    return lack


@pytest.mark.fault(54)
@pytest.mark.parametrize(
    ("gpu", "package", "needs"),
    [
        (False, True, "a GPU"),
        (True, False, "the package bitsandbytes (pip install bitsandbytes)"),
        (False, False, "a GPU and the package bitsandbytes (pip install bitsandbytes)"),
    ],
)
def test_missing_requirements_of_four_bits_are_reported_and_full_weights_are_used(lacking, gpu, package, needs):
    lacking(gpu, package)
    quantization, remark = choose_quantization(get("debias_tuning"), "auto", None)
    assert quantization is None
    assert f"need {needs};" in remark
    assert "plain LoRA" in remark
    assert choose_quantization(get("debias_tuning"), "none", None) == (None, "")
    assert choose_quantization(get("prompts"), "auto", None) == (None, "")


@pytest.mark.fault(54)
def test_four_bits_on_request_are_refused_where_unavailable(lacking):
    lacking(False, False)
    with pytest.raises(MitigationError) as error:
        choose_quantization(get("debias_tuning"), "4bit", None)
    assert str(error.value) == (
        "Weights in 4 bits need a GPU and the package bitsandbytes (pip install bitsandbytes); or give --quantize none "
        "to train with weights in float32, which suits small models."
    )


@pytest.mark.fault(54)
def test_four_bits_are_used_where_available(lacking):
    lacking(True, True)
    assert choose_quantization(get("debias_tuning"), "auto", None) == ("4bit", "")
    assert choose_quantization(get("debias_tuning"), "auto", "cpu")[0] is None


def test_a_masked_model_is_refused_by_recipes_for_causal_ones(source, tmp_path):
    made = models.model("bert")
    made.network.save_pretrained(tmp_path / "bert")
    made.tokens.tokenizer.save_pretrained(tmp_path / "bert")
    path = tmp_path / "bert"
    message = refused("debias_tuning", path, "--out", tmp_path / "a", "--data", source, "--no-evaluate")
    assert message.endswith(
        f"error: The recipe debias_tuning is for causal models, and {path} is a masked one; give another model."
    )


def test_without_an_evaluation_there_is_an_adapter_without_changes(source, tmp_path):
    done = command("debias_tuning", "tiny-causal", "--out", tmp_path / "a", "--data", source, "--no-evaluate", *FEW)
    assert done.exit_code == 0, done.output
    assert read(tmp_path / "a").changes == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rank", "0"), "error: The setting rank is 0"),
        (("--benchmarks", "nothing"), "error: No benchmark is called 'nothing'; the names are "),
        (("--text", "no-such-file"), "error: no-such-file cannot be read as text ("),
        (("--config", "no-such-file.toml"), "error: no-such-file.toml cannot be read ("),
        (("--corpora", "stsb,x", "--no-evaluate"), "error: {data}/gender-neutral-probes lacks x/train"),
    ],
)
def test_wrong_arguments_are_one_sentence(source, tmp_path, arguments, message):
    output = refused("debias_tuning", "tiny-causal", "--out", tmp_path / "a", "--data", source, *arguments,
                    code=2 if "--corpora" in arguments else 1)  # fmt: skip
    assert output.splitlines()[-1].startswith(message.format(data=source))
    assert not (tmp_path / "a").exists()


def test_a_folder_of_something_else_is_refused_before_anything_is_done(source, tmp_path):
    (tmp_path / "thesis.tex").write_text("years")
    message = refused("debias_tuning", "tiny-causal", "--out", tmp_path, "--data", source, *FEW)
    assert message == (
        f"error: {tmp_path / 'thesis.tex'} was not written by this program, and {tmp_path} would be replaced as a "
        "whole; move it away or choose another --out."
    )
    assert (tmp_path / "thesis.tex").read_text() == "years"


@pytest.mark.fault(9)
def test_a_second_run_in_the_same_folder_is_refused(source, tmp_path):
    with locked(tmp_path / "a-work", MitigationError):
        message = refused("prompts", "tiny-causal", "--out", tmp_path / "a", "--data", source, "--no-evaluate")
    assert message.startswith("error: ")
    assert f"{tmp_path / 'a-work'};" in message
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("arguments", [("nothing", "m", "--out", "x"), ("prompts", "m"), ("decoding", "m", "--out")])
def test_wrong_options_are_usage_errors(arguments):
    assert "Error" in refused(*arguments, code=2)


@pytest.mark.fault(49)
def test_a_token_is_in_no_file_and_no_line(whole):
    out, printed = whole
    files = [path for path in out.parent.rglob("*") if path.is_file()]
    assert {"results.json", FACTS} <= {path.name for path in files}
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in files)
    assert SECRET not in printed


def test_the_help_has_each_setting_with_its_value_in_both_profiles():
    output = CliRunner().invoke(app, ["debias_tuning", "--help"], env={"COLUMNS": "200"}).output
    output = " ".join(output.split())
    assert "Rank of the two LoRA matrices of each linear map. (clean 64, paper 64)" in output
    assert "Weight of the divergence from the base model. (clean 1.0, paper 0.0)" in output
