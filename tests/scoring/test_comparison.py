"""A run beside its base: what is compared, and how it is told in text, as JSON and as a page."""

import json
import math
import re
import shutil

import numpy as np
import pytest

import scoring
from scoring import benchmarks, report
from scoring.asking import run
from scoring.report.headlines import Comparison
from scoring.types import Difference, Estimate, Report, ScoringError
from tests.scoring.test_report import HOSTILE, Page, files

BIASKE = benchmarks.get("biaske")


def pairs(seed, count=60):
    """A table of biaske: pairs of one set and facts, with random scores."""
    draw = np.random.default_rng(seed)
    names = np.array([f"row {n}" for n in range(2 * count)], dtype=object)
    half = np.arange(2 * count) < count
    table = {
        f"score_{label}": np.where(half, draw.normal(-3, 1, 2 * count), np.nan) for label in ("biased", "unbiased")
    }
    table |= {f"score_{label}": np.where(half, np.nan, draw.normal(-3, 1, 2 * count)) for label in ("right", "other")}
    return {
        "id": names,
        "config": np.where(half, "winobias", "differentiation").astype(object),
        "domain": np.array(["gender", "race"] * count, dtype=object),
        "subject": names,
        "cluster": names,
        **table,
        **{f"sentence_{label}": names for label in ("biased", "unbiased")},
        "prediction": draw.choice(np.array(["a", "b"], dtype=object), 2 * count),
    }


