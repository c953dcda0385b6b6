"""What the demonstration computes; the page itself needs gradio, and is drawn where that is installed."""

import importlib.util
import math
import subprocess
import sys

import pytest

from examples import demo
from pmi.types import CountRule, DeltaTable
from tests.helpers import ROOT
from tests.mitigation.made import bundled

TABLE = DeltaTable.of(["nurse", "bridge"], [0.9, -0.1], [7, 12], CountRule("toy", 10, "any", "none"))


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("nurse", "My friend is a nurse, and"),
        ("Engineer", "My friend is an engineer, and"),
        ("flight attendant", "My friend is a flight attendant, and"),
        ("  The nurse \n said that ", "The nurse said that"),
        ("x" * 50, "x" * 50),
        (" ", ""),
    ],
)
def test_a_job_becomes_a_sentence_and_a_sentence_stays(typed, asked):
    assert demo.beginning(typed) == asked


def test_chances_are_probabilities_of_the_next_word():
    found = demo.chances(bundled(), "My friend is a nurse, and")
    assert set(found) <= {"she", "he", "they"}
    assert {"she", "he"} <= set(found)
    assert all(0 < p < 1 for p in found.values())
    assert sum(found.values()) < 1
    assert math.isclose(found["he"], 0.0115, abs_tol=1e-4), "as the card of the bundled model says"


def test_the_answer_has_the_sentence_shares_and_the_word_that_leans():
    asked, shares, told, leaning = demo.answer(bundled(), TABLE, "nurse")
    assert asked == "My friend is a nurse, and"
    assert math.isclose(sum(shares.values()), 1)
    assert shares["he"] > shares["she"]
    assert told.startswith("she 0.")
    assert leaning == "+0.90 by “nurse”, which keeps more company with she (1 words known)"


def test_what_cannot_be_said_is_told():
    assert demo.answer(bundled(), None, "")[2] == "Type a job or the beginning of a sentence."
    assert demo.leaning("A ship", TABLE) == "None of 1 words is in the table."
    assert demo.leaning("A ship", None) == "No table of a corpus was given (--table)."
    assert demo.told({"he": 0.0}) == "None of these words is likely at all."


@pytest.mark.skipif(not importlib.util.find_spec("gradio"), reason="needs gradio")
def test_the_page_has_what_is_typed_and_what_is_told():
    code = """
from types import SimpleNamespace
from examples.demo import page
parts = page(SimpleNamespace(name="tiny"), None).config["components"]
print([each.get("props", {}).get("label") for each in parts])
"""
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for label in ("Job or sentence", "Asked", "Next word (tiny)", "Probability", "MaxPMIDiff"):
        assert label in shown
