"""Whether a declared pronoun is kept, and how much probability neopronouns have where none is declared."""

from scoring.metrics.sums import mean, percentage
from scoring.metrics.texts import texts
from scoring.types import Metric


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
