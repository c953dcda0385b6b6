from collections import Counter

import pytest

from builders.dataset import Drop, Row
from builders.datasets.winobias import DATASET
from builders.files.write import tables
from builders.text.split import phrase_key
from builders.text.words import PRONOUNS, fill, fill_they, slots
from tests.builders.test_coref import sources
from tests.support.helpers import mirrored

CLEAN, PAPER = DATASET.configs
PRO = "[The clerk] fed the cook's cat because [she] needs [her] pen ."
ANTI = "[The clerk] fed the cook's cat because [he] needs [his] pen ."


@pytest.fixture
def made_files(tmp_path):
    return sources(tmp_path, [PRO], [ANTI])


def test_a_row_has_the_three_sentences_and_what_they_are_about(tmp_path):
    files = sources(tmp_path, [PRO.replace(" .", ".")], [ANTI.replace(" .", ".")])
    row = next(row for row in CLEAN.rows(files) if isinstance(row, Row))
    assert (row.split, row.id) == ("test", "winobias-test-type1-1")
    assert row.values == {
        "template": "The clerk fed the cook's cat because {nominative} needs {possessive} pen.",
        "sentence_male": "The clerk fed the cook's cat because he needs his pen.",
        "sentence_female": "The clerk fed the cook's cat because she needs her pen.",
        "sentence_they": "The clerk fed the cook's cat because they need their pen.",
        "occupation": "clerk",
        "other_participant": "cook",
        "stereotype": "female",
        "type": 1,
        "mended": [],
    }


@pytest.mark.fault(25)
def test_a_sentence_of_both_splits_stays_in_the_test_split_alone(made_files):
    actual = list(CLEAN.rows(made_files))
    assert [(type(item), item.split) for item in actual] == [(Drop, "validation")] * 2 + [(Row, "test")] * 2
    assert {item.reason for item in actual[:2]} == {"the sentence is in the test split too"}
    assert [type(item) for item in PAPER.rows(made_files)] == [Row] * 4


def test_the_published_config_keeps_the_line_but_for_number_and_brackets(tmp_path):
    row = next(
        iter(PAPER.rows(sources(tmp_path, ["The [the  clerk] 's  cook [she]."], ["The [the  clerk] 's  cook [he]."])))
    )
    assert row.values["sentence_pro"] == "The the  clerk 's  cook she."
    assert row.values["sentence_anti"] == "The the  clerk 's  cook he."


# The published files.


@pytest.fixture(scope="module")
def built():
    files = mirrored(*CLEAN.sources)
    return {config.name: tables(config, config.rows(files), "en") for config in (CLEAN, PAPER)}


def records(built, config, split):
    return built[config.name][split][0].to_pylist()


@pytest.mark.mirror
def test_all_1584_pairs_are_published_and_three_dropped_from_the_mended_ones(built):
    assert {split: table.num_rows for split, (table, _) in built[PAPER.name].items()} == {
        "validation": 792,
        "test": 792,
    }
    assert {split: (table.num_rows, dropped) for split, (table, dropped) in built[CLEAN.name].items()} == {
        "validation": (789, {"the sentence is in the test split too": 3}),
        "test": (792, {}),
    }


@pytest.mark.mirror
@pytest.mark.fault(25)
def test_the_mended_splits_share_no_sentence(built):
    keys = [{phrase_key(row[CLEAN.disjoint]) for row in records(built, CLEAN, split)} for split in CLEAN.splits]
    assert CLEAN.disjoint == "template"
    assert not keys[0] & keys[1]


@pytest.mark.mirror
def test_the_sentences_of_a_row_differ_by_the_pronoun_and_its_verb_alone(built):
    for split in CLEAN.splits:
        for row in records(built, CLEAN, split):
            assert row["sentence_male"] == fill(row["template"], "male")
            assert row["sentence_female"] == fill(row["template"], "female")
            assert row["sentence_they"] == fill_they(row["template"])
            words = {name: row[f"sentence_{name}"].split() for name in PRONOUNS}
            different = sum(m != t for m, t in zip(words["male"], words["they"], strict=True))
            assert len(slots(row["template"])) <= different <= 2 * len(slots(row["template"]))


@pytest.mark.mirror
def test_only_mended_rows_differ_from_the_published_sentences(built):
    same = set()
    for split in CLEAN.splits:
        published = {row["id"]: row for row in records(built, PAPER, split)}
        for row in records(built, CLEAN, split):
            pro, anti = ("male", "female") if row["stereotype"] == "male" else ("female", "male")
            ours = row[f"sentence_{pro}"], row[f"sentence_{anti}"]
            theirs = tuple(published[row["id"]][f"sentence_{side}"] for side in ("pro", "anti"))
            assert row["mended"] or ours == theirs, row["id"]
            if row["mended"] and ours == theirs:
                same.add(row["id"])
    # Of these one line lacks the brackets around a pronoun.
    assert same == {"winobias-validation-type2-190", "winobias-validation-type2-215"}


@pytest.mark.mirror
def test_the_differences_state_what_was_mended(built):
    notes = Counter(note for split in CLEAN.splits for row in records(built, CLEAN, split) for note in row["mended"])
    pro, anti, space = notes["wording of the pro line"], notes["wording of the anti line"], notes["space before 's"]
    stated = " ".join(DATASET.differences)
    assert f"In {pro + anti} pairs the two lines differ" in stated
    assert f"that of the pro line in {pro} pairs, of the anti line in {anti}" in stated
    assert f"In {notes['word']} pairs words are replaced" in stated
    assert f"In {space} pairs the space before 's is removed, and in {notes['article']} an" in stated
