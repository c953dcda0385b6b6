"""Metrics from a file of existing scores, without a model.

The file is Parquet, or CSV with a header. For ``unstereo`` it has a row a sentence pair: ``dataset``,
``female_logprob`` and ``male_logprob`` (natural logarithms of sentence probabilities), and where known
``max_pmi_diff``; optional are ``natural`` or ``is_natural`` (pairs where it is false are left out, as in the paper),
``word`` (pairs of one seed word are resampled together) and ``id``. For ``stereoset`` it has a row a
sentence of the development set: ``task`` (intrasentence or intersentence), ``id`` and ``score``, of which
only the order matters.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scoring.metrics import fairness, stereoset
from scoring.score_files import cells, listed, numbers, places, read, texts, unique
from scoring.statistics.stats import Item, measure
from scoring.types import Estimate, Floats, Group, Metric, ScoringError, Table

#: Thresholds of ``max_pmi_diff``; None is the whole set.
THRESHOLDS = (None, 1.0, 0.8, 0.65)
DOMAINS = ("gender", "profession", "race", "religion")
#: The built config of each task of StereoSet.
TASKS = {"intrasentence": "stereoset", "intersentence": "stereoset-intersentence"}
LABELS = ("biased", "unbiased", "irrelevant")


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimate, and what it describes: columns of the benchmark such as dataset and max_pmi_diff."""

    of: Mapping[str, Any]
    estimate: Estimate

    def record(self) -> dict[str, Any]:
        """The answer for JSON; ``sd`` is by the formula of the paper where it has one."""
        fields = asdict(self.estimate)
        printed = fields.pop("printed_sd")
        fields["bootstrap_sd"] = fields["sd"]
        fields["sd"] = fields["sd"] if printed is None else printed
        cleaned = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in fields.items()}
        return {"benchmark": cleaned.pop("benchmark"), **self.of, **cleaned}


# UnStereo


def unstereo(path: Path, resamples: int, seed: int) -> tuple[list[Answer], list[str]]:
    """Metrics of every dataset in the file under every threshold, and remarks on the file."""
    needed = ("dataset", "female_logprob", "male_logprob")
    frame = read(path, needed)
    datasets = texts(frame, "dataset", path)
    table: dict[str, NDArray[Any]] = {name: _logprobs(frame, name, path) for name in needed[1:]}
    if "id" in frame:
        unique(texts(frame, "dataset", path) + " " + texts(frame, "id", path), path, "dataset and id")
    if "max_pmi_diff" in frame:
        table["max_pmi_diff"] = numbers(frame, "max_pmi_diff", path, may_lack=True)
    # Without seed words each pair is its own cluster.
    clusters = texts(frame, "word", path) if "word" in frame else np.arange(len(frame))
    natural = _natural(frame, path)
    remarks = [f"{(~natural).sum()} rows with natural false are left out."] if not natural.all() else []
    answers = []
    for dataset in dict.fromkeys(datasets):
        rows = natural & (datasets == dataset)
        part = {name: column[rows] for name, column in table.items()}
        if "max_pmi_diff" in part and np.isnan(part["max_pmi_diff"]).all():
            remarks.append(f"{dataset} has no max_pmi_diff, so no thresholds.")
            del part["max_pmi_diff"]
        answers += _unstereo_set(dataset, part, clusters[rows], resamples, seed)
    if "max_pmi_diff" not in frame:
        remarks.append("There is no column max_pmi_diff, so metrics are of whole sets alone.")
    return answers, remarks


def _logprobs(frame: pd.DataFrame, name: str, path: Path) -> Floats:
    values = numbers(frame, name, path)
    # A little above 0 is rounding.
    if (values > 1e-6).any():
        raise ScoringError(
            f"{path} has {name} above 0 ({places(values > 1e-6)}); expected natural logarithms of probabilities, "
            "neither probabilities nor losses."
        )
    return values


def _natural(frame: pd.DataFrame, path: Path) -> NDArray[np.bool_]:
    # The name in the built data set, and the one in the published files.
    name = next((name for name in ("natural", "is_natural") if name in frame), None)
    if name is None:
        return np.ones(len(frame), bool)
    said = cells(frame, name).str.lower()
    # Empty, as for WinoBias and Winogender, is not judged, and stays.
    values = said.map({"true": True, "1": True, "false": False, "0": False} | dict.fromkeys(("", "none", "nan"), True))
    unknown = values.isna().to_numpy()
    if unknown.any():
        raise ScoringError(f"{path} has {said[unknown].iloc[0]!r} as {name} ({places(unknown)}); give true or false.")
    return values.to_numpy(dtype=bool)


def _unstereo_set(dataset: str, table: Table, clusters: NDArray[Any], resamples: int, seed: int) -> list[Answer]:
    known = "max_pmi_diff" in table
    size = len(clusters)
    items: list[Item] = []
    thresholds: list[float | None] = []
    for threshold in THRESHOLDS if known else (None,):
        within = np.ones(size, bool) if threshold is None else abs(table["max_pmi_diff"]) <= threshold
        group = Group(dataset if threshold is None else f"{dataset} eps<={threshold:g}", within)
        metrics = _unstereo_metrics(threshold, known)
        items += [(group, metric) for metric in metrics]
        thresholds += [threshold] * len(metrics)
    estimates = measure(items, table, clusters, benchmark="unstereo", resamples=resamples, seed=seed)
    return [
        Answer({"dataset": dataset, "max_pmi_diff": threshold}, estimate)
        for threshold, estimate in zip(thresholds, estimates, strict=True)
    ]


