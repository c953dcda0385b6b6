import json
import math

import pytest
from typer.testing import CliRunner

from builders.datasets.gender_pmi import delta_table as published
from pmi.__main__ import app
from pmi.analysis.table import compare
from pmi.counting.local import count
from pmi.types import CountRule, DeltaTable
from tests.pmi.made import SMALL, counts
from tests.support.helpers import beside, mirrored

RULE = CountRule("made up", 10, "any", "none")


def table(values, number=9):
    return DeltaTable.of(values, values.values(), [number] * len(values), RULE)


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


def test_only_words_of_both_tables_are_compared():
    comparison = compare(table({"a": 0.1, "b": 0.2, "c": 0.3}), table({"c": 0.9, "a": 0.5, "d": 0.0}))
    assert comparison.words == ("a", "c")
    assert (comparison.first.tolist(), comparison.second.tolist(), comparison.tau) == ([0.1, 0.3], [0.5, 0.9], 1.0)


def test_a_word_that_is_rare_in_either_table_is_left_out():
    one, other = table({"a": 0.1, "b": 0.2}), DeltaTable.of("ab", [0.1, 0.2], [5, 9], RULE)
    assert compare(one, other, min_count=6).words == compare(other, one, min_count=6).words == ("b",)


def test_words_whose_ranks_differ_most_come_first_with_a_sign():
    one = table({word: at / 10 for at, word in enumerate("abcde")})
    other = table({word: at / 10 for at, word in enumerate("bcdea")})
    comparison = compare(one, other)
    assert comparison.words[comparison.largest_shifts(1)[0]] == "a"
    assert comparison.rank_shift.tolist() == [0.8, -0.2, -0.2, -0.2, -0.2]


@pytest.mark.fault(32)
@pytest.mark.parametrize("other", [{}, {"x": 0.1}, {"a": 0.5}])
def test_tables_with_few_shared_words_have_no_agreement_and_no_warning(other):
    assert math.isnan(compare(table({"a": 0.1, "b": 0.2}), table(other)).tau)


def test_the_command_prints_writes_and_draws(tmp_path):
    counts(SMALL).write(tmp_path / "one.parquet")
    counts({word: row[::-1] for word, row in SMALL.items()}).write(tmp_path / "two.parquet")
    options = ["--names", "one,two", "--out", tmp_path / "o.jsonl", "--plot", tmp_path / "p.svg", "--top", 1]
    output = run(tmp_path / "one.parquet", tmp_path / "two.parquet", *options)
    assert "Words in both: 3. Kendall's τ of their δ: -1.000." in output
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["word"] for row in rows] == ["bridge", "captain", "nurse"]
    assert all(row["delta_first"] == pytest.approx(-row["delta_second"]) for row in rows)
    assert "δ in two" in (tmp_path / "p.svg").read_text()
    assert "+67%" in output


def test_tables_without_shared_words_are_reported_and_not_drawn(tmp_path):
    counts({"a": [1, 2]}).write(tmp_path / "one.parquet")
    output = run(tmp_path / "one.parquet", tmp_path / "one.parquet", "--plot", tmp_path / "p.svg")
    assert "Words in both: 0. Kendall's τ of their δ: undefined." in output
    assert not (tmp_path / "p.svg").exists()


@pytest.mark.mirror
def test_delta_of_frequent_words_in_other_texts_agrees_with_the_published_table():
    texts = beside("corpora", "wikipedia.jsonl.zst")
    paper = published(mirrored("unstereo/pmi")["unstereo/pmi"])
    comparison = compare(count(texts, jobs=1).delta(), paper, min_count=100)
    assert len(comparison.words) > 300
    assert 0.2 < comparison.tau < 0.9
