import io
import json
import math

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from mitigation import recipes
from mitigation.__main__ import app
from mitigation.commands import table
from mitigation.methods.comparison import BENCHMARKS, COLUMNS, Method, changes_frame, printed_rows
from mitigation.running import steps
from scoring.adapters.facts import Adapter, Change, Cost, read
from scoring.benchmarks import get as benchmark
from tests.mitigation.test_fast import rows
from tests.scoring.made import data_set

NOTHING = (math.nan,) * 3


def change(group, metric, before, after, name="stereoset"):
    return Change(name, group, metric, (before, *NOTHING[:2]), (after, *NOTHING[:2]), NOTHING, 9)


def test_the_rows_before_and_after_have_the_columns_of_their_domain():
    changes = (
        change("held-out subjects", "ss", 60.0, 58.0, "fast"),
        change("intrasentence test race", "ss", 70.0, 50.0),
        change("race", "ss", 61.0, 52.0, "crows_pairs"),
        change("differentiation race", "ds", math.nan, 90.0, "biaske"),
        change("bec_pro", "ss", 55.0, 51.0, "biaske"),
    )
    adapter = Adapter("fast", "model", "r", "float32", {}, {}, Cost(0, 0.0, 0, ""), {}, changes=changes)
    frame = changes_frame("model", [Method("fast", adapter)])
    race = frame[(frame.domain == "race") & (frame.source == "measured")].set_index("column")
    columns = {"SS held out": 60.0, "SS StereoSet": 70.0, "SS CrowS-Pairs": 61.0}
    assert race.before.drop("DS").to_dict() == columns
    assert race.after.to_dict() == {"SS held out": 58.0, "SS StereoSet": 50.0, "SS CrowS-Pairs": 52.0, "DS": 90.0}
    assert "SS BEC-Pro" in set(frame[frame.domain == "gender"].column)
    shown = Console(record=True, width=200, file=io.StringIO())
    shown.print(table.grid(frame[frame.domain == "race"], "race"))
    lines = [line.split() for line in shown.export_text().splitlines() if line.strip().startswith("fast")]
    assert lines == [
        ["fast,", "before", "measured", "60.00", "70.00", "61.00", "100.00"],
        ["fast,", "after", "measured", "58.00", "50.00", "52.00", "90.00"],
    ]


def test_every_place_of_a_column_is_of_a_benchmark_and_one_of_its_metrics():
    own = {"fast": {"ss", "ps"}, "text": {"perplexity", "pseudo_perplexity"}, "glue": {"score"}}
    own |= {"lm-eval": {"acc", "acc_norm"}}
    for column in COLUMNS.values():
        for name, _, metric in column.places:
            made = None if name in own else benchmark(name)
            known = (
                {m.name for p in ("clean", "paper") for m in [*made.metrics(p), *made.agreements(p)]} if made else {}
            )
            assert metric in (known or own[name])
            assert made is None or name in BENCHMARKS


@pytest.mark.parametrize(
    ("model", "domain", "source", "method", "column", "value"),
    [
        ("bert-base-uncased", "gender", "Table 1, bert-base-uncased", "FAST", "ICAT", 84.29),
        ("gpt2", "gender", "Table 2, gpt2", "INLP", "LMS", 73.76),
        ("gpt2-xl", "gender", "Table 3, gpt2-xl", "FAST", "SS StereoSet", 60.5),
        ("bert-base-uncased", "religion", "Table 6, bert-base-uncased", "SentDebias", "SS CrowS-Pairs", 63.81),
        ("gpt2", "race", "Table 7, gpt2", "FAST", "PS", 52.87),
        ("bert-base-uncased", "gender", "Table 8, bert-base-uncased", "FAST", "SS Winogender", 52.38),
    ],
)
def test_printed_rows_are_those_of_the_paper(model, domain, source, method, column, value):
    rows = {(row["source"], row["method"], row["column"]): row["after"] for row in printed_rows(model, domain)}
    assert rows[source, method, column] == value


def test_a_model_of_no_table_has_the_rows_of_all():
    assert {row["source"] for row in printed_rows("tiny-causal", "race")} == {
        "Table 6, bert-base-uncased",
        "Table 7, gpt2",
    }
    assert {row["column"] for row in printed_rows("tiny-causal", "gender")} <= set(COLUMNS)


