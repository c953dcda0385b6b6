"""The English of README and docs: the rules of ``tools/docs/prose.toml``, and the checker itself."""

import doctest
import re

import pytest

from cards.common.sentences import SENTENCES
from tools.docs import prose


@pytest.mark.parametrize("page", prose.pages(), ids=prose.shown_path)
def test_a_page_keeps_the_rules_of_english(page):
    found = prose.check([page])
    assert not found, "\n".join(f"{one.rule}: {one.text}" for one in found)


def test_pages_with_exceptions_exist_and_each_has_a_reason():
    known = prose.rules()
    for page in [*known["passives"]["pages"], *known["long_pages"]]:
        assert list(prose.ROOT.glob(page)), f"{page} is in tools/docs/prose.toml and is no page"
    assert all(known["long_pages"].values())
    assert all(known["proselint"].values())


@pytest.mark.parametrize("package", ["builders", "pmi", "scoring", "mitigation", "cards"])
def test_no_listed_phrase_is_in_the_texts_of_a_package(package):
    known = prose.rules()["phrases"]
    found = []
    for kind in ("*.py", "*.j2", "*.toml"):
        for path in sorted((prose.ROOT / package).rglob(kind)):
            found += prose.phrases(prose.shown_path(path), path.read_text(encoding="utf-8"), known)
    assert not found, "\n".join(f"{one.page}: {one.rule}: {one.text}" for one in found)


def test_no_sentence_of_reports_and_pages_is_too_long():
    most = prose.rules()["most_words"]
    found = []
    for name, sentence in SENTENCES.items():
        # A value counts as one word.
        text = re.sub(r"\{[^}]*\}", "VALUE", sentence.text)
        found += prose.long_sentences(name, text, most)
    assert not found, "\n".join(f"{one.page}: {one.rule}: {one.text}" for one in found)


def test_the_checker_finds_what_it_is_for():
    long = "word " * 26 + "end. Short one.\n\n| " + "cell " * 30 + "|\n"
    (found,) = prose.long_sentences("page", long, 25)
    assert found.rule == "27 words"
    assert prose.phrases("page", "Left out for want of data.", {"for want of data": "no data"})
    assert not prose.phrases("page", "```\nfor want of data\n```", {"for want of data": "no data"})
    limits = {"most": 1, "pages": ["docs/*.md"], "states": ["open"]}
    assert prose.passives("It is scored. It is open. It scores.", limits["states"]) == ["It is scored."]
    passive = "It is scored. It is stored."
    assert len(prose.too_many_passives("docs/page.md", passive, limits)) == 2
    assert not prose.too_many_passives("README.md", passive, limits)
    assert not prose.too_many_passives("docs/page.md", "It is scored.", limits)


def test_the_examples_of_the_checker_hold():
    assert doctest.testmod(prose).failed == 0
