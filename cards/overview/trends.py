"""Scores along the steps of training, or along the sizes, of the models of a family: the panels of the trend plot.

A panel shows one score of up to three families: dots on their 95 % intervals, joined in their order. A line between
two neighbours is solid where their scores differ significantly, else dotted. The template draws what is computed here.

>>> from cards.overview.model_matrix import Cell
>>> def model(step, value):
...     cell = Cell(value, value - 1, value + 1, "ss", 50, 99, "", 0, 100)
...     return ModelRow(f"m step{step}", "", "", {("d", "t", "ss"): cell}, family="m", step=step)
>>> (figure,) = trends([model(1, 60), model(2, 52), model(3, 52.1)], [Column(("d", "t", "ss"), "stereotype score")])
>>> figure.axis, [point.apart for point in figure.panels[0].lines[0].points], figure.panels[0].sentence
('step of training', [False, True, False], '1 of 2 changes between neighbours is significant.')
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cards.common.numbers import counted, formatted, minus
from cards.common.sentences import say
from cards.common.text import grouped
from cards.common.verdict import LEVEL, holm
from cards.overview.families import size_text
from cards.overview.model_matrix import Cell, Column, ModelRow

#: The size of a panel in units of its drawing, and the margins for the labels of the axes.
WIDTH, HEIGHT = 320, 200
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 12, 26
#: Families in one panel, as many as there are colours that all readers can tell apart.
FAMILIES = 3
#: A horizontal axis may be logarithmic from this ratio of its ends.
_LOGARITHMIC = 20
#: The smallest distance of two labels below the horizontal axis, in units of the drawing.
_APART = 44
#: A place on the axis with its score.
Scored = tuple[float, Cell]
#: A function from numbers to places in the drawing.
Placing = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Point:
    """A score in the plot: its place, both ends of its interval, and a sentence about it.

    ``apart`` says whether it differs significantly from the point before it.
    """

    x: float
    y: float
    low: float
    high: float
    said: str
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """The points of a family in their order."""

    family: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Panel:
    """One score of the families of a figure; ticks are pairs of a place and a label."""

    title: str
    note: str
    lines: Sequence[Line]
    across: Sequence[tuple[float, str]]
    up: Sequence[tuple[float, str]]
    ideal: float | None
    sentence: str


@dataclass(frozen=True, slots=True)
class TrendFigure:
    """The panels of some families along one axis."""

    axis: str
    families: Sequence[str]
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Axis:
    """A horizontal axis: the place of a model on it, the text of a place, and the line that a model belongs to.

    Sizes are compared by their ratios, so an axis of them is logarithmic where it is long.
    """

    title: str
    at: Callable[[ModelRow], float]
    text: Callable[[float], str]
    line: Callable[[ModelRow], str]
    by_ratio: bool = False


def _line_along_steps(row: ModelRow) -> str:
    return f"{row.family} {size_text(row.parameters)}".strip()


def _line_along_sizes(row: ModelRow) -> str:
    if not math.isfinite(row.step):
        return row.family
    return f"{row.family}, step {row.step:,.0f}"


AXES = (
    Axis("step of training", lambda row: row.step, "{:,.0f}".format, _line_along_steps),
    Axis("number of parameters", lambda row: row.parameters, size_text, _line_along_sizes, by_ratio=True),
)


def trends(rows: Iterable[ModelRow], columns: Sequence[Column]) -> list[TrendFigure]:
    """The figures of all families that have two models or more along an axis.

    Models with an adapter or another setting are left out: they are no step of the training.
    Of a family with steps, the models of each size are a line of their own, and the other way round.
    """
    plain = [row for row in rows if row.family and not row.setting and not row.base]
    figures = []
    for axis in AXES:
        placed = [row for row in plain if math.isfinite(axis.at(row))]
        lines = grouped(placed, axis.line)
        names = []
        for name, models in sorted(lines.items()):
            # Two models at one place are no trend.
            if len({axis.at(row) for row in models}) > 1:
                names.append(name)
        for start in range(0, len(names), FAMILIES):
            shown = {name: sorted(lines[name], key=axis.at) for name in names[start : start + FAMILIES]}
            panels = [_panel(shown, column, axis) for column in columns]
            drawn = [panel for panel in panels if panel]
            if drawn:
                figures.append(TrendFigure(axis.title, list(shown), drawn))
    return figures


def _panel(families: Mapping[str, Sequence[ModelRow]], column: Column, axis: Axis) -> Panel | None:
    """The panel of a score; None where no family has it at two places."""
    scores: dict[str, list[Scored]] = {}
    cells: list[Cell] = []
    every_place: set[float] = set()
    for name, rows in families.items():
        line = [(axis.at(row), row.cells[column.key]) for row in rows if column.key in row.cells]
        places_of_line = {place for place, _ in line}
        # A family with one place keeps its colour, but has no line here.
        scores[name] = line if len(places_of_line) > 1 else []
        if scores[name]:
            cells += [cell for _, cell in line]
            every_place |= places_of_line
    if not cells:
        return None

    ends: list[float] = []
    for cell in cells:
        ends += [number for number in cell.numbers if math.isfinite(number)]
    least, most = min(ends), max(ends)
    ideal = cells[0].ideal
    # An ideal value far from all scores would press them into one line, so it is only drawn where it is near.
    if ideal is not None and least - (most - least) <= ideal <= most + (most - least):
        least, most = min(least, ideal), max(most, ideal)
    else:
        ideal = None
    marks = ticks(least, most)
    up = _placed(marks[0], marks[-1], HEIGHT - BOTTOM, TOP)

    places = sorted(every_place)
    across = _placed(places[0], places[-1], LEFT + 8, WIDTH - RIGHT - 8)
    if places[-1] > _LOGARITHMIC * max(places[0], 1):
        # Steps 1, 2, 4 … are apart on a logarithmic axis alone, and 125,000, 134,000, 140,000 on a plain one.
        logarithmic = _placed(places[0], places[-1], LEFT + 8, WIDTH - RIGHT - 8, logarithmic=True)
        if axis.by_ratio or _smallest_gap(logarithmic, places) >= _smallest_gap(across, places):
            across = logarithmic
    lines = []
    changes = significant = 0
    for name, line in scores.items():
        points = _points(line, across, up, axis)
        lines.append(Line(name, points))
        # The first point has none before it.
        for point in points[1:]:
            changes += 1
            significant += point.apart
    are = "is" if significant == 1 else "are"
    across_marks = [(across(place), axis.text(place)) for place in places]
    up_marks = [(up(mark), minus(formatted(mark))) for mark in marks]
    return Panel(
        title=column.title,
        note=column.note,
        lines=lines,
        across=_apart(across_marks),
        up=up_marks,
        ideal=None if ideal is None else up(ideal),
        sentence=say("trend.changes", count=f"{significant} of {counted(changes, 'change')}", are=are),
    )


def _points(scores: Sequence[Scored], across: Placing, up: Placing, axis: Axis) -> list[Point]:
    """The points of a line; each says whether it differs significantly from the one before it.

    The changes of a line are looked at together, so their p-values are corrected for each other.
    """
    p = []
    for (_, old), (_, new) in pairwise(scores):
        # Scores without an interval, of other metrics, or at chance have no p.
        p.append(new.change(old)[1] if new.comparable(old) else math.nan)
    apart = [False]
    apart += [value < LEVEL for value in holm(p)]
    points = []
    for (place, cell), is_apart in zip(scores, apart, strict=False):
        low = high = cell.value
        if cell.has_interval:
            low, high = cell.low, cell.high
        said = f"{axis.title} {axis.text(place)}: {cell.number}"
        if cell.interval:
            said += f", 95 % interval {cell.interval}"
        points.append(Point(across(place), up(cell.value), up(low), up(high), minus(said), is_apart))
    return points


def _placed(least: float, most: float, start: float, end: float, logarithmic: bool = False) -> Placing:
    """A function from numbers between two ends to places in the drawing."""

    def scaled(number: float) -> float:
        if not logarithmic:
            return number
        # Step 0 has no logarithm, and one step more changes nothing that can be seen.
        return math.log10(number + 1)

    width = scaled(most) - scaled(least)

    def place(number: float) -> float:
        share = 0.5
        if width:
            share = (scaled(number) - scaled(least)) / width
        return round(start + (end - start) * share, 1)

    return place


def _smallest_gap(placing: Placing, places: Sequence[float]) -> float:
    """The smallest distance between neighbours in the drawing."""
    return min(placing(after) - placing(before) for before, after in pairwise(places))


def ticks(least: float, most: float) -> list[float]:
    """Three to six round numbers around all numbers between two ends.

    >>> ticks(0.12, 0.48), ticks(9, 41), ticks(5, 5)
    ([0.1, 0.2, 0.3, 0.4, 0.5], [0.0, 10.0, 20.0, 30.0, 40.0, 50.0], [4.0, 4.5, 5.0, 5.5, 6.0])
    """
    if most <= least:
        room = abs(least) / 5 or 1.0
        least, most = least - room, most + room
    rough = (most - least) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    # The smallest of the steps 1, 2, 5, 10 that is not too small; 0.999 allows for rounding.
    step = min(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    # A number that is a tick but for rounding is one, so no further tick is added around it.
    first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    # Without rounding, 3 · 0.1 would be shown as 0.30000000000000004.
    return [round(number * step, 12) for number in range(first, last + 1)]


def _apart(labels: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """The labels of an axis that do not touch the one before them; the last one is always there."""
    *others, last = labels
    kept: list[tuple[float, str]] = []
    for place, text in others:
        is_free = not kept or place - kept[-1][0] >= _APART
        if is_free and last[0] - place >= _APART:
            kept.append((place, text))
    kept.append(last)
    return kept
