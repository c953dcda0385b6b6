"""The lean of a corpus beside the lean of a model: planted leans, and the command on a made run."""

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

import probes
from pmi.types import CountRule, DeltaTable
from scoring.asking.result import RunResult
from scoring.benchmarks import get
from scoring.commands.corpus import app, compare_model
from scoring.inputs.corpus_counts import band_name, correlations, job_leans, sentence_leans, spearman
from scoring.types import ScoringError
from tests.scoring.made_runs import made_run

RULE = CountRule("made", 10, "clean", "clean")
WORDS = [f"{a}{b}ig" for a in "bcdfghjklm" for b in "aeiou"]
#: δ from −1.2 to 1.2.
DELTAS = dict(zip(WORDS, np.linspace(-1.2, 1.2, len(WORDS)).tolist(), strict=True))
TABLE = DeltaTable.of(DELTAS, DELTAS.values(), [9] * len(DELTAS), RULE)


def sentences(slope, noise=0.5, each=6, seed=0):
    """Examples of unstereo about one word each; the model's lean follows δ with a slope."""
    random = np.random.default_rng(seed)
    words = np.repeat(WORDS, each)
    lean = slope * np.array([DELTAS[word] for word in words]) + noise * random.normal(size=len(words))
    table = {
        "id": [f"s{n}" for n in range(len(words))],
        "dataset": ["ours-5"] * len(words),
        "word": list(words),
        "sentence_male": [f"He saw his {word} himself with her." for word in words],
        "sentence_female": [f"She saw her {word} herself with her." for word in words],
        "sentence_they": [""] * len(words),
        "male_logprob": np.full(len(words), -20.0),
        "female_logprob": -20.0 + lean,
        "they_logprob": np.full(len(words), np.nan),
        "max_pmi_diff": np.zeros(len(words)),
        "natural": [True] * len(words),
    }
    return {name: np.array(column) for name, column in table.items()}


def jobs():
    """Examples of occugender: the model follows the labour share, the corpus its opposite."""
    names = WORDS[::2]
    rows = [
        (job, kind, place) for place, job in enumerate(names) for kind in ("explicit-1", "implicit-1", "implicit-2")
    ]
    share = np.array([100 * place / len(names) for _, _, place in rows])
    table = {
        "id": [f"{job}-{kind}" for job, kind, _ in rows],
        "job": [job for job, _, _ in rows],
        "group": ["female"] * len(rows),
        "template": [kind for _, kind, _ in rows],
        "debiasing": ["none"] * len(rows),
        "level": [""] * len(rows),
        "prompt": [""] * len(rows),
        "female_share": share,
        "p_female": share / 200,
        "p_male": 0.5 - share / 200,
        "p_diverse": np.zeros(len(rows)),
    }
    return {name: np.array(column) for name, column in table.items()}


OPPOSITE = DeltaTable.of(DELTAS, [-value for value in DELTAS.values()], [9] * len(DELTAS), RULE)


def saved(folder, **tables):
    report = made_run()
    kept = tuple(estimate for estimate in report.estimates if estimate.benchmark in tables)
    result = RunResult(made_run(estimates=kept), tables, {name: get(name).validity for name in tables})
    return result.save(folder)


def test_the_words_of_a_pair_are_those_that_its_sentences_share():
    table = DeltaTable.of(["baig", "he", "her", "his"], [0.5, 3, -2, 3], [1, 1, 1, 1], RULE)
    examples = sentences(1)
    examples = {name: column[:1] for name, column in examples.items()}
    examples["sentence_male"], examples["sentence_female"] = (
        np.array([f"{start} baig, and a quog."]) for start in ("He lost his", "She lost her")
    )
    leans = sentence_leans(examples, table)
    # Pronouns of the slots are left out; lost and quog are not in the table.
    assert (leans.corpus[0], leans.largest[0], leans.coverage[0]) == (0.5, 0.5, pytest.approx(1 / 3))
    examples["sentence_male"], examples["sentence_female"] = (
        np.array([f"{start} baig of her aunt."]) for start in ("He lost his", "She lost her")
    )
    assert sentence_leans(examples, table).largest[0] == -2


@pytest.mark.parametrize(("slope", "sign"), [(1.0, 1), (-1.0, -1)])
def test_a_model_that_follows_its_corpus_is_recognised(slope, sign):
    result = {c.group: c for c in correlations("unstereo", sentence_leans(sentences(slope), TABLE), resamples=300)}
    whole = result["ours-5"]
    assert (whole.n, whole.clusters, whole.method) == (300, 50, "bootstrap")
    assert sign * whole.value > 0.6
    assert min(sign * whole.low, sign * whole.high) > 0.4
    bands = [result[f"ours-5, {band_name(*band)}"] for band in ((0, 0.5), (0.5, 0.65), (0.65, 1.0), (1.0, np.inf))]
    assert sum(band.n for band in bands) == whole.n


def test_a_model_without_a_lean_is_not():
    result = next(correlations("unstereo", sentence_leans(sentences(0, seed=3), TABLE), resamples=300))
    assert result.low < 0 < result.high


def test_jobs_are_compared_with_the_corpus_and_the_labour_market():
    result = {(c.group, c.pair): c for c in correlations("occugender", job_leans(jobs(), OPPOSITE), resamples=100)}
    assert len(result) == 6
    for kind in ("explicit", "implicit"):
        assert result[kind, "labour and model"].value == pytest.approx(1)
        assert result[kind, "corpus and model"].value == pytest.approx(-1)
        assert result[kind, "corpus and labour"].value == pytest.approx(-1)
        assert result[kind, "corpus and model"].n == 25


