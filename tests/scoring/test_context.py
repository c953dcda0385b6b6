"""The first screen of a report: what was covered, which runs stand beside it, and what to do next."""

import io
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console

import scoring
from scoring import benchmarks, report
from scoring.asking.result import RunResult
from scoring.commands.score import show_run
from scoring.report.context import beside, coverage, next_steps, printed
from scoring.report.page import page
from scoring.reproduce import printed_tables
from scoring.types import ScoringError
from tests.scoring.made import data_set
from tests.scoring.made_runs import made_run
from tests.scoring.test_run import job_rows


def of(*names, **changes):
    """A made run of some benchmarks."""
    whole = made_run(**changes)
    return replace(whole, estimates=tuple(e for e in whole.estimates if e.benchmark in names))


def first_screen(run, others=()):
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", page(run, {}, {}, (), others), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", "", text.partition("<h2>Details</h2>")[0])).split())


def data_of(*names, profile="clean"):
    read = [benchmark for benchmark in map(benchmarks.get, names) if not benchmark.rows]  # others have their own rows
    return {"/".join(place): "1.0.0 sha256:aa" for benchmark in read for place in benchmark.configs_of(profile)}


def test_what_is_missing_was_asked_for_and_is_not_there():
    one = of("occugender", data=data_of("occugender"), environment={"data lacking": []})
    assert coverage(one) == (2, 2, [])
    assert "configs" not in first_screen(one)
    part = of("unstereo", data=data_of("occugender"), environment={"data lacking": ["unstereo/ours-5/test"]})
    assert coverage(part) == (2, 3, ["unstereo"])
    # A config of which one split is there is not complete.
    split = {"data": {"unstereo/a/test": "1 sha256:aa"}, "environment": {"data lacking": ["unstereo/a/validation"]}}
    assert coverage(of("unstereo", **split)) == (0, 1, ["unstereo"])


def test_the_first_screen_says_what_was_covered_and_the_next_command():
    lacking = {"environment": {"data lacking": ["gest/sentences/test"]}}
    part = first_screen(of("unstereo", data={"unstereo/ours-5/test": "1.0.0 sha256:aa, 10 of 20 rows"}, **lacking))
    assert "1 of the 2 configs that were asked for were scored." in part
    assert "Next: probes build gest makes the data of the others" in part
    assert "probes score org/model without --limit scores all rows." in part
    assert "probes mitigate table org/model tries the recipes" in part
    tiny = first_screen(of("unstereo", model="tiny-causal"))
    assert "far too small for any claim" in tiny
    assert "probes score ORG/MODEL --beside RUN scores a real model" in tiny
    assert "probes compare RUN BASE" in first_screen(of("unstereo", adapter="org/fair@abc"))
    assert "/models/secret" not in first_screen(of("unstereo", model="/models/secret/mine"))
    assert "probes mitigate table MODEL" in first_screen(of("unstereo", model="/models/secret/mine"))
    assert "probes score OTHER --beside RUN" in first_screen(of("unstereo", headlines={}))


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"model": "tiny-causal"}, "probes score ORG/MODEL --beside 'my runs/a' scores a real model, and shows"),
        ({"adapter": "org/fair@abc"}, "probes compare 'my runs/a' BASE says whether this run is nearer to the ideal"),
        ({}, "probes mitigate table org/model tries the recipes against bias and says what each costs."),
        ({"headlines": {}}, "probes score OTHER --beside 'my runs/a' shows this run beside another model."),
        (
            {"data": {"unstereo/ours-5/test": "1.0.0 sha256:aa, 10 of 20 rows"}},
            "probes score org/model without --limit scores all rows.",
        ),
    ],
)
def test_the_terminal_ends_with_the_commands_of_the_page_and_the_folder_of_the_run(about, said):
    run = of("unstereo", **about, speed={})
    printed_lines = io.StringIO()
    show_run(RunResult(run, {}), Path("my runs") / "a", Console(file=printed_lines, width=100))
    last = printed_lines.getvalue().splitlines()[-1]
    assert last.startswith("Next: ")
    assert said in last
    commands = [re.sub(r"'my runs/a'", "RUN", text) for step in next_steps(run, "my runs/a") for text in code(step)]
    assert commands == [text for step in next_steps(run) for text in code(step) if "build" not in step]
    assert all(text in first_screen(run) for text in commands)


