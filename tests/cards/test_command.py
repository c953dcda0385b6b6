"""What a newcomer types wrong is told in a sentence, and a token that was typed is told to nobody."""

import subprocess
import sys

import pytest
import typer

from cards.common.options import holds_token, start
from tests.support import commands
from tests.support.helpers import ROOT

TOKEN = "hf_" + "abcdefghij" * 3 + "0123"
MODULES = (
    "builders.push",
    "scoring.commands.card",
    "scoring.commands.leaderboard",
    "mitigation.publish",
    "scoring.commands.rescore",
)
ALL = (*MODULES, "builders.generate", "builders.rebuild", "mitigation", "pmi", "scoring")


def process(module, *arguments):
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("module", "run"), [*((each, commands.run) for each in ALL), ("builders.push", process)])
@pytest.mark.fault(49)
def test_a_token_among_the_arguments_is_refused_and_not_shown(module, run):
    result = run(module, "--tokn", TOKEN)
    assert result.returncode == 2
    assert not result.stdout
    assert result.stderr.startswith("error: An argument looks like an access token; give tokens in the environment")
    assert TOKEN not in result.stderr


@pytest.mark.parametrize(
    "argument",
    [
        TOKEN,
        f"--token={TOKEN}",
        f"https://me:{TOKEN}@huggingface.co/org/x",
        "sk-" + "a1" * 12,
        "planted!",
    ],
)
def test_a_token_is_found_in_whatever_it_was_typed_with(argument):
    environment = {"SOME_API_KEY": "planted!", "HOME": "/home/me"}
    assert holds_token(["--org", "me", argument], environment)


@pytest.mark.parametrize(
    "argument", ["hf_models", "runs/sk-learn-models-of-november-2026", "org/sk-learn", "/home/me", "--dry-run", ""]
)
def test_names_and_paths_are_no_tokens(argument):
    assert not holds_token([argument], {"SOME_API_KEY": "planted!", "HOME": "/home/me"})


def test_other_arguments_reach_the_command(monkeypatch, capsys):
    app = typer.Typer(add_completion=False)

    @app.command()
    def say(word: str) -> None:
        print(word)

    monkeypatch.setattr(sys, "argv", ["say", "hello"])
    with pytest.raises(SystemExit) as done:
        start(app, "say")
    assert done.value.code == 0
    assert capsys.readouterr().out == "hello\n"


@pytest.mark.parametrize(
    ("module", "arguments", "said"),
    [
        (
            "builders.push",
            ("no/where", "--org", "org"),
            "error: no/where has no built data set; run probes build --out",
        ),
        (
            "scoring.commands.card",
            ("no/model", "no/where", "--org", "org"),
            "error: no/where cannot be read as results (No such file or ",
        ),
    ],
)
def test_a_folder_that_is_not_there_is_one_sentence(module, arguments, said):
    result = commands.run(module, *arguments)
    assert result.returncode == 1
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("module", MODULES)
def test_without_arguments_a_command_says_which_is_missing(module):
    result = commands.run(module)
    assert result.returncode == 2
    assert "Missing argument" in result.stderr
    assert "Traceback" not in result.stderr
