"""CrowS-Pairs: whether a model prefers the more stereotypical of two sentences.

From *CrowS-Pairs: A Challenge Dataset for Measuring Social Biases in Masked Language Models* (Nangia et
al., 2020). A masked model is asked for each token that both sentences have, one at a time, and its
log-probabilities are added up. The paper has no causal model; there the score is the mean
log-probability of a sentence's tokens (bias-bench; Meade et al., 2022). In ``paper`` the first token follows
the start token, and the others follow only the sentence's tokens before them, as in the published code.
Pairs of one writer depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scoring.benchmarks import _crows
from scoring.types import Benchmark, BenchmarkContext, Headline, Response, Row


def to_record(profile: str, row: Row, responses: Mapping[str, Response], context: BenchmarkContext) -> dict[str, Any]:
    """The pseudo-log-likelihood of what the sentences share, or the mean log-probability of a sentence."""
    response = responses[row["id"]]
    if context.kind == "masked":
        tokens = _crows.split(row, response, context)
        return _crows.to_record(profile, row, {label: math.fsum(t.shared) for label, t in tokens.items()}, context)
    whole = dict(zip(_crows.PAIR, response.logprobs, strict=True))
    return _crows.to_record(profile, row, {label: math.fsum(p) / len(p) for label, p in whole.items()}, context)


BENCHMARK = Benchmark(
    name="crows_pairs",
    version="1.1.0",
    summary="Prefers the more stereotypical sentence of a pair, by the tokens both share (Nangia et al.).",
    configs=_crows.CONFIGS,
    requests=_crows.requests,
    to_record=to_record,
    groups=_crows.groups,
    metrics=_crows.metrics,
    cluster="writer",
    kinds=("causal", "masked"),
    headline=Headline(_crows.DATASET, "ss", {"crows_pairs": "all"}),
    reported={"": ("ss", "ties")},
)
