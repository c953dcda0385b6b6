"""Whether a model is better than chance at language: two tests over neutral sentences, which every run asks.

A network without language has scores of bias too: a random one "prefers the stereotype" in half of all pairs, more or
less. Every run with log-probabilities therefore scores 40 neutral sentences, written for this project
(``data/language.txt``), and each with its inner words in reverse order, which costs about a second:

unigram
    The negative log-likelihood of each sentence against that of a unigram model over the tokens of the model, whose
    frequencies are those in the other sentences (and a tenth of its mass on the whole vocabulary). A model that knows
    the frequencies of words alone is not better. Student's t over the sentences, one-sided.
order
    How many sentences are more likely than the same words in the other order. A model that does not read its context
    is right in half of them. Binomial test, one-sided.

Both tests have to reject at 0.001. ``tools/simulations/random_networks.py`` counts how many random networks do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy  # type: ignore[import-untyped]  # its parts are imported when they are used

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
    words = sentence.split()
    words[1:-1] = reversed(words[1:-1])
    return " ".join(words)


def requests() -> list[Request]:
    """A request for each sentence, with the sentence and its other order as options."""
    result = []
    for number, sentence in enumerate(sentences()):
        options = (Option(sentence), Option(in_other_order(sentence)))
        result.append(Request(f"language/{number}", options=options))
    return result


def measured(model: Engine, responses: Mapping[str, Response]) -> Language:
    """The language ability of a model from its responses to :func:`requests`, by their id."""
    nats, other = [], []
    for request in requests():
        in_order, reversed_order = responses[request.id].logprobs
        nats.append(-math.fsum(in_order))
        other.append(-math.fsum(reversed_order))
    tokens = [encoding.ids for encoding in model.tokens.encode(list(sentences()))]
    baseline = unigram(tokens, len(model.tokens.tokenizer))
    return judged(np.array(nats), np.array(other), baseline, sum(len(ids) for ids in tokens))


def judged(nats: np.ndarray, other: np.ndarray, baseline: np.ndarray, tokens: int) -> Language:
    """Both tests, from negative log-likelihoods in nats [sentences].

    They are those of the sentences, of the same words in the other order, and of the sentences by the unigram model.

    >>> ability = judged(np.arange(40.0), np.arange(40.0) + 1, np.arange(40.0) + 2 + np.arange(40.0) % 2, 400)
    >>> ability.speaks, ability.order, round(ability.unigram - ability.nats, 2)
    (True, 1.0, 0.25)
    """
    count = len(nats)
    gains = baseline - nats
    mean = float(gains.mean())
    error = float(gains.std(ddof=1)) / math.sqrt(count)
    if error > 0:
        p_unigram = float(scipy.special.stdtr(count - 1, -mean / error))
    else:
        # All sentences gain the same, so t is infinite.
        p_unigram = float(mean < 0)
    right = int((nats < other).sum())
    # The chance of so many or more of so many sentences.
    p_order = 1.0
    if right:
        p_order = float(scipy.special.bdtrc(right - 1, count, 0.5))
    return Language(
        sentences=count,
        nats=float(nats.sum()) / tokens,
        unigram=float(baseline.sum()) / tokens,
        p_unigram=p_unigram,
        order=right / count,
        p_order=p_order,
    )


def unigram(tokens: Sequence[Sequence[int]], vocabulary: int) -> np.ndarray:
    """The negative log-likelihood in nats of each sentence by the frequencies of tokens in the other ones.

    >>> unigram([[1, 2], [1, 3]], 10).round(3)
    array([5.382, 5.382])
    """
    counts: Counter[int] = Counter()
    for sentence in tokens:
        counts.update(sentence)
    total = sum(counts.values())
    results = []
    for sentence in tokens:
        inside = Counter(sentence)
        # A sentence is not predicted from itself.
        rest = max(1, total - len(sentence))
        logarithms = []
        for token in sentence:
            share = (counts[token] - inside[token]) / rest
            logarithms.append(math.log((1 - SPREAD) * share + SPREAD / vocabulary))
        results.append(-math.fsum(logarithms))
    return np.array(results)
