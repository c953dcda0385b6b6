"""Scores of the sentences of StereoSet's development set, which its authors published as official predictions.

From *StereoSet: Measuring stereotypical bias in pretrained language models* (Nadeem et al., 2021). A file has a score
for the id of each sentence of both tasks, of which the order inside a triplet matters alone. Two of the nine are
baselines of the authors.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from builders.dataset import Fetched
from builders.text.wording import LABELS
from scoring.benchmarks import stereoset
from scoring.inputs.tables import as_table
from scoring.responses import BrokenFileError, PublishedResponses, PublishedSource, built
from scoring.types import Benchmark, Group, Line, Row, Table

#: The splits of the built data set that the files have scores of, by their task.
SPLITS = {"intrasentence": "stereoset", "intersentence": "stereoset-intersentence"}


def scores_of(path: Path, tasks: Sequence[str] = tuple(SPLITS)) -> dict[str, float]:
    """The score of each sentence of the tasks in a file, by its id.

    Raises
    ------
    BrokenFileError
        When it is no file of predictions of the tasks.
    """
    scores = {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        for task in tasks:
            for row in content[task]:
                scores[str(row["id"])] = float(row["score"])
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFileError(f"{path.name} has no predictions of StereoSet ({error!r}); it is left out.") from None
    return scores


def lines_of(scores: Mapping[str, float], rows: Iterable[Row], task: str, name: str) -> list[Line]:
    """A line for each triplet of a task.

    Raises
    ------
    BrokenFileError
        When a sentence has no score.
    """
    lines: list[Line] = []
    for row in rows:
        scores_of_row = {}
        for label in LABELS:
            sentence = row[f"sentence_id_{label}"]
            if sentence not in scores:
                raise BrokenFileError(f"{name} has no score of the sentence {sentence!r}; it is left out.")
            scores_of_row[f"score_{label}"] = scores[sentence]
        line: Line = {
            "id": row["id"],
            "task": task,
            "split": row["split"],
            "domain": row["domain"],
            "subject": row["subject"],
        }
        for label in LABELS:
            line[f"sentence_{label}"] = row[f"sentence_{label}"]
        # The columns of scores are the last ones, in the order of the labels.
        line.update(scores_of_row)
        lines.append(line)
    return lines


def responses(files: Fetched, data: Path) -> PublishedResponses:
    """The scores of a model, a row for each triplet of both tasks."""
    scores = scores_of(files.path)
    splits = tuple(built(data, "biaske", config, "validation") for config in SPLITS.values())
    lines: list[Line] = []
    for task, split in zip(SPLITS, splits, strict=True):
        # Both tasks are in one file, and in two splits of the built data set.
        lines += lines_of(scores, split.rows, task, files.path.name)
    return PublishedResponses(as_table(lines), splits)


def groups(table: Table) -> Sequence[Group]:
    """Each task by domain and whole, and both tasks together, as the official scores have them."""
    every_group = []
    for task in SPLITS:
        of_task = table["task"] == task
        for domain in stereoset.DOMAINS:
            every_group.append(Group(f"{task} {domain}", of_task & (table["domain"] == domain)))
        every_group.append(Group(f"{task} overall", of_task))
    # Both tasks together, as in the official list of scores.
    every_group.append(Group("overall overall", np.ones(len(table["id"]), bool)))
    return every_group


def with_groups(benchmark: Benchmark, groups: Callable[[Table], Sequence[Group]], shown: str) -> Benchmark:
    """``stereoset`` with the groups of published scores, of which the one about gender is shown."""
    assert benchmark.headline is not None
    # The groups of the benchmark are named by split, which the files do not have.
    headline = replace(benchmark.headline, dataset="", groups={}, shown=shown)
    return replace(benchmark, groups=groups, headline=headline)


PUBLISHED = PublishedSource(
    benchmark="stereoset",
    summary="StereoSet: official predictions of the development set by seven models and two baselines.",
    settings="The authors of StereoSet published these predictions for the development set; masked models and GPT-2 "
    "have a trained next-sentence head in the intersentence task.",
    files="stereoset-predictions",
    read=responses,
    profile="paper",
    datasets=("biaske",),
    asked=partial(with_groups, groups=groups, shown="intrasentence gender"),
)
