"""What the demonstration computes, and what its page is made of."""

import math
import subprocess
import sys
from types import SimpleNamespace

import huggingface_hub
import pytest

from examples import demo
from pmi.types import CountRule, DeltaTable
from tests.mitigation.made import bundled
from tests.support.helpers import ROOT

TABLE = DeltaTable.of(["nurse", "bridge"], [0.9, -0.1], [7, 12], CountRule("toy", 10, "any", "none"))


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("nurse", "My friend is a nurse, and"),
        ("Engineer", "My friend is an engineer, and"),
        ("flight attendant", "My friend is a flight attendant, and"),
        ("The nurse", "My friend is a nurse, and"),
        ("The nurse said", "The nurse said"),
        ("  The nurse \n said that ", "The nurse said that"),
        ("x" * 50, "x" * 50),
        (" ", ""),
    ],
)
def test_a_job_becomes_a_sentence_and_a_sentence_stays(typed, asked):
    assert demo.beginning(typed) == asked


def test_chances_are_probabilities_of_the_next_word():
    result = demo.chances(bundled(), "My friend is a nurse, and")
    assert set(result) <= {"she", "he", "they"}
    assert {"she", "he"} <= set(result)
    assert all(0 < p < 1 for p in result.values())
    assert sum(result.values()) < 1
    assert math.isclose(result["he"], 0.0115, abs_tol=1e-4), "as the card of the bundled model says"


def test_the_answer_has_the_sentence_the_word_that_leans_and_the_shares_of_each_model():
    asked, leaning, *both = demo.answers([bundled(), bundled()], TABLE, "nurse")
    assert asked == "My friend is a nurse, and"
    assert leaning == "+0.90 by “nurse”, which keeps more company with she (1 of 2 content words known)"
    shares, told = both[:2]
    assert both[2:] == [shares, told], "two models of the same weights, side by side"
    assert math.isclose(sum(shares.values()), 1)
    assert shares["he"] > shares["she"]
    assert told.startswith("she 0.")


def test_what_cannot_be_said_is_told():
    assert demo.answers([bundled()], None, "") == ["", "Type a job or the beginning of a sentence.", {}, ""]
    assert demo.leaning("A ship", TABLE) == "None of 1 words is in the table."
    assert demo.leaning("A ship", None) == "No table of a corpus was given (--table)."
    assert demo.told({"he": 0.0}) == "None of these words is likely at all."


def test_the_page_has_examples_to_choose_and_two_models_side_by_side():
    code = """
from types import SimpleNamespace
from examples.demo import page
made = page([SimpleNamespace(name="tiny"), SimpleNamespace(name="other")], None)
print([each.get("props", {}).get("label") or each["props"].get("value") for each in made.config["components"]])
print([each["props"]["samples"] for each in made.config["components"] if each["type"] == "dataset"])
print("sends nothing about its use" if not made.analytics_enabled else "")
"""
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    labels = ("Job or sentence", "Ask", "Asked", "Examples", "Probability of the next word", "MaxPMIDiff")
    for label in (*labels, *(f"Shares of these three words ({name})" for name in ("tiny", "other"))):
        assert repr(label) in shown
    for example in demo.EXAMPLES:
        assert repr([example]) in shown
    assert "sends nothing about its use" in shown


def started(monkeypatch, *arguments):
    """The models and the table that the command makes its page of."""
    made = []

    def page(*parts):
        made.extend(parts)
        return SimpleNamespace(launch=lambda **_: None)

    monkeypatch.setattr(demo, "page", page)
    monkeypatch.setattr(sys, "argv", ["demo.py", *arguments])
    demo.main()
    return made


def test_the_table_of_a_built_data_set_is_used_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    models, table = started(monkeypatch)
    assert ([model.name for model in models], table) == (["tiny-causal"], None)
    demo.TABLE.mkdir(parents=True)
    monkeypatch.setattr(demo, "delta_table", lambda place: f"the table of {place}")
    models, table = started(monkeypatch, "tiny-causal", "tiny-causal")
    assert (len(models), table) == (2, "the table of output/gender-pmi")
    assert started(monkeypatch, "tiny-causal", "--table", "other")[1] == "the table of other"


def test_three_models_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo.py", "a", "b", "c"])
    with pytest.raises(SystemExit):
        demo.main()
    assert "3 models were given; give one or two." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no/where"], "error: 'no/where' is neither a folder nor a model that the Hub gives"),
        (["--table", "nowhere.csv"], "error: There is no file nowhere.csv; give one that ends in"),
    ],
)
def test_a_model_or_table_that_is_not_there_is_one_sentence(arguments, said, monkeypatch, capsys):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(sys, "argv", ["demo.py", *arguments])
    with pytest.raises(SystemExit) as stop:
        demo.main()
    assert stop.value.code == 1
    assert said in capsys.readouterr().err
