"""The scores of many models as one matrix: a row for each model and setting, a column for each metric of a task.

Colours show the distance from the ideal value as a share of the greatest possible one. The scales are fixed, so a
colour means the same on every page.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cards.common.numbers import decimals, interval, supported_digits
from cards.common.verdict import Numbers, corrected, p_of, p_side, unpaired, verdict
from cards.results import Key

#: The upper ends of the colours but the last one, as shares of the greatest possible distance from the ideal.
BANDS = (0.05, 0.15, 0.3, 0.5)


@dataclass(frozen=True, slots=True)
class Cell:
    """A published score; without an interval its ends are NaN, and without an ideal its place is None.

    ``least`` and ``most`` are the ends of the metric's range; NaN where they are not known. ``remark`` is a restriction
    such as a part of the rows, and ``setting`` says with which adapter or prompt a model was scored. ``paired`` is a
    change that a comparison of runs found: the score before and after, the difference with both ends, its p and the p
    of its side. ``clusters`` is the number of clusters; infinite where it is not known. ``reported`` says that only the
    owner of a result can check it, and ``inconclusive`` why nothing is concluded from the benchmark
    (:attr:`cards.results.Report.inconclusive`): such a score has no rank and no verdict. ``places`` are the
    decimals that a column shares. ``said`` is the verdict of the paired change in that comparison.
    """

    value: float
    low: float
    high: float
    metric: str
    ideal: float | None
    n: int
    remark: str = ""
    least: float = math.nan
    most: float = math.nan
    setting: str = ""
    paired: tuple[float, ...] = ()
    clusters: float = math.inf
    reported: bool = False
    inconclusive: str = ""
    places: int | None = None
    said: str = ""

    @property
    def numbers(self) -> Numbers:
        """The value and both ends of its interval."""
        return self.value, self.low, self.high

    @property
    def number(self) -> str:
        """The value as text, with the decimals of the column, or the digits that its interval supports."""
        if self.places is not None:
            return decimals(self.value, self.places)
        return supported_digits(self.value, self.low, self.high)

    @property
    def interval(self) -> str:
        """The interval as text; empty when there is none."""

        def shown(end: float) -> str:
            if self.places is not None:
                return decimals(end, self.places)
            return supported_digits(end, self.low, self.high)

        return interval(self.low, self.high, shown, "{} to {}")

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the interval are known."""
        return math.isfinite(self.high - self.low)

    @property
    def distance(self) -> float:
        """The distance from the ideal; the value itself when there is no ideal."""
        return self.value if self.ideal is None else abs(self.value - self.ideal)

    @property
    def share(self) -> float | None:
        """The distance from the ideal as a share of the greatest possible one; None where one of them is unknown.

        >>> Cell(75, 70, 80, "ss", 50, 9, "", 0, 100).share, Cell(3, 2, 4, "other", 0, 9).share
        (0.5, None)
        """
        if self.ideal is None or not math.isfinite(self.most - self.least) or self.most == self.least:
            return None
        # The longer side of the range is the greatest possible distance; a value outside the range has all of it.
        return min(1.0, self.distance / max(self.most - self.ideal, self.ideal - self.least))

    @property
    def band(self) -> int | None:
        """The number of the colour, 0 for the nearest distances.

        >>> Cell(0.04, 0, 0.1, "gas", 0, 9, "", 0, 1).band, Cell(0.51, 0, 1, "gas", 0, 9, "", 0, 1).band
        (0, 4)
        """
        if self.share is None:
            return None
        return sum(self.share > end for end in BANDS)

    def comparable(self, base: Cell | None) -> bool:
        """Whether the change from a base has a verdict: both have intervals, of the same metric with an ideal.

        It has none where nothing is concluded from one of them.

        >>> base = Cell(0.5, 0.4, 0.6, "gas", 0, 9)
        >>> Cell(0.1, 0.0, 0.2, "gas", 0, 9).comparable(base), Cell(5, 4, 6, "ss", 50, 9).comparable(base)
        (True, False)
        """
        if base is None or self.inconclusive or base.inconclusive:
            return False
        if self.ideal is None or (base.metric, base.ideal) != (self.metric, self.ideal):
            return False
        return self.has_interval and base.has_interval

    def change(self, base: Cell) -> tuple[Numbers, float, float]:
        """The difference from the score of a base, its p, and the p of its side.

        Both p are corrected by :func:`cards.common.verdict.corrected`.

        It is the paired one where the run was compared with that base, else that of independent scores
        (:func:`cards.common.verdict.unpaired`), because examples are not at hand.

        >>> base = Cell(0.11, 0.06, 0.17, "gas", 0, 9)
        >>> Cell(0.10, 0.05, 0.16, "gas", 0, 9, paired=(0.11, 0.10, -0.01, -0.015, -0.005, 0.001, 0.0)
        ...      ).change(base)
        ((-0.01, -0.015, -0.005), 0.001, 0.0)
        """
        # The paired difference is that of another base if the values are not the same.
        if self.paired[:2] == (base.value, self.value):
            _, _, value, low, high, p, side = self.paired
            return (value, low, high), p, side
        # Without the examples the scores count as independent, which makes the interval wider than the paired one.
        difference = unpaired(self.numbers, base.numbers)
        return difference, p_of(difference), self._p_of_side(base)

    def _p_of_side(self, base: Cell) -> float:
        return p_side(base.numbers, self.numbers, self.ideal, self.least, self.most)

    def arrow(self, base: Cell) -> str:
        """Both values as text, with as many digits as make different values look different.

        >>> Cell(0.12, 0.0, 0.3, "gas", 0, 9).arrow(Cell(0.08, 0.0, 0.3, "gas", 0, 9))
        '0.08 → 0.12'
        """
        before, after = base.number, self.number
        for places in range(1 + (self.places or 0), 5):
            if before != after or self.value == base.value:
                break
            before, after = decimals(base.value, places), decimals(self.value, places)
        return f"{before} → {after}"


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model with a setting, such as an adapter; ``base`` is the name of the model that the adapter changes.

    ``cells`` are the scores by a key of data set, task and metric. ``family`` groups models, and ``parameters`` and
    ``step`` are the place in it; NaN where they are not known. ``revision`` tells rows of one model apart, such as a
    branch. ``ability`` is the score of language ability. A row with a ``restriction``, such as a model that answers at
    chance, says so and has no rank. ``link`` is an address, and ``about`` a few words below the name.
    """

    model: str
    setting: str
    base: str
    cells: Mapping[Key, Cell] = field(default_factory=dict)
    family: str = ""
    parameters: float = math.nan
    step: float = math.nan
    revision: str = ""
    ability: Cell | None = None
    restriction: str = ""
    link: str = ""
    about: str = ""

    def changes(self, base: ModelRow) -> dict[Key, str]:
        """What each change from the base says, by :func:`cards.common.verdict.verdict`.

        Differences are those of :meth:`Cell.change`. p is corrected for the scores of the row; where the runs were
        compared, the verdict is that of the comparison. A row with a
        restriction, such as a model that answers at chance, has no verdict, and none is made from it.

        >>> row, base = (ModelRow("m", "", "", {("d", "t", "gas"): Cell(*score, "gas", 0, 9, "", 0, 1)})
        ...              for score in ((0.03, 0.01, 0.06), (0.11, 0.06, 0.17)))
        >>> row.changes(base)
        {('d', 't', 'gas'): 'nearer'}
        """
        if self.restriction or base.restriction:
            return {}
        compared: list[tuple[Key, Cell, Cell, Numbers]] = []
        p_changes, p_sides, clusters = [], [], []
        for key, cell in self.cells.items():
            old = base.cells.get(key)
            if old is None or not cell.comparable(old):
                continue
            change, p, side = cell.change(old)
            compared.append((key, cell, old, change))
            p_changes.append(p)
            p_sides.append(side)
            clusters.append(min(cell.clusters, old.clusters))
        # All changes of a row are looked at together, so they are one family of tests.
        corrected_p, p_directions = corrected(p_changes, p_sides, clusters)
        verdicts: dict[Key, str] = {}
        for (key, cell, old, change), p, p_direction in zip(compared, corrected_p, p_directions, strict=True):
            is_paired = cell.paired[:2] == (old.value, cell.value)
            # Of one pair of runs all pages say the same.
            if is_paired and cell.said:
                verdicts[key] = cell.said
            else:
                verdicts[key] = verdict(old.value, change, cell.ideal, p, p_direction)
        return verdicts


@dataclass(frozen=True, slots=True)
class Column:
    """A score that a table of models shows: its key in the rows, its title in words, and a note below it."""

    key: Key
    title: str
    note: str = ""


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
    >>> groups = matrix([ModelRow(*row) for row in rows]).groups
    >>> [(group.first.model, [row.model for row in group.others]) for group in groups]
    [('a', ['org/x']), ('b', ['b'])]
    """
    ordered = sorted(rows, key=lambda row: (row.model.lower(), row.model, row.setting, row.revision))
    alone = [row for row in ordered if not row.setting and row.base in ("", row.model)]
    by_revision: dict[tuple[str, str], int] = {}
    by_name: dict[str, int] = {}
    below: list[list[ModelRow]] = []
    for place, row in enumerate(alone):
        by_revision[row.model, row.revision] = place
        # An adapter names no revision of its base, so it goes below the first one.
        by_name.setdefault(row.model, place)
        below.append([])
    without_base = []
    for row in ordered:
        # A row is first in its group, or below the model that it changes where that has a row.
        base = row.base or row.model
        if base not in by_name:
            without_base.append(row)
        elif row.setting or row.base not in ("", row.model):
            below[by_revision.get((base, row.revision), by_name[base])].append(row)
    groups = [ColumnGroup(row, below[place]) for place, row in enumerate(alone)]
    groups += [ColumnGroup(row) for row in without_base]
    groups.sort(key=lambda group: (group.first.model.lower(), group.first.model, group.first.setting))
    columns: set[Key] = set()
    for row in ordered:
        columns.update(row.cells)
    return Matrix(groups, sorted(columns))
