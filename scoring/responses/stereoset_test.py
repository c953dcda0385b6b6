"""Scores of the sentences of StereoSet's test split by bias-bench, of models and of the same models after a recipe.

From forks of the code of *An Empirical Survey of the Effectiveness of Debiasing Techniques* (Meade et al., 2022).
Others ran them on GPT-2, Phi-2, Llama-2-7B and BERT and published a score for the id of each sentence. A model
``phi-2/cda-gender-2000`` is Phi-2 after CDA of gender, checkpoint 2,000; after INLP it is the number of classifiers.
``gpt2`` is the run that FAST prints, and ``gpt2-rerun`` the later one that belongs to the recipes on GPT-2.

Only rows whose sentences have ids are read. Without bias-bench's file of the test split these are gender and religion.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from builders.dataset import Fetched
from builders.text.wording import LABELS
from scoring.benchmarks import stereoset
from scoring.inputs.tables import as_table
from scoring.responses import PublishedResponses, PublishedSource, built
from scoring.responses.stereoset import lines_of, scores_of, with_groups
from scoring.types import Group, Table


def responses(files: Fetched, data: Path) -> PublishedResponses:
    """The scores of a model, a row for each triplet of the intrasentence task whose sentences have ids."""
    split = built(data, "biaske", "stereoset", "test")
    rows = [row for row in split.rows if row[f"sentence_id_{LABELS[0]}"]]
    scores = scores_of(files.path, ("intrasentence",))
    lines = lines_of(scores, rows, "intrasentence", files.path.name)
    remarks: tuple[str, ...] = ()
    if len(rows) < len(split.rows):
        domains = ", ".join(sorted({str(row["domain"]) for row in split.rows} - {str(row["domain"]) for row in rows}))
        remarks = (f"Rows of {domains} are left out: their sentences have no ids in the built data set.",)
    return PublishedResponses(as_table(lines), (split,), remarks)


def groups(table: Table) -> Sequence[Group]:
    """The intrasentence task of the test split by domain that the table has."""
    every_group = []
    for domain in stereoset.DOMAINS:
        mask = table["domain"] == domain
        if mask.any():
            every_group.append(Group(f"intrasentence test {domain}", mask))
    # A score of all domains needs all of them.
    if len(every_group) == len(stereoset.DOMAINS):
        every_group.append(Group("intrasentence test", np.ones(len(table["id"]), bool)))
    return every_group


PUBLISHED = PublishedSource(
    benchmark="stereoset",
    summary="StereoSet, test split: GPT-2, Phi-2, Llama-2-7B and BERT, and three of them after five recipes.",
    settings="Others ran bias-bench with its settings (forks of ao9000 and tminhn, seed 42 where one is named); how "
    "each recipe was trained is known from the code alone.",
    files="stereoset-test",
    read=responses,
    profile="paper",
    datasets=("biaske",),
    asked=partial(with_groups, groups=groups, shown="intrasentence test gender"),
)
