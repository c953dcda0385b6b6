"""Methods side by side: what a page says of made changes, and a command that goes on and takes foreign folders."""

import json
import math
import shutil
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from mitigation import comparison
from mitigation.__main__ import app
from mitigation.adapters.write import write_facts
from mitigation.commands import methods
from mitigation.errors import MitigationError
from scoring.adapters.facts import Adapter, Change, Cost
from tests.mitigation.made import data

COST = Cost(1200, 3.0, 10, "cpu")
SS, LMS, TEXT = (
    ("stereoset", "intrasentence test gender", "ss"),
    ("stereoset", "intrasentence test gender", "lms"),
    ("text", "held-out texts", "perplexity"),
)


def change(key, before, after, low, high):
    nan = math.nan
    return Change(*key, (before, nan, nan), (after, after - 4, after + 4), (after - before, low, high), 90)


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


def test_bias_and_ability_are_judged_side_by_side(folder):
    rows = {row.name: row for row in comparison.rows_of(folder)}
    result = {
        name: [
            comparison.said(changed, column)
            for column in ("SS", "LMS", "perplexity")
            if (changed := comparison.change_of(row, column, "gender"))
        ]
        for name, row in rows.items()
    }
    assert result == {
        "helps": ["nearer", "kept", "kept"],
        "destroys": ["nearer", "lost", "lost"],
        "unclear": ["unclear", "unclear"],
    }


def test_the_page_has_every_method_and_the_unchanged_model(folder):
    reasons = {"broken": "There is <no> corpus.", "helps": "is made already"}
    page = comparison.write(folder, "tiny-causal", comparison.rows_of(folder, reasons)).read_text()
    assert page.count("<h2>") == 1
    assert "<td>60.00</td>" in page
    assert "-7.00 [-9.00, -5.00]" in page
    assert "not made: There is &lt;no&gt; corpus." in page
    assert "is made already" not in page
    assert "data:image/png;base64," in page
    assert "http" not in page
    content = json.loads((folder / "methods.json").read_text())
    assert [row["method"] for row in content["methods"]] == ["destroys", "helps", "unclear", "broken"]
    assert content["methods"][1]["changes"][0]["before"][1] is None
    assert content["methods"][1]["cost"]["parameters"] == 1200


def test_adapters_of_two_models_are_refused(folder):
    (folder / "other").mkdir()
    write_facts(folder / "other", adapter(revision="s"))
    with pytest.raises(MitigationError, match=r"has adapters of 2 models; give a folder with the adapters of one"):
        comparison.rows_of(folder)


def run(*arguments):
    return CliRunner().invoke(app, ["methods", *map(str, arguments)])


@pytest.mark.mirror
def test_the_command_goes_on_and_takes_folders_of_other_machines(tmp_path, monkeypatch):
    source, out = data(tmp_path / "data"), tmp_path / "out"
    common = ("--data", source, "--benchmarks", "neutral", "--limit", 1, "--resamples", 20)
    done = run("tiny-causal", "--out", out, "--methods", "prompts,leace", *common)
    assert done.exit_code == 0, done.output
    assert "leace: This recipe learns from text and no corpus is given" in done.output
    assert not (out / "leace").exists()
    reasons = [row["reason"] for row in json.loads((out / "methods.json").read_text())["methods"]]
    assert reasons[0] == ""
    assert reasons[1].startswith("This recipe learns from text")
    monkeypatch.setattr(methods, "mitigate", lambda *_, **__: pytest.fail("a method was run again"))
    assert run("tiny-causal", "--out", out, "--methods", "prompts", *common).exit_code == 0
    shutil.copytree(out / "prompts", tmp_path / "elsewhere" / "prompts-2")
    shutil.move(tmp_path / "elsewhere" / "prompts-2", out / "prompts-2")
    assert run("tiny-causal", "--out", out, "--methods", "").exit_code == 0
    assert len(json.loads((out / "methods.json").read_text())["methods"]) == 2


def test_settings_come_from_the_table_of_the_recipe(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("[inlp]\nclassifiers = 7\nseed = 3\n")
    settings = methods.settings_of(
        methods.recipes.get("inlp"), "clean", methods.read_config(path)["inlp"], "text.txt", seed=2
    )
    assert (settings.classifiers, settings.corpus, settings.seed) == (7, "text.txt", 5)
    path.write_text("seed = 3\n")
    with pytest.raises(MitigationError, match=r"has settings outside of a table"):
        methods.read_config(path)
    path.write_text("seed = \n")
    with pytest.raises(MitigationError, match=r"is not TOML"):
        methods.read_config(path)


def test_an_adapter_with_other_settings_or_without_scores_is_not_complete(tmp_path):
    recipe = methods.recipes.get("prompts")
    settings = recipe.profiles["clean"]
    facts = replace(adapter(change(SS, 60.0, 53.0, -9.0, -5.0)), settings={"prompt": settings.prompt})
    for name, made, expected in (
        ("same", facts, True),
        ("other", replace(facts, settings={"prompt": "debias-1"}), False),
        ("unscored", replace(facts, changes=()), False),
    ):
        (tmp_path / name).mkdir()
        write_facts(tmp_path / name, made)
        assert methods.complete(tmp_path / name, recipe, settings, "tiny-causal") is expected
    assert not methods.complete(tmp_path / "nowhere", recipe, settings, "tiny-causal")
