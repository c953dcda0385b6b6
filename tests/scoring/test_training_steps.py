"""Scores by training step: the score file, the metrics of each step, and the curve."""

import csv

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.sources.catalogue import catalogue
from scoring.commands.rescore import rescore
from scoring.responses.unstereo import score_rows
from scoring.types import ScoringError
from tests.support.helpers import made
from tools.real_models.training_steps import METRICS, PREFIX, curve, draw, steps


def score_file(path, gaps):
    """A score file with pairs of ten words whose female minus male log-probability is that of their step."""
    rows = [
        {"dataset": "ours-5", "step": step, "word": f"w{n % 10}", "id": f"r{n}", "male_logprob": -9.0}
        | {"female_logprob": -9.0 + gap * (1 if n % 4 else -1), "max_pmi_diff": n / 60}
        for step, gap in gaps.items()
        for n in range(60)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_each_step_has_its_own_metrics(tmp_path):
    answers, _ = rescore("unstereo", score_file(tmp_path / "s.parquet", {"0": 0.1, "1000": 2.0}), tmp_path, 50, 0)
    points = {(p["step"], p["metric"]): p for p in curve(answers)}
    assert points["0", "tau@0.5"]["value"] == 100
    assert points["1000", "tau@0.5"]["value"] == 0
    assert points["1000", "pref_disparity@0.5"]["value"] == pytest.approx(50)
    assert {p["n"] for p in points.values()} == {60}
    assert {answer.estimate.group for answer in answers if answer.facts["step"] == "0"} >= {
        "ours-5 at step 0",
        "ours-5 eps<=0.65 at step 0",
    }


def test_one_step_alone_has_the_values_of_a_file_without_steps(tmp_path):
    with_step = rescore("unstereo", score_file(tmp_path / "s.parquet", {"7": 0.7}), tmp_path, 50, 0)[0]
    table = pq.read_table(tmp_path / "s.parquet").drop_columns(["step"])
    pq.write_table(table, tmp_path / "none.parquet")
    without = rescore("unstereo", tmp_path / "none.parquet", tmp_path, 50, 0)[0]
    values = [[(a.estimate.value, a.estimate.low, a.estimate.high) for a in item] for item in (with_step, without)]
    assert np.array_equal(*map(np.array, values), equal_nan=True)
    assert "step" not in without[0].facts


def test_the_checkpoints_are_in_the_order_of_training_and_pinned():
    assert len(steps()) == 13
    assert [int(step.partition("-")[0]) for step in steps()] == sorted(int(step.partition("-")[0]) for step in steps())
    assert [step for step in steps() if "-" in step] == [f"{n}-intervened" for n in (134000, 140000, 143000)]
    for step in steps():
        (alternative,) = catalogue().sources[PREFIX + step].alternatives
        assert len(alternative.files) == 6
        assert all(remote.git_blob for remote in alternative.files)


def test_rows_of_a_checkpoint_take_id_and_value_from_the_built_rows(tmp_path):
    fetched = made(tmp_path, "steps", "word,M_logprob,F_logprob\noak,-3.5,-3.0\nelm,-2.0,-4.0\n")["steps"]
    built = [
        {"id": f"ours-5-paper-test-0000{n}", "word": word, "natural": n == 0, "max_pmi_diff": 0.1 * n}
        for n, word in enumerate(("oak", "elm"))
    ]
    (rows,) = score_rows(fetched.paths, [pd.DataFrame(built)])
    assert rows[["id", "dataset", "natural"]].values.tolist() == [
        ["ours-5-paper-test-00000", "ours-5", True],
        ["ours-5-paper-test-00001", "ours-5", False],
    ]
    assert rows[["female_logprob", "male_logprob"]].values.tolist() == [[-3.0, -3.5], [-4.0, -2.0]]
    with pytest.raises(ScoringError, match="data set unstereo;"):
        list(score_rows(fetched.paths, [pd.DataFrame(built[::-1])]))


def test_the_figure_has_a_line_for_each_set(tmp_path):
    points = [
        {"dataset": dataset, "step": step, "metric": metric, "value": 1.0, "low": 0.5, "high": 1.5}
        for dataset in ("ours-5", "winobias")
        for step in ("0", "1000", "1000-intervened")
        for metric in METRICS
    ]
    draw(points, tmp_path / "a.svg")
    draw(points, tmp_path / "b.svg")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert all(name in text for name in ("ours-5", "winobias", "training step, thousands"))


def test_the_same_pair_twice_in_one_step_is_refused_and_in_two_is_not(tmp_path):
    from scoring.types import ScoringError

    path = score_file(tmp_path / "s.parquet", {"0": 0.1, "1000": 2.0})
    rows = pq.read_table(path).to_pylist()
    with (tmp_path / "twice.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows([*rows, rows[0]])
    with pytest.raises(ScoringError, match="'0 ours-5 r0'"):
        rescore("unstereo", tmp_path / "twice.csv", tmp_path, 50, 0)
