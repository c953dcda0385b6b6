"""A recipe in a file outside the project."""

import json

import pytest
from typer.testing import CliRunner

from mitigation import recipes
from mitigation.__main__ import app
from mitigation.errors import MitigationError
from mitigation.publish import app as publish
from scoring.adapters.facts import read
from tests.mitigation.made import data

RECIPE = """
from __future__ import annotations

from dataclasses import dataclass

from cards.common.files import put
from mitigation.adapters.write import describe
from mitigation.recipe import Recipe, setting
from scoring.adapters.facts import PROMPT, Cost
from scoring.inputs.prompts import PROMPTS


@dataclass(frozen=True, slots=True)
class PoliteSettings:
    prompt: str = setting("debias-1", "Which prompt.", "made up")


def run(model, settings, data, out, console):
    put(out / PROMPT, PROMPTS[settings.prompt].json().encode())
    return describe(out, model, RECIPE.name, settings, data={}, cost=Cost(0, 0.0, 0, "cpu"))


RECIPE = Recipe(
    name="polite",
    summary="A recipe of a test.",
    source="Nobody (2026)",
    cite=(),
    citations={"nobody2026": "@misc{nobody2026, title={Polite}}"},
    profiles={"clean": PoliteSettings(), "paper": PoliteSettings("debias-2")},
    run=run,
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
        ("broken.py", "1 / 0", "cannot be run (ZeroDivisionError: division by zero); correct the file."),
        ("leaving.py", "import sys\nsys.exit(0)", "cannot be run (SystemExit: 0); correct the file."),
        ("empty.py", "", "defines no RECIPE; set it to a mitigation.recipe.Recipe."),
        ("recipe.txt", RECIPE, "is not a Python file; give a file NAME.py that defines RECIPE."),
    ],
)
def test_a_file_without_a_recipe_of_its_own_is_refused(file, tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    names = recipes.names()
    with pytest.raises(MitigationError) as error:
        recipes.include(path)
    assert str(error.value) == f"{path} {message}"
    assert recipes.names() == names


def test_the_command_refuses_a_file_that_is_not_there_in_one_sentence(file, tmp_path):
    done = run("--include", tmp_path / "none.py", "polite", "m", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert done.output.startswith(f"error: {tmp_path / 'none.py'} is not a Python file")
