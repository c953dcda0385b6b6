import pytest

from builders.dataset import BuildError, Drop, Row
from builders.datasets.gender_pmi import DATASET, delta_table
from builders.files.write import tables
from pmi.analysis.sentence import max_pmi_diff
from pmi.types import GenderedPair
from tests.support.helpers import made, mirrored

(WORDS,) = DATASET.configs
HEADER = ",word,pmi_diff,counts,freq\n"
LINES = "0,homely,-0.5,12,1.5e-06\n1,nan,0.7,3,2e-07\n2,null,-0.6,4,3e-07\n3,c’m,0.2,5,4e-07\n4,c'm,0.1,6,5e-07\n"


def source(folder, lines):
    return made(folder, "unstereo/pmi", HEADER + lines)


def test_each_record_becomes_a_row_with_its_place_in_the_file(tmp_path):
    rows = [row for row in WORDS.rows(source(tmp_path, LINES)) if isinstance(row, Row)]
    assert [(row.origin.row, row.values["word"]) for row in rows] == [(0, "homely"), (3, "c’m"), (4, "c'm")]
    assert rows[0].values == {"word": "homely", "delta": -0.5, "count": 12, "frequency": 1.5e-06}
    assert len({row.id for row in rows}) == 3


def test_words_that_the_authors_did_not_read_are_dropped_with_the_reason(tmp_path):
    drops = [row for row in WORDS.rows(source(tmp_path, LINES)) if isinstance(row, Drop)]
    assert [drop.origin.row for drop in drops] == [1, 2]
    assert {drop.reason for drop in drops} == {"the authors' reader takes the word for a missing value"}


def test_the_delta_table_has_the_rows_and_the_counting_rule(tmp_path):
    table = delta_table(source(tmp_path, LINES)["unstereo/pmi"])
    assert dict(table.delta) == {"homely": -0.5, "c’m": 0.2, "c'm": 0.1}
    assert table.counts.tolist() == [12, 5, 6]
    assert (table.rule.window, table.pairs) == (10, (GenderedPair("she", "he"),))
    assert max_pmi_diff("A null and a nan", table).value is None


@pytest.mark.fault(20)
def test_a_duplicate_word_stops_the_build_with_its_name(tmp_path):
    lines = LINES + "5,homely,0.5,1,1e-09\n"
    with pytest.raises(BuildError, match="'homely'"):
        list(WORDS.rows(source(tmp_path, lines)))


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_a_value_that_is_not_finite_stops_the_build_with_its_word(tmp_path, value):
    with pytest.raises(BuildError, match=f"'comely'.*{value}"):
        list(WORDS.rows(source(tmp_path, f"0,comely,{value},1,1e-09\n")))


@pytest.mark.parametrize("line", ["0,comely,,1,1e-09", "0,comely,0.1,1.5,1e-09", "0,comely,0.1,1,many"])
def test_a_field_that_is_not_a_number_stops_the_build_with_record_and_word(tmp_path, line):
    with pytest.raises(BuildError, match=r"\b1\b.*'comely'"):
        list(WORDS.rows(source(tmp_path, f"0,homely,0.1,1,1e-09\n{line}\n")))


def test_the_card_states_the_rule_of_the_counts():
    for fact in ("the Pile", "windows of 10 words", "common English words", "ln c(w, she)"):
        assert fact in DATASET.summary


@pytest.mark.mirror
def test_the_published_table_has_65912_words():
    rows = list(WORDS.rows(mirrored("unstereo/pmi")))
    assert sum(isinstance(row, Drop) for row in rows) == 2
    table, dropped = tables(WORDS, rows, "en")["train"]
    assert table.num_rows == 65_912
    assert list(dropped.values()) == [2]
    delta = dict(zip(table["word"].to_pylist(), table["delta"].to_pylist(), strict=True))
    pronouns = {"she": 1.13, "he": -0.27, "her": 1.70, "him": 0.07, "his": -1.70, "hers": 1.31}
    assert {word: round(delta[word], 2) for word in pronouns} == pronouns
    assert not {"nan", "null", "himself", "herself", "the"} & delta.keys()


@pytest.mark.mirror
def test_the_published_frequencies_are_shares_of_129703637020_words():
    table, _ = tables(WORDS, WORDS.rows(mirrored("unstereo/pmi")), "en")["train"]
    for count, frequency in zip(table["count"].to_pylist(), table["frequency"].to_pylist(), strict=True):
        assert frequency == pytest.approx(count / 129_703_637_020, rel=1e-12)
