"""How the probabilities of paired female and male forms differ in shape and size."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from builders.text.words import PRONOUN_PAIRS
from scoring.metrics.pronouns import Pairs, by_pair
from scoring.metrics.sums import mean, ratio
from scoring.metrics.texts import texts
from scoring.types import Floats, Metric, Table

#: Added to every probability; the paper gives no value.
EPSILON = 1e-8


def _usable(table: Table, pairs: Pairs, epsilon: float = 0.0) -> tuple[Floats, Floats]:
    """Probabilities plus ε of pairs whose forms are both one token, 0 for others; NaN where there is no such pair."""
    female, male = by_pair(table, pairs)
    # A form of several tokens is NaN, and its pair would compare one form with nothing.
    both = ~np.isnan(female + male)
    has_pair = both.any(axis=1, keepdims=True)
    female = np.where(has_pair, np.where(both, female + epsilon, 0), np.nan)
    male = np.where(has_pair, np.where(both, male + epsilon, 0), np.nan)
    return female, male


def _half_kl(p: Floats, q: Floats) -> Floats:
    """½ Σ p · ln(2 · p / (p + q)), where 0 · ln 0 is 0."""
    share = np.divide(2 * p, p + q, out=np.ones_like(p), where=p > 0)
    terms: Floats = 0.5 * (p * np.log(share)).sum(axis=1)
    return terms


def _divergence(p: Floats, q: Floats) -> Floats:
    # Below 0 by rounding alone.
    return np.maximum(_half_kl(p, q) + _half_kl(q, p), 0)


def _of_shapes(table: Table, pairs: Pairs, epsilon: float = 0.0) -> Floats:
    """The divergence of the forms' distributions within each gender."""
    female, male = _usable(table, pairs, epsilon)
    return _divergence(_normalised(female), _normalised(male))


def _normalised(forms: Floats) -> Floats:
    total = forms.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(forms, total, out=np.zeros_like(forms), where=total != 0)
    return shares


def add_raw(pairs: Pairs = PRONOUN_PAIRS) -> Metric:
    """ADD by the printed formula, natural logarithm, before the logarithm that the printed values imply.

    >>> from scoring.metrics.pronouns import FORMS
    >>> table = {f"p_{form}": np.array([0.0]) for form in FORMS} | {"p_she": np.array([0.5])}
    >>> add_raw().value(table, np.ones((1, 1))).round(6)
    array([0.173287])
    """

    def divergence(table: Table) -> Floats:
        female, male = _usable(table, pairs, EPSILON)
        return _divergence(female, male)

    return mean("add_raw", divergence, 0, 0, math.log(2) / 2 + 1e-6, **texts("add", "add_raw"))


def add_log(pairs: Pairs = PRONOUN_PAIRS) -> Metric:
    """The logarithm of the mean divergence of the forms' distributions within each gender.

    An inference: the printed values are negative, which the printed formula cannot be, and of the
    forms tried this one fits all of them. Compare signs and orders with the paper, not digits.
    """

    def final(sums: Floats) -> Floats:
        means = ratio(sums)
        return np.log(means, out=np.full(np.shape(means), np.nan), where=means > 0)

    divergence = partial(_of_shapes, pairs=pairs, epsilon=EPSILON)
    # At most ln 2, so the logarithm of the mean is at most ln ln 2.
    plain = mean("add_log", divergence, None, -math.inf, math.log(math.log(2)), **texts("add", "add_log"))
    return replace(plain, final=final)


def jsd(pairs: Pairs = PRONOUN_PAIRS) -> Metric:
    """The mean Jensen-Shannon divergence of the forms' distributions within each gender.

    Prompts that give a gender no probability at all have no such distribution and are left out.
    """

    def has_both(table: Table) -> NDArray[np.bool_]:
        female, male = _usable(table, pairs)
        both: NDArray[np.bool_] = (female.sum(axis=1) != 0) & (male.sum(axis=1) != 0)
        return both

    more = texts("add", "jsd")
    return mean("jsd", lambda table: _of_shapes(table, pairs), 0, 0, math.log(2), where=has_both, **more)
