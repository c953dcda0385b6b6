"""Minimum detectable effects: from the variance of a run, before a run, and in the tables of other packages."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

import scoring
from cards.common.numbers import Scale, detectable_text
from cards.common.verdict import LEVEL
from scoring import benchmarks, load
from scoring.asking import run
from scoring.commands.power import factor, of_design, of_run
from scoring.metrics.sums import percentage
from scoring.report.comparison import comparison, comparison_page
from scoring.report.page import page
from scoring.statistics.intervals import POWER, detectable, student
from scoring.statistics.stats import compare, corrected, measure
from scoring.types import Group, ScoringError
from tests.scoring.made import estimate
from tests.scoring.test_comparison import pairs, written
from tests.support.commands import run as command
from tools.simulations import power as simulation

RATE = percentage("rate", lambda table: table["x"], 50, "Percentage of events.")
#: ``TTestPower().solve_power(nobs=N, alpha=A, power=0.8)`` of statsmodels 0.15.0, by N and A.
STATSMODELS = {
    (3, 0.05): 3.264043552819638,
    (6, 0.05): 1.4345451395119289,
    (12, 0.05): 0.8886543444414026,
    (30, 0.05): 0.5292357045238948,
    (30, 0.005): 0.7151791659205651,
    (79, 0.05): 0.31915022412687877,
    (490, 0.05): 0.12681177834355317,
}


def sample(rate, n=400, clusters=40, seed=0):
    draw = np.random.default_rng(seed)
    return {"x": (draw.random(n) < rate).astype(float)}, np.arange(n) % clusters


@pytest.mark.parametrize(("n", "level"), STATSMODELS)
def test_the_difference_of_a_plain_sample_is_that_of_statsmodels(n, level):
    assert detectable(1 / math.sqrt(n), n - 1, level) == pytest.approx(STATSMODELS[n, level], rel=1e-5)


@pytest.mark.parametrize("freedom", [2, 5, 29, 1000])
def test_a_difference_of_that_size_is_found_with_the_power(freedom):
    ratio, edge = detectable(1.0, freedom), student(freedom)
    assert scipy_stats.nct.sf(edge, freedom, ratio) == pytest.approx(POWER, abs=1e-6)


def test_without_a_standard_error_nothing_is_said():
    assert math.isnan(detectable(math.nan, 5))
    assert math.isnan(detectable(0.0, 5))


def test_a_score_has_the_standard_error_of_its_interval_and_its_minimum_detectable_effect():
    # Few clusters and a common outcome: Student's t over clusters of one size is the t-test of their means.
    table, clusters = sample(0.5, clusters=10)
    found = estimate(RATE, table, clusters=clusters)
    means = 100 * table["x"].reshape(-1, 10).mean(axis=0)
    assert found.method == "cluster-t"
    assert found.error == pytest.approx(scipy_stats.sem(means))
    assert found.freedom == pytest.approx(9)
    assert found.detectable == pytest.approx(detectable(found.error, 9))


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.5])
def test_every_kind_of_interval_has_a_standard_error(rate):
    found = estimate(RATE, *sample(rate)[:1], clusters=sample(rate)[1])
    assert 0 < found.error < (found.high - found.low)
    assert found.error < found.detectable < 50


def test_a_page_of_more_differences_has_larger_minimum_detectable_effects():
    one, clusters = sample(0.5)
    other, _ = sample(0.4, seed=1)
    group = Group("", np.ones(400, bool))
    (alone,) = compare([(group, RATE)], one, other, clusters, resamples=50)
    ten = compare([(group, RATE)] * 10, one, other, clusters, resamples=50)
    assert alone.detectable == pytest.approx(detectable(alone.error, alone.freedom))
    assert ten[0].detectable == pytest.approx(detectable(alone.error, alone.freedom, LEVEL / 10))
    assert corrected(ten[:1])[0].detectable == alone.detectable


def test_fewer_than_six_clusters_have_no_minimum_detectable_effect():
    one, clusters = sample(0.5, clusters=5)
    (found,) = compare([(Group("", np.ones(400, bool)), RATE)], one, sample(0.4, seed=1)[0], clusters, resamples=50)
    assert math.isinf(found.detectable)
    assert detectable_text(found.detectable, Scale(0, 100)) == "none"


def test_two_runs_with_equal_scores_have_no_minimum_detectable_effect():
    one, clusters = sample(0.5)
    (found,) = compare([(Group("", np.ones(400, bool)), RATE)], one, one, clusters, resamples=50)
    assert detectable_text(found.detectable, Scale(0, 100)) == ""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return written(folder / "run", pairs(1), model="org/edited"), written(folder / "base", pairs(2))


def test_pages_tables_and_files_say_what_would_have_been_seen_beside_each_verdict(runs):
    compared = scoring.compare(*runs, resamples=200)
    stored = {(d["group"], d["metric"]): d["detectable"] for d in json.loads(comparison(compared))["differences"]}
    shown = comparison_page(compared)
    d = next(d for d in compared.differences if d.ideal is not None and math.isfinite(d.detectable))
    assert stored[d.group, d.metric] == d.detectable
    assert f"minimum detectable effect {detectable_text(d.detectable, Scale(0, 100))}" in shown
    assert compared.table()["detectable"].notna().any()
    result = load(runs[0])
    assert "minimum detectable effect" in page(result.report, result.tables, {})


def test_results_of_earlier_versions_say_nothing(runs, tmp_path):
    content = json.loads((runs[0] / "results.json").read_text())
    for score in content["estimates"]:
        for name in ("error", "freedom", "detectable"):
            del score[name]
    (tmp_path / "results.json").write_text(json.dumps(content))
    from scoring import report

    earlier = report.read(tmp_path)
    assert all(math.isnan(e.detectable) for e in earlier.estimates)
    assert "minimum detectable effect" not in page(earlier, {}, {}).partition('<p class="note">The dot')[0]


# Before a run


def first(benchmark, *design):
    """The standard errors of the first proportion, of it and of its change."""
    *_, error, paired = next(of_design(benchmarks.get(benchmark), *design))
    return error, paired


def test_a_design_of_single_rows_is_that_of_statsmodels():
    for error in first("crows_pairs", 79, 79, 0.3, 0.25):
        assert detectable(error, 78) == pytest.approx(50 * STATSMODELS[79, 0.05], rel=1e-5)


def test_two_independent_runs_need_what_the_usual_formula_for_two_proportions_says():
    # ((z + z) / difference)^2 · (p q + p q), as evalci.power(delta=0.05): two runs that agree by chance differ in half.
    _, paired = first("crows_pairs", 1562, 1562, 0.0, 0.5)
    assert detectable(paired, 1561) == pytest.approx(5, rel=0.005)


def test_a_run_of_the_same_size_has_the_same_minimum_detectable_effect(runs):
    result = load(runs[0]).report
    own = {e.short_name: e for e in result.estimates if e.group == "winobias" and e.error > 0}
    same, four = (list(of_run(result, "biaske", size, size, 0.05)) for size in (60, 240))
    assert [name for name, *_ in same] == list(own)
    for (name, _, _, error, paired), (_, _, _, half, _) in zip(same, four, strict=True):
        assert (own[name].n, own[name].clusters) == (60, 60)
        assert error == pytest.approx(own[name].error)
        assert paired == pytest.approx(math.sqrt(2) * error)
        assert half == pytest.approx(error / 2)


@pytest.mark.parametrize(("n", "clusters"), [(10, 11), (10, 1)])
def test_an_impossible_design_is_one_sentence(n, clusters):
    with pytest.raises(ScoringError, match=rf"{n}.*{clusters}.*\b2\b"):
        factor(n, clusters, 0.05)


def test_the_command_says_the_minimum_detectable_effects_of_a_run(runs):
    done = command("probes", "power", "crows_pairs", "--n", 1508, "--clusters", 60)
    assert done.returncode == 0, done.stderr
    assert "1,508 rows in 60 clusters have these minimum detectable effects: power 80 %" in " ".join(
        done.stdout.split()
    )
    texts = [
        detectable_text(detectable(error, 59), Scale(0, 100)) for error in first("crows_pairs", 1508, 60, 0.05, 0.2)
    ]
    assert [part in done.stdout for part in texts] == [True, True]
    done = command("probes", "power", "biaske", "--n", 60, "--run", runs[0])
    assert done.returncode == 0, done.stderr
    assert "two runs as if independent" in " ".join(done.stdout.split())
    alone = command("probes", "power", "biaske", "--run", runs[0])
    assert (alone.returncode, alone.stdout) == (0, done.stdout)
    done = command("probes", "power", "stereoset", "--run", runs[0])
    assert (done.returncode, done.stdout) == (1, "")
    assert "has no interval of stereoset; give --n" in " ".join(done.stderr.split())
    done = command("probes", "power", "stereoset", "--n", 60, "--run", runs[0])
    assert (done.returncode, done.stdout) == (1, "")
    assert "has no interval of stereoset; give --run" in " ".join(done.stderr.split())


def test_the_simulation_finds_the_nominal_power():
    case = simulation.CASES[0]
    found = simulation.measured(case, 60)
    assert 60 <= found["seen"] <= 97
    assert found["points"] == pytest.approx(found["planned"], rel=0.15)


def test_the_stored_simulation_is_of_these_cases_and_near_the_nominal_power():
    stored = json.loads(Path(simulation.__file__).with_suffix(".json").read_text())
    assert [row["case"] for row in stored["cases"]] == [case.name for case in simulation.CASES]
    assert all(70 <= row["seen"] <= 90 for row in stored["cases"])


# Tables for other packages


def exported(run_folder, out):
    done = command("probes", "export", run_folder, "--out", out)
    assert done.returncode == 0, done.stderr
    return {path.stem: pd.read_csv(path) for path in sorted(out.glob("*.csv"))}


def cluster_bootstrap(scores, clusters, resamples=2000):
    """The interval of ``evalci.cluster_ci``: percentiles of the mean over clusters drawn with replacement."""
    draw = np.random.default_rng(0)
    own = [scores[clusters == name] for name in np.unique(clusters)]
    drawn = draw.integers(0, len(own), (resamples, len(own)))
    means = [np.concatenate([own[c] for c in chosen]).mean() for chosen in drawn]
    return np.percentile(means, [2.5, 97.5])


def test_the_exported_table_has_the_score_and_about_the_interval_of_the_run(runs, tmp_path):
    (name, table), *_ = exported(runs[0], tmp_path / "tables").items()
    assert {"item_id", "score"} <= set(table.columns)
    metric = name.partition("-")[2]
    result = load(runs[0]).report
    (own,) = [e for e in result.estimates if e.metric == metric and e.group == table["subset"][0]]
    assert table["score"].mean() == pytest.approx(own.value)
    low, high = cluster_bootstrap(table["score"].to_numpy(), table["cluster"].to_numpy())
    assert (low, high) == pytest.approx((own.low, own.high), abs=0.15 * (own.high - own.low))


def test_evalci_reads_the_table_and_agrees(runs, tmp_path):
    evalci = pytest.importorskip("evalci")
    (name, table), *_ = exported(runs[0], tmp_path / "tables").items()
    read = evalci.adapters.load_csv(tmp_path / "tables" / f"{name}.csv")
    result = load(runs[0]).report
    (own,) = [e for e in result.estimates if e.metric == name.partition("-")[2] and e.group == table["subset"][0]]
    found = evalci.cluster_ci(read["score"], table["cluster"], n_resamples=2000, random_state=0)
    assert found.estimate == pytest.approx(own.value)
    assert (found.lower, found.upper) == pytest.approx((own.low, own.high), abs=0.15 * (own.high - own.low))


def test_evalstats_reads_the_table(runs, tmp_path):
    loader = pytest.importorskip("evalstats.loader")
    tables = exported(runs[0], tmp_path / "tables")
    name = next(iter(tables))
    read = loader.load_from(tmp_path / "tables" / f"{name}.csv")
    assert f"1 prompts, {len(tables[name])} items" in repr(read)


def test_scores_in_which_examples_count_unequally_are_left_out(tmp_path):
    stereoset = benchmarks.get("stereoset")
    draw = np.random.default_rng(0)
    n = 40
    table = {name: draw.normal(size=n) for name in ("score_biased", "score_unbiased", "score_irrelevant")}
    table |= {"id": np.array([f"s{i}" for i in range(n)], dtype=object), "domain": np.full(n, "gender", dtype=object)}
    table |= {f"sentence_{label}": table["id"] for label in ("biased", "unbiased", "irrelevant")}
    table |= {"subject": np.array([f"t{i % 7}" for i in range(n)], dtype=object)}
    table |= {name: np.full(n, text, dtype=object) for name, text in (("task", "intrasentence"), ("split", "test"))}
    from scoring import report
    from scoring.types import Report

    facts = {"model": "org/base", "revision": "1", "adapter": "", "dtype": "float32", "prompt": "plain"}
    facts |= {"profile": "clean", "data": {}, "environment": {}, "headlines": {"stereoset": stereoset.headline}}
    made = Report(**facts, estimates=tuple(run.estimate(stereoset, "clean", table, 100)))
    report.write(tmp_path / "run", made, {"stereoset": table}, {})
    found = exported(tmp_path / "run", tmp_path / "tables")
    assert set(found) == {"stereoset-ss_pooled", "stereoset-lms_pooled"}
    for name, table in found.items():
        value = made.by_key["stereoset", "intrasentence test", name.partition("-")[2]].value
        assert table["score"].mean() == pytest.approx(value)


def test_measure_and_estimate_agree_on_what_would_be_seen():
    table, clusters = sample(0.3)
    (found,) = measure([(Group("", np.ones(400, bool)), RATE)], table, clusters)
    assert found.detectable == estimate(RATE, table, clusters=clusters).detectable
