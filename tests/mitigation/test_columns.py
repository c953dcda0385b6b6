"""The scores of the tables: which change stands in which column, and what is said of it."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mitigation.api import Options
from mitigation.commands.table import planned_columns
from mitigation.methods.comparison import BENCHMARKS, change_of, said
from mitigation.recipes import get
from mitigation.training.data import TrainingData
from scoring import benchmarks
from scoring.adapters.facts import Adapter, Change, Cost
from tests.mitigation.made import data, probes

PAIRS = "intrasentence test {}"


def change(benchmark, group, metric, before, after, low=math.nan, high=math.nan):
    nan = math.nan
    return Change(benchmark, group, metric, (before, nan, nan), (after, nan, nan), (after - before, low, high), 90)


def adapter(*changes, **facts):
    return Adapter(
        "made",
        "m",
        "r",
        "float32",
        **{"settings": {}, "data": {}, **facts},
        cost=Cost(0, 0.0, 0, ""),
        files={},
        changes=changes,
    )


OWN = change("fast", "held-out subjects", "ss", 61.0, 60.0)
ALL = [change("stereoset", PAIRS.format(domain), "ss", 60.0, 50.0) for domain in ("gender", "race")]


@pytest.mark.parametrize(
    ("made", "domain", "value"),
    [
        (adapter(*ALL), "gender", 50.0),
        (adapter(OWN, *ALL), "gender", 60.0),
        (adapter(OWN, *ALL, settings={"domain": "gender"}), "gender", 60.0),
        (adapter(OWN, *ALL, settings={"domain": "gender"}), "race", 50.0),
        (adapter(OWN, *ALL, settings={"domain": "all"}), "race", None),
        (adapter(*ALL, data={"biaske/stereoset/test": "v"}), "gender", None),
        (adapter(*ALL, data={"biaske/stereoset/test": "v"}, settings={"domain": "race"}), "gender", 50.0),
    ],
)
def test_no_score_of_edited_pairs_is_called_held_out(made, domain, value):
    found = change_of(made, "SS held out", domain)
    assert (found and found.after[0]) == value
    assert change_of(made, "SS StereoSet", domain).after[0] == 50.0


def test_a_column_has_the_first_place_that_was_measured():
    both = [
        change(name, "gender", "ss", 60.0, value)
        for name, value in (("crows_pairs", 1.0), ("crows_pairs_modified", 2.0))
    ]
    assert change_of(adapter(*both), "SS CrowS-Pairs", "gender").after[0] == 2.0
    assert change_of(adapter(both[0]), "SS CrowS-Pairs", "gender").after[0] == 1.0
    gas = change("neutral", "templates", "gas", 0.6, 0.5)
    assert change_of(adapter(gas), "GAS", "gender") == gas
    assert change_of(adapter(gas), "GAS", "race") is None


@pytest.mark.parametrize(
    ("column", "before", "low", "high", "expected"),
    [
        ("SS StereoSet", 60.0, -9.0, -5.0, "nearer"),
        ("SS StereoSet", 60.0, -5.0, 1.0, "unclear"),
        ("SS StereoSet", 49.0, -5.0, -1.0, "further"),
        ("LMS", 90.0, -0.5, 0.5, "kept"),
        ("LMS", 90.0, -44.0, -36.0, "lost"),
        ("LMS", 90.0, -5.0, 1.0, "unclear"),
        ("perplexity", 20.0, 0.0, 0.2, "kept"),
        ("perplexity", 20.0, 350.0, 410.0, "lost"),
        ("tau", 30.0, 5.0, 9.0, "nearer"),
        ("DS", math.nan, math.nan, math.nan, ""),
    ],
)
def test_ability_is_judged_by_its_loss_and_bias_by_its_ideal_value(column, before, low, high, expected):
    middle = (low + high) / 2
    made = replace(change("b", "g", "m", before, before + middle), difference=(middle, low, high))
    assert said(made, column, 0.0, 0.0) == expected


def test_by_default_only_the_splits_of_the_columns_are_scored(tmp_path):
    rows = TrainingData(str(data(tmp_path, templates_test=probes("test", "templates"))))
    splits = {}
    for names in ((), ("neutral",)):
        planned = planned_columns(get("prompts"), Options(benchmarks=",".join(names), resamples=20), rows)
        parts = planned(SimpleNamespace(kind="causal", name="made")).parts
        splits[names] = [split.name for part in parts for split in part.splits]
    assert splits[()] == ["gender-neutral-probes/templates/test"]
    assert splits["neutral",] == ["gender-neutral-probes/stsb/test", "gender-neutral-probes/templates/test"]


def test_a_benchmark_is_in_the_tables_of_recipes_or_known_not_to_be():
    # The papers of the recipes do not have them, and no column was added.
    without = {"bbq", "gest", "mbbq", "pronouns", "stated_gender", "winogenerated"}
    missing = set(benchmarks.names()) - set(BENCHMARKS) - without
    assert not missing, "add a column and the benchmark to mitigation/data/columns.toml, or name it here"
    assert without <= set(benchmarks.names()) - set(BENCHMARKS)
