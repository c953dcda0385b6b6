"""Mistakes of new users: a command, and the sentence that it ends with before a model is loaded."""

import sys

import pytest
import typer

from builders import rebuild
from cards.common import options
from scoring.commands import score

COMMANDS = {"build": rebuild.app, "score": score.app}
#: What was typed, and what the answer has in it; no line needs data or a model.
MISTAKES = {
    "score stereoset": "'stereoset' is a benchmark and no model; write MODEL --benchmarks stereoset.",
    "score stereoset tiny-causal": "'stereoset' is a benchmark and no model",
    "score tiny-causal stereoset": "'stereoset' is a benchmark and no model",
    "score gender-neutral-probes": "'gender-neutral-probes' is a data set and no model",
    "score https://huggingface.co/org/name": "is an address; give a model by its name on the Hub",
    "score tiny-causal http://127.0.0.1:8000/v1": "The address of a server is given with --base-url.",
    "score C:\\models\\name": "There is no folder",
    "score tiny-causal --benchmarks stereo": "No benchmark is called 'stereo' (did you mean 'unstereo'?)",
    "score tiny-causal --benchmarks stereoset,prnouns": "No benchmark is called 'prnouns' (did you mean 'pronouns'?)",
    "score tiny-causal --benchmarks stereoset --benchmarks prnouns": "No benchmark is called 'prnouns'",
    "score tiny-causal --ways guess": "guess",
    "score tiny-causal --fail-if occugender.gapp>20": "names no metric of occugender",
    "score tiny-causal --fail-if ocugender.gap>20": "names no benchmark",
    "score tiny-causal --limit 0": "Invalid value for '--limit'",
    "score tiny-causal --profile papers": "'papers' is not one of",
    "score tiny-causal --benchmark stereoset": "No such option",
    "build occugender,nuetral": "No data set is called 'nuetral'",
    "build stereoset": "No data set is called 'stereoset'",
}


def called(line, capsys, monkeypatch):
    """The exit status and the words of a command."""
    name, *words = line.split()
    monkeypatch.setattr(sys, "argv", ["probes", *words])
    with pytest.raises(SystemExit) as ended:
        options.start(COMMANDS[name], f"probes {name}")
    shown = capsys.readouterr()
    return ended.value.code, " ".join((shown.out + shown.err).split())


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_sentence_before_a_model_is_loaded(line, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, words = called(line, capsys, monkeypatch)
    assert status in (1, 2)
    assert MISTAKES[line] in words
    assert "Traceback" not in words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["--benchmarks", "stereoset,pronouns"],
        ["--benchmarks", "stereoset pronouns"],
        ["--benchmarks", "stereoset", "pronouns"],
        ["--benchmarks=stereoset", "--benchmarks", "pronouns"],
        ["--benchmarks", "stereoset", "--benchmarks=pronouns"],
    ],
)
def test_a_list_may_have_any_form(words, monkeypatch):
    given = {}
    monkeypatch.setattr("scoring.inference.engines.Call.of", lambda model, values: given.update(model=model, **values))
    command = typer.main.get_command(score.app)
    with pytest.raises(AttributeError):  # the call that was not made
        command.main([*words, "tiny-causal"], standalone_mode=False)
    assert given["model"] == "tiny-causal"
    assert given["benchmarks"].replace(" ", ",") == "stereoset,pronouns"
