"""The texts and notices of licences that go along with what is published."""

import hashlib
import tomllib
from dataclasses import replace

import pytest

from builders import datasets
from builders.dataset import BuildError
from builders.files.manifest import ConfigEntry, Manifest, SourceEntry
from builders.publish import publication
from builders.publish.publication import licence_page, licence_texts
from builders.sources.catalogue import catalogue, mirror_path
from tests.support.helpers import ROOT, mirror, missing

#: The hash of the text whose words were compared with those of the SPDX licence list.
CC_BY = "fd3a263fe19ed8faa9068b43abaebafc02c77897b0c6fc09abc04bb592e5f16e"


def config(licence, *sources):
    own = [SourceEntry(name, under, "made", 0, "", []) for name, under in sources]
    return ConfigEntry("words", "Words.", "clean", licence, "", "", {}, own, {}, [], {})


def manifest(*configs, **more):
    known = catalogue().licences.values()
    described = {item.id: {"name": item.name, "url": item.url, "redistribute": item.redistribute} for item in known}
    made = {f"words-{number}": item for number, item in enumerate(configs)}
    return Manifest("probes", "1.0.0", "", "", "en", [], "", [], made, {}, described | more, {})


def words(text):
    return text.split()


# Texts


def test_every_standard_licence_that_allows_publishing_has_its_text_in_the_package():
    globs = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["builders"]
    packed = {path for glob in globs for path in (ROOT / "builders").glob(glob)}
    standard = [item for item in catalogue().licences.values() if not item.id.startswith("LicenseRef-")]
    texts = {item.id for item in standard if item.text}
    assert texts == {"Apache-2.0", "MIT", "CC-BY-4.0", "CC-BY-SA-4.0"}
    assert {item.id for item in standard if item.redistribute} == texts | {"CC-BY-NC-4.0"}, "one that takes a link"
    for item in standard:
        assert not item.text or publication.TEXTS / item.text in packed


def test_a_licence_of_a_config_or_a_source_goes_along_once_and_that_of_the_project_always():
    made = manifest(config("MIT", ("winogender/sentences", "CC-BY-4.0")), config("MIT"))
    assert licence_texts(made) == {
        f"LICENSES/{key}.txt": (publication.TEXTS / f"{key}.txt").read_bytes()
        for key in ("Apache-2.0", "CC-BY-4.0", "MIT")
    }


@pytest.mark.parametrize("name", datasets.names())
def test_every_config_that_may_be_published_takes_the_texts_and_notices_of_its_licences_along(name):
    known = catalogue()
    for item in datasets.get(name).configs:
        made = manifest(config(item.licence, *((s, known.sources[s].licence) for s in item.sources)))
        under = {item.licence, *(known.sources[s].licence for s in item.sources)}
        if all(known.licences[key].redistribute for key in under):
            standard = {key for key in under if known.licences[key].text}
            assert licence_texts(made).keys() == {f"LICENSES/{key}.txt" for key in standard | {"Apache-2.0"}}
            assert all(f"- {key}: " in licence_page(made) for key in under)


def test_what_is_no_standard_text_or_not_for_others_to_publish_is_linked_to():
    made = manifest(config("LicenseRef-US-Government-Work", ("weat/3", "CC-BY-NC-4.0")))
    assert list(licence_texts(made)) == ["LICENSES/Apache-2.0.txt"]
    assert (
        "[Creative Commons Attribution-NonCommercial 4.0 International](https://creativecommons.org/"
        in licence_page(made)
    )


def test_a_text_that_is_not_there_is_an_error_that_names_the_licence(tmp_path, monkeypatch):
    for known in ("Apache-2.0.txt", "CC-BY-4.0.txt"):
        (tmp_path / known).write_bytes((publication.TEXTS / known).read_bytes())
    monkeypatch.setattr(publication, "TEXTS", tmp_path)
    assert set(licence_texts(manifest(config("CC-BY-4.0")))) == {"LICENSES/Apache-2.0.txt", "LICENSES/CC-BY-4.0.txt"}
    with pytest.raises(BuildError, match=r"probes .*MIT"):
        licence_texts(manifest(config("CC-BY-4.0"), config("MIT")))


def test_an_open_licence_that_the_project_does_not_know_is_an_error_that_names_it():
    described = {
        "0BSD": {"name": "Zero-Clause BSD", "url": "https://opensource.org/license/0bsd", "redistribute": True}
    }
    with pytest.raises(BuildError, match=r"probes .*0BSD"):
        licence_texts(manifest(config("0BSD"), **described))


def test_the_text_of_apache_is_that_of_the_project():
    assert (publication.TEXTS / "Apache-2.0.txt").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_text_of_attribution_is_that_of_creative_commons():
    assert hashlib.sha256((publication.TEXTS / "CC-BY-4.0.txt").read_bytes()).hexdigest() == CC_BY


@pytest.mark.mirror
def test_the_other_texts_are_word_for_word_those_that_sources_have():
    shared = (publication.TEXTS / "CC-BY-SA-4.0.txt").read_bytes()
    assert shared == stated("stereoset").read_bytes()
    plain = words((publication.TEXTS / "MIT.txt").read_text())
    line = words("Copyright (c) <year> <copyright holders>")
    start = next(n for n in range(len(plain)) if plain[n : n + len(line)] == line)
    for family in ("winobias", "winogender"):
        notice = words(catalogue().notices[family].notice)
        assert [*plain[:start], *notice, *plain[start + len(line) :]] == words(stated(family).read_text())


# Notices


def stated(family):
    """The file in the mirror that states the licence of sources."""
    path = mirror() / mirror_path(catalogue().notices[family].stated)
    if not path.is_file():
        missing(f"the mirror has no {path.name} of {family}")
    return path


@pytest.mark.mirror
@pytest.mark.parametrize("family", ["winobias", "winogender", "stereoset", "debias-llms"])
def test_a_notice_is_a_line_of_the_source_and_where_there_is_none_the_source_has_none(family):
    lines = stated(family).read_text().splitlines()
    notice = catalogue().notices[family].notice
    assert notice in lines if notice else not [line for line in lines if line.startswith("Copyright (c)")]


def test_every_source_under_a_standard_licence_says_where_it_is_stated():
    under = {name.partition("/")[0] for name, item in catalogue().sources.items() if "LicenseRef" not in item.licence}
    assert under == set(catalogue().notices)
    assert all(item.stated.startswith("https://") for item in catalogue().notices.values())


def test_the_page_links_the_texts_and_gives_the_notices():
    made = manifest(
        config("MIT", ("winogender/sentences", "MIT")),
        config("CC-BY-SA-4.0", ("stereoset/dev", "CC-BY-SA-4.0"), ("unstereo/pmi", "LicenseRef-None-Stated")),
    )
    text = licence_page(made)
    link = "[MIT License](https://opensource.org/license/mit), [whole text](LICENSES/MIT.txt)"
    assert f"- MIT: {link}; configs `words-0`; sources `winogender/sentences`\n" in text
    assert "- `winogender`: Copyright (c) 2018 Rachel Rudinger (licence stated at <https://raw.g" in text
    assert "- `stereoset`: no notice of a holder is known (licence stated at <https://raw.g" in text
    assert "`unstereo`:" not in text
    assert "[whole text](LICENSES/LicenseRef" not in text


def test_a_source_whose_notice_is_not_told_is_an_error_that_names_it():
    made = manifest(config("MIT", ("words/all", "MIT")))
    with pytest.raises(BuildError, match=r"sources\.toml"):
        licence_page(made)
    assert licence_page(replace(made, configs={"words": config("MIT")}))
