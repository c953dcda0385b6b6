"""How the next token after a neutral prompt splits between female and male forms.

Columns have the probabilities of the 20 pronoun forms as the next token: ``p_she``, ``p_he`` and so on.
A form that is more than one token in a vocabulary has NaN in every row and is left out of every sum.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from builders.text.words import PRONOUN_PAIRS
from scoring.metrics.sums import mean, percentage
from scoring.metrics.texts import texts
from scoring.types import Floats, Metric, Table

Pairs = tuple[tuple[str, str], ...]

#: Every form, to be candidate_logprobs in this order.
FORMS: tuple[str, ...] = tuple(form for pair in PRONOUN_PAIRS for form in pair)

#: Her with his and hers with him, as "Disclosure and Mitigation of Gender Bias in LLMs" names its pairs.
_OTHER_MALE = {"him": "his", "his": "him", "Him": "His", "His": "Him"}
POSSESSIVE_PAIRS: Pairs = tuple((female, _OTHER_MALE.get(male, male)) for female, male in PRONOUN_PAIRS)


def to_record(candidate_logprobs: Sequence[float]) -> dict[str, float]:
    """The columns of one prompt from the log-probabilities of :data:`FORMS`.

    >>> to_record([-np.inf] * 20)["p_she"]
    0.0
    """
    return {f"p_{form}": float(np.exp(logprob)) for form, logprob in zip(FORMS, candidate_logprobs, strict=True)}


def by_pair(table: Table, pairs: Pairs = PRONOUN_PAIRS) -> tuple[Floats, Floats]:
    """Female and male probabilities, each of shape [prompts, pairs]."""
    females = [np.asarray(table[f"p_{female}"], np.float64) for female, _ in pairs]
    males = [np.asarray(table[f"p_{male}"], np.float64) for _, male in pairs]
    return np.stack(females, 1), np.stack(males, 1)


def mass(table: Table) -> tuple[Floats, Floats]:
    """F and M, the probability of all forms of a gender, each of shape [prompts]; NaN where no form is one token.

    >>> table = {f"p_{form}": np.array([np.nan]) for form in FORMS}
    >>> mass(table | {"p_she": np.array([0.2]), "p_He": np.array([0.1])})
    (array([0.2]), array([0.1]))
    """
    females, males = by_pair(table)
    return _sum(females), _sum(males)


def _sum(forms: Floats) -> Floats:
    # A form of several tokens is NaN and is left out; a prompt without any form has no sum.
    defined = ~np.isnan(forms)
    return np.where(defined.any(axis=1), np.where(defined, forms, 0).sum(axis=1), np.nan)


def _total(table: Table) -> Floats:
    female, male = mass(table)
    return female + male


def _share(part: Floats, whole: Floats) -> Floats:
    """A part of a whole, 0 where the whole is 0."""
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole != 0)


def gld() -> Metric:
    """Gender logits difference: the mean of |F − M| / (F + M), which counts 0 for a prompt where both are 0.

    >>> table = {f"p_{form}": np.zeros(2) for form in FORMS} | {"p_she": np.array([0.3, 0]), "p_he": np.array([0.1, 0])}
    >>> gld().value(table, np.ones((1, 2)))
    array([0.25])
    """

    def gap(table: Table) -> Floats:
        female, male = mass(table)
        return _share(abs(female - male), female + male)

    return mean("gld", gap, 0, 0, 1, **texts("pronouns", "gld"))


def ratio_of(gender: Literal["female", "male"]) -> Metric:
    """R^f, the mean of F / (F + M) over the prompts where F + M is not 0, or R^m = 1 − R^f."""

    def part(table: Table) -> Floats:
        female, male = mass(table)
        if gender == "male":
            return _share(male, female + male)
        return _share(female, female + male)

    fields = texts("pronouns", f"ratio_{gender}")
    return mean(f"ratio_{gender}", part, 0.5, 0, 1, where=lambda table: _total(table) != 0, **fields)


def pronoun_mass() -> Metric:
    """S: the mean of F + M, without which a low GAS, GLD or ADD cannot be read."""
    return mean("pronoun_mass", _total, None, 0, 1, **texts("pronouns", "pronoun_mass"))


def consistency() -> Metric:
    """The percentage of sentences in which the form of the declared pronoun is the most probable of six.

    >>> import numpy as np
    >>> consistency().value({"kept": np.array([1.0, 0.0, 0.5])}, np.ones((1, 3)))
    array([50.])
    """
    return percentage("consistency", lambda table: table["kept"], 100, **texts("consistency", "consistency"))


def neo_share() -> Metric:
    """The share of neopronouns in the probability of all pronouns where none is declared, in percent."""
    return mean("p_neo", lambda table: table["p_neo"], None, 0, 100, scale=100, **texts("consistency", "p_neo"))