def code(step):
    return re.findall("`(.+?)`", step)


def test_other_runs_stand_beside_the_scores_that_they_have_over_the_same_data():
    run = of("unstereo", "occugender", data=data_of("unstereo", "occugender"))
    score = next(e for e in run.estimates if e.benchmark == "unstereo")
    near = of("unstereo", share=0.45, model="org/near", data=data_of("unstereo"))
    other_data = replace(near, model="org/far", data=dict.fromkeys(near.data, "2.0.0 sha256:bb"))
    jobs = of("occugender", data=data_of("unstereo", "occugender"))
    found = beside(score, run, [other_data, near, jobs])
    assert [(number, other.value) for number, other in found] == [(2, near.by_key[score.key].value)]
    text = page(run, {}, {}, (), [other_data, near])
    headline = near.by_key["unstereo", "ours-5", "us_score"]
    # The ideal value, 100, is in the middle of the common scale.
    place = f"{report.scale([headline]).place(headline.value) / 2:g}%"
    assert text.count('<line class="other"') == 2  # one beside each of its two rows
    assert f'<line class="other" x1="{place}" x2="{place}"' in text
    shown = first_screen(run, [other_data, near])
    assert "Beside it, where the data are the same: 1 org/far, 2 org/near." in shown
    assert f"2: {headline.value:.1f}" in shown


def test_printed_numbers_of_papers_stand_at_scores_by_the_published_definitions():
    key = "unstereo", "ours-5", "tau@0.5"
    run = of("unstereo", profile="paper")
    numbers = printed(run)[key]
    places = [(cell.place, float(cell.text)) for cell in next(iter(printed_tables("unstereo/table-1"))).cells]
    told = {p["model"]: n for p, n in places if (p["group"], p.get("field")) == ("ours-5", None)}
    assert told
    assert numbers.items() >= told.items()
    words = f"printed for {len(numbers)} models: {min(numbers.values()):.1f} to {max(numbers.values()):.1f}"
    assert page(run, {}, {}).count(words) == 1
    assert printed(of("unstereo")) == {}
    assert "printed for" not in page(of("unstereo"), {}, {})
    for name in benchmarks.names():
        for metric in benchmarks.get(name).metrics("paper"):
            told = [n for key, found in printed(run).items() if key[::2] == (name, metric.name) for n in found.values()]
            assert all(metric.low <= n <= metric.high for n in told), "printed and measured have one unit"


def test_a_run_is_scored_with_another_one_beside_it(tmp_path):
    data_set(tmp_path / "data", "occugender", {("explicit", "test"): list(job_rows())})
    about = {"data": tmp_path / "data", "benchmarks": "occugender", "resamples": 50}
    scoring.evaluate("tiny-causal", out=tmp_path / "one", **about)
    scoring.evaluate("tiny-causal", prompt="instruction", out=tmp_path / "two", beside=tmp_path / "one", **about)
    text = (tmp_path / "two" / "report.html").read_text()
    assert "same: 1 tiny-causal." in text
    assert '<line class="other"' in text
    with pytest.raises(ScoringError, match=r"clean, .*paper; .*beside=…"):
        scoring.evaluate("tiny-causal", profile="paper", beside=tmp_path / "one", **about)
    with pytest.raises(ScoringError, match=r"nowhere.*cannot be read as results"):
        scoring.evaluate("tiny-causal", beside=[tmp_path / "nowhere"], **about)
