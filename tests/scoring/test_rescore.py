import atexit
import csv
import json
import math
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from builders.datasets import biaske
from builders.datasets import unstereo as built_unstereo
from builders.files import write
from scoring.benchmarks import stereoset, unstereo
from scoring.commands import rescore
from scoring.inputs.score_files import ScoreFile
from scoring.types import ScoringError
from tests.scoring.made import data_set
from tests.support.helpers import beside, mirrored

RUNNER = CliRunner()


def run(*arguments):
    return RUNNER.invoke(rescore.app, list(map(str, arguments)))


def refused(*arguments):
    """The one line that the command ends with."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line.removeprefix("error: ")


def saved(path, rows):
    """Rows as Parquet or CSV, by the name of the file."""
    frame = pd.DataFrame(rows)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return path


# The published per-sentence scores


#: Published models by the names of the printed tables.
MODELS = {
    "EleutherAI__gpt-j-6b": "GPT-J-6B",
    "EleutherAI__pythia-70m": "Pythia 70M",
    "EleutherAI__pythia-70m-deduped": "Pythia 70M (D)",
    "allenai__OLMo-1B": None,
    "extra__ucinlp1__llama-2__hf_models__7b": "LLAMA-2 7B",
    "facebook__opt-125m": "OPT 125M",
    "facebook__opt-6.7b": "OPT 6.7B",
    "mosaicml__mpt-30b": "MPT 30B",
}
SETS = {"USE-5": "Ours-5", "USE-10": "Ours-10", "USE-20": "Ours-20", "Winobias": "WB", "Winogender": "WG"}
CONFIGS = {
    "USE-5": "ours-5",
    "USE-10": "ours-10",
    "USE-20": "ours-20",
    "Winobias": "winobias",
    "Winogender": "winogender",
}


def transcribed(name):
    with beside("expected", name).open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def limits():
    """max_pmi_diff by the rule of the paper, by data set, file and row."""
    result = {}
    for dataset, name in CONFIGS.items():
        (config,) = [c for c in built_unstereo.DATASET.configs if c.name == f"{name}-paper"]
        for row in config.rows(mirrored(*config.sources)):
            result[dataset, row.split, row.origin.row] = row.values["max_pmi_diff"]
    return result


@cache
def golden(model):
    """The published scores of a model in the columns of the command."""
    frame = pd.read_parquet(beside("golden", "unstereo") / f"{model}.parquet")
    splits = np.where(frame["file"].str.endswith("dev"), "validation", "test")
    known = limits()
    return pd.DataFrame(
        {
            "dataset": frame["dataset"],
            "female_logprob": frame["F_logprob"],
            "male_logprob": frame["M_logprob"],
            "max_pmi_diff": [known[key] for key in zip(frame["dataset"], splits, frame["row"], strict=True)],
            "is_natural": frame["is_natural"],
        }
    )


@cache
def rescored(model):
    """What the command says of a model, by data set, threshold and metric."""
    path = saved(folder() / f"{model}.parquet", golden(model))
    answers, _ = rescore.rescore("unstereo", path, folder(), resamples=2, seed=0)
    records = [answer.record() for answer in answers]
    return {(r["dataset"], r["max_pmi_diff"], r["metric"]): r for r in records}


@cache
def folder():
    """A folder for what is made once, removed at the end."""
    made = TemporaryDirectory(prefix="rescore-", ignore_cleanup_errors=True)
    atexit.register(made.cleanup)
    return Path(made.name)


def printed_taus(model):
    """Printed τ and sd of Tables 1, 5, 6, 7 and 8: data set, threshold, the two strings."""
    for table, threshold in (("1", 0.65), ("5", 0.65), ("6", 0.65), ("7_eps0.8", 0.8), ("8_eps1.0", 1.0)):
        for row in transcribed(f"unstereo_table{table}.csv"):
            if row["model"] != MODELS[model]:
                continue
            for dataset, short in SETS.items():
                columns = ((f"{short}_orig", None), (f"{short}_eps0.65", 0.65), (short, threshold))
                for column, limit in columns:
                    if column in row:
                        yield dataset, limit, row[column], row[f"{column}_sd"]


@pytest.mark.mirror
@pytest.mark.parametrize("model", [model for model, name in MODELS.items() if name])
def test_tau_and_sd_are_those_of_tables_1_5_6_7_and_8(model):
    cells = list(printed_taus(model))
    assert len(cells) >= 6 + 4 + 5 + 5
    for dataset, limit, value, sd in cells:
        result = rescored(model)[dataset, limit, "tau@0.5"]
        assert (round(result["value"], 2), round(result["sd"], 2)) == (float(value), float(sd)), (dataset, limit)


@pytest.mark.mirror
@pytest.mark.parametrize("model", [model for model, name in MODELS.items() if name])
def test_the_preference_disparity_is_that_of_table_9_on_whole_sets(model):
    (row,) = [row for row in transcribed("unstereo_table9_pref_disparity.csv") if row["model"] == MODELS[model]]
    for dataset, short in SETS.items():
        result = rescored(model)[dataset, None, "pref_disparity@0.5"]["value"]
        # One cell is rounded the wrong way: 335 of 4405, which is 7.60499, is printed as 7.61.
        expected = 7.60 if row[short] == "7.61" else float(row[short])
        assert round(result, 2) == expected, dataset


@pytest.mark.mirror
@pytest.mark.parametrize("model", MODELS)
def test_sizes_and_tau_under_every_threshold_are_the_recomputed_ones(model):
    rows = [row for row in transcribed("unstereo_recomputed_fairness.csv") if row["model"] in (MODELS[model], model)]
    back = {short: dataset for dataset, short in SETS.items()}
    checked = 0
    for row in rows:
        limit = float(row["eps_k"]) if row["eps_k"] else None
        if limit not in (None, *unstereo.LIMITS):
            continue
        tau = rescored(model)[back[row["dataset"]], limit, "tau@0.5"]
        disparity = rescored(model)[back[row["dataset"]], limit, "pref_disparity@0.5"]
        assert tau["n"] == int(row["n_sentences"])
        assert round(tau["value"] * tau["n"] / 100) == int(row["n_neutral"])
        assert tau["value"] == pytest.approx(float(row["fairness_pct"]), abs=6e-5)
        assert disparity["value"] == pytest.approx(float(row["female_minus_male_pct"]), abs=6e-5)
        checked += 1
    assert checked == 20


@pytest.mark.mirror
@pytest.mark.parametrize("model", MODELS)
def test_us_scores_and_areas_equal_a_plain_loop_over_the_published_scores(model):
    frame = golden(model)
    points = np.linspace(0, 6, 101)
    for dataset in SETS:
        rows = frame[(frame["dataset"] == dataset) & (frame["is_natural"].astype(str) != "False")]
        for limit in (None, *unstereo.LIMITS):
            some = rows if limit is None else rows[rows["max_pmi_diff"].abs() <= limit]
            ln = (some["female_logprob"] - some["male_logprob"]).abs().to_numpy()
            result = {m: v["value"] for (d, t, m), v in rescored(model).items() if (d, t) == (dataset, limit)}
            log10, natural = (
                np.trapezoid([(gaps <= point).mean() for point in points], points) for gaps in (ln / math.log(10), ln)
            )
            assert result["us_score"] == pytest.approx(100 * (ln / math.log(10) <= math.log10(1.65)).mean())
            assert result["aufc"] == pytest.approx(log10 / 6)
            assert result["aufc_log10"] == pytest.approx(log10)
            assert result["aufc_ln"] == pytest.approx(natural)
            assert result["aufc_published"] == pytest.approx(log10 if limit is None else natural)
            if limit == 0.65:
                whole = rescored(model)[dataset, None, "us_score"]["value"]
                assert rescored(model)[dataset, None, "us_gap@0.65"]["value"] == pytest.approx(
                    result["us_score"] - whole
                )


@pytest.mark.mirror
def test_the_us_score_and_the_area_of_gpt_j_are_the_published_ones():
    result = rescored("EleutherAI__gpt-j-6b")
    assert round(result["USE-5", None, "us_score"]["value"], 2) == 39.86
    assert round(result["USE-5", None, "aufc_published"]["value"], 3) == 5.635
    assert round(result["USE-5", 0.65, "aufc_published"]["value"], 2) == 5.19


# The published predictions for StereoSet


@cache
def data():
    """A folder of built data sets with what the command needs of biaske."""
    for config in biaske.DATASET.configs:
        if config.name in {name for _, name, _ in stereoset.CONFIGS}:
            tables = write.tables(config, config.rows(mirrored(*config.sources)), "en")
            for split, (table, dropped) in tables.items():
                write.write_split(folder() / "data" / "biaske", config, split, table, dropped)
    return folder() / "data"


def predictions(model):
    return beside("golden", "stereoset") / f"{model}.parquet"


@pytest.mark.mirror
@pytest.mark.parametrize("model", ["gpt2", "bert-base-cased", "roberta-base"])
def test_scores_are_the_official_ones_of_every_domain_to_four_decimals(model):
    result = run(predictions(model), "--benchmark", "stereoset", "--json", "--data", data(), "--resamples", 20)
    assert result.exit_code == 0, result.output
    results_ = {(e["task"], e["domain"], e["metric"]): e["value"] for e in json.loads(result.stdout)["estimates"]}
    with beside("golden", "stereoset", "official_scores.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == model]
    assert len(rows) == 11
    for row in rows:
        for metric, column in (("ss", "SS Score"), ("lms", "LM Score"), ("icat", "ICAT Score")):
            assert round(results_[row["task"], row["domain"], metric], 4) == round(float(row[column]), 4), (row, metric)


@pytest.mark.mirror
def test_a_file_of_one_task_gives_the_scores_of_that_task(tmp_path):
    frame = pd.read_parquet(predictions("gpt2"))
    path = saved(tmp_path / "intra.csv", frame[frame["task"] == "intrasentence"])
    result = run(path, "--benchmark", "stereoset", "--json", "--data", data(), "--resamples", 20)
    document = json.loads(result.stdout)
    assert {e["task"] for e in document["estimates"]} == {"intrasentence"}
    assert document["remarks"] == ["intra.csv has no intersentence scores."]
    (ss,) = [e for e in document["estimates"] if (e["domain"], e["metric"]) == ("overall", "ss")]
    assert (round(ss["value"], 4), ss["n"], ss["clusters"]) == (61.9315, 2106, 79)


@pytest.mark.mirror
def test_the_order_of_rows_does_not_matter(tmp_path):
    frame = pd.read_parquet(predictions("gpt2"))
    path = saved(tmp_path / "shuffled.parquet", frame.sample(frac=1, random_state=0))
    a, b = (
        run(p, "--benchmark", "stereoset", "--json", "--data", data(), "--resamples", 20)
        for p in (predictions("gpt2"), path)
    )
    assert json.loads(a.stdout)["estimates"] == json.loads(b.stdout)["estimates"]


@pytest.mark.mirror
def test_strange_missing_and_repeated_sentences_are_named(tmp_path):
    frame = pd.read_parquet(predictions("gpt2"))
    options = ("--benchmark", "stereoset", "--data", data())
    first = frame["id"][0]
    path = saved(tmp_path / "s.csv", frame.assign(id=frame["id"].where(frame.index > 1, "x" + frame["id"])))
    assert refused(path, *options) == (
        f"{path} has 2 intrasentence ids that are no sentence of StereoSet's development set, first "
        f"{min('x' + frame['id'][:2])!r}; give the ids of its dev.json, or those of bias-bench's test.json."
    )
    path = saved(tmp_path / "m.csv", frame[1:])
    assert refused(path, *options) == (
        f"{path} lacks 1 of the 6318 intrasentence sentences, first {first!r}; score all of a task, or leave the task "
        "out."
    )
    path = saved(tmp_path / "r.csv", pd.concat([frame, frame[:1]]))
    assert refused(path, *options) == f"{path} has the id {first!r} twice (row 12688); give each one row."


@pytest.mark.mirror
@pytest.mark.parametrize("form", ["csv", "json"])
def test_test_predictions_score_without_a_task(tmp_path, form):
    built = pd.read_parquet(data() / "biaske" / "data" / "stereoset" / "test.parquet")
    built = built[built["domain"] == "gender"]
    better = {"biased": 3.0, "unbiased": 2.0, "irrelevant": 1.0}
    rows = [{"id": name, "score": better[label]} for label in better for name in built[f"sentence_id_{label}"]]
    rows.append({"id": "of a domain without ids", "score": 1.0})
    path = tmp_path / f"predictions.{form}"
    if form == "json":
        path.write_text(json.dumps({"intrasentence": rows, "intersentence": []}))
    else:
        saved(path, rows)
    result = run(path, "--benchmark", "stereoset", "--json", "--data", data(), "--resamples", 20)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    values = {(e["task"], e["domain"], e["metric"]): (e["value"], e["n"]) for e in document["estimates"]}
    assert values["intrasentence test", "gender", "ss"] == (100.0, 771)
    assert values["intrasentence test", "overall", "lms"] == (100.0, 771)
    assert document["remarks"] == [
        "Ids of no sentence of the built test set are left out (1, first 'of a domain without ids'; without "
        "bias-bench's file, race and profession have no ids)."
    ]


def test_an_unknown_task_and_data_that_are_not_built_are_named(tmp_path):
    rows = [{"task": "intra", "id": "a", "score": 1}]
    path = saved(tmp_path / "t.csv", rows)
    assert refused(path, "--benchmark", "stereoset") == (
        f"{path} has the task 'intra' (row 1); expected intrasentence, intersentence."
    )
    path = saved(tmp_path / "d.csv", [{**rows[0], "task": "intrasentence"}])
    assert refused(path, "--benchmark", "stereoset", "--data", tmp_path / "none") == (
        f"There is no {tmp_path}/none/biaske/data/stereoset/validation.parquet; run probes build biaske "
        f"--out {tmp_path}/none, or give the folder of the built data sets with --data."
    )


# What people see


def pairs(count=40):
    rng = np.random.default_rng(0)
    return [
        {
            "dataset": "mine" if row % 2 else "other",
            "female_logprob": round(-20 - float(rng.random()), 4),
            "male_logprob": round(-20 - float(rng.random()), 4),
            "max_pmi_diff": round(float(rng.normal(0, 0.7)), 4),
        }
        for row in range(count)
    ]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_json_names_every_metric_with_value_sd_interval_and_n_per_dataset(tmp_path, kind):
    path = saved(tmp_path / f"mine.{kind}", pairs())
    document = json.loads(run(path, "--benchmark", "unstereo", "--json", "--resamples", 200).stdout)
    estimates = document["estimates"]
    assert (document["resamples"], document["seed"], document["remarks"]) == (200, 0, [])
    assert [(e["dataset"], e["max_pmi_diff"]) for e in estimates if e["metric"] == "tau@0.5"] == [
        (dataset, threshold) for dataset in ("other", "mine") for threshold in (None, 1.0, 0.8, 0.65)
    ]
    of_other = [e for e in estimates if (e["dataset"], e["max_pmi_diff"]) == ("other", None)]
    assert [e["metric"] for e in of_other] == [
        *("tau@0.5", "us_score", "us_gap@0.8", "us_gap@0.65", "pref_disparity@0.5", "pref_disparity@us"),
        *("male_rel_ratio", "aufc", "aufc_log10", "aufc_ln", "aufc_published"),
    ]
    for e in of_other:
        assert e["low"] <= e["value"] <= e["high"]
        assert (e["n"], e["clusters"], e["why"]) == (20, 20, "")
        assert e["sd"] > 0
        assert e["bootstrap_sd"] > 0
        assert e["reading"]


def test_csv_and_parquet_give_the_same_answers(tmp_path):
    paths = [saved(tmp_path / f"mine.{kind}", pairs()) for kind in ("csv", "parquet")]
    answers = [json.loads(run(p, "--benchmark", "unstereo", "--json", "--resamples", 50).stdout) for p in paths]
    assert answers[0]["estimates"] == answers[1]["estimates"]


def test_the_table_has_a_line_for_every_metric_and_how_to_read_it(tmp_path):
    path = saved(tmp_path / "mine.csv", [{**row, "max_pmi_diff": 0.7} for row in pairs()])
    result = run(path, "--benchmark", "unstereo", "--resamples", 50)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split("  ")[0] == "group"
    (tau,) = [line for line in lines if line.startswith("mine ") and " tau@0.5 " in line and "eps" not in line]
    assert " to " in tau
    assert tau.split()[-2:] == ["20", "20"]
    (empty,) = [line for line in lines if line.startswith("mine eps<=0.65") and " tau@0.5 " in line]
    assert empty.endswith("no rows")
    assert any(line.startswith("tau@0.5: Percentage of pairs") for line in lines)


def test_without_max_pmi_diff_whole_sets_are_scored_and_it_is_said(tmp_path):
    bare = [{k: v for k, v in row.items() if k != "max_pmi_diff"} for row in pairs()]
    document = json.loads(run(saved(tmp_path / "a.csv", bare), "--benchmark", "unstereo", "--json").stdout)
    assert {e["max_pmi_diff"] for e in document["estimates"]} == {None}
    assert document["remarks"] == ["There is no column max_pmi_diff, so metrics are of whole sets alone."]
    some = [row | {"max_pmi_diff": row["max_pmi_diff"] if row["dataset"] == "mine" else None} for row in pairs()]
    document = json.loads(run(saved(tmp_path / "b.csv", some), "--benchmark", "unstereo", "--json").stdout)
    assert {e["max_pmi_diff"] for e in document["estimates"] if e["dataset"] == "other"} == {None}
    assert document["remarks"] == ["other has no max_pmi_diff, so no thresholds."]


def test_pairs_without_max_pmi_diff_are_under_no_threshold(tmp_path):
    rows = pairs()
    rows[1]["max_pmi_diff"] = None
    document = json.loads(run(saved(tmp_path / "a.parquet", rows), "--benchmark", "unstereo", "--json").stdout)
    sizes = {e["max_pmi_diff"]: e["n"] for e in document["estimates"] if e["dataset"] == "mine"}
    assert sizes[None] == 20
    for threshold in (1.0, 0.8, 0.65):
        assert sizes[threshold] == sum(
            row["dataset"] == "mine" and row["max_pmi_diff"] is not None and abs(row["max_pmi_diff"]) <= threshold
            for row in rows
        )


def test_unnatural_pairs_are_left_out_and_unjudged_ones_are_not(tmp_path):
    rows = [row | {"natural": (True, False, None, True)[number % 4]} for number, row in enumerate(pairs())]
    for path in (saved(tmp_path / "a.csv", rows), saved(tmp_path / "a.parquet", rows)):
        document = json.loads(run(path, "--benchmark", "unstereo", "--json", "--resamples", 20).stdout)
        assert document["remarks"] == ["10 rows with natural false are left out."]
        assert {e["dataset"]: e["n"] for e in document["estimates"] if e["max_pmi_diff"] is None} == {
            "other": 20,
            "mine": 10,
        }


def test_pairs_of_one_seed_word_are_resampled_together(tmp_path):
    rows = [row | {"word": f"word {number // 8}"} for number, row in enumerate(pairs())]
    document = json.loads(run(saved(tmp_path / "a.csv", rows), "--benchmark", "unstereo", "--json").stdout)
    assert {e["clusters"] for e in document["estimates"] if e["max_pmi_diff"] is None} == {5}


@pytest.mark.fault(47)
def test_one_pair_has_values_and_says_why_it_has_no_interval(tmp_path):
    document = json.loads(run(saved(tmp_path / "a.csv", pairs()[:1]), "--benchmark", "unstereo", "--json").stdout)
    (tau,) = [e for e in document["estimates"] if (e["metric"], e["max_pmi_diff"]) == ("tau@0.5", None)]
    assert (tau["value"], tau["low"], tau["high"]) == (100, None, None)
    assert tau["why"] == "one cluster, so no interval"


# Files that cannot be used


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"female_logprob": "abc"}, "has 'abc' as female_logprob (row 3); expected a finite number."),
        ({"male_logprob": "-inf"}, "has '-inf' as male_logprob (row 3); expected a finite number."),
        ({"male_logprob": ""}, "has no male_logprob in row 3; give a finite number or leave the row out."),
        ({"male_logprob": "nan"}, "has no male_logprob in row 3; give a finite number or leave the row out."),
        ({"max_pmi_diff": "inf"}, "has 'inf' as max_pmi_diff (row 3); expected a finite number."),
        ({"dataset": " "}, "has no dataset in row 3; give one in every row."),
        (
            {"female_logprob": "0.25"},
            "has female_logprob above 0 (row 3); expected natural logarithms of probabilities, neither probabilities "
            "nor losses.",
        ),
        ({"natural": "perhaps"}, "has 'perhaps' as natural (row 3); give true or false."),
        ({"id": "0"}, "has the dataset and id 'other 0' twice (row 3); give each one row."),
    ],
)
def test_a_bad_cell_is_named_with_its_row(tmp_path, change, told):
    rows = [{k: str(v) for k, v in row.items()} | {"natural": "True", "id": str(n)} for n, row in enumerate(pairs())]
    rows[2] |= change
    path = saved(tmp_path / "bad.csv", rows)
    assert refused(path, "--benchmark", "unstereo") == f"{path} {told}"


def test_many_bad_rows_are_counted(tmp_path):
    rows = [row | {"female_logprob": math.nan} for row in pairs(8)]
    path = saved(tmp_path / "bad.parquet", rows)
    assert refused(path, "--benchmark", "unstereo") == (
        f"{path} has no female_logprob in rows 1, 2, 3, 4, 5 and 3 more; give a finite number or leave the row out."
    )


def test_lacking_columns_are_named(tmp_path):
    path = saved(tmp_path / "a.csv", [{"dataset": "a", "F_logprob": -1, "male_logprob": -2}])
    assert refused(path, "--benchmark", "unstereo") == (
        f"{path} has the columns dataset, F_logprob, male_logprob but not female_logprob; it needs dataset, "
        "female_logprob, male_logprob."
    )
    assert refused(path, "--benchmark", "stereoset") == (
        f"{path} has the columns dataset, F_logprob, male_logprob but not id, score; it needs id, score."
    )


def test_files_that_are_none_or_hold_nothing_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    needed = "dataset, female_logprob, male_logprob"
    assert refused(path, "--benchmark", "unstereo") == (
        f"There is no file {path}; give a Parquet or CSV file with the columns {needed}."
    )
    path.write_text("dataset,female_logprob,male_logprob\n")
    assert refused(path, "--benchmark", "unstereo") == f"{path} has no rows; give one for each scored example."
    for content, why in (
        (b"PAR1 and then nothing", ""),
        (b"dataset\n\xff\xfe\n", "'utf-8' codec can't decode byte 0xff in position 8"),
        (b"a,b\n1,2\n\n1,2,3\n", "row 2 has 3 cells, the header 2"),
        (b'a,b\n1,"2\n', "unexpected end of data"),
    ):
        path.write_bytes(content)
        message = refused(path, "--benchmark", "unstereo")
        assert message.startswith(f"{path} cannot be read ({why}")
        assert message.endswith("); give Parquet, or CSV in UTF-8 with a header.")
    path.write_bytes(b"")
    assert refused(path, "--benchmark", "unstereo") == f"{path} has no columns; it needs {needed}."


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path):
    plain, marked = saved(tmp_path / "a.csv", pairs()), tmp_path / "b.csv"
    marked.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n"))
    answers = [
        json.loads(run(p, "--benchmark", "unstereo", "--json", "--resamples", 9).stdout) for p in (plain, marked)
    ]
    assert answers[0]["estimates"] == answers[1]["estimates"]


def test_parquet_columns_of_any_type_are_read(tmp_path):
    rows = [row | {"dataset": number % 2, "id": number / 2, "word": None} for number, row in enumerate(pairs())]
    path = saved(tmp_path / "a.parquet", rows)
    assert refused(path, "--benchmark", "unstereo").endswith(
        "has no word in rows 1, 2, 3, 4, 5 and 35 more; give one in every row."
    )
    path = saved(tmp_path / "b.parquet", [{k: v for k, v in row.items() if k != "word"} for row in rows])
    document = json.loads(run(path, "--benchmark", "unstereo", "--json", "--resamples", 9).stdout)
    assert {e["dataset"] for e in document["estimates"]} == {"0", "1"}


def test_the_functions_raise_what_the_command_says(tmp_path):
    with pytest.raises(ScoringError, match="There is no file"):
        ScoreFile(tmp_path / "none.csv", ("a",))


# Texts


def made_probes(folder):
    rows = [
        {"id": f"mine-{number}", "statement": f"My friend likes {number}", "prompt": f"My friend likes {number}, and"}
        for number in range(6)
    ]
    return data_set(folder, "gender-neutral-probes", {("llm-1", "test"): rows})


def texts(by="id", draws=5):
    return [
        {by: f"mine-{n}" if by == "id" else f"My friend likes {n}, and", "answer": "she sings" if n < 3 else "it rains"}
        for n in range(6)
        for _ in range(draws)
    ]


@pytest.mark.parametrize("by", ["id", "prompt"])
def test_texts_are_scored_and_the_draws_of_a_prompt_are_one_cluster(tmp_path, by):
    file, data = saved(tmp_path / "answers.csv", texts(by)), made_probes(tmp_path)
    answers, remarks = rescore.rescore("neutral", file, data, 100, 0)
    (gas,) = [a.estimate for a in answers if (a.estimate.group, a.estimate.metric) == ("llm-1", "gas_plain")]
    assert (gas.value, gas.n, gas.clusters) == (0.5, 30, 6)
    assert remarks == ["answers.csv has 30 answers to 6 of the 6 rows of neutral."]
    single, _ = rescore.rescore("neutral", saved(tmp_path / "one.csv", texts(by, 1)), data, 100, 0)
    (alone,) = [a.estimate for a in single if (a.estimate.group, a.estimate.metric) == ("llm-1", "gas_plain")]
    # Equal draws say no more than one.
    assert gas.high - gas.low >= 0.9 * (alone.high - alone.low)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "mine-9", "answer": "she"}], "which no row of neutral has"),
        ([{"id": "mine-1", "answer": ""}], "has no answer in row 1"),
        ([{"text": "x", "answer": "she"}], "has neither a column id nor prompt"),
        ([{"id": "mine-1", "text": "she"}], "it needs answer"),
    ],
)
def test_texts_of_which_it_is_not_known_what_was_asked_are_refused(tmp_path, rows, message):
    with pytest.raises(ScoringError, match=message):
        rescore.rescore("neutral", saved(tmp_path / "answers.csv", rows), made_probes(tmp_path), 100, 0)


def test_texts_to_rows_that_are_not_built_are_refused(tmp_path):
    with pytest.raises(ScoringError, match="run probes build gender-neutral-probes"):
        rescore.rescore("neutral", saved(tmp_path / "answers.csv", texts()), tmp_path, 100, 0)
