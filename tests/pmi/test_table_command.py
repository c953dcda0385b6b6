import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pmi.__main__ import app
from pmi.analysis.plots import write
from pmi.analysis.table import agreement, table
from pmi.counting.counts import Counts
from pmi.files import read_rows
from pmi.types import GenderedPair, parse_pairs
from tests.pmi.made import SMALL, counts

FOUR = ("she", "he", "her", "his")


@pytest.fixture
def made(tmp_path):
    near = {f"w{i}": [i, 9, 2 * i, 8] for i in range(1, 9)} | {word: [2, 3, 2, 3] for word in FOUR}
    counts(near, gendered=FOUR, corpus="eight words").write(tmp_path / "counts.parquet")
    return tmp_path / "counts.parquet"


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["table", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


def test_the_rule_the_distribution_and_the_extremes_are_printed(made):
    output = run(made, "--top", 2)
    assert "eight words: 1,200 word tokens, 12 different words; 12 words are in the table." in output
    assert "Window of 10 words" in output
    assert "Agreement" not in output
    rows = [line.replace("│", " ").split() for line in output.splitlines()]
    assert ["pmi_she", "12", "100.0%"] in [row[:3] for row in rows]
    assert ["w8", "-0.12", "100", "w1", "-2.20", "100"] in rows
    assert "δ above 0 is nearer to she, below 0 nearer to he." in output
    extremes = output[output.index("Extremes") :]
    assert not {"she", "he", "her", "his"} & {
        cell for line in extremes.splitlines()[3:] if "│" in line for cell in line.split()
    }


def test_every_word_is_written_by_the_ending_of_the_file(made, tmp_path):
    for name in ("t.parquet", "t.csv", "t.jsonl"):
        output = run(made, "--out", tmp_path / name, "--min-count", 100)
        assert f"{name}: 12." in output.replace("\n", "")
        assert read_rows(tmp_path / name)["word"].to_pylist() == sorted([*FOUR, *(f"w{i}" for i in range(1, 9))])


def test_a_written_table_equals_the_result_of_the_function(made, tmp_path):
    run(made, "--pairs", "she:he,her:his=2", "--out", tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").equals(table(made, parse_pairs("she:he,her:his=2")))


def test_the_agreement_of_all_counted_pairs_is_that_of_the_function(made):
    rows = [line.replace("│", " ").split() for line in run(made, "--compare", "all").splitlines()]
    pairs = Counts.read(made).counted_pairs()
    agreed = agreement(Counts.read(made), pairs)
    assert pairs == parse_pairs("she:he,her:his")
    tau = f"{agreed.tau[0, 1]:.2f}"
    assert ["she:he", "12", "1.00", "12", tau] in rows
    assert ["her:his", "12", tau, "12", tau] in rows


@pytest.mark.parametrize("form", ["svg", "png"])
def test_three_pictures_are_drawn(made, tmp_path, form):
    output = run(made, "--compare", "all", "--plots", tmp_path / "p", "--format", form)
    assert sorted(file.name for file in (tmp_path / "p").iterdir()) == [
        ".sha256",
        f"agreement.{form}",
        f"delta.{form}",
        f"pmi.{form}",
    ]
    assert f"pmi.{form}" in output
    start = {"svg": b"<?xml", "png": b"\x89PNG"}[form]
    assert all(file.read_bytes().startswith(start) for file in (tmp_path / "p").glob(f"*.{form}"))


def test_pictures_name_their_words_and_are_the_same_twice(tmp_path):
    near = {"a$b": [1, 2], "c_d": [3, 2]} | {word: [2, 3] for word in ("queen", "king")}
    rows = table(counts(near, gendered=("queen", "king")), GenderedPair("queen", "king"))
    for folder in ("one", "two"):
        write(tmp_path / folder, rows, GenderedPair("queen", "king"), None)
    for name in ("pmi.svg", "delta.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        assert "PMI(w, king)" in (tmp_path / "one" / name).read_text()


@pytest.mark.fault(32)
@pytest.mark.parametrize(
    "near", [{}, {"nurse": [0, 0]}, {"nurse": [3, 0], "she": [0, 0]}, {"she": [1, 1], "he": [1, 1]}]
)
def test_a_table_without_values_or_with_equal_values_is_printed_and_drawn_without_a_warning(tmp_path, near):
    counts(near).write(tmp_path / "counts.parquet")
    output = run(tmp_path / "counts.parquet", "--plots", tmp_path / "p", "--out", tmp_path / "t.csv")
    assert ("No figure: no word has a δ." in output) == (not (tmp_path / "p").exists())
    assert "inf" not in (tmp_path / "t.csv").read_text()


@pytest.mark.fault(32)
def test_pairs_without_values_have_no_agreement(tmp_path):
    counts({"nurse": [0, 0, 0, 0]}, gendered=FOUR).write(tmp_path / "counts.parquet")
    assert "The pairs have no agreement: no pair has a δ." in run(tmp_path / "counts.parquet", "--compare", "all")


@pytest.mark.fault(32)
def test_gendered_words_that_never_occur_are_named(tmp_path):
    counts({"nurse": [3, 0]}).write(tmp_path / "counts.parquet")
    assert "Gendered words that do not occur: she, he." in run(tmp_path / "counts.parquet")


def test_a_hostile_word_does_not_break_the_terminal_table(tmp_path):
    counts({"[/red]": [1, 1], "she": [1, 1], "he": [1, 1]}).write(tmp_path / "counts.parquet")
    assert "[/red]" in run(tmp_path / "counts.parquet")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--pairs", "queen:king"],
            "Co-occurrence with 'queen' was not counted; this table has she, he, her, his.",
        ),
        (["--pairs", "she"], "error: 'she' is not a pair of words; give pairs such as she:he,her:his=0.5."),
        (["--compare", "she:he"], "error: There are 1 pairs to compare; give at least two pairs that were counted."),
        (["--out", "t.xlsx"], "error: t.xlsx has the ending '.xlsx'; give a file that ends in .parquet"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_status_1(made, options, message):
    assert message in run(made, *options, code=1)


def test_a_file_without_counts_is_refused(tmp_path):
    assert "gone.parquet" in run(tmp_path / "gone.parquet", code=1)
    (tmp_path / "text.parquet").write_text("x")
    assert "text.parquet" in run(tmp_path / "text.parquet", code=1)
    pq.write_table(table(counts(SMALL)), tmp_path / "t.parquet")
    assert "t.parquet" in run(tmp_path / "t.parquet", code=1)
