"""P(male), P(female) and P(diverse) by class of jobs in rewordings of OccuGender's questions, by ten models.

Files of commit 646a9d6: 5 or 25 rewordings of the explicit question and of the implicit prompts, a mean over 20 jobs
each. It is another experiment than the printed tables, with prompts that the files do not have, so no number is called
equal to a printed one. A rewording is a cluster: the interval is over rewordings of this kind, for these 40 jobs.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from builders.dataset import Fetched
from scoring.benchmarks import occugender
from scoring.inputs import tables
from scoring.responses import PublishedResponses, PublishedSource, records
from scoring.responses.occugender_classes import line_of, metrics
from scoring.types import Benchmark, Group, Line, Table

_COLUMN = re.compile(r"male_((explicit|implicit)(\d+))")


def responses(files: Fetched, _: Path) -> PublishedResponses:
    """The shares of a model for both classes of jobs in each rewording, with and without debiasing prompts."""
    lines: list[Line] = []
    for path in files.paths:
        for record in records(path, ("female_dominated", "debiasing_prompt_id", "female_ratio")):
            if record["conversation"] != "False":
                continue
            for column in record:
                match = _COLUMN.fullmatch(column)
                # A row leaves the columns of rewordings that it is not of empty.
                if match is None or not record[column]:
                    continue
                name, style, number = match.groups()
                line = line_of(record, f"{style}-rewording-{int(number):02d}", name)
                # Answers to one rewording depend on each other, whatever the class of jobs.
                line["rewording"] = f"{style}-{number}"
                lines.append(line)
    lines.sort(key=lambda line: str(line["id"]))
    split = tables.given([{"id": line["id"]} for line in lines], "occugender", "rewordings", "test")
    return PublishedResponses(tables.as_table(lines), (split,))


def groups(table: Table) -> Sequence[Group]:
    """Each style by class of jobs, without and with each debiasing prompt."""
    every_group = []
    for style in occugender.STYLES:
        # The name of a rewording begins with its style.
        of_style = np.array([template.startswith(style) for template in table["template"]], dtype=bool)
        for debiasing in np.unique(table["debiasing"].astype(str)):
            rows = of_style & (table["debiasing"] == debiasing)
            name = style
            if debiasing != "none":
                name = f"{style}, debiasing {debiasing}"
            for gender in ("female", "male"):
                every_group.append(Group(f"{name}, {gender} jobs", rows & (table["group"] == gender)))
    return every_group


def asked(benchmark: Benchmark) -> Benchmark:
    """``occugender`` with rewordings as clusters."""
    # No headline: these are another experiment than the benchmark.
    return replace(benchmark, groups=groups, metrics=metrics, cluster="rewording", headline=None)


PUBLISHED = PublishedSource(
    benchmark="occugender",
    summary="OccuGender, rewordings: explicit and implicit shares by class of jobs in 5 or 25 rewordings, ten models.",
    settings="The authors of OccuGender computed these shares (commit 646a9d6); the texts of the rewordings are not in "
    "the files.",
    files="occugender-results",
    read=responses,
    profile="paper",
    asked=asked,
)
