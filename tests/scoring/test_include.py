"""A benchmark and a metric, each in one file outside the project: every output knows them."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cards import leaderboard, model_card
from cards.formats.evaluation import published_results
from cards.results import read as read_run
from scoring import benchmarks
from scoring.__main__ import app
from scoring.commands import rescore
from scoring.types import ScoringError
from scoring.uploads import DECLARATIONS
from tests.scoring import models
from tests.support.helpers import ROOT

FILE = '''
"""Prefers the cat: 20 made-up rows, and a metric of their own."""

import numpy as np

from scoring.metrics.sums import mean
from scoring.inputs.score_files import ScoreFile
from scoring.types import Benchmark, Contrast, Group, HarnessTask, Headline, Option, Request, ScoredExamples

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


def score_file(path, data):
    file = ScoreFile(path, ("cat", "dog"))
    table = {"cat": file.numbers("cat"), "dog": file.numbers("dog")}
    group = Group("all", np.ones(len(file), bool))
    return [ScoredExamples(table, np.arange(len(file)), [({}, group, metrics("clean")[0])])], []


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
    contrast=Contrast(("cat", "dog"), ("cat", "dog"), about=("word", "thing", "id")),
    tasks=(HarnessTask("", ("cat_rate",), (("cats", "all", "test"),)),),
    score_file=score_file,
    rows=rows,
    note="It says whether cats are preferred.",
)
'''
METRIC = '''
"""A metric of the benchmark of cats: how much more likely the cat is."""

from scoring.metrics.sums import mean

READING = "Mean difference of the log-probabilities of cat and dog; 0 is unbiased (made up, Table 2)."
METRICS = {"of_cats": [mean("cat_gap", lambda t: t["cat"] - t["dog"], 0, -99, 99, READING)]}
'''


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmarks.REGISTRY, "included", {})
    monkeypatch.setattr(benchmarks, "_metrics", {})
    path = tmp_path / "of_cats.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def metric_file(file):
    path = file.with_name("cat_gap.py")
    path.write_text(METRIC)
    return path


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_benchmark_and_its_metric_in_one_file_are_in_every_output(file, tmp_path):
    out = tmp_path / "run"
    options = ("--include", file, "--out", out, "--resamples", 50, "--device", "cpu")
    done = command("tiny-causal", "--benchmarks", "of_cats", *options)
    assert done.exit_code == 0, done.output
    assert "cat_rate" in done.output

    result = json.loads((out / "results.json").read_text())
    assert [(e["benchmark"], e["group"], e["metric"], e["n"], e["clusters"]) for e in result["estimates"]] == [
        ("of_cats", "all", "cat_rate", 20, 10),
        ("of_cats", "house", "cat_rate", 10, 10),
    ]
    assert result["headlines"] == {
        "of_cats": {
            "dataset": "cats",
            "metric": "cat_rate",
            "groups": {},
            "shown": "",
            "sentence": "",
            "names": {},
            "leaning": None,
            "column": "",
            "unclear": "",
            "side": "",
            "task": None,
            "no_task": "",
            "found": None,
            "styles": [],
            "mass": "",
            "also": [],
            "beside": [],
        }
    }
    assert result["environment"]["benchmark of_cats"] == "0.1.0"
    assert result["data"]["cats/all/test"].startswith("unpublished sha256:")
    assert all(e["method"] == "binomial" and e["low"] < e["high"] for e in result["estimates"])

    page = (out / "report.html").read_text()
    for text in ("of_cats", "It says whether cats are preferred.", "cat_rate", "Scores by domain", ">cats</li>"):
        assert text in page
    assert "most decisive examples" in page
    assert (out / "examples" / "of_cats.parquet").is_file()

    (entry,) = leaderboard.entries_of(out, DECLARATIONS)
    assert (entry.dataset, entry.task, entry.metric) == ("cats", "all", "cat_rate")
    assert "cat_rate" in leaderboard.page(leaderboard.task_tables([entry]))

    run = read_run(out)
    result, remarks = published_results(run, "org", lambda *_: pytest.fail("no manifest is there"))
    assert result == []
    assert remarks == ["of_cats: its rows are in no published data set; its scores are only in the card."]
    section = model_card.section(run, result, remarks, {}, None)
    assert re.search(r"\| of.?_cats \| all \| cat.?_rate \|", section)

    again = command(out, *options[:2], "--compare", out, "--resamples", 50)
    assert again.exit_code == 0, again.output
    assert "of_cats" in (out / "compare.html").read_text()


def test_a_metric_in_a_file_of_its_own_is_in_every_output(file, metric_file, tmp_path):
    out = tmp_path / "run"
    options = ("--include", file, "--include", metric_file, "--resamples", 50)
    done = command("tiny-causal", "--benchmarks", "of_cats", "--out", out, "--device", "cpu", *options)
    assert done.exit_code == 0, done.output
    estimates = json.loads((out / "results.json").read_text())["estimates"]
    assert [(e["group"], e["metric"]) for e in estimates] == [
        (group, metric) for group in ("all", "house") for metric in ("cat_rate", "cat_gap")
    ]
    assert "cat_gap" in (out / "report.html").read_text()
    assert "cat\\_gap" in (out / "results.md").read_text()
    run = read_run(out)
    assert re.search(r"cat.?_gap", model_card.section(run, *published_results(run, "org", None), {}, None))

    again = command(out, *options, "--compare", out)
    assert again.exit_code == 0, again.output
    assert "cat_gap" in (out / "compare.html").read_text()


def test_rescoring_finds_an_included_benchmark(file, tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("cat,dog\n-1,-2\n-3,-2\n-1,-4\n-1,-9\n")
    arguments = [str(path), "--benchmark", "of_cats", "--include", str(file), "--json", "--resamples", "20"]
    done = CliRunner().invoke(rescore.app, arguments)
    assert done.exit_code == 0, done.output
    (estimate,) = json.loads(done.stdout)["estimates"]
    assert (estimate["benchmark"], estimate["metric"], estimate["value"], estimate["n"]) == (
        "of_cats",
        "cat_rate",
        0.75,
        4,
    )


def test_harness_tasks_are_made_of_an_included_benchmark(file, tmp_path, monkeypatch):
    monkeypatch.setenv("PROBES_CACHE", str(tmp_path / "cache"))
    models.tokenizer("gpt2").save_pretrained(tmp_path / "words")
    code = (
        "import runpy, sys; sys.argv = ['', '--include', sys.argv[1]];"
        "runpy.run_module('scoring.lm_eval', run_name='__main__')"
    )
    printed = subprocess.run([sys.executable, "-c", code, file], cwd=ROOT, capture_output=True, text=True, check=True)
    folder = Path(printed.stdout.strip())
    assert "task: probes_of_cats\n" in (folder / "probes_of_cats.yaml").read_text()
    assert "probes_of_cats" in (folder / "probes.yaml").read_text()
    functions = runpy.run_path(str(folder / "utils.py"))
    rows = functions["rows"](benchmark="of_cats", task="", pretrained=str(tmp_path / "words"))["test"]
    assert len(rows) == 20
    lines = [functions["results"](row, [(-1.0, True), (-2.0, False)])["cat_rate"] for row in rows]
    assert functions["aggregate"](lines) == 1


def test_the_list_names_an_included_benchmark(file):
    done = command("--list", "--include", file)
    assert "of_cats" in done.output
    assert "Prefers the cat or the dog. [causal]" in done.output


def test_a_limit_takes_a_part_of_its_rows(file, tmp_path):
    done = command(
        "tiny-causal",
        "--include",
        file,
        "--benchmarks",
        "of_cats",
        "--out",
        tmp_path / "run",
        "--limit",
        5,
        "--resamples",
        20,
    )
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "run" / "results.json").read_text())["data"]["cats/all/test"].endswith(
        ", 5 of 20 rows"
    )


@pytest.mark.parametrize(
    ("line", "instead", "facts"),
    [
        ('cluster="word"', 'cluster="rooms"', ("of_cats", "'rooms'", "word")),
        ("Option(text.format(animal)) for", "text.format(animal) for", ("AttributeError", "of_cats.py")),
        ('"thing": row["thing"]', '"thing": row["place"]', ("KeyError: 'place'", "of_cats.py, line ")),
        ("    return [preferred]", "    return preferred", ("TypeError", "of_cats.py")),
    ],
)
def test_what_a_file_gives_wrong_ends_the_command_in_a_sentence_that_names_it(file, tmp_path, line, instead, facts):
    assert FILE.count(line) == 1
    file.write_text(FILE.replace(line, instead))
    options = ("--benchmarks", "of_cats", "--limit", 8, "--resamples", 20, "--device", "cpu")
    done = command("tiny-causal", "--include", file, *options, "--out", tmp_path / "run")
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit), done.exception
    (sentence,) = [line for line in done.output.splitlines() if line.startswith("error: ")]
    for fact in facts:
        assert fact in sentence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"nothing\.py.*NAME\.py.*BENCHMARK"),
        ("x = 1", r"BENCHMARK.*scoring\.types\.Benchmark"),
        (METRIC, f"'of_cats'.*{benchmarks.names()[0]}"),
        ("METRICS = {'stereoset': ['ss']}", r"'ss'.*scoring\.types\.Metric"),
        ("METRICS = {'stereoset': 'ss'}", "METRICS"),
        (FILE.replace('summary="Prefers the cat or the dog."', "summary=7"), r"summary.*\bint\b"),
        (FILE.replace("metrics=metrics", "metrics=[]"), r"metrics.*\blist\b"),
        ("1 / 0", "ZeroDivisionError"),
        ("import sys\nsys.exit(0)", r"SystemExit.*\b0\b"),
        (
            FILE.replace('"of_cats"', '"unstereo"'),
            "'unstereo'",
        ),
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
