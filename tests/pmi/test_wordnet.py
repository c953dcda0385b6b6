import json
import zipfile
from pathlib import Path

import pytest

import builders
from pmi import wordnet
from pmi.analysis.lookup import delta_table
from pmi.wordnet import INCLUDED, WordNetError, dictionary, load, packed_bits, words_digest
from tests.support.helpers import missing_package
from tools.wordnet_words import facts

INDEXES = {
    "noun": ["greenhouse", "bus", "goose", "woman", "city", "wolf"],
    "verb": ["surrender", "swim", "gauge", "carry", "refer"],
    "adj": ["crazy", "new", "large"],
    "adv": ["often"],
}
EXCEPTIONS = {"noun": ["geese goose"], "verb": ["swam swim", "referring refer"], "adj": ["craziest crazy"], "adv": []}


def made(folder):
    folder.mkdir(parents=True)
    for part, words in INDEXES.items():
        lines = ["  1 This database is licensed", *(f"{word} {part[0]} 1 0 1 0 00000001  " for word in words)]
        (folder / f"index.{part}").write_text("\n".join(lines) + "\n")
        (folder / f"{part}.exc").write_text("\n".join(EXCEPTIONS[part]) + "\n")
    return folder


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine that has no WordNet."""
    for name in ("WNSEARCHDIR", "WNHOME", "NLTK_DATA"):
        monkeypatch.delenv(name, raising=False)
    there = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda self: self.is_relative_to(tmp_path) and there(self))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_a_lemma_and_its_inflected_forms_are_there(tmp_path):
    words = load(made(tmp_path / "dict"))
    forms = "greenhouse greenhouses buses geese women cities wolves surrendered gauging swam carries referring"
    assert [word for word in (forms + " craziest newer largest often").split() if word not in words] == []


def test_a_word_without_a_lemma_is_not_in_wordnet(tmp_path):
    words = load(made(tmp_path / "dict"))
    assert [
        w for w in ("", "s", "ing", "puente", "oftener", "goos", "swims-", "This", "1", "Greenhouse") if w in words
    ] == []


def test_an_irregular_form_does_not_follow_the_regular_endings(tmp_path):
    folder = made(tmp_path / "dict")
    (folder / "noun.exc").write_text("cities nothing\n")
    assert "cities" not in load(folder)


@pytest.mark.parametrize("variable", ["WNSEARCHDIR", "WNHOME", "NLTK_DATA", "HOME"])
def test_the_usual_places_are_searched(variable, tmp_path, monkeypatch, nowhere):
    place = {"WNSEARCHDIR": "", "WNHOME": "dict", "NLTK_DATA": "corpora/wordnet", "HOME": "nltk_data/corpora/wordnet"}
    made(tmp_path / variable / place[variable] if place[variable] else tmp_path / variable)
    monkeypatch.setenv(variable, str(tmp_path / variable))
    assert "geese" in load()


def test_the_zip_file_of_nltk_is_read(tmp_path, monkeypatch, nowhere):
    folder = made(tmp_path / "plain" / "wordnet")
    (tmp_path / "data" / "corpora").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "data" / "corpora" / "wordnet.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"wordnet/{file.name}")
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "data"))
    assert "geese" in load()


def test_without_wordnet_the_message_says_what_to_install(nowhere):
    with pytest.raises(WordNetError, match="apt install word"):
        load()


def test_a_folder_without_wordnet_is_refused_by_name(tmp_path):
    with pytest.raises(WordNetError, match=r"WordNet.*index\.noun"):
        load(tmp_path / "empty")


@pytest.mark.system
def test_the_real_wordnet_has_english_words_and_no_spanish_words():
    try:
        words = load()
    except WordNetError:
        missing_package("wordnet-base")
    assert [word for word in "oafs swam gauging geese newest".split() if word not in words] == []
    assert [word for word in "whatcha pero echaban reattached".split() if word in words] == []


@pytest.fixture
def included(tmp_path, monkeypatch):
    """A file that says of five words which WordNet has."""
    words = ["oak", "elm", "roble", "ñandú", "a"]
    path = tmp_path / "included.json"
    path.write_text(json.dumps({"words_sha256": words_digest(words), "bits": packed_bits(words, {"oak", "elm"})}))
    monkeypatch.setattr(wordnet, "INCLUDED", path)
    return words


def test_the_included_words_need_no_wordnet_in_any_order(included, nowhere):
    for words in (included, included[::-1]):
        known = dictionary(words)
        assert [word for word in words if word in known] == [word for word in words if word in ("oak", "elm")]


def test_the_words_of_another_table_need_wordnet(included, nowhere):
    for words in (included[1:], [*included, "b"], []):
        with pytest.raises(WordNetError, match="words of gender-pmi"):
            dictionary(words)


def test_a_named_folder_is_read_for_the_included_words_too(included, nowhere, tmp_path):
    known = dictionary(included, made(tmp_path / "dict"))
    assert "oak" not in known
    assert "geese" in known


@pytest.mark.mirror
@pytest.mark.system
def test_the_included_file_is_what_the_command_makes_of_the_data_set_and_wordnet(tmp_path):
    builders.build("gender-pmi", out=tmp_path, offline=True)
    words = list(delta_table(tmp_path / "gender-pmi").delta)
    file = json.loads(INCLUDED.read_text("utf-8"))
    known = dictionary(words)
    assert words_digest(words) == file["words_sha256"]
    assert len(words) == file["words"] == 65_912
    assert sum(word in known for word in words) == file["words_in_wordnet"]
    try:
        database = load()
    except WordNetError:
        missing_package("wordnet-base")
    assert facts(words, database, file["wordnet"]) == file
