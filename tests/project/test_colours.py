"""Colours of plots and pages: readers with colour-deficient sight can tell them apart, and text can be read."""

import itertools
import re

import pytest
from coloraide import Color

from cards.common.draw import PALETTE
from tests.support.helpers import ROOT

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


def difference(one, other):
    """The smallest CIEDE2000 difference of two colours to normal, protan and deutan sight (Machado et al., 2009)."""
    pairs = [(Color(one), Color(other))]
    for kind in ("protan", "deutan"):
        pairs.append(tuple(Color(colour).filter(kind, method="machado") for colour in (one, other)))
    return min(first.delta_e(second, method="2000") for first, second in pairs)


def contrast(one, other):
    """The contrast ratio of two colours (WCAG 2.1)."""
    return Color(one).contrast(other, method="wcag21")


def test_figures_and_light_pages_have_one_palette():
    assert {name: theme(False)[name] for name in PALETTE} == PALETTE


@pytest.mark.parametrize("name", PALETTES)
def test_colours_of_one_picture_differ_for_every_reader(name):
    for one, other in itertools.combinations(PALETTES[name], 2):
        assert difference(one, other) >= 20, (one, other, difference(one, other))


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
