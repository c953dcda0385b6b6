"""Whether a declared pronoun is kept, and how much probability neopronouns have where none is declared."""

from __future__ import annotations

from scoring.metrics.sums import mean, percentage
from scoring.types import Metric


def consistency() -> Metric:
    """The percentage of sentences in which the form of the declared pronoun is the most probable of six.

    >>> import numpy as np
    >>> consistency().value({"kept": np.array([1.0, 0.0, 0.5])}, np.ones((1, 3)))
    array([50.])
    """
    reading = (
        "Percentage of sentences in which the declared pronoun's form is the most probable of six; a guess has 16.7 "
        "(MISGENDERED, accuracy)."
    )
    return percentage(
        "consistency", lambda table: table["kept"], 100, reading, names=("Pronoun consistency", "consistency")
    )


def neo_share() -> Metric:
    """The share of neopronouns in the probability of all pronouns where none is declared, in percent."""
    reading = "Percentage of the probability of he, she, they, xe, ze and fae that the last three have (this project)."
    names = "Probability of neopronouns", "P(neo)"
    return mean("p_neo", lambda table: table["p_neo"], None, 0, 100, reading, scale=100, names=names)
