"""Methods side by side: what a page says of made changes, and a command that goes on and takes foreign folders."""

import json
import math
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from typer.testing import CliRunner

import mitigation.running.steps as running
from mitigation.__main__ import app
from mitigation.adapters.write import write_facts
from mitigation.api import mitigate
from mitigation.commands import table as methods
from mitigation.errors import MitigationError
from mitigation.methods import comparison, comparison_page
from mitigation.training.data import TrainingData
from scoring.adapters.facts import Adapter, Change, Cost, read
from scoring.inference.model import Model
from tests.mitigation.made import bundled, data, probes, quick, tuned

COST = Cost(1200, 3.0, 10, "cpu")
PAIRS = ("fast", "held-out subjects", "ss")
SS, LMS, TEXT = (
    ("stereoset", "intrasentence test gender", "ss"),
    ("stereoset", "intrasentence test gender", "lms"),
    ("text", "held-out texts", "perplexity"),
)


def change(key, before, after, low, high):
    ends = (before - 4, before + 4) if key == SS else (math.nan, math.nan)
    return Change(*key, (before, *ends), (after, after - 4, after + 4), (after - before, low, high), 90)


def adapter(*changes, revision="r", base="tiny-causal"):
    return Adapter("made", base, revision, "float32", {}, {}, COST, {}, changes=changes)


@pytest.fixture
def folder(tmp_path):
    made = {
        "helps": adapter(
            change(SS, 60.0, 53.0, -9.0, -5.0), change(LMS, 90.0, 90.0, -0.5, 0.5), change(TEXT, 20.0, 20.1, 0.0, 0.2)
        ),
        "destroys": adapter(
            change(SS, 60.0, 51.0, -11.0, -7.0),
            change(LMS, 90.0, 50.0, -44.0, -36.0),
            change(TEXT, 20.0, 400.0, 350, 410),
        ),
        "unclear": adapter(change(SS, 60.0, 58.0, -5.0, 1.0), change(LMS, 90.0, 88.0, -5.0, 1.0)),
    }
    for name, facts in made.items():
        (tmp_path / name).mkdir()
        write_facts(tmp_path / name, facts)
    return tmp_path


def test_the_page_has_every_method_and_the_unchanged_model(folder):
    reasons = {"broken": "There is <no> corpus.", "helps": "is made already"}
    comparison_page.write(folder, "tiny-causal", comparison.rows_of(folder, reasons))
    page = (folder / "methods.html").read_text()
    assert "<b>60.00</b>" in page
    assert "−7.00 [−9.00, −5.00]" in page
    assert "not made: There is &lt;no&gt; corpus." in page
    assert "is made already" not in page
    assert "<svg" in page
    assert "http" not in page.replace("http-equiv", "")
    content = json.loads((folder / "methods.json").read_text())
    assert [row["method"] for row in content["methods"]] == ["destroys", "helps", "unclear", "broken"]
    assert content["methods"][1]["changes"][1]["before"][1] is None
    assert content["methods"][1]["cost"]["parameters"] == 1200
    lines = (folder / "methods.md").read_text().splitlines()
    widths = {line.count("|") for line in lines if line.startswith("|")}
    assert len(widths) == 1
    assert sum("nearer, ability lost" in line for line in lines) == 1
    stored = pd.read_csv(folder / "methods.csv").set_index(["method", "column"])
    assert stored.loc[("helps", "SS StereoSet"), ["before", "after", "verdict", "ability"]].tolist() == [
        60.0,
        53.0,
        "nearer",
        "kept",
    ]
    assert {"measured", "Table 2, gpt2"} == set(stored.source)


def test_adapters_of_two_models_are_refused(folder):
    (folder / "other").mkdir()
    write_facts(folder / "other", adapter(revision="s"))
    with pytest.raises(MitigationError, match="adapters of 2"):
        comparison.rows_of(folder)


def run(*arguments):
    return CliRunner().invoke(app, ["methods", *map(str, arguments)])


@pytest.fixture
def asked(monkeypatch):
    """The requests that models get, each with the name of the adapter."""
    requests, answer = [], Model.answer

    def counted(self, given, **settings):
        requests.extend((self.adapter, request) for request in given)
        return answer(self, given, **settings)

    monkeypatch.setattr(Model, "answer", counted)
    return requests


COMMON = ("--benchmarks", "neutral", "--limit", 1, "--resamples", 20)


def of_base(asked):
    """The requests with the prompts as they are, which a prompt of the recipe would change."""
    prompts = {row["prompt"] for row in probes("test")}
    return [request.context for _, request in asked if request.context in prompts]


