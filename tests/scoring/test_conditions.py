"""Conditions end a command with status 3 where they hold, and with 0 where they do not; a wrong one is one sentence."""

import json
import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from scoring.commands import compare, score
from scoring.report.conditions import FAILED, failing, holding, parsed, verdicts_of
from scoring.report.headlines import headline_changes
from scoring.types import ScoringError
from tests.scoring.made_runs import made_comparison, made_run

RUN = made_run()


def value(benchmark, group, metric):
    return RUN.by_key[benchmark, group, metric].value


@pytest.mark.parametrize("name", ["occugender.gap", "occugender.gender_gap", "occugender.explicit.gender_gap"])
def test_a_condition_holds_beyond_the_limit_and_not_at_it(name):
    gap = value("occugender", "explicit", "gender_gap")
    assert len(holding([parsed(f"{name} > {gap - 1}")], RUN)) == 1
    assert holding([parsed(f"{name} > {gap}")], RUN) == []
    assert len(holding([parsed(f"{name} >= {gap}")], RUN)) == 1
    assert holding([parsed(f"{name} < {gap}")], RUN) == []


def test_an_end_of_the_interval_can_be_limited():
    gap = RUN.by_key["occugender", "explicit", "gender_gap"]
    assert holding([parsed(f"occugender.gap.low > {gap.value}")], RUN) == []
    assert holding([parsed(f"occugender.gap.high > {gap.value}")], RUN) != []


def test_a_score_that_is_not_defined_fails():
    estimates = [replace(e, value=math.nan) if e.metric == "gender_gap" else e for e in RUN.estimates]
    (sentence,) = holding([parsed("occugender.gap > 20")], replace(RUN, estimates=tuple(estimates)))
    assert sentence.startswith("occugender.gap > 20: occugender explicit gender_gap")


@pytest.mark.parametrize(
    "text",
    ["occugender.gap", "gap > 20", "occugender.gap = 20", "nonsense.gap > 1", "a.b.c.d > 1", "occugender. > 1"]
    + ["occugender.nothing > 1", "neutral.pairs > 1"],
)
def test_a_wrong_condition_is_refused_before_anything_runs(text, tmp_path):
    done = CliRunner().invoke(score.app, ["no-such-model", "--out", str(tmp_path / "run"), "--fail-if", text])
    assert done.exit_code == 1
    assert "--fail-if" in done.output
    assert not (tmp_path / "run").exists()


def test_a_score_that_the_run_lacks_is_named():
    with pytest.raises(ScoringError, match="no single score"):
        holding([parsed("occugender.nowhere.gender_gap > 1")], RUN)


def certain(before, after):
    """A comparison whose changes are beyond chance, also after the correction."""
    made = made_comparison(before, after)
    return replace(made, differences=tuple(replace(d, p=1e-6, ability=False) for d in made.differences))


@pytest.fixture(scope="module")
def compared():
    return {"worse": certain(0.55, 0.8), "better": certain(0.8, 0.55)}


def test_only_a_headline_that_is_worse_fails(compared):
    worse = verdicts_of("worse")
    changes = headline_changes(compared["worse"])
    assert len(failing(compared["worse"], worse)) == sum(c.verdict in ("further", "lost") for c in changes) > 0
    assert failing(compared["worse"], verdicts_of("unclear")) == []


def test_a_verdict_that_is_none_is_refused():
    with pytest.raises(ScoringError, match="no verdict;"):
        verdicts_of("worse,bad")


@pytest.mark.parametrize("kind", ["worse", "better"])
def test_the_command_ends_with_the_status_that_compare_json_says(kind, compared, tmp_path, monkeypatch):
    monkeypatch.setattr("scoring.api.compare", lambda *_: compared[kind])
    done = CliRunner().invoke(compare.app, [str(tmp_path), str(tmp_path), "--out", str(tmp_path), "--fail-on", "worse"])
    content = json.loads((tmp_path / "compare.json").read_text())
    worse = [entry for entry in content["headlines"] if entry["worse"]]
    assert {entry["verdict"] for entry in worse} <= {"further", "lost"}
    assert done.exit_code == (FAILED if worse else 0), done.output
    assert "error:" not in done.output
    for entry in worse:
        assert f"{entry['verdict']}: {entry['benchmark']} {entry['group']}" in done.output
