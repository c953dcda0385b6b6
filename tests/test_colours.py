"""Colours of plots and pages: readers with colour-deficient sight can tell them apart, and text can be read."""

import itertools
import re

import pytest

from cards.common.draw import PALETTE
from tests.colours import ciede2000, contrast, difference
from tests.helpers import ROOT

STYLE = (ROOT / "scoring" / "report" / "templates" / "style.css").read_text()


def theme(dark):
    """The colours of the report pages by name, light or dark."""
    light, night = (dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{3,6});", part)) for part in _roots())
    return light | night if dark else light


def _roots():
    first, second = re.findall(r":root \{\n(.*?)\n *\}", STYLE, re.DOTALL)[:2]
    return first, second


#: What is drawn in one picture.
DRAWN = {
    "shares": ("female", "male", "third"),
    "curves": ("ink", "line-1", "line-2", "line-3"),
    "verdicts": ("good", "bad"),
}
PALETTES = {
    "pmi": tuple(PALETTE[colour] for colour in ("female", "male", "line-1", "third")),
    "losses": tuple(PALETTE[colour] for colour in ("line-1", "third")),
    "forest": tuple(PALETTE[colour] for colour in ("ink", "male", "rule")),
    **{
        f"{name}, {'dark' if dark else 'light'}": tuple(theme(dark)[colour] for colour in colours)
        for name, colours in DRAWN.items()
        for dark in (False, True)
    },
}


def test_figures_and_light_pages_have_one_palette():
    assert {name: theme(False)[name] for name in PALETTE} == PALETTE


@pytest.mark.parametrize("name", PALETTES)
def test_colours_of_one_picture_differ_for_every_reader(name):
    for one, other in itertools.combinations(PALETTES[name], 2):
        assert difference(one, other) >= 20, (one, other, difference(one, other))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, -1.3802, -84.2814), (50, 0, -82.7485), 1.0),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((50, 2.5, 0), (58, 24, 15), 19.4535),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
        ((90.8027, -2.0831, 1.4410), (91.1528, -1.6435, 0.0447), 1.4441),
    ],
)
def test_differences_are_those_of_the_published_test_data(one, other, expected):
    assert ciede2000(one, other) == pytest.approx(expected, abs=1e-4)


def test_colours_that_only_differ_in_red_and_green_are_found_to_be_alike():
    assert difference("#b2478a", "#2f7f8f") < 10
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["ink", "soft", "link", "ideal", "good", "bad"])
def test_text_can_be_read_on_the_page_and_on_cards(name, dark):
    colours = theme(dark)
    for ground in ("paper", "card"):
        assert contrast(colours[name], colours[ground]) >= 4.5


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["female", "male", "third", "line-1", "line-2", "line-3"])
def test_what_is_drawn_can_be_seen_on_the_page(name, dark):
    assert contrast(theme(dark)[name], theme(dark)["paper"]) >= 3
