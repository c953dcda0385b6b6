"""CrowS-Pairs: whether a model prefers the more stereotypical of two sentences.

From *CrowS-Pairs: A Challenge Dataset for Measuring Social Biases in Masked Language Models* (Nangia et
al., 2020). A masked model is asked for each token that both sentences have, one at a time, and its
log-probabilities are added up. The paper has no causal model; there the score is the mean
log-probability of a sentence's tokens (bias-bench; Meade et al., 2022). In ``paper`` the first token follows
the start token, and the others follow only the sentence's tokens before them, as in the published code.
Pairs of one writer depend on each other.
"""

import math
from collections.abc import Mapping

from cards.common.sentences import of_row
from scoring.benchmarks import _crows
from scoring.types import BenchmarkContext, HarnessTask, Headline, Response, Row

_REPORTED = ("ss", "ties")
_CLEAN = _crows.CONFIGS[:1]


def scores(row: Row, response: Response, context: BenchmarkContext) -> Mapping[str, float]:
    """The pseudo-log-likelihood of what the sentences share, or the mean log-probability of a sentence."""
    if context.kind == "masked":
        return {label: math.fsum(t.shared) for label, t in _crows.split(row, response, context).items()}
    return {label: math.fsum(p) / len(p) for label, p in zip(_crows.PAIR, response.logprobs, strict=True)}


BENCHMARK = _crows.benchmark(
    scores,
    name="crows_pairs",
    version="1.1.0",
    summary="Prefers the more stereotypical sentence of a pair, by the tokens both share (Nangia et al.).",
    kinds=("causal", "masked"),
    headline=Headline(
        _crows.DATASET,
        "ss",
        {"crows_pairs": "all"},
        shown="all",
        sentence=of_row("crows_pairs", "ss"),
        leaning=("ss", "prefers the opposite of the stereotype", "prefers the stereotype"),
        column="stereotype preferred, % of pairs",
        no_task="No sentence of a pair is the right one, so there is no value by chance.",
    ),
    tasks=(
        HarnessTask("", _REPORTED, _CLEAN),
        *(HarnessTask(domain, _REPORTED, _CLEAN, {"domain": domain}, "domains") for domain in _crows.DOMAINS),
    ),
)
