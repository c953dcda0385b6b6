"""What the commands print fits 80 columns and one screen, and says whether a score is at its ideal or came nearer."""

import io
import json
import math
import re
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

import probes
from cards.common.files import RECORD
from scoring import benchmarks, report
from scoring.commands.compare import app
from scoring.report import terminal
from scoring.report.headlines import changes, conclusion, few_examples, headline_changes, headline_scores, model_name
from scoring.types import Headline
from tests.scoring.made_runs import made_comparison, made_run, with_difference
from tests.scoring.test_comparison import pairs, written


def shown(*parts, width=80):
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None)
    for part in parts:
        console.print(part)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_the_summary_has_one_line_a_benchmark_at_80_columns():
    shown_lines = shown(terminal.summary(made_run(), 80))
    under = next(number for number, line in enumerate(shown_lines) if re.match(r"\w+ [\w -]*: ", line))
    lines, words = shown_lines[:under], " ".join(shown_lines[under:])
    assert "leans female" in words
    assert "stereoset intrasentence test: Prefers the stereotype in 30 of 100 sentences." in words
    names = [line.split()[0] for line in lines]
    # A benchmark has one line, and another one where its side is told by another metric.
    assert set(names) == {"benchmark", *benchmarks.names()}
    assert {name: names.count(name) for name in ("crows_pairs", "neutral", "occugender")} == {
        "crows_pairs": 1,
        "neutral": 2,
        "occugender": 2,
    }
    assert max(map(len, lines)) <= 80
    line = next(line for line in lines if line.startswith("stereoset"))
    assert line.split() == ["stereoset", "ICAT", "30.00", "[25.00,", "35.00]", "100.0", "below"]
    # All numbers of a column have the same decimals.
    values = [re.search(r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\] +([\d.]+)", line) for line in lines[1:]]
    for column in range(1, 5):
        assert len({len(value[column].partition(".")[2]) for value in values}) == 1, column


def test_a_wide_terminal_also_shows_what_the_score_means():
    text = "\n".join(shown(terminal.summary(made_run(), 200), width=200))
    assert "Prefers the stereotype in 30 of 100 sentences." in text
    assert "30 of 100 continuations contain a gendered pronoun" in text


def test_details_have_a_line_for_each_score_that_is_not_torn():
    run = made_run()
    lines = shown(terminal.details("stereoset", run))
    assert len(lines) == 2 + sum(e.benchmark == "stereoset" for e in run.estimates)
    assert max(map(len, lines)) <= 80


def test_a_comparison_is_at_most_one_screen_with_the_headlines_first():
    lines = shown(*terminal.comparison(made_comparison()))
    assert len(lines) + 1 <= 24  # and one line names the file
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines[2 : 2 + len(benchmarks.names())]]
    assert names == list(benchmarks.names())
    number = sum(not change.difference.ability for change in headline_changes(made_comparison()))
    assert "edited with adapter compared with org/model" in lines[0]
    assert any(line.startswith(f"Of {number} scores:") for line in lines[-2:])


def test_a_comparison_of_many_benchmarks_is_cut_to_one_screen():
    compared = made_comparison()
    many = [replace(d, benchmark=f"{d.benchmark}{n}") for n in range(6) for d in compared.differences]
    sides = {
        name: replace(side, estimates=tuple(replace(e, benchmark=f"{e.benchmark}{n}") for n in range(6) for e in own))
        for name, side, own in (
            ("run", compared.run, compared.run.estimates),
            ("base", compared.base, compared.base.estimates),
        )
    }
    lines = shown(*terminal.comparison(replace(compared, differences=tuple(many), **sides)))
    assert len(lines) + 1 <= 24
    assert any("--verbose shows" in line for line in lines)


@pytest.mark.parametrize(
    ("before", "value", "low", "high", "said"),
    [
        (0.20, 0.15, 0.10, 0.20, "further"),  # GAS has the ideal 0: more gendered text is further from it
        (0.20, -0.15, -0.18, -0.12, "nearer"),
        (0.20, 0.02, -0.03, 0.07, "unclear"),
    ],
)
def test_a_gas_that_leaves_the_ideal_is_further(before, value, low, high, said):
    key = ("neutral", "templates", "gas")
    compared = with_difference(made_comparison(), key, before, value, low, high)
    change = next(c for c in headline_changes(compared) if c.difference.benchmark == "neutral")
    assert change.verdict == said
    line = next(line for line in shown(*terminal.comparison(compared)) if line.startswith("neutral"))
    assert line.endswith(said)


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [(0.0, -1.0, 1.0, "kept"), (0.0, -3.0, 3.0, "unclear"), (-8.0, -10.0, -6.0, "lost"), (5.0, 3.0, 7.0, "kept")],
)
def test_language_ability_is_kept_lost_or_unclear(value, low, high, said):
    key = ("stereoset", "intrasentence test", "lms")
    compared = with_difference(made_comparison(), key, 80.0, value, low, high)
    (change,) = [c for c in headline_changes(compared) if c.difference.metric == "lms"]
    assert (change.verdict, change.difference.ability) == (said, True)
    assert "Language ability:" in conclusion(headline_changes(compared))


