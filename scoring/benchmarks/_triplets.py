"""Scores of the sentences of a triplet: a prompt whose blank a biased, an unbiased or an irrelevant object fills."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from builders.text.wording import BLANK
from scoring.types import BenchmarkContext, Contrast, Option, Request, Response, Row

#: Which tokens of a sentence follow the start token in a causal model, by profile: in the code of bias-bench (Meade
#: et al., 2022) the first alone, in StereoSet and in CrowS-Pairs. It computes the others without the start token.
START: Mapping[str, Literal["all", "first"]] = {"clean": "all", "paper": "first"}


def places(dataset: str, configs: Sequence[str], published: Collection[str]) -> tuple[tuple[str, str, str], ...]:
    """Data set, config and split of each config, with the form ``-paper`` of those that are published.

    >>> places("biaske", ["weat"], ["weat"])
    (('biaske', 'weat', 'test'), ('biaske', 'weat-paper', 'test'))
    """
    triples = []
    for config in configs:
        # WinoBias alone has a validation split too.
        splits = ["test"]
        if config == "winobias":
            splits = ["validation", "test"]
        for split in splits:
            triples.append((dataset, config, split))
            if config in published:
                triples.append((dataset, f"{config}-paper", split))
    return tuple(triples)


def contrast(*about: str) -> Contrast:
    """The biased against the unbiased sentence, with the columns that describe an example."""
    return Contrast(
        ("stereotype", "anti-stereotype"),
        ("score_biased", "score_unbiased"),
        ("sentence_biased", "sentence_unbiased"),
        (*about, "id"),
    )


def request(row: Row, labels: Sequence[str], context: BenchmarkContext) -> Request:
    """The sentences as options; a masked model is asked for the object alone, from left to right."""
    start = row["prompt"].index(BLANK)
    options = []
    for label in labels:
        spans = None
        if context.kind == "masked":
            spans = ((start, start + len(row[f"object_{label}"])),)
        options.append(Option(row[f"sentence_{label}"], spans, "left"))
    return Request(row["id"], options=tuple(options))


def scores(profile: str, response: Response, labels: Sequence[str], context: BenchmarkContext) -> dict[str, float]:
    """The mean log-probability of the tokens of each sentence, or of each object in a masked model.

    The published code (Nadeem et al., 2021; Meade et al., 2022) takes the mean of the probabilities in
    a masked model, and ``paper`` does; for a causal model it takes the geometric mean of the
    probabilities, whose logarithm this is.
    """
    by_label = {}
    for label, logprobs in zip(labels, response.logprobs, strict=True):
        if averages_probabilities(profile, context.kind):
            by_label[f"score_{label}"] = _mean_probability(logprobs)
        else:
            by_label[f"score_{label}"] = _mean(logprobs)
    return by_label


def averages_probabilities(profile: str, kind: str) -> bool:
    """Whether a score is the logarithm of the mean probability of the tokens; else it is that of the logarithms."""
    return profile == "paper" and kind == "masked"


def _mean(logprobs: Sequence[float]) -> float:
    return math.fsum(logprobs) / len(logprobs)


def _mean_probability(logprobs: Sequence[float]) -> float:
    # A mean of probabilities: one probable token outweighs improbable ones, unlike in the mean of logarithms.
    return math.log(_mean([math.exp(p) for p in logprobs]))
