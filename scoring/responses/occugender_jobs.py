"""P(male), P(female) and P(diverse) of 40 jobs by 8 models, from an early version of OccuGender (commit 4ed531f).

The authors' outputs of June 2024: for each debiasing prompt a file with the implicit prompts and one with the explicit
question, a row for each job, as shares of the three answers. Their list of words is an earlier one, so means are 1 to
4 points from the printed ones, and no number is called equal. File names exchange the levels high and low; the numbers
of the prompts are those of the paper. Files whose name ends in ``_conversation`` or ``_conv`` ask in another form and
are not read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from builders.dataset import Fetched
from scoring.benchmarks import occugender
from scoring.inputs.tables import as_table
from scoring.metrics import occugender as metric
from scoring.metrics.occugender import ANSWERS
from scoring.responses import BrokenFileError, PublishedResponses, PublishedSource, built, records
from scoring.types import Benchmark, Group, Line, Metric, Row, Table

#: The name of each prompt in the columns of a file.
TEMPLATES = {"met-met": "implicit-2", "friend": "implicit-3", "talk-met": "implicit-4"}
_CONVERSATION = ("_conversation", "_conv")
_QUESTION = "_genderquestion"


def metrics(_: str) -> Sequence[Metric]:
    """The shares of the three answers, the gap, and the correlation with the labour market; nothing is rounded."""
    every_metric = [metric.share(answer) for answer in ANSWERS]
    every_metric += [metric.gap(), metric.correlation_of_jobs(), metric.correlation()]
    return every_metric


def groups(table: Table) -> Sequence[Group]:
    """Those of ``occugender``."""
    # A correlation over jobs needs more than one job.
    no_correlation = occugender.ONE_JOB | {"labour_correlation_jobs"}
    every_group = []
    for group in occugender.groups(table):
        if group.without == occugender.ONE_JOB:
            group = replace(group, without=no_correlation)
        every_group.append(group)
    return every_group


def asked(benchmark: Benchmark) -> Benchmark:
    """``occugender`` with the metrics of published shares; single jobs have no correlation."""
    return replace(benchmark, metrics=metrics, groups=groups)


def parts(name: str, model: str) -> tuple[str, bool]:
    """The debiasing prompt of a file and whether it has the explicit question, from its name.

    >>> parts("gpt2_low-1_genderquestion.csv", "gpt2"), parts("gpt2_none.csv", "gpt2")
    (('1', True), ('none', False))
    """
    # A name is MODEL_LEVEL-NUMBER, or MODEL_none, and the question has its own ending.
    rest = name.removeprefix(f"{model}_").removesuffix(".csv")
    explicit = rest.endswith(_QUESTION)
    return rest.removesuffix(_QUESTION).rpartition("-")[2], explicit


def shares(path: Path, model: str, templates: dict[str, str]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """The job, template and shares of each row and prompt of a file.

    Raises
    ------
    BrokenFileError
        When a cell is no share, or all jobs have the same shares.
    """
    read = []
    distinct = set()
    for record in records(path, ()):
        # Spaces around the name of a column are no part of it.
        row = {name.strip(): value for name, value in record.items()}
        for suffix, template in templates.items():
            values: dict[str, float] = {}
            for answer in ANSWERS:
                try:
                    values[answer] = float(row[f"{model}_{answer}{suffix}"])
                except (KeyError, ValueError) as error:
                    raise BrokenFileError(f"{path.name} has no number where one is expected ({error}).") from None
            if not all(0 <= value <= 1 for value in values.values()):
                raise BrokenFileError(f"{path.name} has a share that is not between 0 and 1, of {row['job']!r}.")
            read.append((row["job"], template, values))
            distinct.add((template, tuple(values.values())))
    # Nothing is yielded before the whole file is checked: a broken file gives no row.
    if len(distinct) == len(templates):
        raise BrokenFileError(f"{path.name} has the same shares for all jobs; it is left out.")
    yield from read


def responses(files: Fetched, data: Path) -> PublishedResponses:
    """The shares of a model by job, prompt and debiasing prompt, with the ids of the built data set."""
    splits = {style: built(data, "occugender", f"{style}-paper") for style in occugender.STYLES}
    rows: dict[tuple[str, str, str], Row] = {}
    for split in splits.values():
        for row in split.rows:
            rows[row["job"], row["template"], row["debiasing"]] = row
    model = files.source.name.partition("/")[2]
    lines: list[Line] = []
    remarks = []
    for path in files.paths:
        # These ask in another form than the built data set has.
        if path.stem.endswith(_CONVERSATION):
            continue
        debiasing, is_explicit = parts(path.name, model)
        # An explicit file has one question, an implicit one a group of columns for each prompt.
        templates = {"": "explicit"}
        if not is_explicit:
            templates = {f"_{name}": template for name, template in TEMPLATES.items()}
        try:
            for job, template, values in shares(path, model, templates):
                line = dict(occugender.about(rows[job, template, debiasing]))
                for answer, value in values.items():
                    line[f"p_{answer}"] = value
                lines.append(line)
        except BrokenFileError as error:
            remarks.append(str(error))
    if not lines:
        raise BrokenFileError(f"every file of {model} is broken, first: {remarks[0]}")
    lines.sort(key=lambda line: str(line["id"]))
    # A model whose explicit files are all broken has no row of that split.
    styles = {line["template"].partition("-")[0] for line in lines}
    used = tuple(split for style, split in splits.items() if style in styles)
    return PublishedResponses(as_table(lines), used, tuple(remarks))


PUBLISHED = PublishedSource(
    benchmark="occugender",
    summary="OccuGender, early outputs: shares of three answers for 40 jobs, with and without debiasing prompts.",
    settings="The authors of OccuGender computed these shares with an earlier list of words than the printed tables "
    "have (commit 4ed531f). They do not state the number format.",
    files="occugender-jobs",
    read=responses,
    profile="paper",
    datasets=("occugender",),
    asked=asked,
)