def test_the_command_edits_each_domain_and_prints_and_stores_all_rows(tmp_path):
    pairs = [
        {**row, "id": f"{row['id']}-{domain}", "domain": domain} for row in rows() for domain in ("gender", "race")
    ]
    columns = ("context", "example_id", "sentence_id_biased", "sentence_id_unbiased", "sentence_id_irrelevant")
    pairs = [row | dict.fromkeys(columns, "") for row in pairs]
    data = data_set(tmp_path / "data", "biaske", {("stereoset", "test"): pairs})
    few = tmp_path / "few.json"
    few.write_text(json.dumps({"layer": 0, "units": 4, "passes": 2, "prefixes": 0}))
    options = f"--data {data} --config {few} --domains gender,race --resamples 20 --device cpu --out {tmp_path / 'out'}"
    done = CliRunner().invoke(app, ["table", "fast", "tiny-causal", *options.split()], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "fast, before" in done.output
    (conclusion,) = [line for line in done.output.splitlines() if line.startswith("gender: ")]
    assert "SS held out" in conclusion
    stored = pd.read_csv(tmp_path / "out" / "methods.csv")
    own = stored[stored.source == "measured"]
    assert set(zip(own.method, own.domain, strict=True)) == {("fast", "gender"), ("fast", "race")}
    assert {"SS held out", "SS StereoSet", "LMS", "ICAT", "PS"} <= set(own.column)
    assert read(tmp_path / "out" / "fast-race").settings["domain"] == "race"


def test_an_unknown_domain_is_refused(tmp_path):
    done = CliRunner().invoke(app, ["table", "fast", "tiny-causal", "--domains", "age", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "The domain is 'age'; give some of gender, race, religion." in done.output


def test_no_recipe_has_the_name_of_a_command():
    assert "table" not in recipes.names()


@pytest.mark.parametrize(("names", "layer"), [(["fast", "tiny-causal"], 1), (["tiny-causal"], None)])
def test_a_sweep_of_a_given_block_or_of_other_recipes_is_refused(tmp_path, names, layer):
    config = tmp_path / "one.json"
    config.write_text(json.dumps({} if layer is None else {"layer": layer}))
    options = ["--config", str(config), "--sweep", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["table", *names, *options], env={"COLUMNS": "200"})
    assert done.exit_code == 1
    assert "--sweep is of `table fast MODEL` and searches the block: leave layer out of --config." in done.output
    assert not (tmp_path / "out").exists()


def test_a_sweep_edits_blocks_and_numbers_of_units_once(tmp_path, monkeypatch):
    assert table.swept(2) == [{}, {"layer": 0}, {"layer": 1}, *({"units": n} for n in (64, 256, 1024, 4096))]
    monkeypatch.setattr(table, "swept", lambda blocks: [{}, {"layer": blocks - 1}, {"units": 2}])
    columns = ("context", "example_id", "sentence_id_biased", "sentence_id_unbiased", "sentence_id_irrelevant")
    pairs = [row | dict.fromkeys(columns, "") for row in rows()]
    data = data_set(tmp_path / "data", "biaske", {("stereoset", "test"): pairs})
    few = tmp_path / "few.json"
    few.write_text(json.dumps({"units": 4, "passes": 2, "prefixes": 0}))
    options = (
        f"--data {data} --config {few} --domains gender --benchmarks stereoset --resamples 20 --device cpu --sweep"
    )
    arguments = ["table", "fast", "tiny-causal", *options.split(), "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}).exit_code == 0
    content = json.loads((tmp_path / "out" / "sweep.json").read_text())
    blocks = len(content["effects"]["all"])
    assert [x for x, *_ in content["layer"]["LMS"]] == [blocks - 1]
    assert [x for x, *_ in content["units"]["SS held out"]] == [2]
    assert read(tmp_path / "out" / "fast-gender-units-2").settings["units"] == 2
    assert (tmp_path / "out" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(steps, "make_and_evaluate", None)  # a complete adapter is not made again
    assert CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}).exit_code == 0
