import itertools
import shutil

import pytest
from typer.testing import CliRunner

from pmi.__main__ import app
from pmi.counting.counts import Counts
from pmi.counting.local import count
from tests.pmi.made import SMALL, counts


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["merge", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output.replace("\n", " ")


@pytest.mark.fault(34)
def test_tables_are_added_up_in_any_order_to_the_same_bytes(tmp_path):
    files = [tmp_path / f"{name}.parquet" for name in "abc"]
    for number, file in enumerate(files):
        counts(SMALL | {f"only{number}": [number, 1]}, {"nurse": 2**40 + number}).write(file)
    made = set()
    for order in itertools.permutations(files):
        output = run(*order, "--out", tmp_path / "sum.parquet")
        made.add((tmp_path / "sum.parquet").read_bytes())
    assert len(made) == 1
    assert "10 different words" in output
    total = Counts.read(tmp_path / "sum.parquet")
    assert total.count_of("nurse") == 3 * 2**40 + 3
    assert total.pair_counts_of("she")[total.words.index("nurse")] == 24


@pytest.mark.fault(85)
def test_the_counts_of_a_file_are_not_added_up_twice(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(f"She saw the {name}.")
        count([tmp_path / f"{name}.txt"], name="c", jobs=1).write(tmp_path / f"{name}.parquet")
    one, two, total = (tmp_path / f"{name}.parquet" for name in ("one", "two", "sum"))
    shutil.copy(one, tmp_path / "copy.parquet")
    for again in (one, tmp_path / "copy.parquet"):
        output = run(one, again, "--out", total, code=1)
        assert f"{again} has counts of a file of which {one} has them too; add up each file once." in output
        assert not total.exists()
    run(one, two, "--out", total)
    assert "sum.parquet has them too" in run(total, two, "--out", tmp_path / "more.parquet", code=1)
    counts(SMALL).write(one)  # counts of an earlier version do not say of which files they are
    assert "add up each file once" in run(one, one, "--out", tmp_path / "more.parquet", code=1)


@pytest.mark.fault(81)
def test_a_file_without_counts_is_not_replaced_by_a_sum(tmp_path):
    counts(SMALL).write(tmp_path / "a.parquet")
    (tmp_path / "thesis.parquet").write_text("years")
    output = run(tmp_path / "a.parquet", "--out", tmp_path / "thesis.parquet", code=1)
    assert "thesis.parquet holds no counts, and would be replaced; move it away or give another --out." in output
    assert (tmp_path / "thesis.parquet").read_text() == "years"


def test_a_table_of_another_rule_is_refused_in_one_sentence_and_nothing_is_written(tmp_path):
    counts(SMALL).write(tmp_path / "a.parquet")
    counts(SMALL, window=5).write(tmp_path / "b.parquet")
    output = run(tmp_path / "a.parquet", tmp_path / "b.parquet", "--out", tmp_path / "sum.parquet", code=1)
    assert "b.parquet was counted by another rule than" in output
    assert "(window 10, there 5); count both by one rule, then add them up." in output
    assert not (tmp_path / "sum.parquet").exists()