@pytest.mark.mirror
def test_the_unchanged_model_is_asked_once_and_a_method_is_not_run_again(tmp_path, asked, monkeypatch):
    source, out = data(tmp_path / "data"), tmp_path / "out"
    common = ("--data", source, *COMMON)
    done = run("tiny-causal", "--out", out, "--methods", "prompts,task_vector", *common)
    assert done.exit_code == 0, done.output
    assert "task_vector: The recipe task_vector needs the setting corpus" in done.output
    assert not (out / "task_vector").exists()
    reasons = [row["reason"] for row in json.loads((out / "methods.json").read_text())["methods"]]
    assert reasons[0] == ""
    assert reasons[1].startswith("The recipe task_vector needs")

    plain = of_base(asked)
    assert len(plain) == len(set(plain)) == 1
    asked.clear()
    other = tmp_path / "other.toml"
    other.write_text('[prompts]\nprompt = "debias-1"\n')
    shutil.copytree(out / "prompts", out / "prompts-2")
    assert run("tiny-causal", "--out", out, "--methods", "prompts", "--config", other, *common).exit_code == 0
    assert len(asked) > 1
    assert not of_base(asked)
    one = mitigate(
        "prompts", "tiny-causal", out=tmp_path / "one", data=source, benchmarks=["neutral"], limit=1, resamples=20
    )
    assert str(read(out / "prompts-2").changes) == str(one.facts.changes)  # NaN is unlike itself

    monkeypatch.setattr(running, "make_and_evaluate", lambda *_, **__: pytest.fail("a method was run again"))
    assert run("tiny-causal", "--out", out, "--methods", "prompts", "--config", other, *common).exit_code == 0
    again = CliRunner().invoke(app, ["table", "tiny-causal", "--methods=", "--out", str(out)])
    assert again.exit_code == 0, again.output
    # A folder of another machine stands beside those of this one; what could not be made keeps its reason.
    rows = json.loads((out / "methods.json").read_text())["methods"]
    assert [(row["method"], row["reason"]) for row in rows] == [
        ("prompts", ""),
        ("prompts-2", ""),
        ("task_vector", reasons[1]),
    ]
    refused = run("tiny-causal", "--out", out, "--methods", "prompts", *common, "--limit", 2)
    assert refused.exit_code == 1
    assert "has methods measured with limit 1 instead of 2" in refused.output


def test_settings_come_from_the_table_of_the_recipe(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("[inlp]\nclassifiers = 7\nseed = 3\n")
    settings = methods.settings_of(
        methods.recipes.get("inlp"), "clean", methods.read_config(path)["inlp"], "text.txt", seed=2
    )
    assert (settings.classifiers, settings.corpus, settings.seed) == (7, "text.txt", 5)
    swept = methods.settings_of(methods.recipes.get("fast"), "clean", {}, "text.txt", seed=1, domain="race", layer=2)
    assert (swept.domain, swept.layer, swept.seed) == ("race", 2, 43)
    own = methods.settings_of(methods.recipes.get("inlp"), "clean", {"corpus": "own.txt"}, "text.txt", seed=0)
    assert own.corpus == "own.txt"
    path.write_text("seed = 3\n")
    with pytest.raises(MitigationError, match="outside of a"):
        methods.read_config(path)
    path.write_text("seed = \n")
    with pytest.raises(MitigationError, match=r"is not TOML"):
        methods.read_config(path)


def test_a_finished_method_is_of_the_same_settings_model_and_data_and_scored(tmp_path):
    model, recipe = bundled(), methods.recipes.get("debias_tuning")
    source, settings = data(tmp_path / "data"), quick(steps=1, validate_every=1)
    rows = TrainingData(str(source))
    made = tuned(model, settings, source, tmp_path / "made")
    scored = replace(made, changes=(change(SS, 60.0, 53.0, -9.0, -5.0),))
    for name, facts, expected in (
        ("same", scored, True),
        ("unscored", made, False),
        ("own-pairs-only", replace(made, changes=(change(PAIRS, 60.0, 53.0, -9.0, -5.0),)), False),
        ("of-another-revision", replace(scored, revision="other"), False),
        ("of-other-data", replace(scored, data=dict.fromkeys(made.data, "other")), False),
    ):
        shutil.copytree(tmp_path / "made", tmp_path / name)
        write_facts(tmp_path / name, facts)
        assert running.finished(recipe, settings, model, rows, tmp_path / name) is expected
    assert not running.finished(recipe, replace(settings, steps=2), model, rows, tmp_path / "same")
    assert not running.finished(recipe, settings, model, rows, tmp_path / "nowhere")
