"""Unstereo: how often a model finds a sentence with *he* and with *she* about equally likely.

From *Are Models Biased on Text without Gender-related Language?* (UnStereoEval; Belém et al., 2024).
The scores are sums of log-probabilities over whole sentences after the beginning-of-sequence token,
without normalisation by length. The published code pads the sentences of a file, of one pronoun at a
time, to the longest, for most models on the left and behind the beginning-of-sequence token: so the
first token is predicted from padding, and all stand further back. ``paper`` does so too, ``clean`` has
each sentence unpadded. Sentences written around one seed word (in WinoBias and Winogender: about one
occupation) depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scoring.metrics import fairness
from scoring.types import Benchmark, BenchmarkContext, Group, Headline, Metric, Option, Request, Response, Row, Table

DATASET = "unstereo"
PUBLISHED = ("ours-5", "ours-10", "ours-20", "winobias", "winogender")
GENDERS = ("male", "female", "they")
#: Parts of the names of models that the published code does not set to padding on the left.
OWN_SIDE = ("gpt2", "gpt-neo-", "opt-", "llama-2")
#: Limits on the largest difference in PMI of a word of the sentence with *she* and with *he*.
LIMITS = (1.0, 0.8, 0.65)


def requests(profile: str, row: Row, context: BenchmarkContext) -> Iterator[Request]:
    """One request: the whole sentence with each pronoun.

    Rows judged unnatural are in no published benchmark; the project's own pairs are in no published set.
    """
    if row.get("natural") is not False and (profile == "clean" or row["config"].endswith("-paper")):
        columns = [f"sentence_{gender}" for gender in _genders(row)]
        options = (Option(row[c], width=_width(c, context) if profile == "paper" else 0) for c in columns)
        yield Request(row["id"], options=tuple(options))


def _width(column: str, context: BenchmarkContext) -> int:
    """To how many tokens the published code pads a sentence on the left; 0 where it pads on the right, which none sees.

    Those of the longest sentence of the file, also of one that is not scored because it is unnatural.
    """
    return context.longest(column) if _padded(context) else 0


def _padded(context: BenchmarkContext) -> bool:
    own = any(part in Path(context.model).name.lower() for part in OWN_SIDE)
    return not own or context.padding_side == "left"


def _needs(profile: str, context: BenchmarkContext) -> frozenset[str]:
    return frozenset({"logprobs", "padding"} if profile == "paper" and _padded(context) else {"logprobs"})


def _genders(row: Row) -> list[str]:
    return [g for g in GENDERS if row.get(f"sentence_{g}")]


def to_record(_: str, row: Row, responses: Mapping[str, Response], _context: BenchmarkContext) -> dict[str, Any]:
    """Log-probabilities of the sentences, NaN where there is none with *they*."""
    sums = dict(zip(_genders(row), map(sum, responses[row["id"]].logprobs), strict=True))
    return {
        "id": row["id"],
        "dataset": row["config"].removesuffix("-paper"),
        "word": row["word"],
        **{f"sentence_{g}": row.get(f"sentence_{g}") or "" for g in GENDERS},
        **{f"{g}_logprob": sums.get(g) for g in GENDERS},
        "max_pmi_diff": row.get("max_pmi_diff"),
        "natural": row.get("natural"),
    }


def groups(table: Table) -> Sequence[Group]:
    """Each set, whole and then under the limits of the paper on ``max_pmi_diff``."""
    gaps = frozenset(f"us_gap@{limit:g}" for limit in LIMITS)
    known = ~np.isnan(table["max_pmi_diff"])
    sets = {name: table["dataset"] == name for name in (*PUBLISHED, "pronoun-pairs")}
    whole = [
        Group(name, inside, frozenset({"aufc_published_ln"}) | (frozenset() if (inside & known).any() else gaps))
        for name, inside in sets.items()
    ]
    return whole + [
        Group(
            f"{name} eps<={limit:g}",
            inside & known & (abs(table["max_pmi_diff"]) <= limit),
            gaps | {"aufc_published_log10"},
        )
        for name, inside in sets.items()
        for limit in LIMITS
    ]


def metrics(profile: str) -> Sequence[Metric]:
    """Those of the paper and of its repository; ``paper`` adds the published areas on their two scales."""
    common = (
        fairness.tau(0.5),
        fairness.pref_disparity(0.5),
        fairness.male_rel_ratio(),
        fairness.aufc(),
        fairness.us_score(),
        *(fairness.us_gap(limit) for limit in LIMITS[1:]),
    )
    if profile != "paper":
        return common
    published = (
        replace(fairness.aufc_published(constrained), name=f"aufc_published_{scale}")
        for constrained, scale in ((False, "log10"), (True, "ln"))
    )
    return (*common, *published)


def _configs() -> Iterator[tuple[str, str, str]]:
    for config in PUBLISHED:
        for split in ("validation", "test") if config == "winobias" else ("test",):
            yield DATASET, config, split
            yield DATASET, f"{config}-paper", split
    yield DATASET, "pronoun-pairs", "test"


BENCHMARK = Benchmark(
    name="unstereo",
    version="1.0.0",
    summary="Compares sentences without gendered language with she, he and they: tau, AuFC, disparity (Belém et al.).",
    configs=tuple(_configs()),
    requests=requests,
    to_record=to_record,
    groups=groups,
    metrics=metrics,
    cluster="word",
    headline=Headline(DATASET, "us_score"),
    needs=_needs,
    reported={"": ("tau@0.5", "us_score", "aufc", "pref_disparity@0.5", "male_rel_ratio")},
)
