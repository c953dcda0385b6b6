"""The scores of many models as one matrix: a row for each model and setting, a column for each metric of a task.

Colours show the distance from the ideal value as a share of the greatest possible one. The scales are fixed, so a
colour means the same on every page.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cards.results import supported_digits

#: The range of each published metric.
RANGES = {
    "gas": (0.0, 1.0),
    "gas_plain": (0.0, 1.0),
    "icat": (0.0, 100.0),
    "labour_correlation": (-1.0, 1.0),
    "ss": (0.0, 100.0),
    "us_score": (0.0, 100.0),
}
#: The upper ends of the colours but the last one, as shares of the greatest possible distance from the ideal.
BANDS = (0.05, 0.15, 0.3, 0.5)


#: Data set, task and metric.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """A score in the matrix; without an interval its ends are NaN, and without an ideal the distance is None."""

    value: float
    low: float
    high: float
    metric: str
    ideal: float | None
    n: int
    remark: str = ""

    @property
    def number(self) -> str:
        """The value as text, with the digits that its interval supports."""
        return supported_digits(self.value, self.low, self.high)

    @property
    def interval(self) -> str:
        """The interval as text; empty when there is none."""
        if not math.isfinite(self.high - self.low):
            return ""
        return " to ".join(supported_digits(end, self.low, self.high) for end in (self.low, self.high))

    @property
    def distance(self) -> float | None:
        """The distance from the ideal as a share of the greatest possible one; None where one of them is unknown.

        >>> Cell(75, 70, 80, "ss", 50, 9).distance, Cell(3, 2, 4, "other", 0, 9).distance
        (0.5, None)
        """
        if self.ideal is None or self.metric not in RANGES:
            return None
        return min(1.0, abs(self.value - self.ideal) / max(abs(end - self.ideal) for end in RANGES[self.metric]))

    @property
    def band(self) -> int | None:
        """The number of the colour, 0 for the nearest distances.

        >>> Cell(0.04, 0, 0.1, "gas", 0, 9).band, Cell(0.51, 0, 1, "gas", 0, 9).band
        (0, 4)
        """
        return None if self.distance is None else sum(self.distance > end for end in BANDS)

    def change(self, base: Cell | None) -> str:
        """Whether this score is nearer to the ideal than that of the base, or further; empty without a comparison.

        It is unclear where the intervals overlap.

        >>> base = Cell(0.5, 0.4, 0.6, "gas", 0, 9)
        >>> Cell(0.1, 0.0, 0.2, "gas", 0, 9).change(base), Cell(0.45, 0.3, 0.6, "gas", 0, 9).change(base)
        ('nearer', 'unclear')
        """
        if base is None or self.ideal is None or (base.metric, base.ideal) != (self.metric, self.ideal):
            return ""
        if not (self.high < base.low or base.high < self.low):
            return "unclear"
        return "nearer" if abs(self.value - self.ideal) < abs(base.value - self.ideal) else "further"


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model with a setting, such as an adapter; ``base`` is the name of the model that the adapter changes.

    ``cells`` are the scores by data set, task and metric.
    """

    model: str
    setting: str
    base: str
    cells: Mapping[Key, Cell] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ColumnGroup:
    """A model without an adapter, and below it the same model with adapters or other settings."""

    first: ModelRow
    others: Sequence[ModelRow] = ()


@dataclass(frozen=True, slots=True)
class Matrix:
    """All rows in groups, and the columns in their order."""

    groups: Sequence[ColumnGroup]
    columns: Sequence[Key]

    @property
    def datasets(self) -> Mapping[str, int]:
        """The number of columns of each data set."""
        return Counter(dataset for dataset, _, _ in self.columns)


def matrix(rows: Iterable[ModelRow]) -> Matrix:
    """The matrix of rows: each adapter below its base, groups by name.

    A row whose base has no row of its own is the first of a group.

    >>> rows = [("b", "adapter x", "b"), ("a", "", ""), ("b", "", ""), ("org/x", "", "a")]
    >>> made = matrix([ModelRow(*row) for row in rows])
    >>> [(group.first.model, [row.model for row in group.others]) for group in made.groups]
    [('a', ['org/x']), ('b', ['b'])]
    """
    ordered = sorted(rows, key=lambda row: (row.model.lower(), row.model, row.setting))
    alone = {row.model for row in ordered if not row.setting and row.base in ("", row.model)}
    below: dict[str, list[ModelRow]] = {name: [] for name in alone}
    firsts = []
    for row in ordered:
        is_first = row.model in alone and not row.setting
        base = row.base or row.model
        if not is_first and base in alone:
            below[base].append(row)
        else:
            firsts.append(row)
    groups = [ColumnGroup(row, below.get(row.model, ()) if not row.setting else ()) for row in firsts]
    return Matrix(groups, sorted({key for row in ordered for key in row.cells}))
