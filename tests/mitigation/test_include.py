"""A recipe in a file outside the project."""

import io
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mitigation import mitigate, recipes
from mitigation.__main__ import app
from mitigation.errors import MitigationError
from mitigation.publish import app as publish
from mitigation.recipe import Job, Settings, setting
from mitigation.training.data import TrainingData
from scoring.adapters.facts import PROMPT, read
from tests.mitigation.made import bundled, data, silent
from tests.support.helpers import ROOT

RECIPE = """
from __future__ import annotations

from dataclasses import dataclass

from cards.common.files import put
from mitigation.recipe import Recipe, Settings, setting
from scoring.adapters.facts import PROMPT
from scoring.inputs.prompts import PROMPTS


@dataclass(frozen=True)
class PoliteSettings(Settings):
    prompt: str = setting("debias-1", "Which prompt.", "made up")


def make(job):
    put(job.out / PROMPT, PROMPTS[job.settings.prompt].json().encode())
    return job.done(None)


RECIPE = Recipe(
    name="polite",
    summary="A recipe of a test.",
    source="Nobody (2026)",
    cite=(),
    citations={"nobody2026": "@misc{nobody2026, title={Polite}}"},
    profiles={"clean": PoliteSettings(), "paper": PoliteSettings("debias-2")},
    make=make,
    benchmarks=("neutral",),
)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(recipes.REGISTRY, "included", {})
    path = tmp_path / "polite.py"
    path.write_text(RECIPE)
    return path


def run(*arguments, of=app):
    return CliRunner().invoke(of, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_an_included_recipe_has_a_command_options_numbers_and_a_card(file, tmp_path):
    assert "polite" not in run("--help").output
    shown = run("--include", file, "--help")
    assert "polite" in shown.output
    assert "fast" in shown.output
    assert "Which prompt. (clean debias-1, paper debias-2)" in run("--include", file, "polite", "--help").output
    options = "--benchmarks neutral --limit 4 --resamples 50 --device cpu --prompt debias-3".split()
    done = run(
        "--include", file, "polite", "tiny-causal", "--out", tmp_path / "out", "--data", data(tmp_path), *options
    )
    assert done.exit_code == 0, done.output
    facts = read(tmp_path / "out")
    assert (facts.recipe, facts.settings) == ("polite", {"prompt": "debias-3"})
    assert any(change.metric == "gas" for change in facts.changes)
    assert json.loads((tmp_path / "out" / "prompt.json").read_text())["name"] == "debias-3"
    recipes.REGISTRY.included.clear()
    options = [tmp_path / "out", "--repo", "org/polite", "--licence", "mit", "--base", "org/small", "--dry-run"]
    refused = run(*options, of=publish)
    assert "No recipe is called 'polite'" in refused.output
    card = run(*options, "--include", file, of=publish)
    assert card.exit_code == 0, card.output
    assert "@misc{nobody2026" in card.output
    assert "A recipe of a test." in card.output


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("own.py", RECIPE.replace('"polite"', '"fast"'), "has the name 'fast' of another recipe; give it a new name."),
        ("broken.py", "1 / 0", "(ZeroDivisionError: division by zero)"),
        ("leaving.py", "import sys\nsys.exit(0)", "(SystemExit: 0)"),
        (
            "plain.py",
            RECIPE.replace("(Settings)", ""),
            "but PoliteSettings; let the class inherit from mitigation.recipe.Settings.)",
        ),
        (
            "hidden.py",
            RECIPE.replace("prompt: str", "inputs: str").replace("settings.prompt", "settings.inputs"),
            "(MitigationError: A setting of the recipe polite is called inputs, which is a method of Settings",
        ),
        (
            "former.py",
            RECIPE.replace("make=make", "run=make"),
            "unexpected keyword argument 'run'); correct the file; the fields of Recipe are name, summary, source, "
            "cite, profiles, make, benchmarks, ",
        ),
        (
            "papier.py",
            RECIPE.replace('"paper": ', '"papier": '),
            "has the profiles clean, papier; give clean, and paper",
        ),
        (
            "number.py",
            RECIPE.replace('prompt: str = setting("debias-1"', "prompt: str = setting(1"),
            "(MitigationError: The setting prompt is 1; give a value of type str.)",
        ),
        (
            "summary.py",
            RECIPE.replace('summary="A recipe of a test."', "summary=7"),
            "gives the field summary of its recipe as int; give a text.",
        ),
        ("empty.py", "", "defines no RECIPE; set it to a mitigation.recipe.Recipe."),
        ("recipe.txt", RECIPE, "give a file NAME.py that defines RECIPE."),
    ],
)
def test_a_file_without_a_recipe_of_its_own_is_refused(file, tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    names = recipes.names()
    with pytest.raises(MitigationError) as error:
        recipes.include(path)
    assert str(error.value).startswith(f"{path} ")
    assert message in str(error.value)
    assert recipes.names() == names


def test_a_mistake_in_the_code_of_a_recipe_ends_the_command_in_a_sentence_with_its_line(file, tmp_path):
    file.write_text(RECIPE.replace("job.settings.prompt", "job.settings.promt"))
    options = ("--no-evaluate", "--device", "cpu", "--data", tmp_path, "--out", tmp_path / "out")
    done = run("--include", file, "polite", "tiny-causal", *options)
    assert done.exit_code == 1
    (sentence,) = [line for line in done.output.splitlines() if line.startswith("error: ")]
    assert f"{file}, line " in sentence
    assert "promt" in sentence
    assert not (tmp_path / "out").exists()


def test_a_profile_that_a_recipe_has_not_is_refused(file, tmp_path):
    file.write_text(RECIPE.replace(', "paper": PoliteSettings("debias-2")', ""))
    done = run("--include", file, "polite", "tiny-causal", "--profile", "paper", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "has no profile 'paper'; give --profile clean." in done.output


def test_the_command_refuses_a_file_that_is_not_there_in_one_sentence(file, tmp_path):
    done = run("--include", tmp_path / "none.py", "polite", "m", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert done.output.startswith(f"error: {tmp_path / 'none.py'} ")


class Guide:
    """The recipe of the guide, whose calls are counted."""

    def __init__(self, folder, monkeypatch):
        monkeypatch.setattr(recipes.REGISTRY, "included", {})
        guide = (ROOT / "docs" / "contributing.md").read_text("utf-8")
        file = folder / "polite.py"
        file.write_text(guide.split('```python title="polite.py"\n')[1].split("```")[0], "utf-8")
        recipes.include(file)
        self.recipe, self.times = recipes.get("polite"), 0
        counted = replace(self.recipe, make=self.make)
        monkeypatch.setitem(recipes.REGISTRY.included, "polite", (counted, file))
        self.out, self.words = folder / "out", folder / "words.txt"

    def make(self, job):
        self.times += 1
        return self.recipe.make(job)

    def made(self, console=None):
        options = {"evaluate": False, "device": "cpu", "data": str(self.out.with_name("none"))}
        options["console"] = console or silent()
        return mitigate("polite", "tiny-causal", out=self.out, words=str(self.words), **options).facts

    def instruction(self):
        return json.loads((self.out / PROMPT).read_text())["instruction"]


def test_the_recipe_of_the_guide_makes_nothing_twice_and_makes_it_again_when_its_file_changes(tmp_path, monkeypatch):
    guide = Guide(tmp_path, monkeypatch)
    guide.words.write_text("Be fair to all.\n")
    first = guide.made()
    assert list(first.data) == ["words:words.txt"]
    assert (guide.times, guide.instruction()) == (1, "Be fair to all.\n")
    console = Console(record=True, width=200, file=io.StringIO())
    again = guide.made(console)
    assert "the recipe is not run again" in console.export_text()
    assert (again.data, again.files, again.settings) == (first.data, first.files, first.settings)
    assert guide.times == 1, "the same command again makes nothing twice"
    guide.words.write_text("Be kind to all.\n")
    assert guide.made().data != first.data
    assert (guide.times, guide.instruction()) == (2, "Be kind to all.\n")


def test_a_file_of_a_setting_that_cannot_be_read_is_refused_before_a_model_is_loaded(tmp_path, monkeypatch):
    guide = Guide(tmp_path, monkeypatch)
    with pytest.raises(MitigationError, match=r"words\.txt"):
        mitigate("polite", "no/model", out=guide.out, words=str(guide.words), evaluate=False)
    guide.words.write_bytes(b"\xff")
    with pytest.raises(MitigationError, match=r"words\.txt is not UTF-8"):
        guide.made()
    assert not guide.out.exists()


@dataclass(frozen=True)
class Unmarked(Settings):
    words: str = setting("words.txt", "A file that is not declared.")


def test_a_job_reads_no_file_that_is_not_recorded():
    job = Job("polite", bundled(), Unmarked(), TrainingData(), Path(), silent())
    with pytest.raises(MitigationError, match="words of polite"):
        job.read("words")
