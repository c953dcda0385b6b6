"""The page of methods side by side, and the same tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes

from cards.text import templates
from mitigation.columns import COLUMNS
from mitigation.comparison_tables import DomainTable
from scoring.report.page import template
from scoring.report.plots import draw

_TEMPLATES = Path(__file__).with_name("templates")
#: Inches of the plot.
_SIZE = (draw.FULL, 4.6)
#: Points of a number's box beside its dot, and how far from the dot it may stand.
_BOX, _RADII = (13.0, 11.0), (9.0, 16.0, 24.0, 34.0, 46.0, 60.0)
_DIRECTIONS = [(math.cos(n * math.pi / 8), math.sin(n * math.pi / 8)) for n in (2, 14, 6, 10, 0, 8, 4, 12, 1, 15, 7, 9)]


def page(model: str, tables: Sequence[DomainTable], measured: Mapping[str, Any]) -> str:
    """The text of ``methods.html``."""
    return template("methods.html.j2", _TEMPLATES).render(
        model=model, tables=tables, measured=measured, columns=COLUMNS, panels=[plot(table) for table in tables]
    )


def markdown(model: str, tables: Sequence[DomainTable]) -> str:
    """The text of ``methods.md``."""
    return templates(_TEMPLATES).get_template("methods.md.j2").render(model=model, tables=tables, columns=COLUMNS)


def plot(table: DomainTable) -> draw.Panel | None:
    """The distance of SS from 50 of each method against its difference of LMS, both with intervals; None without."""
    if not table.points:
        return None

    def paint(axes: Axes) -> None:
        axes.axvline(table.base, color=draw.LINE_3, linewidth=1, linestyle=(0, (4, 2)))
        axes.axhline(0, color=draw.LINE_3, linewidth=1, linestyle=(0, (4, 2)))
        for point in table.points:
            (x, left, right), (y, low, high) = point.distance, point.ability
            axes.plot((left, right), (y, y), color=draw.THIRD, linewidth=0.9, alpha=0.55)
            axes.plot((x, x), (low, high), color=draw.THIRD, linewidth=0.9, alpha=0.55)
            axes.plot(x, y, "o", color=draw.LINE_1, markersize=4.5, markeredgecolor=draw.PAPER, zorder=4)
        axes.set_xlabel("distance of SS from 50")
        axes.set_ylabel("change of LMS")
        axes.set_xlim(limits([point.distance for point in table.points]))
        axes.set_ylim(limits([point.ability for point in table.points]))
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        scale = 72 * (_SIZE[0] - 0.6) / (right - left), 72 * (_SIZE[1] - 0.5) / (high - low)
        dots = [(scale[0] * point.distance[0], scale[1] * point.ability[0]) for point in table.points]
        for point, dot, place in zip(table.points, dots, label_places(dots), strict=True):
            shift = place[0] - dot[0], place[1] - dot[1]
            far = math.hypot(*shift) > _RADII[0] + 1
            axes.annotate(
                str(point.number),
                (point.distance[0], point.ability[0]),
                xytext=shift,
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=8.5,
                color=draw.INK,
                arrowprops={"arrowstyle": "-", "color": draw.SOFT, "linewidth": 0.6, "shrinkA": 5} if far else None,
                zorder=5,
            )

    said = f"Distance of SS from 50 against the change of LMS of {len(table.points)} methods, {table.domain}"
    return draw.panel(table.domain, said, _SIZE, paint)


def limits(estimates: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """The ends of an axis for values with their intervals; intervals much longer than the median one are cut off.

    >>> limits([(0.0, -1.0, 1.0), (1.0, 0.0, 2.0), (0.0, -30.0, 30.0)])
    (-2.1, 2.1)
    >>> limits([(2.0, math.nan, math.nan)])  # of one example, which has no interval
    (1.0, 3.0)
    """
    known = [tuple(x if math.isfinite(x) else value for x in (value, low, high)) for value, low, high in estimates]
    most = median(high - low for _, low, high in known)
    least = min(max(low, value - most) for value, low, _ in known)
    largest = max(min(high, value + most) for value, _, high in known)
    margin = 0.025 * (largest - least) or 1.0
    return least - margin, largest + margin


def label_places(dots: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The middle of the label of each dot, in points: the nearest place around it that no label and no dot has.

    >>> [tuple(map(round, place)) for place in label_places([(0, 0), (0, 0)])]
    [(6, 6), (6, -6)]
    """
    placed: list[tuple[float, float]] = []

    def free(place: tuple[float, float]) -> bool:
        apart = all(abs(place[0] - x) >= _BOX[0] or abs(place[1] - y) >= _BOX[1] for x, y in placed)
        return apart and all(abs(place[0] - x) >= _BOX[0] / 2 or abs(place[1] - y) >= _BOX[1] / 2 for x, y in dots)

    for x, y in dots:
        around = [(x + radius * dx, y + radius * dy) for radius in _RADII for dx, dy in _DIRECTIONS]
        placed.append(next(filter(free, around), around[-1]))
    return placed
