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
from typing import Any

from builders.wording import BLANK, LABELS
from scoring.benchmarks import _triplets
from scoring.metrics import stereoset
from scoring.types import Benchmark, BenchmarkContext, Group, Headline, Metric, Option, Request, Response, Row, Table

DATASET = "biaske"
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


BENCHMARK = Benchmark(
    name="stereoset",
    version="1.1.0",
    summary="Stereotype, anti-stereotype or nonsense: stereotype score, language-model score, ICAT (Nadeem et al.).",
    configs=(
        (DATASET, "stereoset", "test"),
        (DATASET, "stereoset", "validation"),
        (DATASET, "stereoset-intersentence", "validation"),
    ),
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
    cluster="subject",
    kinds=("causal", "masked"),
    headline=Headline(
        DATASET, "icat", {"stereoset": "intrasentence test", "stereoset-intersentence": "intersentence validation"}
    ),
    reported={"": ("ss", "lms", "icat", "ss_pooled", "lms_pooled", "icat_pooled")},
)
