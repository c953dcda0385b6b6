import json
from typing import Annotated

import pytest
from pydantic import Field

from builders import datasets
from builders.builder import Builder
from builders.dataset import BuildError, Origin
from builders.generation.responses import read_responses, response
from builders.parsers import bundled
from builders.text.embedded import PROJECT
from tests.cards.test_dataset_card import card


class Word(bundled.BundledEntry):
    word: bundled.Text
    length: int
    others: Annotated[list[bundled.Text], Field(min_length=1)]


GOOD = {"word": "kettle", "length": 5, "others": ["jug", "pot"]}
EXPECTED = "is not an object with word, length, others: "


def kept(tmp_path, *replies, sent=bundled.WRITTEN, **values):
    """A file with one record for each reply, given as a text or as entries."""
    path = tmp_path / "words.jsonl"
    texts = [reply if isinstance(reply, str) else "\n".join(map(json.dumps, reply)) for reply in replies]
    made = [
        response({"model": sent, "messages": [{"role": "user", "content": str(n)}]}, text, **values)
        for n, text in enumerate(texts)
    ]
    path.write_text("".join(f"{record.to_line()}\n" for record in made))
    return path


def test_entries_are_in_order_with_their_record(tmp_path):
    other = GOOD | {"word": "anvil"}
    path = kept(tmp_path, [GOOD, other], [GOOD])
    origins = [Origin(PROJECT, "builders/data/replies/words.jsonl", number) for number in (0, 0, 1)]
    expected = [Word(**entry) for entry in (GOOD, other, GOOD)]
    assert list(bundled.entries(path, Word)) == list(zip(origins, expected, strict=True))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("__import__('os')", "Invalid JSON: "),
        ("1. kettle", "Invalid JSON: "),
        ("", "Invalid JSON: "),
        ('["kettle"]', "input should be an object, given ['kettle']"),
        ('{"word": "kettle"}', "length: field required, given {'word': 'kettle'}"),
        (json.dumps(GOOD | {"more": 1}), "more: extra inputs are not permitted, given 1"),
    ],
)
def test_a_line_that_is_not_an_entry_is_refused(tmp_path, text, sentence):
    path = kept(tmp_path, [GOOD], json.dumps(GOOD) + "\n" + text)
    with pytest.raises(BuildError) as error:
        list(bundled.entries(path, Word))
    assert str(error.value).startswith(f"words.jsonl record 1, line 2 of the reply, {EXPECTED}{sentence}")


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("word", "", "word: string should match pattern"),
        ("word", " kettle", "word: string should match pattern"),
        ("word", 5, "word: input should be a valid string, given 5"),
        ("length", "5", "length: input should be a valid integer, given '5'"),
        ("length", True, "length: input should be a valid integer, given True"),
        ("others", [], "others: list should have at least 1 item"),
        ("others", "jug", "others: input should be a valid array"),
        ("others", ["jug", ""], "others.1: string should match pattern"),
    ],
)
def test_an_entry_with_a_field_of_another_kind_is_refused(tmp_path, name, value, place):
    with pytest.raises(BuildError) as error:
        list(bundled.entries(kept(tmp_path, [GOOD | {name: value}]), Word))
    assert str(error.value).startswith(f"words.jsonl record 0, line 1 of the reply, {EXPECTED}{place}")


@pytest.mark.parametrize("values", [{"finish_reason": "length"}, {"model": "another"}, {"sent": "another"}])
def test_a_response_that_is_truncated_or_of_another_model_is_refused(tmp_path, values):
    with pytest.raises(BuildError) as error:
        list(bundled.entries(kept(tmp_path, [GOOD], **values), Word))
    sentence = "words.jsonl record 0 is not a complete reply of 'written-for-this-project'; restore the file."
    assert str(error.value) == sentence


def test_a_changed_request_is_refused_with_its_line(tmp_path):
    path = kept(tmp_path, [GOOD], [GOOD])
    path.write_text(path.read_text().replace('"content": "1"', '"content": "2"'))
    with pytest.raises(BuildError, match=r"line 2 .*its key is not that of its request"):
        list(bundled.entries(path, Word))


# What is bundled

NAMES = [path.stem for path in bundled.path("any").parent.glob("*.jsonl")]


@pytest.mark.parametrize("name", NAMES)
def test_every_bundled_record_says_that_it_was_written_for_this_project(name):
    made = list(read_responses(bundled.path(name)).values())
    assert len(made) == len(bundled.path(name).read_text(encoding="utf-8").splitlines())
    assert {(recorded.model, recorded.request["model"], recorded.finish_reason) for recorded in made} == {
        ("written-for-this-project", "written-for-this-project", "stop")
    }
    assert {recorded.usage for recorded in made} == {None}
    assert all([message["role"] for message in recorded.request["messages"]] == ["user"] for recorded in made)


@pytest.mark.parametrize("name", [name for name in datasets.names() if datasets.get(name).written])
def test_the_manifest_says_how_the_sentences_were_written(name):
    written = datasets.get(name).written
    assert any("written-for-this-project" in statement for statement in written)
    assert any("were read once more" in statement for statement in written)
    assert Builder.manifest(datasets.get(name), {}, {}).written == list(written)


def test_the_card_has_a_section_on_written_sentences_if_there_are_any():
    heading = "## What this project wrote, and how\n\n- Sentences.\n\n## What was dropped"
    assert heading in card(written=["Sentences."])
    assert "What this project wrote" not in card() + card(written=[])
