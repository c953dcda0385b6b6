"""Plots of preferences for stereotypes: what they draw, and what they leave out."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from scoring.report import plots
from scoring.report.plots import stereotypes
from scoring.types import Estimate
from tests.scoring.test_report import HOSTILE

LABELS = {"ss": "stereotype score", "lms": "language-model score", "icat": "ICAT", "ps": "paraphrased score"}


def estimate(metric, value, group="gender", low=None, high=None, **more):
    low, high = value - 5 if low is None else low, value + 5 if high is None else high
    fields = {"least": 0.0, "most": 100.0, "label": LABELS.get(metric, ""), **more}
    return Estimate("b", group, metric, value, low, high, 2.0, 9, 9, **fields)


def table(count=40, **changes):
    draw = np.random.default_rng(0)
    names = np.array([f"r{n}" for n in range(count)], dtype=object)
    domains = np.array(["race", "gender"] * (count // 2), dtype=object)
    scores = {f"score_{label}": draw.normal(-3, 1, count) for label in ("biased", "unbiased")}
    return {"id": names, "domain": domains, **scores, **changes}


def circles(panel):
    return [e for e in ElementTree.fromstring(panel.svg).iter("path") if e.get("transform")]


def test_scores_by_domain_have_a_dot_and_a_line_for_each_estimate():
    shown = [estimate(m, v) for m, v in (("ss", 60.0), ("lms", 90.0), ("icat", 72.0))]
    figure = stereotypes.scores([*shown, estimate("ss", 55.0, "race"), estimate("ties", 1.0)])
    (panel,) = figure.panels
    assert [key.label for key in figure.keys] == ["stereotype score", "language-model score", "ICAT"]
    assert len({key.ink for key in figure.keys}) == 3
    assert panel.label == "Scores. gender ss 60.0; gender lms 90.0; gender icat 72.0; race ss 55.0."
    assert len(circles(panel)) == 4


def test_two_scores_of_one_colour_have_two_marks():
    figure = stereotypes.scores([estimate(f"m{n}", 50.0, label=f"metric {n}") for n in range(6)])
    assert len({key.ink for key in figure.keys}) == 3
    assert len({(key.ink, key.shape) for key in figure.keys}) == 6
    styles = [circle.get("style") for circle in circles(figure.panels[0])]
    assert len(set(styles)) == 6


def test_metrics_of_another_range_have_a_panel_of_their_own():
    figure = stereotypes.scores(
        [estimate("ss", 60.0), estimate("mine", 0.25, label="mine", low=0.2, high=0.3, most=1.0)]
    )
    assert [panel.label for panel in figure.panels] == ["Scores. gender ss 60.0.", "Scores. gender mine 0.250."]


def test_scores_without_a_value_or_an_interval_are_left_out_or_drawn_as_a_dot():
    (panel,) = stereotypes.scores([estimate("ss", math.nan), estimate("ps", 60.0, low=math.nan, high=math.nan)]).panels
    assert panel.label == "Scores. gender ps 60.0."
    assert "nan" not in panel.svg
    assert not stereotypes.scores([estimate("ss", math.nan)]).panels
    assert not stereotypes.scores([estimate("tau@0.5", 3.0)]).panels


def test_preferences_have_a_panel_for_each_domain_with_the_share_that_prefers_the_stereotype():
    rows = table()
    rows["score_biased"] = rows["score_unbiased"] + np.where(rows["domain"] == "race", 0.5, -0.5)
    figure = stereotypes.strengths(rows)
    assert [panel.title for panel in figure.panels] == ["gender (n = 20)", "race (n = 20)"]
    assert [panel.label for panel in figure.panels] == [
        "gender: the stereotype is preferred in 0 % of pairs.",
        "race: the stereotype is preferred in 100 % of pairs.",
    ]


def test_a_table_with_sets_has_a_panel_for_each_set_that_has_pairs():
    sets = np.array(["winobias", "weat", "differentiation", "weat"] * 10, dtype=object)
    rows = table(config=sets)
    rows["score_biased"][sets == "differentiation"] = np.nan
    assert [panel.title for panel in stereotypes.strengths(rows).panels] == ["weat (n = 20)", "winobias (n = 10)"]


@pytest.mark.fault(47)
@pytest.mark.parametrize("difference", [0.0, 1e-9, 1e6, math.nan])
def test_ties_and_extreme_or_missing_differences_are_drawn_without_a_warning(difference):
    rows = table()
    rows["score_biased"] = rows["score_unbiased"] + difference
    result = plots.figures(rows, [estimate("ss", 50.0)])
    assert len(result) == (1 if math.isnan(difference) else 2)
    assert not any(re.search("nan|inf", panel.svg) for figure in result for panel in figure.panels)


@pytest.mark.fault(50)
def test_hostile_names_are_letters_in_plots_of_scores():
    (panel,) = stereotypes.scores([estimate("ss", 50.0, HOSTILE)]).panels
    letters = [e.text for e in ElementTree.fromstring(panel.svg).iter("text")]
    assert any(text.startswith('<script>alert("x")') for text in letters)
    assert "<script" not in panel.svg
