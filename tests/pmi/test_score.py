import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from builders.datasets.gender_pmi import delta_table as published
from builders.datasets.unstereo import DATASET
from builders.files.manifest import file_sha256
from pmi.__main__ import app
from pmi.analysis.lookup import delta_table
from pmi.analysis.sentence import max_pmi_diff
from pmi.analysis.table import table
from pmi.counting.counts import delta
from pmi.files import FileError, read_rows, write_rows
from pmi.types import GenderedPair, TableError, parse_pairs
from tests.pmi.made import SMALL, counts
from tests.support.helpers import manifest_text, mirrored

SENTENCES = ["The nurse saw {nominative}.", "A captain and a bridge", "Umbrellas!", ""]


@pytest.fixture
def counted(tmp_path):
    counts(SMALL).write(tmp_path / "counts.parquet")
    return tmp_path / "counts.parquet"


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["score", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output.replace("\n", " ")


def text(tmp_path, lines=SENTENCES):
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    return tmp_path / "in.txt"


def test_each_sentence_gets_its_value_word_and_coverage(tmp_path, counted):
    output = run(text(tmp_path), "--table", counted, "--out", tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    known = delta(counted)
    scores = [max_pmi_diff(sentence, known) for sentence in SENTENCES]
    assert [row["max_pmi_diff"] for row in rows] == [s.value for s in scores]
    assert [row["max_pmi_word"] for row in rows] == ["nurse", "captain", None, None]
    assert [(row["pmi_words"], row["pmi_known"], row["pmi_coverage"]) for row in rows] == [
        (2, 1, 0.5),
        (2, 2, 1.0),
        (1, 0, 0.0),
        (0, 0, 0.0),
    ]
    assert "4 sentences, 2 with a value: 1 above 0 and 1 below. 60.0% of their 5 words are in the table." in output


@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.jsonl", "in.parquet"])
def test_other_columns_are_kept_and_the_text_may_have_any_name(tmp_path, counted, name):
    rows = pa.table({"id": ["a", "b"], "template": ["A nurse", "A stone"]})
    write_rows(rows, tmp_path / name)
    run(tmp_path / name, "--table", counted, "--column", "template", "--out", tmp_path / "out.parquet")
    scored = pq.read_table(tmp_path / "out.parquet")
    assert scored.select(["id", "template"]).to_pydict() == rows.to_pydict()
    assert scored["max_pmi_word"].to_pylist() == ["nurse", None]


def test_epsilon_keeps_sentences_within_it_and_reports_their_number(tmp_path, counted):
    file = text(tmp_path, [*SENTENCES, "Bridge"])
    output = run(file, "--table", counted, "--epsilon", 0.5, "--out", tmp_path / "o.csv")
    assert read_rows(tmp_path / "o.csv")["text"].to_pylist() == ["Bridge"]
    assert "1 are within ±0.5 (20.0%)." in output


@pytest.mark.parametrize("rule", ["clean", "nltk", "spacy"])
def test_the_rule_decides_what_words_are(tmp_path, counted, rule):
    run(text(tmp_path, ["The ship-nurse"]), "--table", counted, "--rule", rule, "--out", tmp_path / "o.parquet")
    row = pq.read_table(tmp_path / "o.parquet").to_pylist()[0]
    score = max_pmi_diff("The ship-nurse", delta(counted), rule)
    assert (row["max_pmi_word"], row["pmi_words"]) == (score.word, score.total)
    assert (row["pmi_words"] == 1) == (rule == "nltk")


def test_scoring_twice_needs_the_option_replace(tmp_path, counted):
    run(text(tmp_path), "--table", counted, "--out", tmp_path / "a.parquet")
    output = run(tmp_path / "a.parquet", "--table", counted, "--out", tmp_path / "b.parquet", code=1)
    assert "has the column 'max_pmi_diff' already; remove it, or give --replace." in output
    run(tmp_path / "a.parquet", "--table", counted, "--replace", "--out", tmp_path / "b.parquet")
    assert pq.read_table(tmp_path / "a.parquet").equals(pq.read_table(tmp_path / "b.parquet"))


def test_an_empty_file_of_sentences_is_not_an_error(tmp_path, counted):
    (tmp_path / "in.txt").write_text("")
    output = run(tmp_path / "in.txt", "--table", counted, "--epsilon", 1, "--out", tmp_path / "o.csv")
    assert "0 sentences, 0 with a value" in output


def test_a_table_of_delta_gives_the_scores_of_its_counts(tmp_path, counted):
    for name in ("t.parquet", "t.csv", "t.jsonl"):
        write_rows(table(counted), tmp_path / name)
        assert dict(delta_table(tmp_path / name).delta) == dict(delta(counted).delta)
    assert delta_table(tmp_path / "t.parquet").rule == delta(counted).rule


def test_counts_give_delta_of_any_pair_and_a_table_of_delta_only_of_its_own(tmp_path, counted):
    other = GenderedPair("he", "she")
    assert delta_table(counted, other).delta["nurse"] == pytest.approx(-delta_table(counted).delta["nurse"])
    pq.write_table(table(counted, other), tmp_path / "t.parquet")
    assert delta_table(tmp_path / "t.parquet").pairs == (other,)
    assert delta_table(tmp_path / "t.parquet", other).delta["nurse"] < 0
    with pytest.raises(TableError, match=r"t\.parquet"):
        delta_table(tmp_path / "t.parquet", parse_pairs("she:he"))


def test_the_folder_of_the_built_data_set_is_read(tmp_path):
    (tmp_path / "gender-pmi" / "data" / "words").mkdir(parents=True)
    words = pa.table({"id": ["x"], "word": ["nurse"], "delta": [0.9], "count": [7], "frequency": [0.1]})
    path = tmp_path / "gender-pmi" / "data" / "words" / "train.parquet"
    pq.write_table(words, path)
    with pytest.raises(TableError, match=r"train\.parquet.*/manifest\.json"):
        delta_table(tmp_path / "gender-pmi")
    split = {"file": "data/words/train.parquet", "sha256": file_sha256(path)}
    text = manifest_text({"configs": {"words": {"splits": {"train": split}}}})
    (tmp_path / "gender-pmi" / "manifest.json").write_text(text)
    assert dict(delta_table(tmp_path / "gender-pmi").delta) == {"nurse": 0.9}
    (tmp_path / "gender-pmi" / "manifest.json").write_text(text.replace("words/train", "words/other"))
    with pytest.raises(TableError, match=r"/manifest\.json"):
        delta_table(tmp_path / "gender-pmi")


def test_a_name_that_is_not_a_file_is_loaded_from_the_hub(monkeypatch):
    calls = []

    class Loaded:
        class data:  # noqa: N801
            table = pa.table({"word": ["nurse"], "delta": [0.9], "count": [7]})

    monkeypatch.setattr("datasets.load_dataset", lambda *a, **k: calls.append((a, k)) or Loaded)
    assert dict(delta_table("org/gender-pmi@v1.0.0").delta) == {"nurse": 0.9}
    assert calls == [(("org/gender-pmi", "words"), {"split": "train", "revision": "v1.0.0"})]


def test_a_hub_that_cannot_be_reached_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr("datasets.load_dataset", refuse)
    output = run(text(tmp_path), "--table", "org/gender-pmi", code=1)
    assert (
        "org/gender-pmi is not a file and was not loaded from the Hub (no route to host); give a file, or"
        in " ".join(output.split())
    )


def test_a_data_set_that_is_not_built_is_not_looked_for_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: pytest.fail("asked the Hub"))
    with pytest.raises(FileError, match=r"gender-pmi is not there; .* probes build gender-pmi"):
        delta_table(tmp_path / "gender-pmi")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("word,count\na,1\n", "has no column 'delta'; a table of δ has word, delta, count"),
        ("word,delta,count\na,much,1\n", "has a value that is not a number"),
        ("word,delta,count\na,inf,1\n", "The word 'a' has the value inf; leave out a word that has no finite value"),
        ("word,delta,count\na,1,1\na,1,1\n", "has the word 'a' more than once; give each word one value"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    assert message in run(text(tmp_path), "--table", tmp_path / "t.csv", code=1)


@pytest.mark.parametrize("wrong", [[[1], [2]], [{"a": 1}, {"a": 2}]])
def test_a_column_of_a_type_that_is_no_number_is_refused(tmp_path, wrong):
    # Arrow has no conversion at all for such types, and says so by another error than for a wrong value.
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"word": ["a", "b"], "delta": [0.5, 1.0], "count": wrong}), path)
    with pytest.raises(TableError, match="not a number"):
        delta_table(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--column", "body"], "has no column 'body'; name one of text."),
        (["--out", "o.doc"], "o.doc has the ending '.doc'; give a file that ends in .parquet, .csv, .tsv or .jsonl."),
        (["--pairs", "queen:king"], "Co-occurrence with 'queen' was not counted; this table has she, he."),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_status_1(tmp_path, counted, options, message):
    assert message in run(text(tmp_path), "--table", counted, *options, code=1)


def test_a_folder_without_a_table_is_refused(tmp_path):
    assert "holds no table of words (data/words/*.parquet)" in run(text(tmp_path), "--table", tmp_path, code=1)


@pytest.mark.parametrize("value", ["-1", "nan"])
def test_a_negative_epsilon_is_refused(tmp_path, counted, value):
    done = CliRunner().invoke(app, ["score", str(text(tmp_path)), "--table", str(counted), "--epsilon", value])
    assert done.exit_code != 0
    assert "Traceback" not in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.mirror
def test_the_command_gives_the_published_size_of_a_benchmark(tmp_path):
    config = next(config for config in DATASET.configs if config.name == "ours-5-paper")
    files = mirrored(*config.sources)
    natural = [row.values["template"] for row in config.rows(files) if row.values["natural"]]
    write_rows(pa.table({"template": natural}), tmp_path / "in.parquet")
    known = published(files["unstereo/pmi"])
    words = {"word": list(known.delta), "delta": list(known.delta.values()), "count": known.counts}
    write_rows(pa.table(words), tmp_path / "t.parquet")
    options = ["--column", "template", "--rule", "nltk", "--epsilon", 0.65]
    output = run(tmp_path / "in.parquet", "--table", tmp_path / "t.parquet", *options)
    assert "4,405 sentences" in output
    assert "3,701 are within ±0.65 (84.0%)." in output
