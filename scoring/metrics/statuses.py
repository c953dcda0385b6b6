"""What sampled answers are that name no option: the share of each kind.

Tables have a column for each kind, such as ``p_refused``: the share of the answers to a question.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from cards.results import STATUSES
from scoring.metrics.sums import mean
from scoring.metrics.texts import texts
from scoring.types import Floats, Metric, Table


def statuses() -> list[Metric]:
    """The share of each kind of answers that name no option, in percent.

    >>> table = {"p_refused": np.array([0.5, 0.0])}
    >>> statuses()[0].value(table, np.ones((1, 2)))
    array([25.])
    """
    return [mean(kind, partial(_share, kind), None, 0, 100, scale=100, **texts("status", kind)) for kind in STATUSES]


def _share(kind: str, table: Table) -> Floats:
    column = table.get(f"p_{kind}")
    if column is None:
        # Tables of earlier versions have two kinds alone.
        return np.zeros(len(next(iter(table.values()))))
    return np.asarray(column, np.float64)


def shares(readings: Sequence[object]) -> dict[str, float]:
    """The columns of a table, from how each answer to a question was read.

    >>> {name: share for name, share in shares([0, 2, "cut", "cut"]).items() if share}
    {'p_cut': 0.5}
    """
    return {f"p_{kind}": readings.count(kind) / len(readings) for kind in STATUSES}


def unanswered(table: Table) -> Floats:
    """The share of the answers to each question that name no option."""
    return sum((_share(kind, table) for kind in STATUSES), np.zeros(()))