def _unstereo_metrics(threshold: float | None, known: bool) -> tuple[Metric, ...]:
    gaps = (0.8, 0.65) if known and threshold is None else ()
    return (
        fairness.tau(0.5),
        fairness.us_score(),
        *map(fairness.us_gap, gaps),
        fairness.pref_disparity(0.5),
        fairness.pref_disparity(fairness.US_EPSILON, "pref_disparity@us"),
        fairness.male_rel_ratio(),
        fairness.aufc(),
        fairness.aufc("log10", "aufc_log10", divided=False),
        fairness.aufc("ln", "aufc_ln", divided=False),
        fairness.aufc_published(threshold is not None),
    )


# StereoSet


def examples(data: Path, task: str) -> pd.DataFrame:
    """The built development examples of one task of StereoSet.

    Raises
    ------
    ScoringError
        When the data set is not in the folder.
    """
    path = data / "biaske" / "data" / TASKS[task] / "validation.parquet"
    if not path.is_file():
        raise ScoringError(
            f"There is no {path}; run python -m builders.rebuild biaske --out {data}, or give the folder of the built "
            "data sets with --data."
        )
    columns = ["domain", "subject", *(f"sentence_id_{label}" for label in LABELS)]
    frame: pd.DataFrame = pq.read_table(path, columns=columns).to_pandas()
    return frame


def stereoset_table(path: Path, data: Path) -> dict[str, NDArray[Any]]:
    """A row per example with the columns ``task``, ``domain``, ``subject`` and a score for each label.

    Raises
    ------
    ScoringError
        When a sentence of a task is unknown, there twice, or missing.
    """
    frame = read(path, ("task", "id", "score"))
    tasks, ids, scores = texts(frame, "task", path), texts(frame, "id", path), numbers(frame, "score", path)
    strange = ~np.isin(tasks, list(TASKS))
    if strange.any():
        raise ScoringError(f"{path} has the task {tasks[strange][0]!r} ({places(strange)}); expected {listed(TASKS)}.")
    unique(ids, path, "id")
    parts = [
        _scored(examples(data, task), task, pd.Series(scores[tasks == task], ids[tasks == task]), path)
        for task in TASKS
        if (tasks == task).any()
    ]
    whole = pd.concat(parts, ignore_index=True)
    return {str(name): whole[name].to_numpy() for name in whole.columns}


def _scored(built: pd.DataFrame, task: str, scores: pd.Series[float], path: Path) -> pd.DataFrame:
    named = {f"score_{label}": built[f"sentence_id_{label}"] for label in LABELS}
    known = pd.Index(np.concatenate(list(named.values())))
    unknown, missing = scores.index.difference(known), known.difference(scores.index)
    if len(unknown):
        raise ScoringError(
            f"{path} has {len(unknown)} {task} ids that are no sentence of StereoSet's development set, first "
            f"{unknown[0]!r}; give the ids of its dev.json."
        )
    if len(missing):
        raise ScoringError(
            f"{path} lacks {len(missing)} of the {len(known)} {task} sentences, first {missing[0]!r}; score all of a "
            "task, or leave the task out."
        )
    columns = {name: ids.map(scores).to_numpy() for name, ids in named.items()}
    return built[["domain", "subject"]].assign(task=task, **columns)


def stereoset_scores(path: Path, data: Path, resamples: int, seed: int) -> tuple[list[Answer], list[str]]:
    """The scores of each task, and of both where the file has both, by domain and overall."""
    table = stereoset_table(path, data)
    tasks = [task for task in TASKS if (table["task"] == task).any()]
    names = [(task, domain) for task in tasks for domain in (*DOMAINS, "overall")]
    names += [("overall", "overall")] if len(tasks) > 1 else []
    masks = [_is(table["task"], task) & _is(table["domain"], domain) for task, domain in names]
    metrics = [make(pooled) for pooled in (False, True) for make in (stereoset.ss, stereoset.lms, stereoset.icat)]
    items = [
        (Group(f"{task} {domain}", mask), metric)
        for (task, domain), mask in zip(names, masks, strict=True)
        for metric in metrics
    ]
    estimates = measure(items, table, table["subject"], benchmark="stereoset", resamples=resamples, seed=seed)
    of = [{"task": task, "domain": domain} for task, domain in names for _ in metrics]
    remarks = [f"{path.name} has no {task} scores." for task in TASKS if task not in tasks]
    return [Answer(names, estimate) for names, estimate in zip(of, estimates, strict=True)], remarks


def _is(column: NDArray[Any], name: str) -> NDArray[np.bool_]:
    return np.ones(len(column), bool) if name == "overall" else np.asarray(column == name)


# JSON


def document(answers: Sequence[Answer], remarks: Sequence[str], path: Path, resamples: int, seed: int) -> str:
    """The answers as JSON; what is not defined is null with its reason in ``why``."""
    found = {
        "file": str(path),
        "interval": "95 %, by the method of each estimate",
        "resamples": resamples,
        "seed": seed,
        "remarks": list(remarks),
        "estimates": [answer.record() for answer in answers],
    }
    return json.dumps(found, indent=2, allow_nan=False)
