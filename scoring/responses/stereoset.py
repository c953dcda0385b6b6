"""Scores of the sentences of StereoSet's development set, which its authors published as official predictions.

From *StereoSet: Measuring stereotypical bias in pretrained language models* (Nadeem et al., 2021). A file has a score
for the id of each sentence of both tasks, of which the order inside a triplet matters alone. Two of the nine are
baselines of the authors.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from builders.dataset import Fetched
from builders.text.wording import LABELS
from scoring.benchmarks import stereoset
from scoring.inputs.tables import Loaded, as_table
from scoring.responses import BrokenFileError, PublishedSource, Responses, built
from scoring.types import Benchmark, Group, Line, Table

#: The splits of the built data set that the files have scores of, by their task.
SPLITS = {"intrasentence": "stereoset", "intersentence": "stereoset-intersentence"}


def scores_of(path: Path) -> dict[str, float]:
    """The score of each sentence in a file, by its id.

    Raises
    ------
    BrokenFileError
        When it is no file of predictions of both tasks.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(row["id"]): float(row["score"]) for task in SPLITS for row in content[task]}
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFileError(f"{path.name} has no predictions of StereoSet ({error!r}); it is left out.") from None


def lines_of(scores: Mapping[str, float], split: Loaded, task: str, name: str) -> list[Line]:
    """A line for each triplet of a task.

    Raises
    ------
    BrokenFileError
        When a sentence has no score.
    """
    lines: list[Line] = []
    for row in split.rows:
        ids = {label: row[f"sentence_id_{label}"] for label in LABELS}
        if lacking := [one for one in ids.values() if one not in scores]:
            raise BrokenFileError(f"{name} has no score of the sentence {lacking[0]!r}; it is left out.")
        lines.append(
            {
                "id": row["id"],
                "task": task,
                "split": row["split"],
                "domain": row["domain"],
                "subject": row["subject"],
                **{f"sentence_{label}": row[f"sentence_{label}"] for label in LABELS},
                **{f"score_{label}": scores[one] for label, one in ids.items()},
            }
        )
    return lines


def responses(files: Fetched, data: Path) -> Responses:
    """The scores of a model, a row for each triplet of both tasks."""
    scores = scores_of(files.path)
    splits = tuple(built(data, "biaske", config, "validation") for config in SPLITS.values())
    lines: list[Line] = []
    for task, split in zip(SPLITS, splits, strict=True):
        lines += lines_of(scores, split, task, files.path.name)
    return Responses(as_table(lines), splits)


def groups(table: Table) -> Sequence[Group]:
    """Each task by domain and whole, and both tasks together, as the official scores have them."""
    found = []
    for task in SPLITS:
        inside = table["task"] == task
        found += [Group(f"{task} {domain}", inside & (table["domain"] == domain)) for domain in stereoset.DOMAINS]
        found.append(Group(f"{task} overall", inside))
    return [*found, Group("overall overall", np.ones(len(table["id"]), bool))]


def asked(benchmark: Benchmark) -> Benchmark:
    """``stereoset`` with the groups of the official scores; the one about gender is shown."""
    headline = benchmark.headline
    assert headline is not None
    own = replace(headline, dataset="", groups={}, shown="intrasentence gender")
    return replace(benchmark, groups=groups, headline=own)


PUBLISHED = PublishedSource(
    benchmark="stereoset",
    summary="StereoSet: official predictions of the development set by seven models and two baselines.",
    settings="The authors of StereoSet published these predictions for the development set; masked models and GPT-2 "
    "have a trained next-sentence head in the intersentence task.",
    files="stereoset-predictions",
    read=responses,
    profile="paper",
    datasets=("biaske",),
    asked=asked,
)
