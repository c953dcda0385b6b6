"""Tables of counts: writing and reading, sums of tables with one rule, and δ."""

import dataclasses
import json
import math
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmi.counting.counts import Counts, delta, merge, merge_files
from pmi.types import CorpusTotals, CountRule, GenderedPair, TableError

RULE = CountRule("made up", 10, "any", "none", gendered=("he", "she", "her", "his"))
WORDS = ("captain", "he", "her", "his", "nurse", "she", "ship")
COUNT = np.array([4, 9, 5, 6, 3, 8, 7])
NEAR = np.array([[6, 1, 2, 3], [2, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0], [1, 4, 5, 1], [1, 2, 1, 1], [3, 0, 1, 2]])
TOTALS = CorpusTotals(words=42, pairs=60, documents=3, bytes=300, invalid_bytes=2, long_tokens=1, losses=("lost",))


def made(rule=RULE, words=WORDS, count=COUNT, near=NEAR, totals=TOTALS):
    return Counts(words, count, near, rule, totals)


def content(counts):
    return counts.words, counts.word_counts.tolist(), counts.pair_counts.tolist(), counts.rule, counts.totals


def test_a_table_is_read_as_it_was_written(tmp_path):
    rule = dataclasses.replace(RULE, stopped=("a", "the"), boundary="line", corpus='a "name" – ünï')
    made(rule).write(tmp_path / "c.parquet")
    assert content(Counts.read(tmp_path / "c.parquet")) == content(made(rule))


def test_a_table_of_an_earlier_version_has_its_long_tokens_under_another_name(tmp_path):
    made().write(tmp_path / "c.parquet")
    table = pq.read_table(tmp_path / "c.parquet")
    facts = json.loads(table.schema.metadata[b"gender-neutral-probes"])
    facts["format"] = 1
    facts["totals"]["long_runs"] = facts["totals"].pop("long_tokens")
    metadata = {b"gender-neutral-probes": json.dumps(facts).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "earlier.parquet")
    assert Counts.read(tmp_path / "earlier.parquet").totals == TOTALS


def test_an_empty_table_is_read_as_it_was_written(tmp_path):
    empty = made(words=(), count=np.zeros(0, np.int64), near=np.zeros((0, 4), np.int64), totals=CorpusTotals())
    empty.write(tmp_path / "c.parquet")
    assert content(Counts.read(tmp_path / "c.parquet")) == content(empty)


@pytest.mark.fault(32)
def test_counts_beyond_32_bits_are_kept(tmp_path):
    made(count=COUNT + 2**40, near=NEAR + 2**40).write(tmp_path / "c.parquet")
    assert Counts.read(tmp_path / "c.parquet").pair_counts_of("she").tolist() == (NEAR[:, 1] + 2**40).tolist()


def test_equal_tables_are_equal_bytes(tmp_path):
    for name in ("one", "other"):
        made().write(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_a_column_is_named_after_its_gendered_word(tmp_path):
    made().write(tmp_path / "c.parquet")
    table = pq.read_table(tmp_path / "c.parquet")
    assert table.column_names == ["word", "count", "near_he", "near_she", "near_her", "near_his"]
    assert table["near_she"].to_pylist() == NEAR[:, 1].tolist()


@given(st.lists(st.dictionaries(st.sampled_from(WORDS), st.integers(1, 9), max_size=7), min_size=1, max_size=5))
def test_a_sum_of_tables_has_the_sum_of_their_counts_in_any_order(parts):
    tables = [
        made(
            words=tuple(sorted(part)),
            count=np.array([part[w] for w in sorted(part)], np.int64),
            near=np.array([[part[w], 0, 2, 1] for w in sorted(part)], np.int64).reshape(len(part), 4),
        )
        for part in parts
    ]
    total = sum(map(Counter, parts), Counter())
    merged = merge(tables)
    assert dict(zip(merged.words, merged.word_counts.tolist(), strict=True)) == dict(total)
    assert merged.pair_counts_of("he").tolist() == [total[word] for word in merged.words]
    assert (merged.totals.words, merged.totals.losses) == (42 * len(parts), ("lost",) * len(parts))
    assert content(merge(tables[::-1])) == content(merged)


def test_a_sum_is_written_to_a_file_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("pmi.counting.counts._ROWS_PER_BATCH", 2)
    made().write(tmp_path / "one")
    made(words=("ship", "zebra"), count=np.array([1, 2]), near=NEAR[:2]).write(tmp_path / "other")
    parts = [tmp_path / "one", tmp_path / "other", made(words=("aunt", "zebra"), count=COUNT[:2], near=NEAR[2:4])]
    summary = merge_files(parts, tmp_path / "sum")
    assert content(Counts.read(tmp_path / "sum")) == content(merge(parts))
    assert (summary.words, summary.totals, summary.absent) == (9, merge(parts).totals, ())
    assert merge_files([parts[1]], tmp_path / "sum").absent == RULE.gendered


def test_files_add_up_like_tables(tmp_path):
    made().write(tmp_path / "one")
    made(words=("ship", "zebra"), count=np.array([1, 2]), near=NEAR[:2]).write(tmp_path / "other")
    paths = [tmp_path / "one", tmp_path / "other"]
    assert content(merge(paths)) == content(merge([Counts.read(path) for path in paths]))
    assert merge(paths).count_of("ship") == 8


DIFFERENT = {
    "corpus": "another",
    "window": 5,
    "tokenizer": "other",
    "stop_words": "clean",
    "lower_case": False,
    "boundary": "line",
    "stopped": ("the",),
    "gendered": ("she", "he", "her", "his"),
}


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(CountRule)])
def test_tables_that_differ_in_any_part_of_the_rule_do_not_add_up(field, tmp_path):
    other = made(dataclasses.replace(RULE, **{field: DIFFERENT[field]}))
    other.write(tmp_path / "other.parquet")
    with pytest.raises(TableError) as error:
        merge([made(), tmp_path / "other.parquet"])
    assert re.fullmatch(
        rf".*other\.parquet was counted by another rule than a table \({field.replace('_', ' ')} .*, there .*\); "
        r"count both by one rule, then add them up\.",
        str(error.value),
    )


