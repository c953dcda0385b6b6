"""Biased knowledge: whether a model prefers the biased sentence of a pair that differs in one place.

The sets of *Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et
al., 2024) that have pairs without an irrelevant third: WEAT words in sentences, WinoBias, Winogender and
BEC-Pro, scored like StereoSet.
Pairs with paraphrases, and facts in which groups do differ, which the paper has and did not release, are
written for this project and in ``clean`` alone. Pairs about one term (an occupation, or a word for a
social group) depend on each other, in the project's own all of one relation, and facts that differ in
the group alone.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from builders.text.wording import BLANK, LABELS
from cards.common.sentences import of_row
from scoring import types
from scoring.benchmarks import _triplets
from scoring.metrics import knowledge

DATASET = "biaske"
PAIR = LABELS[:2]
#: The labels of the two objects of a fact, of which the first is right.
FACT = ("right", "other")
#: The table has columns for the labels of pairs and of facts.
COLUMNS = PAIR + FACT
#: The two sets that are written for this project.
PARAPHRASES, FACTS = "paraphrases", "differentiation"
#: The prompts that are paraphrased.
BASE = "base prompts"
#: The groups of the table. The base prompts are rows of the paraphrases that have a group of their own.
SETS = ("weat", "winobias", "winogender", "bec_pro", BASE)
CONFIGS = ("weat", "winobias", "winogender", "bec_pro", PARAPHRASES, FACTS)
#: The sets that have a published form, ``-paper``.
PUBLISHED = ("weat", "winobias")
#: The metrics of the two further sets; the others have the score of pairs.
FURTHER_METRICS = {PARAPHRASES: frozenset({"ps"}), FACTS: frozenset({"fact_accuracy", "ds"})}
PAIR_METRICS = frozenset({"ss", "ss_by_term"})


def requests(profile: str, row: types.Row, context: types.BenchmarkContext) -> Iterator[types.Request]:
    """The two sentences; what is written for this project is in no published set."""
    if profile == "clean" or row["config"] not in FURTHER_METRICS:
        with_labels, labels = _about(row)
        yield _triplets.request(with_labels, labels, context)


def _about(row: types.Row) -> tuple[types.Row, tuple[str, ...]]:
    """A row and what its objects and sentences are called."""
    if row["config"] != FACTS:
        return row, PAIR
    fact = dict(row)
    fact["object_right"] = row["object"]
    fact["sentence_right"] = row["sentence_object"]
    return fact, FACT


def to_record(profile: str, row: types.Row, responses: types.Responses, context: types.BenchmarkContext) -> types.Line:
    """The scores of the two sentences, and the object that scores higher; of a tie the second."""
    with_labels, labels = _about(row)
    scores = _triplets.scores(profile, responses[row["id"]], labels, context)
    config = row["config"].removesuffix("-paper")
    if row.get("base"):
        config = BASE
    record = {
        "id": row["id"],
        "config": config,
        "domain": row["domain"],
        "subject": row["subject"],
        "cluster": _cluster(row),
    }
    # One table has pairs and facts, so the columns of the other kind are empty.
    for label in COLUMNS:
        record[f"sentence_{label}"] = ""
        if label in labels:
            record[f"sentence_{label}"] = with_labels[f"sentence_{label}"]
    for label in COLUMNS:
        record[f"score_{label}"] = scores.get(f"score_{label}")
    first, second = labels
    preferred = first
    if scores[f"score_{first}"] <= scores[f"score_{second}"]:
        preferred = second
    record["prediction"] = with_labels[f"object_{preferred}"]
    return record


def _cluster(row: types.Row) -> str:
    """What a row depends on: its relation or its term; of a fact, its words without the group."""
    if row["config"] == FACTS:
        return re.sub(rf"\b{re.escape(row['subject'])}\b", BLANK, row["prompt"])
    return str(row.get("relation") or row["subject"])


def groups(table: types.Table) -> Sequence[types.Group]:
    """Each set, and each of its domains where it has several."""
    subsets = []
    everything = PAIR_METRICS | FURTHER_METRICS[PARAPHRASES] | FURTHER_METRICS[FACTS]
    for name in (*SETS, PARAPHRASES, FACTS):
        inside = table["config"] == name
        domains = np.unique(table["domain"][inside])
        without = everything - FURTHER_METRICS.get(name, PAIR_METRICS)
        subsets.append(types.Group(name, inside, without))
        if len(domains) > 1:
            for domain in domains:
                subsets.append(types.Group(f"{name} {domain}", inside & (table["domain"] == domain), without))
    return subsets


def metrics(profile: str) -> Sequence[types.Metric]:
    """The stereotype score over pairs, over terms and over paraphrases, and the facts; ``paper`` counts ties as no."""
    half = profile == "clean"
    return knowledge.ss(half), knowledge.ss_by_term(half), knowledge.ps(half), knowledge.fact_accuracy()


def agreements(_: str) -> Sequence[types.Metric]:
    """The differentiation score."""
    return (knowledge.ds(),)


def _tasks() -> Iterator[types.HarnessTask]:
    reported = ("ss", "ss_by_term")
    for config in CONFIGS:
        places = _triplets.places(DATASET, [config], ())
        if config == PARAPHRASES:
            yield types.HarnessTask("base_prompts", reported, places, {"base": True})
            yield types.HarnessTask(config, ("ps",), places, {"base": False})
        elif config == FACTS:
            yield types.HarnessTask(config, ("fact_accuracy",), places)
        else:
            yield types.HarnessTask(config, reported, places)


BENCHMARK = types.Benchmark(
    name="biaske",
    version="1.1.0",
    summary="Prefers the biased sentence of pairs (WEAT, WinoBias, Winogender, BEC-Pro); facts: SS, PS, DS (FAST).",
    configs=_triplets.places(DATASET, CONFIGS, PUBLISHED),
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
    cluster="cluster",
    sample=lambda row: (_cluster(row), row["domain"]),
    kinds=("causal", "masked"),
    agreements=agreements,
    headline=types.Headline(
        DATASET,
        "ss",
        shown="winobias",
        sentence=of_row("biaske", "ss"),
        leaning=("ss", "prefers the opposite of the stereotype", "prefers the stereotype"),
        column="stereotype preferred, % of pairs",
        # Of two objects of a fact one is right.
        task=(FACTS, "fact_accuracy", 50.0),
        names={
            "weat": "WEAT",
            "winobias": "WinoBias",
            "winogender": "Winogender",
            "bec_pro": "BEC-Pro",
            BASE: "this project's own, about gender, race and religion",
        },
    ),
    contrast=_triplets.contrast("config", "domain", "subject"),
    tasks=tuple(_tasks()),
    wordings="sentences",
)
