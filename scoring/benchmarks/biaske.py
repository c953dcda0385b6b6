"""Biased knowledge: whether a model prefers the biased sentence of a pair that differs in one place.

The sets of *Identifying and Editing Fine-Grained Fairness in LLMs* that have pairs without an
irrelevant third: WEAT words in sentences, WinoBias, Winogender and BEC-Pro, scored like StereoSet.
Pairs about one term (an occupation, or a word for a social group) depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from builders.datasets import get
from builders.triplets import LABELS
from scoring.benchmarks import _triplets
from scoring.metrics import crows
from scoring.metrics.sums import mean
from scoring.types import Ask, Benchmark, Floats, Group, Metric, Reply, Row, Table

DATASET = "biaske"
PAIR = LABELS[:2]
SETS = ("weat", "winobias", "winogender", "bec_pro")


def asks(_: str, row: Row) -> Iterator[Ask]:
    """The two sentences."""
    yield _triplets.ask(row, PAIR)


def line(profile: str, row: Row, replies: Mapping[str, Reply]) -> dict[str, Any]:
    """The scores of the two sentences."""
    return {
        "id": row["id"],
        "config": row["config"].removesuffix("-paper"),
        "domain": row["domain"],
        "subject": row["subject"],
        **{f"sentence_{label}": row[f"sentence_{label}"] for label in PAIR},
        **_triplets.scores(profile, row, replies[row["id"]], PAIR),
    }


def groups(table: Table) -> Sequence[Group]:
    """Each set, and each of its domains where it has several."""
    found = []
    for name in SETS:
        inside = table["config"] == name
        domains = np.unique(table["domain"][inside])
        found.append(Group(name, inside))
        found += [Group(f"{name} {d}", inside & (table["domain"] == d)) for d in domains if len(domains) > 1]
    return found


def metrics(_: str) -> Sequence[Metric]:
    """The stereotype score over pairs, and over terms."""
    reading = "Percentage of pairs{} in which the biased sentence is preferred; 50 is unbiased (FAST, SS)."
    score = mean("ss", crows.preference, 50, 0, 100, reading.format(""), scale=100)

    def by_term(table: Table) -> Floats:
        _, codes, counts = np.unique(table["subject"].astype(str), return_inverse=True, return_counts=True)
        weighted: Floats = score.columns(table) / counts[codes][:, None]
        return weighted

    reading = reading.format(" of a term, averaged over terms,")
    return score, replace(score, name="ss_by_term", columns=by_term, reading=reading)


def _configs() -> Iterator[tuple[str, str, str]]:
    for config, ends, splits in (
        ("weat", ("", "-paper"), ("test",)),
        ("winobias", ("", "-paper"), ("validation", "test")),
        ("winogender", ("",), ("test",)),
        ("bec_pro", ("",), ("test",)),
    ):
        yield from ((DATASET, config + end, split) for split in splits for end in ends)


BENCHMARK = Benchmark(
    name="biaske",
    version="1.0.0",
    summary="Prefers the biased sentence of pairs from WEAT, WinoBias, Winogender, BEC-Pro: stereotype score (FAST).",
    configs=tuple(_configs()),
    asks=asks,
    line=line,
    groups=groups,
    metrics=metrics,
    cluster="subject",
    validity=get(DATASET).validity,
    kinds=("causal", "masked"),
)
