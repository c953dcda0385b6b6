import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmi as package
from pmi.analysis.table import METADATA_KEY, agreement, column_statistics, kendall, pmi, table
from pmi.types import PUBLISHED_PAIRS, THEY_FORMS, CorpusTotals, GenderedPair, TableError, parse_pairs, words_of
from tests.pmi.made import SMALL, counts

FOUR = ("she", "he", "her", "his")


def test_pmi_is_the_log_of_joint_over_product_of_shares():
    made = counts(SMALL, {"nurse": 40, "she": 50})
    n, m = made.totals.words, made.totals.pairs
    value = dict(zip(made.words, pmi(made, "she"), strict=True))
    assert value["nurse"] == pytest.approx(math.log((8 / m) / ((40 / n) * (50 / n))))


@pytest.mark.fault(32)
def test_pmi_is_undefined_where_a_count_is_0_and_never_infinite():
    made = counts(SMALL)
    assert [w for w, v in zip(made.words, pmi(made, "she"), strict=True) if math.isnan(v)] == ["she", "ship", "stone"]
    assert not np.isinf(pmi(made, "she")).any()


@pytest.mark.fault(32)
def test_a_gendered_word_that_never_occurs_leaves_all_undefined():
    made = counts({"nurse": [8, 0], "he": [5, 0], "she": [0, 0]}, gendered=("she", "hers"))
    assert np.isnan(pmi(made, "hers")).all()
    rows = table(made, GenderedPair("she", "hers"))
    assert rows["delta"].null_count == len(rows) == 3
    assert [m.share for m in column_statistics(rows)] == [2 / 3, 0.0, 0.0]


def test_delta_is_the_difference_of_the_two_pmi():
    made = counts(SMALL, {"she": 30, "he": 70})
    both = made.delta_values()
    np.testing.assert_allclose(both, pmi(made, "she") - pmi(made, "he"), atol=1e-12)
    known = made.delta()
    assert {w: v for w, v in zip(made.words, both, strict=True) if not math.isnan(v)} == dict(known.delta)


def test_several_pairs_give_their_weighted_mean():
    made = counts({"nurse": [8, 2, 9, 1], "ship": [1, 1, 0, 4]} | {word: [1, 1, 1, 1] for word in FOUR}, gendered=FOUR)
    pairs = parse_pairs("she:he=3,her:his=1")
    rows = table(made, pairs)
    row = {r["word"]: r for r in rows.to_pylist()}
    assert row["nurse"]["delta"] == pytest.approx(0.75 * math.log(4) + 0.25 * math.log(9))
    assert row["nurse"]["delta_her_his"] == pytest.approx(math.log(9))
    assert row["ship"]["delta_she_he"] == 0.0
    assert row["ship"]["delta"] is None


def test_a_table_has_one_row_per_word_and_the_rule_in_its_metadata():
    rows = table(counts(SMALL, {"bridge": 7}), min_count=8)
    assert rows.column_names == ["word", "count", "frequency", "pmi_she", "pmi_he", "delta"]
    assert rows["word"].to_pylist() == ["captain", "he", "nurse", "she", "ship", "stone"]
    assert rows["frequency"].to_pylist() == [100 / 607] * 6
    assert b'"window": 10' in rows.schema.metadata[METADATA_KEY]


def test_the_functions_of_the_package_are_those_of_its_modules(tmp_path):
    made = counts(SMALL)
    made.write(tmp_path / "counts.parquet")
    assert package.table(tmp_path / "counts.parquet").equals(table(made))
    assert dict(package.delta(tmp_path / "counts.parquet").delta) == dict(made.delta().delta)


@pytest.mark.fault(32)
@pytest.mark.parametrize("near", [{}, {"nurse": [0, 0]}, {"she": [0, 0]}])
def test_an_empty_corpus_and_one_of_one_word_give_a_table_without_values(near):
    made = counts(near)
    rows = table(made)
    assert len(rows) == len(near)
    assert rows["delta"].null_count == len(near)
    for column in column_statistics(rows):
        assert (column.n_defined, math.isnan(column.share)) == (0, not near)
        assert math.isnan(column.mean)


@pytest.mark.fault(32)
def test_counts_beyond_32_bits_give_the_values_of_counts_in_proportion():
    near, big = {word: [n * 2**33 for n in row] for word, row in SMALL.items()}, 2**33
    many = counts(near, dict.fromkeys(SMALL, 100 * big), totals=CorpusTotals(words=700 * big, pairs=7000 * big))
    np.testing.assert_allclose(pmi(many, "she"), pmi(counts(SMALL), "she"), atol=1e-12)
    np.testing.assert_allclose(many.delta_values(), counts(SMALL).delta_values(), atol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), max_size=20))