def test_a_sum_of_no_tables_is_refused():
    with pytest.raises(TableError, match=r"one table\."):
        merge([])


def test_delta_is_the_log_ratio_of_co_occurrences_minus_that_of_the_gendered_words():
    table = made().delta()
    expected = {
        word: math.log(near[1] / near[0]) - math.log(8 / 9)
        for word, near in zip(WORDS, NEAR.tolist(), strict=True)
        if near[0] and near[1]
    }
    assert table.delta == pytest.approx(expected, abs=1e-15)
    assert "ship" not in table.delta
    assert table.counts.tolist() == [COUNT[WORDS.index(word)] for word in table.delta]
    assert (table.rule, table.pairs) == (RULE, (GenderedPair("she", "he"),))


def test_delta_of_several_pairs_is_their_weighted_mean():
    one, other = made().delta().delta, made().delta(GenderedPair("her", "his")).delta
    delta = made().delta([GenderedPair("she", "he", 3.0), GenderedPair("her", "his", 1.0)]).delta
    assert delta == pytest.approx({word: (3 * one[word] + other[word]) / 4 for word in one if word in other})
    assert set(delta) == set(one) & set(other)


def test_delta_of_a_file_is_that_of_its_table(tmp_path):
    made().write(tmp_path / "c.parquet")
    assert delta(tmp_path / "c.parquet").delta == delta(made()).delta == made().delta().delta


@pytest.mark.fault(32)
def test_without_a_gendered_word_no_word_has_a_delta():
    count = COUNT.copy()
    count[WORDS.index("she")] = 0
    assert len(made(count=count).delta().delta) == 0
    assert len(made(near=np.zeros_like(NEAR)).delta().delta) == 0


def test_a_gendered_word_that_was_not_counted_is_refused_with_those_that_were():
    with pytest.raises(TableError, match="'woman'"):
        made().delta(GenderedPair("woman", "he"))


@pytest.mark.parametrize("weights", [(), (0.0,), (1.0, -1.0), (float("nan"),), (float("inf"),)])
def test_weights_without_a_mean_are_refused(weights):
    with pytest.raises(TableError, match="not all 0"):
        made().delta([GenderedPair("she", "he", weight) for weight in weights])


def test_counts_of_another_shape_than_the_words_are_refused():
    with pytest.raises(TableError, match=r"\(7,\) and \(7, 4\)"):
        made(near=NEAR[:, :3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 0}, "The window is 0 words wide; give 1 to 10000"),
        ({"window": 10_001}, "The window is 10001 words wide; give 1 to 10000"),
        ({"boundary": "page"}, "'page'"),
        ({"gendered": ("she", "she")}, "'she'"),
    ],
)
def test_an_impossible_rule_is_refused(change, message):
    with pytest.raises(TableError, match=message):
        dataclasses.replace(RULE, **change)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(TableError, match=r"nowhere\.parquet"):
        Counts.read("nowhere.parquet")


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "c.parquet").write_bytes(b"counts")
    with pytest.raises(TableError, match=r"c\.parquet .*Parquet file"):
        Counts.read(tmp_path / "c.parquet")


def test_a_parquet_file_without_counts_is_named(tmp_path):
    pq.write_table(pa.table({"word": ["a"]}), tmp_path / "c.parquet")
    with pytest.raises(TableError, match=r"c\.parquet .*no counts"):
        Counts.read(tmp_path / "c.parquet")


def test_a_damaged_file_is_named(tmp_path):
    made().write(tmp_path / "c.parquet")
    whole = (tmp_path / "c.parquet").read_bytes()
    places = {}
    metadata = pq.read_metadata(tmp_path / "c.parquet")
    for number in range(metadata.num_columns):
        column = metadata.row_group(0).column(number)
        places[column.path_in_schema] = column.dictionary_page_offset or column.data_page_offset
    assert len(places) == 6
    for place in places.values():
        # The bytes of a page follow its header, which is shorter than this.
        data = bytearray(whole)
        data[place + 60] ^= 1
        (tmp_path / "c.parquet").write_bytes(data)
        with pytest.raises(TableError, match=r"c\.parquet is damaged"):
            Counts.read(tmp_path / "c.parquet")


def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    made().write(tmp_path / "c.parquet")
    before = (tmp_path / "c.parquet").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(Exception, match=r"c\.parquet.*No space left on device"):
        made(count=COUNT + 1).write(tmp_path / "c.parquet")
    assert (tmp_path / "c.parquet").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["c.parquet"]
