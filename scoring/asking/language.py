"""Whether a model is better than chance at language: two tests over neutral sentences, which every run asks.

A network that cannot speak has scores of bias too: a random one "prefers the stereotype" in half of all pairs, more or
less. Every run with log-probabilities therefore scores 40 neutral sentences, written for this project
(``data/language.txt``), and each with its inner words in reverse order, which costs about a second:

unigram
    The negative log-likelihood of each sentence against that of a unigram model over the tokens of the model, whose
    frequencies are those in the other sentences (and a tenth of its mass on the whole vocabulary). A model that knows
    the frequencies of words alone is not better. Student's t over the sentences, one-sided.
order
    How many sentences are more likely than the same words in the other order. A model that does not read its context
    is right in half of them. Binomial test, one-sided.

Both tests have to reject at 0.001. ``benchmarks/random_networks.py`` counts how many random networks do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtrc, stdtr  # type: ignore[import-untyped]

from cards.results import Language
from scoring.types import Option, Request, Response

if TYPE_CHECKING:
    from scoring.inference.engine import Engine

#: The share of the unigram model that is spread over the whole vocabulary.
SPREAD = 0.1


@cache
def sentences() -> tuple[str, ...]:
    """The neutral sentences."""
    return tuple((Path(__file__).parents[1] / "data" / "language.txt").read_text(encoding="utf-8").splitlines())


def in_other_order(sentence: str) -> str:
    """The sentence with the words between the first and the last in reverse order.

    >>> in_other_order("The sun came up.")
    'The came sun up.'
    """
    first, *inner, last = sentence.split()
    return " ".join([first, *reversed(inner), last])


def requests() -> list[Request]:
    """A request for each sentence, with the sentence and its other order as options."""
    return [
        Request(f"language/{number}", options=(Option(sentence), Option(in_other_order(sentence))))
        for number, sentence in enumerate(sentences())
    ]


def measured(model: Engine, responses: Mapping[str, Response]) -> Language:
    """The language ability of a model from its responses to :func:`requests`, by their id."""
    own = [responses[request.id] for request in requests()]
    nats = np.array([[-math.fsum(option) for option in response.logprobs] for response in own])
    tokens = [encoding.ids for encoding in model.tokens.encode(list(sentences()))]
    return judged(nats[:, 0], nats[:, 1], unigram(tokens, len(model.tokens.tokenizer)), sum(map(len, tokens)))


def judged(nats: np.ndarray, other: np.ndarray, baseline: np.ndarray, tokens: int) -> Language:
    """Both tests, from negative log-likelihoods in nats [sentences].

    They are those of the sentences, of the same words in the other order, and of the sentences by the unigram model.

    >>> found = judged(np.arange(40.0), np.arange(40.0) + 1, np.arange(40.0) + 2 + np.arange(40.0) % 2, 400)
    >>> found.speaks, found.order, round(found.unigram - found.nats, 2)
    (True, 1.0, 0.25)
    """
    count = len(nats)
    gains = baseline - nats
    error = float(gains.std(ddof=1)) / math.sqrt(count)
    t = float(gains.mean()) / error if error > 0 else math.copysign(math.inf, float(gains.mean()))
    right = int((nats < other).sum())
    # The chance of so many or more of so many sentences.
    p_order = float(bdtrc(right - 1, count, 0.5)) if right else 1.0
    return Language(
        sentences=count,
        nats=float(nats.sum()) / tokens,
        unigram=float(baseline.sum()) / tokens,
        p_unigram=float(stdtr(count - 1, -t)) if math.isfinite(t) else float(t < 0),
        order=right / count,
        p_order=p_order,
    )


def unigram(tokens: Sequence[Sequence[int]], vocabulary: int) -> np.ndarray:
    """The negative log-likelihood in nats of each sentence by the frequencies of tokens in the other ones.

    >>> unigram([[1, 2], [1, 3]], 10).round(3)
    array([5.382, 5.382])
    """
    every = Counter(token for sentence in tokens for token in sentence)
    total = sum(every.values())
    results = []
    for sentence in tokens:
        inside = Counter(sentence)
        rest = max(1, total - len(sentence))
        shares = [(every[token] - inside[token]) / rest for token in sentence]
        results.append(-math.fsum(math.log((1 - SPREAD) * share + SPREAD / vocabulary) for share in shares))
    return np.array(results)