def test_every_value_is_finite_for_any_counts(rows):
    made = counts({f"w{i}": list(row) for i, row in enumerate(rows)} | {"she": [0, 1], "he": [1, 0]})
    for column in table(made).columns[2:]:
        assert all(value is None or math.isfinite(value) for value in column.to_pylist())


def test_column_statistics_have_share_mean_and_quantiles():
    rows = pa.table({"word": list("abcd"), "delta": [1.0, 2.0, 3.0, None]})
    [column] = column_statistics(rows)
    assert (column.name, column.n_defined, column.share, column.mean, column.median) == ("delta", 3, 0.75, 2.0, 2.0)
    assert column.sd == pytest.approx(math.sqrt(2 / 3))
    assert (column.low, column.high) == pytest.approx((1.1, 2.9))


def test_pairs_that_order_words_alike_agree_and_reversed_ones_disagree():
    near = {f"w{i}": [i, 10, 2 * i, 10] for i in range(1, 9)} | {word: [0, 0, 0, 0] for word in FOUR}
    made = counts(near, gendered=FOUR)
    agreed = agreement(made, parse_pairs("she:he,her:his,he:she"))
    np.testing.assert_allclose(agreed.tau, [[1, 1, -1], [1, 1, -1], [-1, -1, 1]])
    assert agreed.n_words.tolist() == [[8] * 3] * 3


def test_agreement_is_over_the_words_that_both_pairs_define():
    near = {"a": [1, 2, 0, 1], "b": [2, 2, 1, 2], "c": [3, 2, 2, 2]} | {word: [0, 0, 0, 0] for word in FOUR}
    agreed = agreement(counts(near, gendered=FOUR), parse_pairs("she:he,her:his"))
    assert agreed.n_words.tolist() == [[3, 2], [2, 2]]
    assert agreed.tau[0, 1] == 1.0


def test_a_pair_that_no_word_has_is_left_out_of_the_agreement():
    near = {"a": [1, 2, 0, 0], "b": [2, 2, 0, 0]} | {word: [0, 0, 0, 0] for word in FOUR}
    assert agreement(counts(near, gendered=FOUR), parse_pairs("she:he,her:his")).pairs == (GenderedPair("she", "he"),)


def test_kendall_is_that_of_a_data_frame_with_ties():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame(rng.integers(0, 6, (40, 2)).astype(float))
    assert kendall(frame[0].to_numpy(), frame[1].to_numpy()) == pytest.approx(frame.corr("kendall").iloc[0, 1])


@pytest.mark.fault(32)
@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0]])
def test_kendall_of_too_little_is_undefined_without_a_warning(values):
    assert math.isnan(kendall(np.array(values), np.arange(float(len(values)))))


def test_fewer_than_two_pairs_cannot_be_compared():
    with pytest.raises(TableError, match="1 pairs"):
        agreement(counts(SMALL), [GenderedPair("she", "he")])


def test_a_gendered_word_that_was_not_counted_is_refused_with_those_that_were():
    with pytest.raises(TableError, match="'queen'"):
        table(counts(SMALL), GenderedPair("queen", "he"))


def test_only_pairs_whose_co_occurrence_was_counted_are_compared():
    assert counts(SMALL).counted_pairs() == (GenderedPair("she", "he"),)


def test_the_published_pairs_are_38_of_74_words():
    assert len(PUBLISHED_PAIRS) == len(set(PUBLISHED_PAIRS)) == 38
    assert len(words_of()) == 74
    assert PUBLISHED_PAIRS[0] == GenderedPair("she", "he")
    assert not set(THEY_FORMS) & set(words_of())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("she", r"'she'.*\b0.5\b"),
        ("she:he=x", "'she:he=x'"),
        ("she:She", "'she:She'"),
        ("she:he=-1", "'she:he=-1'"),
        ("", "There is no pair of words; give one such as she:he"),
        ("she:he,SHE:he=2", "The pair she:he is given more than once; give each once"),
    ],
)
def test_a_text_that_is_not_a_list_of_pairs_is_refused(text, message):
    with pytest.raises(TableError, match=message):
        parse_pairs(text)


def test_weights_that_are_all_0_are_refused():
    with pytest.raises(TableError, match=r"weights .*no mean"):
        table(counts(SMALL), parse_pairs("she:he=0"))


def test_a_table_loads_neither_the_compiler_nor_matplotlib(tmp_path):
    counts(SMALL).write(tmp_path / "c.parquet")
    code = (
        f"import sys, pmi; pmi.table({str(tmp_path / 'c.parquet')!r}); "
        "sys.exit(bool({'numba', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
