"""Winogenerated: rows with all three pronouns, and what is refused."""

import json

import pytest

from builders.dataset import BuildError
from builders.datasets.winogenerated import DATASET, SENTENCES
from tests.support.helpers import made, mirrored

(CONFIG,) = DATASET.configs
RECORD = {
    "index": 0,
    "occupation": "baker",
    "other_person": "guest",
    "pronoun_options": ["his", "her", "their"],
    "sentence_with_blank": "The baker gave the guest _ card.",
    "BLS_percent_women_2019": 60.5,
    "BLS_original_occupation": "Bakers",
}


def rows(folder, **changed):
    return list(CONFIG.rows(made(folder, SENTENCES, json.dumps(RECORD | changed) + "\n")))


def test_a_row_has_the_sentence_with_each_pronoun_and_the_share_of_women(tmp_path):
    (one,) = rows(tmp_path)
    assert one.values["slot"] == "possessive"
    assert (one.values["before"], one.values["after"]) == ("The baker gave the guest ", " card.")
    assert one.values["sentence_they"] == "The baker gave the guest their card."
    assert one.values["bls_pct_female"] == 60.5


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sentence_with_blank": "No blank."}, "has no sentence with one blank"),
        ({"pronoun_options": ["he", "she", "it"]}, "the options of a pronoun"),
        ({"BLS_percent_women_2019": 160}, "expected 0 to 100"),
    ],
)
def test_a_record_of_something_else_is_refused(tmp_path, changed, message):
    with pytest.raises(BuildError, match=message):
        rows(tmp_path, **changed)


@pytest.mark.mirror
def test_the_released_sentences_become_rows():
    found = list(CONFIG.rows(mirrored(SENTENCES)))
    assert len(found) == 2990
    assert len({row.values["occupation"] for row in found}) == 299
    assert {row.values["slot"] for row in found} == {"nominative", "accusative", "possessive"}
