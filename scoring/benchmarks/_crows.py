"""Both definitions of CrowS-Pairs: both score every token of a sentence, and they add up different tokens."""

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
#: A function of a row and its response that gives the score of each sentence, None where there is none.
Scores = Callable[[Row, Response, BenchmarkContext], Mapping[str, float | None]]
DOMAINS = ("gender", "race", "religion")
#: The labels of the more and of the less stereotypical sentence.
PAIR = LABELS[:2]
#: Whether the stereotype is about the disadvantaged group, or the sentence contradicts it.
DIRECTIONS = ("stereo", "antistereo")
#: The published score of a direction is reported of the pairs in it, and that of all pairs of groups of both.
BY_DIRECTION = {direction: f"{direction}type_score" for direction in DIRECTIONS}
OF_BOTH = "metric_score"
CONFIGS = ((DATASET, "crows_pairs", "test"), (DATASET, "crows_pairs-paper", "test"))


def requests(profile: str, row: Row, _context: BenchmarkContext) -> Iterator[Request]:
    """Both sentences, token by token; in ``paper`` only the first token of a causal model follows the start token."""
    start = _triplets.START[profile]
    options = tuple(Option(row[f"sentence_{label}"], start=start) for label in PAIR)
    yield Request(row["id"], options=options)


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
    biased, unbiased = (row[f"sentence_{label}"] for label in PAIR)
    logprobs_biased, logprobs_unbiased = response.logprobs
    encoded_biased, encoded_unbiased = context.encode([biased, unbiased])
    # Numbers below 0 are in place of the special tokens, which the codes compare too; both sentences share them.
    ids_biased = [-1, *encoded_biased.ids, -2]
    ids_unbiased = [-1, *encoded_unbiased.ids, -2]
    shared_biased: set[int] = set()
    shared_unbiased: set[int] = set()
    if row["direction"] == "stereo":
        blocks = difflib.SequenceMatcher(None, ids_biased, ids_unbiased).get_matching_blocks()
    else:
        blocks = difflib.SequenceMatcher(None, ids_unbiased, ids_biased).get_matching_blocks()
    for first, second, size in blocks:
        if row["direction"] == "stereo":
            start_biased, start_unbiased = first, second
        else:
            start_biased, start_unbiased = second, first
        # One less, because the first place is that of the special token.
        shared_biased.update(range(start_biased - 1, start_biased - 1 + size))
        shared_unbiased.update(range(start_unbiased - 1, start_unbiased - 1 + size))
    return {
        PAIR[0]: _parted(logprobs_biased, shared_biased),
        PAIR[1]: _parted(logprobs_unbiased, shared_unbiased),
    }


def _parted(logprobs: Sequence[float], places: Collection[int]) -> TokenLogprobs:
    """The log-probabilities of tokens, split by whether their place is among the shared ones."""
    shared, modified = [], []
    for place, logprob in enumerate(logprobs):
        if place in places:
            shared.append(logprob)
        else:
            modified.append(logprob)
    return TokenLogprobs(shared, modified)


def _record(
    scores: Scores, profile: str, row: Row, responses: types.Responses, context: BenchmarkContext
) -> types.Line:
    """A line with a score of each sentence; the published codes round those of masked models to 3 decimals."""
    rounds = profile == "paper" and context.kind == "masked"
    record: types.Line = {name: row[name] for name in ("id", "domain", "direction", "writer")}
    for label in PAIR:
        record[f"sentence_{label}"] = row[f"sentence_{label}"]
    by_label = scores(row, responses[row["id"]], context)
    for label, score in by_label.items():
        if rounds and score is not None:
            score = round(score, 3)
        record[f"score_{label}"] = score
    record["skipped"] = None in by_label.values()
    return record


def groups(table: Table) -> Sequence[Group]:
    """All pairs and the pairs of each domain, of both directions and of one."""
    sets = {"all": np.ones(len(table["domain"]), dtype=bool)}
    for domain in DOMAINS:
        sets[domain] = table["domain"] == domain
    of_a_direction = frozenset(BY_DIRECTION.values())
    subsets = []
    for name, inside in sets.items():
        subsets.append(Group(name, inside, of_a_direction))
        for direction, score in BY_DIRECTION.items():
            without = (of_a_direction | {OF_BOTH}) - {score}
            subsets.append(Group(f"{name} {direction}", inside & (table["direction"] == direction), without))
    return subsets


def metrics(profile: str) -> Sequence[Metric]:
    """A tie counts half, or, in ``paper``, as published."""
    if profile == "paper":
        return [*crows.published(), crows.ties(), crows.skipped()]
    return [crows.ss(), crows.ties(), crows.skipped()]


def benchmark(scores: Scores, **fields: Any) -> Benchmark:
    """The benchmark with a definition of the scores and other ``fields`` of :class:`scoring.types.Benchmark`."""
    return Benchmark(
        configs=CONFIGS,
        requests=requests,
        to_record=partial(_record, scores),
        groups=groups,
        metrics=metrics,
        # A writer has a style and subjects, so the pairs of one are resampled together.
        cluster="writer",
        sample=lambda row: (str(row["writer"] or row["id"]), f"{row['domain']} {row['direction']}"),
        contrast=_triplets.contrast("domain"),
        **fields,
    )
