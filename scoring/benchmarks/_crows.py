"""What both definitions of CrowS-Pairs share: both score every token, and they differ in the tokens they count."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from builders.text.wording import LABELS
from scoring import types
from scoring.benchmarks import _triplets
from scoring.metrics import crows
from scoring.types import Benchmark, BenchmarkContext, Group, Metric, Option, Request, Response, Row, Table

DATASET = "biaske"
#: Gives for a row and its response the score of each sentence, None where there is none.
Scores = Callable[[Row, Response, BenchmarkContext], Mapping[str, float | None]]
DOMAINS = ("gender", "race", "religion")
PAIR = LABELS[:2]
DIRECTIONS = ("stereo", "antistereo")
#: The published score of a direction is reported of the pairs in it, and that of all pairs of groups of both.
BY_DIRECTION = {direction: frozenset({f"{direction}type_score"}) for direction in DIRECTIONS}
OF_BOTH = frozenset({"metric_score"})
CONFIGS = tuple((DATASET, f"crows_pairs{end}", "test") for end in ("", "-paper"))


def requests(profile: str, row: Row, _context: BenchmarkContext) -> Iterator[Request]:
    """Both sentences, token by token; in ``paper`` only the first token of a causal model follows the start token."""
    start = _triplets.START[profile]
    yield Request(row["id"], options=tuple(Option(row[f"sentence_{label}"], start=start) for label in PAIR))


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probabilities of a sentence's tokens, split by whether the other sentence of the pair has them too."""

    shared: list[float]
    modified: list[float]


def split(row: Row, response: Response, context: BenchmarkContext) -> dict[str, TokenLogprobs]:
    """TokenLogprobs of the biased and the unbiased sentence.

    The published codes compare token ids, the sentence about the disadvantaged group first (which
    matters: the comparison is not symmetric), with the special tokens around them.
    """
    order = PAIR if row["direction"] == "stereo" else PAIR[::-1]
    logprobs = dict(zip(PAIR, response.logprobs, strict=True))
    encoded = dict(zip(PAIR, context.encode([row[f"sentence_{label}"] for label in PAIR]), strict=True))
    # Numbers below 0 stand for the special tokens, which the codes compare too; both sentences share them.
    one, other = ([-1, *encoded[label].ids, -2] for label in order)
    matcher = difflib.SequenceMatcher(None, one, other)
    equal: dict[str, set[int]] = {label: set() for label in PAIR}
    for first, second, size in matcher.get_matching_blocks():
        for label, start in zip(order, (first, second), strict=True):
            # One less, because the first place is that of the special token.
            equal[label] |= set(range(start - 1, start - 1 + size))
    return {
        label: TokenLogprobs(
            [p for place, p in enumerate(logprobs[label]) if place in equal[label]],
            [p for place, p in enumerate(logprobs[label]) if place not in equal[label]],
        )
        for label in PAIR
    }


def _record(scores: Scores, profile: str, row: Row, given: types.Responses, context: BenchmarkContext) -> types.Line:
    """A line with a score of each sentence; the published codes round those of masked models to 3 decimals."""
    rounds = profile == "paper" and context.kind == "masked"
    by_label = scores(row, given[row["id"]], context)
    return {
        "id": row["id"],
        "domain": row["domain"],
        "direction": row["direction"],
        "writer": row["writer"],
        **{f"sentence_{label}": row[f"sentence_{label}"] for label in PAIR},
        **{f"score_{name}": round(s, 3) if rounds and s is not None else s for name, s in by_label.items()},
        "skipped": None in by_label.values(),
    }


def groups(table: Table) -> Sequence[Group]:
    """All pairs and the pairs of each domain, of both directions and of one."""
    everything = np.ones(len(table["domain"]), dtype=bool)
    subsets = []
    for name, inside in {"all": everything, **{domain: table["domain"] == domain for domain in DOMAINS}}.items():
        subsets.append(Group(name, inside, frozenset().union(*BY_DIRECTION.values())))
        for direction, own in BY_DIRECTION.items():
            without = OF_BOTH.union(*BY_DIRECTION.values()) - own
            subsets.append(Group(f"{name} {direction}", inside & (table["direction"] == direction), without))
    return subsets


def metrics(profile: str) -> Sequence[Metric]:
    """A tie counts half, or, in ``paper``, as published."""
    counts = (crows.ties(), crows.skipped())
    return (*crows.published(), *counts) if profile == "paper" else (crows.ss(), *counts)


def benchmark(scores: Scores, **own: Any) -> Benchmark:
    """The benchmark with a definition of the scores and fields of its own."""
    return Benchmark(
        configs=CONFIGS,
        requests=requests,
        to_record=partial(_record, scores),
        groups=groups,
        metrics=metrics,
        cluster="writer",
        contrast=_triplets.contrast("domain"),
        **own,
    )
