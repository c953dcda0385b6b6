"""The outputs that README shows are those of its lines."""

import doctest

import pytest

from tests.support import real
from tools.docs import readme


@pytest.mark.real
def test_the_outputs_of_readme_have_the_words_of_a_new_run():
    real.smollm2()
    page = readme.PAGE.read_text(encoding="utf-8")
    made = readme.outputs(page)
    shown = readme.shown(page)
    assert set(shown) == set(made) == {"python", "score", "compare"}
    for name, text in made.items():
        assert readme.words(shown[name]) == readme.words(text), f"{name}: run python -m tools.docs.readme"


def test_every_output_of_readme_has_a_mark():
    page = readme.PAGE.read_text(encoding="utf-8")
    assert len(readme.shown(page)) == page.count("```text")


def test_the_examples_of_the_tool_hold():
    assert doctest.testmod(readme).failed == 0
