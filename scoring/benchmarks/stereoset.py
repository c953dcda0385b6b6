"""StereoSet: whether a model prefers stereotypes, and whether it prefers sense to nonsense.

From *StereoSet: Measuring stereotypical bias in pretrained language models* (Nadeem et al., 2021),
which prints scores of the validation split, and *An Empirical Survey of the Effectiveness of Debiasing
Techniques* (Meade et al., 2022), which prints those of the test split. ``paper`` asks a model as the code
of the latter does (bias-bench, commit 05c2314). Examples of one target term depend on each other. In the
intersentence task the published scores of masked models, and of GPT-2, need a trained next-sentence head;
here a causal model is asked how likely the next sentence is after its context, in ``clean`` alone.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from builders.wording import BLANK, LABELS
from scoring.benchmarks import _triplets
from scoring.metrics import stereoset
from scoring.types import (
    Benchmark,
    BenchmarkContext,
    Group,
    HarnessTask,
    Headline,
    Metric,
    Option,
    Request,
    Response,
    Row,
    ScoredExamples,
    ScoringError,
    Table,
)

if TYPE_CHECKING:
    import pandas as pd

DATASET = "biaske"
CONFIGS = (
    (DATASET, "stereoset", "test"),
    (DATASET, "stereoset", "validation"),
    (DATASET, "stereoset-intersentence", "validation"),
)
DOMAINS = ("gender", "profession", "race", "religion")
#: The blank of a context in the released files.
_BLANK = "BLANK"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_TASKS = {"stereoset": "intrasentence", "stereoset-intersentence": "intersentence"}


def requests(profile: str, row: Row, context: BenchmarkContext) -> Iterator[Request]:
    """The three sentences, or the three next sentences after their context."""
    if _TASKS[row["config"]] == "intrasentence":
        yield _published(row, context) if profile == "paper" else _triplets.request(row, LABELS, context)
    elif profile == "clean" and context.kind == "causal":
        yield Request(row["id"], row["context"], tuple(Option(" " + row[f"object_{label}"]) for label in LABELS))


def _published(row: Row, context: BenchmarkContext) -> Request:
    """The three sentences as bias-bench gives them to a model.

    A causal model reads the sentence. A masked model reads the context as its writer left it, with a word in
    place of each BLANK: the word of the sentence at the position of the last BLANK, counted in single spaces,
    without punctuation. For RoBERTa the word begins with a space, so two spaces stand before it where the
    context has one. A row without context has its prompt in the context's place.
    """
    if context.kind == "causal":
        start = _triplets.START["paper"]
        return Request(row["id"], options=tuple(Option(row[f"sentence_{label}"], start=start) for label in LABELS))
    text = row["context"] or row["prompt"].replace(BLANK, _BLANK)
    place = max(n for n, word in enumerate(text.split(" ")) if _BLANK in word)
    parts, options = text.split(_BLANK), []
    for label in LABELS:
        word = row[f"sentence_{label}"].split(" ")[place].translate(_NO_PUNCTUATION)
        word = f" {word}" if "roberta" in context.family else word
        ends = list(accumulate(len(part) + len(word) for part in parts))
        spans = tuple((end - len(word), end) for end in ends[:-1])
        options.append(Option(word.join(parts), spans, "decoded"))
    return Request(row["id"], options=tuple(options))


def to_record(profile: str, row: Row, responses: Mapping[str, Response], context: BenchmarkContext) -> dict[str, Any]:
    """The scores of the three sentences."""
    return {
        "id": row["id"],
        "task": _TASKS[row["config"]],
        "split": row["split"],
        "domain": row["domain"],
        "subject": row["subject"],
        **{f"sentence_{label}": row[f"sentence_{label}"] for label in LABELS},
        **_triplets.scores(profile, responses[row["id"]], LABELS, context),
    }


def groups(table: Table) -> Sequence[Group]:
    """Each task and split, overall and by domain."""
    subsets = []
    for task in ("intrasentence", "intersentence"):
        for split in ("test", "validation"):
            mask = (table["task"] == task) & (table["split"] == split)
            subsets.append(Group(f"{task} {split}", mask))
            subsets += [Group(f"{task} {split} {domain}", mask & (table["domain"] == domain)) for domain in DOMAINS]
    return subsets


def metrics(_: str) -> Sequence[Metric]:
    """Means over target terms, as published, and over examples."""
    return [make(pooled) for pooled in (False, True) for make in (stereoset.ss, stereoset.lms, stereoset.icat)]


def _tasks() -> Iterator[HarnessTask]:
    reported = tuple(metric.name for metric in metrics("clean"))
    test, validation, intersentence = ((place,) for place in CONFIGS)
    yield HarnessTask("", reported, test)
    yield HarnessTask("validation", reported, validation, group=None)
    yield HarnessTask("intersentence", reported, intersentence, group=None)
    yield from (HarnessTask(domain, reported, test, {"domain": domain}, "domains") for domain in DOMAINS)


def score_file(path: Path, data: Path) -> tuple[list[ScoredExamples], list[str]]:
    """Existing scores of the sentences of one or both tasks of the development set, by domain and overall.

    The file has a row a sentence: ``task`` (intrasentence or intersentence), ``id`` and ``score``, of which only
    the order matters.

    Raises
    ------
    ScoringError
        When a sentence of a task is unknown, there twice, or missing, or the built data set is not in ``data``.
    """
    import pandas as pd  # slow to import, and not needed to score a model

    from scoring.score_files import ScoreFile

    file = ScoreFile(path, ("task", "id", "score"))
    tasks, ids = file.texts("task"), file.texts("id")
    scores = pd.Series(file.numbers("score"), ids)
    known = list(_TASKS.values())
    file.refuse(
        ~np.isin(tasks, known), f"has the {{name}} {{value!r}} ({{rows}}); expected {', '.join(known)}.", "task"
    )
    file.check_unique(ids, "id")
    given = {config: task for config, task in _TASKS.items() if (tasks == task).any()}
    parts = [_with_scores(data, config, scores[tasks == task], path) for config, task in given.items()]
    frame = pd.concat(parts, ignore_index=True)
    table = {str(name): frame[name].to_numpy() for name in frame.columns}
    everything = np.ones(len(frame), bool)
    items: list[tuple[Mapping[str, Any], Group, Metric]] = []
    for task in [*given.values(), *(["overall"] if len(given) > 1 else [])]:
        for domain in ("overall",) if task == "overall" else (*DOMAINS, "overall"):
            of_task = everything if task == "overall" else table["task"] == task
            of_domain = everything if domain == "overall" else table["domain"] == domain
            group = Group(f"{task} {domain}", of_task & of_domain)
            items += [({"task": task, "domain": domain}, group, metric) for metric in metrics("clean")]
    remarks = [f"{path.name} has no {task} scores." for config, task in _TASKS.items() if config not in given]
    return [ScoredExamples(table, table["subject"], items)], remarks


def _with_scores(data: Path, config: str, scores: pd.Series[float], path: Path) -> pd.DataFrame:
    """The built development examples of a task, with ``task``, ``domain``, ``subject`` and a score for each label."""
    task, file = _TASKS[config], data / DATASET / "data" / config / "validation.parquet"
    if not file.is_file():
        raise ScoringError(
            f"There is no {file}; run python -m builders.rebuild {DATASET} --out {data}, or give the folder of the "
            "built data sets with --data."
        )
    built: pd.DataFrame = pq.read_table(
        file, columns=["domain", "subject", *(f"sentence_id_{label}" for label in LABELS)]
    ).to_pandas()
    sentences = {label: built.pop(f"sentence_id_{label}") for label in LABELS}
    known = set().union(*sentences.values())
    unknown, missing = sorted(set(scores.index) - known), sorted(known - set(scores.index))
    if unknown:
        raise ScoringError(
            f"{path} has {len(unknown)} {task} ids that are no sentence of StereoSet's development set, first "
            f"{unknown[0]!r}; give the ids of its dev.json."
        )
    if missing:
        raise ScoringError(
            f"{path} lacks {len(missing)} of the {len(known)} {task} sentences, first {missing[0]!r}; score all of a "
            "task, or leave the task out."
        )
    return built.assign(task=task, **{f"score_{label}": ids.map(scores).to_numpy() for label, ids in sentences.items()})


BENCHMARK = Benchmark(
    name="stereoset",
    version="1.1.0",
    summary="Stereotype, anti-stereotype or nonsense: stereotype score, language-model score, ICAT (Nadeem et al.).",
    configs=CONFIGS,
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
    cluster="subject",
    kinds=("causal", "masked"),
    headline=Headline(
        DATASET,
        "icat",
        {"stereoset": "intrasentence test", "stereoset-intersentence": "intersentence validation"},
        shown="intrasentence test",
        sentence="Prefers the stereotype in {ss} of 100 sentences, and a meaningful word in {lms} of 100.",
    ),
    contrast=_triplets.contrast("task", "domain", "subject"),
    tasks=tuple(_tasks()),
    score_file=score_file,
)