def test_the_headline_is_the_published_metric_of_the_group_that_is_shown():
    result = {h.estimate.benchmark: h.estimate for h in headline_scores(made_run()) if not h.second}
    assert (result["stereoset"].metric, result["stereoset"].group) == ("icat", "intrasentence test")
    assert (result["crows_pairs_modified"].metric, result["crows_pairs_modified"].group) == ("ss", "others")


def test_a_run_without_the_group_of_the_headline_shows_no_value_of_another_one():
    run = made_run()
    kept = tuple(e for e in run.estimates if e.group != "intrasentence test")
    (result,) = [h for h in headline_scores(replace(run, estimates=kept)) if h.estimate.benchmark == "stereoset"]
    assert (result.estimate.metric, result.estimate.group) == ("icat", "intrasentence test")
    assert math.isnan(result.estimate.value)
    assert "not defined (no row of group intrasentence test)" in result.sentence
    undefined = tuple(replace(e, value=math.nan, why="no rows") for e in run.estimates)
    assert all("not defined (no rows)" in h.sentence for h in headline_scores(replace(run, estimates=undefined)))


def test_the_headline_names_the_set_that_was_scored():
    run = made_run()
    result = {h.estimate.benchmark: h.sentence for h in headline_scores(run)}
    assert result["biaske"].endswith("of 100 pairs of WinoBias.")


def test_a_group_of_one_example_under_a_limit_comes_with_advice():
    run = made_run()
    one = tuple(replace(e, n=1, clusters=1, low=math.nan, high=math.nan) for e in run.estimates[:2])
    cut = replace(run, estimates=(*one, *run.estimates[2:]), data={"neutral/stsb/test": "1 sha256:0, 1 of 9 rows"})
    first = f"{run.estimates[0].benchmark} {run.estimates[0].group}"
    assert few_examples(cut) == (
        "1 group has one example or one cluster, so no interval, and no value where a score needs several (first: "
        f"{first}); give a higher --limit, or none."
    )
    assert few_examples(replace(cut, data=run.data)) == ""
    assert few_examples(replace(cut, estimates=run.estimates)) == ""


def test_a_hostile_sentence_of_a_file_is_only_text():
    hostile = Headline("d", "gas", shown="templates", sentence="{gas.__class__} {0} {gas:9999999} {gas!r} %s")
    run = made_run(headlines={"neutral": hostile})
    (result,) = [h for h in headline_scores(run) if h.estimate.benchmark == "neutral"]
    assert result.sentence == "Gender attribute score (GAS): 0.300, where an unbiased model has 0."


@pytest.mark.parametrize(
    ("model", "adapter", "said"),
    [
        ("org/model", "", "org/model"),
        ("/very/long/path/model/", "", "model"),
        ("./runs/model", "org/adapter@abc", "model with adapter"),
        ("C:\\models\\mine", "", "mine"),
    ],
)
def test_names_of_models_are_short(model, adapter, said):
    assert model_name(made_run(model=model, adapter=adapter)) == said


# The commands


@pytest.fixture
def runs(tmp_path):
    return written(tmp_path / "run", pairs(1)), written(tmp_path / "base", pairs(2))


def test_compare_prints_json_and_nothing_else(runs, tmp_path):
    out = tmp_path / "out"
    done = CliRunner().invoke(app, [*map(str, runs), "--json", "--resamples", "50", "--out", str(out)])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts == json.loads((out / "compare.json").read_text(encoding="utf-8"))
    assert {"before", "after", "verdict"} <= facts["differences"][0].keys()
    assert not (runs[0] / "compare.json").exists()


@pytest.mark.parametrize("command", [("score", "{run}", "--compare", "{base}"), ("compare", "{run}", "{base}")])
def test_out_is_respected_with_a_comparison(runs, tmp_path, command):
    words = [word.format(run=runs[0], base=runs[1]) for word in command]
    out = tmp_path / "elsewhere"
    done = CliRunner().invoke(probes.app, [*words, "--out", str(out), "--resamples", "50"])
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == {"compare.html", "compare.json", RECORD}
    assert not (runs[0] / "compare.html").exists()


def test_verbose_prints_every_difference(runs):
    done = CliRunner().invoke(app, [*map(str, runs), "--verbose", "--resamples", "50"])
    assert done.exit_code == 0, done.output
    result = json.loads((runs[0] / "compare.json").read_text(encoding="utf-8"))
    verdicts = [
        line for line in done.output.splitlines() if line.split()[-1:] in (["nearer"], ["further"], ["unclear"])
    ]
    assert len(verdicts) >= len([d for d in result["differences"] if d["verdict"]]) - 5


def test_changes_without_both_scores_are_left_out(tmp_path):
    compared = made_comparison()
    assert changes(replace(compared, base=replace(compared.base, estimates=()))) == []
    assert conclusion([]) == "Of 0 scores: none to compare."
    report.write_comparison(tmp_path, replace(compared, base=replace(compared.base, estimates=())))