def test_the_value_is_that_of_scipy_with_ties_and_the_interval_covers_it():
    random = np.random.default_rng(1)
    x, y = np.round(random.normal(size=500), 1), random.normal(size=500)
    y += 0.4 * x
    value, interval, clusters = spearman(x, y, np.repeat(np.arange(100), 5).astype(str), resamples=400)
    assert value == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
    assert interval.low < value < interval.high
    assert clusters == 100
    assert interval.method == "bootstrap"


def test_few_clusters_use_the_jackknife_and_constant_columns_have_no_value():
    x = np.arange(20.0)
    value, interval, clusters = spearman(x, np.roll(x, 3), np.repeat(np.arange(10), 2).astype(str))
    assert (interval.method, clusters) == ("cluster-t", 10)
    assert interval.low < value < interval.high <= 1
    value, interval, _ = spearman(x, np.zeros(20), np.arange(20).astype(str))
    assert np.isnan([value, interval.low, interval.high]).all()


def test_the_interval_covers_the_true_value_in_95_of_100_samples():
    # Clusters of 4 with a common part: for two normal variables of correlation r, ρ is 6/π asin(r/2).
    random, hits, true = np.random.default_rng(5), 0, 6 / np.pi * np.arcsin(0.5 / 2)
    for _ in range(200):
        common = random.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=60).repeat(4, axis=0)
        own = random.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=240)
        x, y = (0.8 * common + 0.6 * own).T
        interval = spearman(x, y, np.repeat(np.arange(60), 4).astype(str), resamples=200)[1]
        hits += interval.low <= true <= interval.high
    assert 180 <= hits <= 198


def test_the_command_writes_values_examples_and_a_figure(tmp_path):
    folder = saved(tmp_path / "run", unstereo=sentences(1), occugender=jobs())
    with (tmp_path / "delta.csv").open("w") as file:
        file.write("word,delta,count\n" + "".join(f"{word},{value},9\n" for word, value in DELTAS.items()))
    done = CliRunner().invoke(
        probes.app, ["pmi", "compare-model", str(folder), "--table", str(tmp_path / "delta.csv"), "--resamples", "50"]
    )
    assert done.exit_code == 0, done.output
    content = json.loads((folder / "corpus.json").read_text())
    assert {"model", "table", "resamples", "correlations"} <= content.keys()
    assert [c["pair"] for c in content["correlations"] if c["group"] == "explicit"] == [
        "corpus and model",
        "labour and model",
        "corpus and labour",
    ]
    assert pq.read_table(folder / "corpus-unstereo.parquet").num_rows == 300
    assert pq.read_table(folder / "corpus-occugender.parquet").column_names[-1] == "labour"
    assert (folder / "corpus.svg").read_text().count("ρ ") == 3
    assert "figure is" in done.output
    report = (folder / "report.html").read_text()
    assert [name for name in re.findall("<h3>(.*?)</h3>", report) if "corpus" in name] == [
        "unstereo beside a corpus",
        "occugender beside a corpus",
    ]
    shown = re.sub("<[^>]+>", " ", report[report.index("unstereo beside a corpus") :]).split()
    for found in content["correlations"]:
        if found["value"] is not None:
            assert f"{found['value']:.2f}".replace("-", "\N{MINUS SIGN}") in shown
    assert report.count("The model's lean by the corpus's lean".replace("'", "&#39;")) == 2
    assert "300 examples; the model" in report
    assert re.findall(r"<h5>(\S+) +\(n = (\d+)\)</h5>", report)[-3:] == [
        ("ours-5", "300"),
        ("explicit", "25"),
        ("implicit", "25"),
    ]


def test_the_report_of_a_run_is_only_written_anew_in_its_folder_and_with_all_its_benchmarks(tmp_path):
    folder = saved(tmp_path / "run", unstereo=sentences(1))
    before = (folder / "report.html").read_bytes()
    compare_model(folder, TABLE, tmp_path / "elsewhere", 50)
    assert (folder / "report.html").read_bytes() == before
    assert not (tmp_path / "elsewhere" / "report.html").exists()
    compare_model(folder, TABLE, folder, 50)
    after = (folder / "report.html").read_text()
    # What was on the page is still there, in the same words.
    end = before.decode().rindex('<details class="fold">')
    assert after.startswith(before.decode()[:end])
    assert after.endswith(before.decode()[end:])


def test_the_figure_and_the_values_are_the_same_each_time(tmp_path):
    folder = saved(tmp_path / "run", unstereo=sentences(1))
    for name in ("one", "two"):
        compare_model(folder, TABLE, tmp_path / name, 50)
    for file in ("corpus.json", "corpus.svg", "corpus-unstereo.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_run_or_table_that_does_not_fit_is_refused(tmp_path):
    folder = saved(tmp_path / "run", unstereo=sentences(1))
    (tmp_path / "none.csv").write_text("word,delta,count\nquog,0.5,9\n")
    done = CliRunner().invoke(app, [str(folder), "--table", str(tmp_path / "none.csv")])
    assert done.exit_code == 1
    assert "No example of unstereo has a word of the table; give counts of an English" in " ".join(done.output.split())
    assert not (folder / "corpus.json").exists()
    done = CliRunner().invoke(app, [str(folder), "--table", str(tmp_path / "absent.csv")])
    assert (done.exit_code, "There is no file" in done.output) == (1, True)
    other = saved(tmp_path / "other", stereoset={"id": np.array(["a"])})
    with pytest.raises(ScoringError, match="unstereo or occugender;"):
        compare_model(other, TABLE, other, 50)
