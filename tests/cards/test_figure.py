import xml.etree.ElementTree as ET
from math import inf, nan

import pytest

from cards.common.draw import forest
from cards.results import Estimate

SVG = "{http://www.w3.org/2000/svg}"


def score(**changes):
    facts = {"benchmark": "neutral", "group": "stsb", "metric": "gas", "value": 0.25, "low": 0.2, "high": 0.31, "n": 9}
    facts |= {"sd": 0.1, "clusters": 9, "printed_sd": None}
    return Estimate(**(facts | {"ideal": 0.0, "reading": "", "why": "", "least": 0.0, "most": 1.0} | changes))


def test_the_same_scores_give_the_same_bytes():
    assert forest([score()], ["stsb: gas"]) == forest([score()], ["stsb: gas"])
    assert forest([score()], ["stsb: gas"]) != forest([score(value=0.3)], ["stsb: gas"])


@pytest.mark.parametrize(
    "odd",
    [
        {"least": -inf, "most": inf},
        {"least": -inf, "most": inf, "value": 1.0, "low": 1.0, "high": 1.0},
        {"low": nan, "high": nan},
        {"least": -inf, "low": nan, "high": nan},
        {"ideal": None},
    ],
)
def test_scores_without_ends_interval_or_ideal_are_drawn(odd):
    assert ET.fromstring(forest([score(**odd)], ["x"])).tag == f"{SVG}svg"


@pytest.mark.fault(50)
def test_a_label_is_text():
    assert ET.fromstring(forest([score()], ["$\\alpha$ <script>|"])).find(f".//{SVG}script") is None
