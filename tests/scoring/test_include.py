"""A benchmark in one file outside the project: every output knows it."""

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from cards import leaderboard, model_card
from cards.evaluation import published_results
from cards.results import read as read_run
from scoring import benchmarks
from scoring.__main__ import app
from scoring.types import ScoringError
from tests.helpers import ROOT

FILE = '''
"""Prefers the cat: 20 made-up rows, and a metric of their own."""

import numpy as np

from scoring.metrics.sums import mean
from scoring.types import Benchmark, Group, Headline, Option, Request

WORDS = ("red", "blue", "old", "new", "big", "small", "warm", "cold", "good", "bad")


def rows(dataset, config, split):
    for n in range(20):
        yield {"id": f"r{n}", "word": WORDS[n % 10], "thing": ("house", "road")[n // 10]}


def requests(profile, row, context):
    text = "The {} sat on the " + row["word"] + " " + row["thing"] + "."
    yield Request(row["id"], options=tuple(Option(text.format(animal)) for animal in ("cat", "dog")))


def to_record(profile, row, responses, context):
    cat, dog = map(sum, responses[row["id"]].logprobs)
    return {"id": row["id"], "thing": row["thing"], "word": row["word"], "cat": cat, "dog": dog}


def groups(table):
    return [Group("all", np.ones(len(table["id"]), bool)), Group("house", table["thing"] == "house")]


def metrics(profile):
    reading = "Share of sentences in which the cat is preferred; 0.5 is unbiased (made up, Table 1)."
    preferred = mean("cat_rate", lambda t: t["cat"] > t["dog"], 0.5, 0, 1, reading, proportion=True, label="cats")
    return [preferred]


BENCHMARK = Benchmark(
    name="of_cats",
    version="0.1.0",
    summary="Prefers the cat or the dog.",
    configs=(("cats", "all", "test"),),
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
    cluster="word",
    headline=Headline("cats", "cat_rate"),
    rows=rows,
    note="It says whether cats are preferred.",
)
'''


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmarks, "_included", {})
    path = tmp_path / "of_cats.py"
    path.write_text(FILE)
    return path


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_benchmark_and_its_metric_in_one_file_are_in_every_output(file, tmp_path):
    out = tmp_path / "run"
    options = ("--include", file, "--out", out, "--resamples", 50, "--device", "cpu")
    done = command("tiny-causal", "--benchmarks", "of_cats", *options)
    assert done.exit_code == 0, done.output
    assert "cat_rate" in done.output

    found = json.loads((out / "results.json").read_text())
    assert [(e["benchmark"], e["group"], e["metric"], e["n"], e["clusters"]) for e in found["estimates"]] == [
        ("of_cats", "all", "cat_rate", 20, 10),
        ("of_cats", "house", "cat_rate", 10, 10),
    ]
    assert found["headlines"] == {"of_cats": {"dataset": "cats", "metric": "cat_rate", "groups": {}}}
    assert found["environment"]["benchmark of_cats"] == "0.1.0"
    assert found["data"]["cats/all/test"].startswith("unpublished sha256:")
    assert all(e["method"] == "binomial" and e["low"] < e["high"] for e in found["estimates"])

    page = (out / "report.html").read_text()
    for text in ("of_cats", "It says whether cats are preferred.", "cat_rate", "Scores by domain", ">cats</li>"):
        assert text in page
    assert (out / "examples" / "of_cats.parquet").is_file()

    (entry,) = leaderboard.entries_of(out)
    assert (entry.dataset, entry.task, entry.notes.metric) == ("cats", "all", "cat_rate")
    assert "cat_rate" in leaderboard.page(leaderboard.task_tables([entry]))

    run = read_run(out)
    found, remarks = published_results(run, "org", lambda *_: pytest.fail("no manifest is there"))
    assert found == []
    assert remarks == ["of_cats: its rows are in no published data set; its scores are only in the card."]
    section = model_card.section(run, found, remarks, {}, None)
    assert re.search(r"\| of.?_cats \| all \| cat.?_rate \|", section)

    again = command(out, *options[:2], "--compare", out, "--resamples", 50)
    assert again.exit_code == 0, again.output
    assert "of_cats" in (out / "compare.html").read_text()


def test_the_list_names_an_included_benchmark(file):
    done = command("--list", "--include", file)
    assert "of_cats" in done.output
    assert "Prefers the cat or the dog. [causal]" in done.output


def test_a_limit_takes_a_part_of_its_rows(file, tmp_path):
    done = command(
        "tiny-causal", "--include", file, "--benchmarks", "of_cats", "--out", tmp_path, "--limit", 5, "--resamples", 20
    )
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "results.json").read_text())["data"]["cats/all/test"].endswith(", 5 of 20 rows")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"There is no file .*nothing\.py to include; give a Python file that defines BENCHMARK\."),
        ("x = 1", r"defines no BENCHMARK; set it to a scoring\.types\.Benchmark\."),
        ("1 / 0", r"cannot be included \(ZeroDivisionError: division by zero\); correct the file\."),
        (FILE.replace('"of_cats"', '"unstereo"'), r"defines the benchmark 'unstereo', which exists already; choose"),
    ],
)
def test_a_file_without_a_benchmark_is_refused_in_a_sentence(tmp_path, text, message):
    path = tmp_path / "nothing.py"
    if text:
        path.write_text(text)
    with pytest.raises(ScoringError, match=message):
        benchmarks.include(path)


def test_listing_benchmarks_imports_no_builder_of_a_data_set():
    code = (
        "import sys; from scoring import benchmarks; [benchmarks.get(name) for name in benchmarks.names()];"
        "print([m for m in sys.modules if m.startswith(('builders.datasets', 'builders.sources', 'builders.build'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stdout + done.stderr
