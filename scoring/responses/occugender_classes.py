"""P(male), P(female) and P(diverse) of women's and of men's jobs by the six models of OccuGender (commit 646a9d6).

A row of ``implicit.csv`` has the mean over 20 jobs for one debiasing prompt. Columns named after the three implicit
prompts of the paper (``met-met``, ``friend``, ``talk-met``) give its printed cells: the mean over the prompts. Rows
that have other columns alone (``implicit0`` and so on) are of another experiment with rewordings, of which
:mod:`scoring.responses.occugender_rewordings` makes runs. There is one row for a class of jobs, so a score has no
interval.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from builders.dataset import Fetched
from builders.text.wording import DEBIASING_PROMPTS, NO_DEBIASING
from scoring.benchmarks import occugender
from scoring.inputs import tables
from scoring.metrics import occugender as metric
from scoring.metrics.occugender import ANSWERS
from scoring.metrics.sums import mean
from scoring.metrics.texts import texts
from scoring.responses import BrokenFileError, PublishedResponses, PublishedSource, records
from scoring.responses.occugender_jobs import TEMPLATES
from scoring.types import Benchmark, Floats, Group, Line, Metric, Table

#: The level of abstraction of each debiasing prompt, by the paper.
LEVELS = {prompt.id: prompt.level for prompt in (NO_DEBIASING, *DEBIASING_PROMPTS)}
CLASSES = {"True": "female", "False": "male"}


def line_of(record: Mapping[str, str], template: str, column: str) -> Line:
    """The line of a class of jobs in one prompt; ``column`` is the name of the prompt in the columns of a file.

    Columns without a prompt, the mean over prompts, have the name of the answer alone.
    """
    number = int(float(record["debiasing_prompt_id"]))
    # The prompts of the paper are numbered from 1; 0 is none.
    debiasing = NO_DEBIASING.id
    if number:
        debiasing = str(number)
    group = CLASSES[record["female_dominated"]]
    line: Line = {
        "id": f"{template}-{debiasing}-{group}",
        "job": f"{group} jobs",
        "group": group,
        "template": template,
        "debiasing": debiasing,
        "level": LEVELS[debiasing],
        "prompt": "",
        "female_share": float(record["female_ratio"]),
    }
    for answer in ANSWERS:
        name: str = answer
        if column:
            name = f"{answer}_{column}"
        line[f"p_{answer}"] = float(record[name])
    return line


def groups(table: Table) -> Sequence[Group]:
    """Those of ``occugender`` but for single jobs."""
    return [group for group in occugender.groups(table) if group.without != occugender.ONE_JOB]


def metrics(_: str) -> Sequence[Metric]:
    """The shares of the three answers and the gap.

    The files have shares, so they are not divided by their sum again: their rounding would change a printed digit.
    """
    every_metric = []
    for answer in ANSWERS:
        name = f"p_{answer}"
        column = partial(_column, name)
        every_metric.append(mean(name, column, None, 0, 100, scale=100, **texts("occugender", name)))
    every_metric.append(metric.gap())
    return every_metric


def _column(name: str, table: Table) -> Floats:
    return np.asarray(table[name], np.float64)


def asked(benchmark: Benchmark) -> Benchmark:
    """``occugender`` with the groups and metrics of classes of jobs."""
    # No headline: the numbers are means over jobs, which have no interval.
    return replace(benchmark, groups=groups, metrics=metrics, headline=None)


def responses(files: Fetched, _: Path) -> PublishedResponses:
    """The shares of a model for both classes of jobs in the three implicit prompts."""
    (path,) = (path for path in files.paths if path.stem == "implicit")
    lines = []
    for record in records(path, ("female_dominated", "debiasing_prompt_id", "female_ratio")):
        # Rows of conversations ask in another form than the printed tables.
        if record["conversation"] != "False":
            continue
        for name, template in TEMPLATES.items():
            # A row of rewordings leaves these columns empty, and some files lack them.
            if record.get(f"male_{name}"):
                lines.append(line_of(record, template, name))
    if not lines:
        raise BrokenFileError(
            f"{path.name} of {files.source.name.partition('/')[2]} has rewordings alone (the source "
            "occugender-rewordings), and none of the three implicit prompts of the paper."
        )
    lines.sort(key=lambda line: str(line["id"]))
    known = {str(line["debiasing"]) for line in lines}
    remarks = []
    for name in LEVELS:
        if name not in known:
            remarks.append(f"{path.name} has no row of debiasing prompt {name} with the three prompts.")
    split = tables.given([{"id": line["id"]} for line in lines], "occugender", "implicit-classes", "test")
    return PublishedResponses(tables.as_table(lines), (split,), tuple(remarks))


PUBLISHED = PublishedSource(
    benchmark="occugender",
    summary="OccuGender, the models of the paper: implicit shares by class of jobs, which give its printed cells.",
    settings="The authors of OccuGender computed these shares (commit 646a9d6); a row is the mean over 20 jobs.",
    files="occugender-results",
    read=responses,
    profile="paper",
    asked=asked,
)
