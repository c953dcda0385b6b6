import json

import pytest

from builders import datasets
from builders.build import Rebuild
from builders.dataset import PROJECT, BuildError, Origin
from builders.generation import chat, shipped
from tests.cards.test_dataset_card import card

FIELDS = {"word": str, "length": int, "others": list}
GOOD = {"word": "kettle", "length": 5, "others": ["jug", "pot"]}
EXPECTED = "expected an object with word (text), length (whole number), others (list of texts)"


def kept(tmp_path, *replies, asked=shipped.WRITTEN, **values):
    """A file with one record for each reply, given as a text or as entries."""
    path = tmp_path / "words.jsonl"
    texts = [each if isinstance(each, str) else "\n".join(map(json.dumps, each)) for each in replies]
    made = [
        chat.record({"model": asked, "messages": [{"role": "user", "content": str(n)}]}, text, **values)
        for n, text in enumerate(texts)
    ]
    path.write_text("".join(f"{each.json()}\n" for each in made))
    return path


def test_entries_come_in_order_with_the_record_they_stand_in(tmp_path):
    other = GOOD | {"word": "anvil"}
    path = kept(tmp_path, [GOOD, other], [GOOD])
    origins = [Origin(PROJECT, "builders/data/replies/words.jsonl", number) for number in (0, 0, 1)]
    assert list(shipped.entries(path, FIELDS)) == list(zip(origins, [GOOD, other, GOOD], strict=True))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("__import__('os')", "is not JSON (Expecting value: line 1 column 1 (char 0)); " + EXPECTED),
        ("1. kettle", "is not JSON (Extra data: line 1 column 2 (char 1)); " + EXPECTED),
        ("", "is not JSON (Expecting value: line 1 column 1 (char 0)); " + EXPECTED),
        ('["kettle"]', "is '[\"kettle\"]'; " + EXPECTED),
        ('{"word": "kettle"}', 'is \'{"word": "kettle"}\'; ' + EXPECTED),
    ],
)
def test_a_line_that_is_no_entry_is_refused(tmp_path, text, told):
    path = kept(tmp_path, [GOOD], json.dumps(GOOD) + "\n" + text)
    with pytest.raises(BuildError) as error:
        list(shipped.entries(path, FIELDS))
    assert str(error.value).startswith(f"words.jsonl record 1, line 2 of the reply, {told}")


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("word", "", "text"),
        ("word", " kettle", "text"),
        ("word", 5, "text"),
        ("length", "5", "whole number"),
        ("length", True, "whole number"),
        ("others", [], "list of texts"),
        ("others", "jug", "list of texts"),
        ("others", ["jug", ""], "list of texts"),
    ],
)
def test_an_entry_with_a_field_of_another_kind_is_refused(tmp_path, name, value, kind):
    with pytest.raises(BuildError) as error:
        list(shipped.entries(kept(tmp_path, [GOOD | {name: value}]), FIELDS))
    where = "words.jsonl record 0, line 1 of the reply,"
    assert str(error.value) == f"{where} has {value!r} as {name}; expected a {kind} that is not empty."


@pytest.mark.parametrize("values", [{"finish_reason": "length"}, {"model": "another"}, {"asked": "another"}])
def test_a_reply_that_is_cut_or_of_another_model_is_refused(tmp_path, values):
    with pytest.raises(BuildError) as error:
        list(shipped.entries(kept(tmp_path, [GOOD], **values), FIELDS))
    told = "words.jsonl record 0 is not a whole reply of 'written-for-this-project'; restore the file."
    assert str(error.value) == told


def test_a_changed_request_is_refused_with_its_line(tmp_path):
    path = kept(tmp_path, [GOOD], [GOOD])
    path.write_text(path.read_text().replace('"content": "1"', '"content": "2"'))
    with pytest.raises(BuildError, match=r"line 2 is no recorded reply .*its key is not that of its request"):
        list(shipped.entries(path, FIELDS))


# What is shipped

NAMES = ("pronoun-pairs", "paraphrases", "differentiation")


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_record_says_that_it_was_written_for_this_project(name):
    made = list(chat.recorded(shipped.path(name)).values())
    assert len(made) == len(shipped.path(name).read_text(encoding="utf-8").splitlines())
    assert {(each.model, each.request["model"], each.finish_reason) for each in made} == {
        ("written-for-this-project", "written-for-this-project", "stop")
    }
    assert {each.usage for each in made} == {None}
    assert all([message["role"] for message in each.request["messages"]] == ["user"] for each in made)


@pytest.mark.parametrize("name", ["unstereo", "biaske"])
def test_how_the_sentences_were_written_is_told_in_the_manifest(name):
    written = datasets.get(name).written
    assert any("written-for-this-project" in each for each in written)
    assert any("were read once more" in each for each in written)
    assert Rebuild._manifest(datasets.get(name), {}, {}).written == list(written)


def test_the_card_has_a_section_on_what_was_written_where_there_is_any():
    heading = "## What this project wrote, and how\n\n- Sentences.\n\n## What was dropped"
    assert heading in card(written=["Sentences."])
    assert "What this project wrote" not in card() + card(written=[])