def written(folder, table, **changes):
    """A run of biaske over a table, as it is written."""
    facts = {"model": "org/base", "revision": "1", "adapter": "", "dtype": "float32", "prompt": "plain"}
    facts |= {"profile": "clean", "data": {"biaske/winobias/test": "1.1.0 sha256:aa"}, "environment": {}} | changes
    result = Report(**facts, estimates=tuple(run.estimate(BIASKE, "clean", table, 100)))
    report.write(folder, result, {"biaske": table}, {})
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs; tests only read them."""
    folder = tmp_path_factory.mktemp("runs")
    return written(folder / "run", pairs(1), model="org/edited", adapter="made"), written(folder / "base", pairs(2))


def test_a_comparison_has_every_difference_and_the_share_of_equal_predictions(runs):
    result = scoring.compare(*runs, resamples=200)
    values = [{(e.group, e.metric): e.value for e in r.estimates} for r in (result.run, result.base)]
    assert {(d.group, d.metric) for d in result.differences} == set(values[0])
    for item in result.differences:
        key = item.group, item.metric
        assert item.value == pytest.approx(values[0][key] - values[1][key])
        assert item.ideal == {"fact_accuracy": 100}.get(item.metric, 50)
    (ds,) = [e for e in result.agreements if e.group == "differentiation"]
    equal = pairs(1)["prediction"][60:] == pairs(2)["prediction"][60:]
    assert (ds.metric, ds.value, ds.n, ds.least, ds.most) == ("ds", pytest.approx(100 * equal.mean()), 60, 0, 100)
    assert ds.low < ds.value < ds.high


def test_a_run_agrees_with_itself_in_every_prediction(runs):
    result = scoring.compare(runs[0], runs[0], resamples=50)
    assert {e.value for e in result.agreements} == {100.0}
    assert {d.value for d in result.differences} == {0.0}


def test_runs_of_another_version_of_a_benchmark_are_not_compared(tmp_path):
    old = written(tmp_path / "old", pairs(1), environment={"benchmark biaske": "0.9.0"})
    told = f"A run of org/base used version 0.9.0 of the benchmark biaske, and this is {BIASKE.version}; score that"
    with pytest.raises(ScoringError, match=re.escape(told)):
        scoring.compare(old, old)


# The page and the JSON


def test_the_comparison_is_written_beside_the_run(runs, tmp_path):
    folder = shutil.copytree(runs[0], tmp_path / "run")
    before = files(folder)
    result = scoring.compare(*runs, resamples=50)
    report.write_comparison(folder, result)
    assert files(folder).keys() - before.keys() == {"compare.html", "compare.json"}
    assert {name: files(folder)[name] for name in before if name != ".sha256"} == {
        name: content for name, content in before.items() if name != ".sha256"
    }
    facts = json.loads((folder / "compare.json").read_text(encoding="utf-8"))
    assert (facts["schema"], facts["run"]["model"], facts["base"]["model"]) == (1, "org/edited", "org/base")
    assert len(facts["differences"]) == len(result.differences)
    assert [e["metric"] for e in facts["agreements"]] == ["ds"] * 3
    first = facts["differences"][0]
    assert (first["value"], first["p_holm"]) == (result.differences[0].value, result.differences[0].p_holm)
    assert first["value"] == pytest.approx(first["after"] - first["before"])
    assert {d["verdict"] for d in facts["differences"]} <= {"nearer", "further", "unclear", ""}


def test_the_page_shows_both_values_the_difference_and_a_bar_for_each_group(runs, tmp_path):
    result = scoring.compare(*runs, resamples=200)
    report.write_comparison(tmp_path, result)
    page = Page(tmp_path / "compare.html")
    assert not page.errors
    assert not page.open
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert "org/edited with made compared with org/base" in page.text
    one = next(d for d in result.differences if (d.group, d.metric) == ("winobias", "ss"))
    values = [
        next(e.value for e in r.estimates if (e.group, e.metric) == ("winobias", "ss"))
        for r in (result.base, result.run)
    ]
    said = [f"{x:.2f}".replace("-", "−") for x in (*values, one.value)]
    assert " ".join(["winobias", *said]) in page.text
    assert "Agreement with the base" in page.text
    bars = [a for a in page.tags("svg") if a.get("class") == "bar"]
    assert len(bars) == len(result.differences) + len(result.agreements)
    assert len([a for a in page.tags("svg") if a.get("class") == "bar common"]) == 2  # the headline, and the facts
    assert all(a["aria-label"] for a in bars)
    assert "default-src 'none'" in (tmp_path / "compare.html").read_text(encoding="utf-8")


def difference(**changes):
    facts = {"benchmark": "b", "group": "g", "metric": "m", "value": 0.25, "low": 0.1, "high": 0.4, "sd": 0.1}
    return Difference(
        **facts | {"p": 0.01, "p_holm": 0.04, "p_side": 0.0, "p_direction": 0.04, "n": 9, "clusters": 9} | changes
    )


def page(tmp_path, *differences, **changes):
    facts = dict.fromkeys(("model", "revision", "adapter", "dtype", "prompt", "profile"), "x") | changes
    one = Report(**facts, data={}, estimates=(), environment={})
    report.write_comparison(tmp_path, Comparison(one, one, differences))
    return Page(tmp_path / "compare.html")


def test_only_differences_beyond_chance_have_a_filled_dot(tmp_path):
    shown = page(tmp_path, difference(), difference(p_holm=0.05), difference(p_holm=math.nan))
    assert [a["class"].split() for a in shown.tags("circle")] == [["dot"], ["dot", "open"], ["dot", "open"]]


@pytest.mark.fault(47)
def test_differences_that_are_not_defined_say_why(tmp_path):
    nothing = dict.fromkeys(("value", "low", "high", "sd", "p", "p_holm"), math.nan)
    shown = page(
        tmp_path, difference(**nothing, why="no rows"), difference(group="zero", value=0, low=0, high=0, p_holm=1)
    )
    assert "not defined: no rows" in shown.text
    assert "nan" not in (tmp_path / "compare.html").read_text(encoding="utf-8")
    assert "NaN" not in (tmp_path / "compare.json").read_text(encoding="utf-8")


@pytest.mark.fault(50)
def test_hostile_strings_are_text_in_the_comparison(tmp_path):
    texts = dict.fromkeys(("benchmark", "group", "metric", "why", "reading"), HOSTILE)
    shown = page(tmp_path, difference(**texts), difference(**texts | {"group": "h"}, value=math.nan), model=HOSTILE)
    assert not shown.errors
    assert not shown.tags("script")
    assert shown.text.count(" ".join(HOSTILE.split())) > 5
    for name in ("compare.html", "compare.json"):
        assert "<script" not in (tmp_path / name).read_text(encoding="utf-8")
    assert json.loads((tmp_path / "compare.json").read_text(encoding="utf-8"))["run"]["model"] == HOSTILE


@pytest.mark.fault(49)
def test_secrets_of_the_environment_are_not_in_the_comparison(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "planted-secret-1")
    page(tmp_path, difference(group="planted-secret-1"), adapter="planted-secret-1")
    assert not [name for name, content in files(tmp_path).items() if b"planted-secret" in content]


def test_agreements_have_the_range_of_their_metric(tmp_path):
    one = Report("m", "", "", "f", "p", "clean", {}, (), {})
    agreement = Estimate("b", "g", "ds", 90.0, 80.0, 100.0, 5.0, 9, 9, ideal=100.0, least=0.0, most=100.0)
    report.write_comparison(tmp_path, Comparison(one, one, (), (agreement,)))
    (bar,) = [a for a in Page(tmp_path / "compare.html").tags("svg") if a.get("class") == "bar"]
    assert bar["aria-label"].endswith("ideal 100.00, on a range from 0.00 to 100.00")
