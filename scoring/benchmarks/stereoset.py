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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from builders.text.wording import BLANK, LABELS
from cards.common.sentences import of_row
from scoring import types
from scoring.benchmarks import _triplets
from scoring.metrics import stereoset

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
#: bias-bench takes a word without the punctuation that it ends with in the sentence.
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
#: The task of the paper that a config has.
_TASKS = {"stereoset": "intrasentence", "stereoset-intersentence": "intersentence"}


def requests(profile: str, row: types.Row, context: types.BenchmarkContext) -> Iterator[types.Request]:
    """The three sentences, or the three next sentences after their context."""
    if _TASKS[row["config"]] == "intrasentence":
        if profile == "paper":
            yield _published(row, context)
        else:
            yield _triplets.request(row, LABELS, context)
    # The published scores of next sentences need a trained head, so ``paper`` does not ask for them.
    elif profile == "clean" and context.kind == "causal":
        options = tuple(types.Option(f" {row[f'object_{label}']}") for label in LABELS)
        yield types.Request(row["id"], row["context"], options)


def _published(row: types.Row, context: types.BenchmarkContext) -> types.Request:
    """The three sentences as bias-bench gives them to a model.

    A causal model reads the sentence. A masked model reads the context as its writer left it, with a word in
    place of each BLANK: the word of the sentence at the position of the last BLANK, counted in single spaces,
    without punctuation. For RoBERTa the word begins with a space, so it has two spaces before it where the
    context has one. A row without context has its prompt in the context's place.
    """
    options = []
    if context.kind == "causal":
        for label in LABELS:
            options.append(types.Option(row[f"sentence_{label}"], start=_triplets.START["paper"]))
        return types.Request(row["id"], options=tuple(options))
    text = row["context"] or row["prompt"].replace(BLANK, _BLANK)
    # The last one, as in bias-bench, where a context has BLANK twice.
    place = max(number for number, word in enumerate(text.split(" ")) if _BLANK in word)
    parts = text.split(_BLANK)
    for label in LABELS:
        word = row[f"sentence_{label}"].split(" ")[place].translate(_NO_PUNCTUATION)
        if "roberta" in context.family:
            word = f" {word}"
        # The places of the equal words, one between every two parts.
        spans = []
        end = 0
        for part in parts[:-1]:
            start = end + len(part)
            end = start + len(word)
            spans.append((start, end))
        options.append(types.Option(word.join(parts), tuple(spans), "decoded"))
    return types.Request(row["id"], options=tuple(options))


def to_record(profile: str, row: types.Row, responses: types.Responses, context: types.BenchmarkContext) -> types.Line:
    """The scores of the three sentences."""
    record = {
        "id": row["id"],
        "task": _TASKS[row["config"]],
        "split": row["split"],
        "domain": row["domain"],
        "subject": row["subject"],
    }
    for label in LABELS:
        record[f"sentence_{label}"] = row[f"sentence_{label}"]
    return record | _triplets.scores(profile, responses[row["id"]], LABELS, context)


def groups(table: types.Table) -> Sequence[types.Group]:
    """Each task and split, overall and by domain."""
    subsets = []
    for task in ("intrasentence", "intersentence"):
        for split in ("test", "validation"):
            mask = (table["task"] == task) & (table["split"] == split)
            subsets.append(types.Group(f"{task} {split}", mask))
            for domain in DOMAINS:
                subsets.append(types.Group(f"{task} {split} {domain}", mask & (table["domain"] == domain)))
    return subsets


def metrics(_: str) -> Sequence[types.Metric]:
    """Means over target terms, as published, and over examples."""
    result = []
    for pooled in (False, True):
        result += [stereoset.ss(pooled), stereoset.lms(pooled), stereoset.icat(pooled)]
    return result


def _tasks() -> Iterator[types.HarnessTask]:
    reported = tuple(metric.name for metric in metrics("clean"))
    test, validation, intersentence = CONFIGS
    yield types.HarnessTask("", reported, (test,))
    yield types.HarnessTask("validation", reported, (validation,), group=None)
    yield types.HarnessTask("intersentence", reported, (intersentence,), group=None)
    for domain in DOMAINS:
        yield types.HarnessTask(domain, reported, (test,), {"domain": domain}, "domains")


