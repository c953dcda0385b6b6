import dataclasses

import numpy as np
import pytest

from pmi.types import CountRule, DeltaTable, GenderedPair, TableError

RULE = CountRule("three sentences", 10, "white space", "none")


def test_a_table_gives_the_value_of_a_word_and_nothing_for_an_unknown_one():
    table = DeltaTable.of(["nurse", "bridge"], np.array([0.9, -0.1]), np.array([7, 12]), RULE)
    assert table.delta.get("nurse") == 0.9
    assert table.delta.get("umbrella") is None
    assert list(table.delta) == ["nurse", "bridge"]
    assert table.counts.tolist() == [7, 12]
    assert table.pairs == (GenderedPair("she", "he"),)


def test_counts_beyond_32_bits_are_kept():
    table = DeltaTable.of(["the"], [0.0], [2**40], RULE)
    assert table.counts.tolist() == [2**40]


def test_a_word_that_occurs_twice_is_refused():
    with pytest.raises(TableError, match="'nurse'"):
        DeltaTable.of(["nurse", "bridge", "nurse"], [0.9, -0.1, 0.9], [7, 12, 7], RULE)


def test_words_with_different_spellings_are_different_words():
    assert len(DeltaTable.of(["ma'am", "ma’am", "Ma'am"], [1.0, 2.0, 3.0], [1, 1, 1], RULE).delta) == 3


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_value_that_is_not_finite_is_refused_by_the_name_of_its_word(value):
    with pytest.raises(TableError, match=f"'bridge'.*{value}"):
        DeltaTable.of(["nurse", "bridge"], [0.9, value], [7, 12], RULE)


def test_unequal_lengths_are_refused():
    with pytest.raises(TableError, match="2 words, 1 values"):
        DeltaTable.of(["nurse", "bridge"], [0.9], [7, 12], RULE)


def test_a_table_cannot_be_changed():
    table = DeltaTable.of(["nurse"], [0.9], [7], RULE)
    with pytest.raises(TypeError, match="does not support item assignment"):
        table.delta["nurse"] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        table.counts[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.rule = RULE


def test_an_empty_table_has_no_words():
    assert len(DeltaTable.of([], [], [], RULE).delta) == 0