def score_file(path: Path, data: Path) -> tuple[list[types.ScoredExamples], list[str]]:
    """Existing scores of the sentences of one or both tasks of the development set, or of the test set.

    The file has a row a sentence: ``id`` and ``score``, of which only the order matters, and where known ``task``
    (intrasentence or intersentence); without it the ids say what the sentences are of, as in the predictions of
    bias-bench. Ids of the test set that the built one lacks are left out, with a remark.

    Raises
    ------
    ScoringError
        When a sentence of a task is unknown, there twice, or missing, or the built data set is not in ``data``.
    """
    import pandas as pd  # slow to import, and not needed to score a model

    from scoring.inputs.score_files import ScoreFile

    file = ScoreFile(path, ("id", "score"))
    ids, names = file.texts("id"), list(_TASKS.values())
    tasks = np.full(len(file), "", dtype=object)
    if "task" in file:
        tasks = file.texts("task")
    scores = pd.Series(file.numbers("score"), ids)
    of_known = np.isin(tasks, [*names, ""])
    file.refuse(~of_known, f"has the {{name}} {{value!r}} ({{rows}}); expected {', '.join(names)}.", "task")
    file.check_unique(ids, "id")
    # An id without a task is looked up in the development set before the test set.
    test, validation, intersentence = CONFIGS
    parts, remarks = [], []
    unread = np.ones(len(file), bool)
    has_test = False
    for _, config, split in (validation, intersentence, test):
        built = _built(data, config, split)
        sentences: set[str] = set()
        for label in LABELS:
            sentences.update(built[f"sentence_id_{label}"])
        inside = unread & np.isin(tasks, [_TASKS[config], ""]) & np.isin(ids, list(sentences))
        if inside.any():
            unread &= ~inside
            has_test = has_test or split == "test"
            parts.append((built, _TASKS[config], split, scores[inside]))
    unknown = sorted(ids[unread])
    if unknown:
        kind = "ids"
        if tasks[unread][0]:
            kind = f"{tasks[unread][0]} ids"
        if not has_test:
            raise types.ScoringError(
                f"{path} has {len(unknown)} {kind} that are no sentence of StereoSet's development set, first "
                f"{unknown[0]!r}; give the ids of its dev.json, or those of bias-bench's test.json."
            )
        remarks.append(
            f"Ids of no sentence of the built test set are left out ({len(unknown)}, first {unknown[0]!r}; without "
            "bias-bench's file, race and profession have no ids)."
        )
    frames = [_with_scores(built, task, split, of_part, path) for built, task, split, of_part in parts]
    in_file = [frame["task"].iloc[0] for frame in frames]
    frame = pd.concat(frames, ignore_index=True)
    table = {str(name): frame[name].to_numpy() for name in frame.columns}
    items: list[types.ScoredItem] = []
    for task in in_file:
        of_task = table["task"] == task
        for domain in DOMAINS:
            items += _items(task, domain, of_task & (table["domain"] == domain))
        items += _items(task, "overall", of_task)
    # Both tasks of the development set have a score together.
    if in_file == names:
        items += _items("overall", "overall", np.ones(len(frame), bool))
    if set(in_file) & set(names):
        for task in names:
            if task not in in_file:
                remarks.append(f"{path.name} has no {task} scores.")
    return [types.ScoredExamples(table, table["subject"], items)], remarks


def _items(task: str, domain: str, mask: NDArray[np.bool_]) -> Iterator[types.ScoredItem]:
    """Every metric of a domain of a task."""
    group = types.Group(f"{task} {domain}", mask)
    for metric in metrics("clean"):
        yield {"task": task, "domain": domain}, group, metric


def _built(data: Path, config: str, split: str) -> pd.DataFrame:
    """The built examples whose sentences have ids: domain, subject and the id of the sentence of each label."""
    file = data / DATASET / "data" / config / f"{split}.parquet"
    if not file.is_file():
        raise types.ScoringError(
            f"There is no {file}; run probes build {DATASET} --out {data}, or give the folder of the "
            "built data sets with --data."
        )
    columns = ["domain", "subject", *(f"sentence_id_{label}" for label in LABELS)]
    # An example without ids is of a domain for which no file with ids was there when the data set was built.
    built: pd.DataFrame = pq.read_table(file, columns=columns).to_pandas().dropna()
    return built


def _with_scores(built: pd.DataFrame, task: str, split: str, scores: pd.Series[float], path: Path) -> pd.DataFrame:
    """Built examples with ``task``, ``domain``, ``subject`` and a score for each label; of test, domains with any."""
    name = task
    if split == "test":
        name = f"{task} test"
        # A file of predictions of the test set may have some domains alone; those without any are left out.
        with_score = built[f"sentence_id_{LABELS[0]}"].map(scores).notna()
        built = built[built["domain"].isin(built["domain"][with_score].unique())]
    sentences: set[str] = set()
    for label in LABELS:
        sentences.update(built[f"sentence_id_{label}"])
    missing = sorted(sentences - set(scores.index))
    if missing:
        raise types.ScoringError(
            f"{path} lacks {len(missing)} of the {len(sentences)} {task} sentences, first {missing[0]!r}; score all of "
            "a task, or leave the task out."
        )
    scored = built[["domain", "subject"]].assign(task=name)
    for label in LABELS:
        scored[f"score_{label}"] = built[f"sentence_id_{label}"].map(scores).to_numpy()
    return scored


BENCHMARK = types.Benchmark(
    name="stereoset",
    version="1.1.0",
    summary="Stereotype, anti-stereotype or nonsense: stereotype score, language-model score, ICAT (Nadeem et al.).",
    configs=CONFIGS,
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
    # The published scores are means over target terms, which are what is resampled.
    cluster="subject",
    sample=lambda row: (row["subject"], row["domain"]),
    kinds=("causal", "masked"),
    headline=types.Headline(
        DATASET,
        "icat",
        {"stereoset": "intrasentence test", "stereoset-intersentence": "intersentence validation"},
        shown="intrasentence test",
        sentence=of_row("stereoset", "icat"),
        leaning=("ss", "prefers the opposite of the stereotype", "prefers the stereotype"),
        side=of_row("stereoset", "ss"),
        task=("", "lms", 50.0),
        column="meaningful and not stereotyped (ICAT), 0 to 100",
    ),
    contrast=_triplets.contrast("task", "domain", "subject"),
    tasks=tuple(_tasks()),
    score_file=score_file,
    wordings="sentences",
)
