"""The page of methods side by side: a conclusion, a short table and a plot for each domain, all scores folded."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from cards.common import files, numbers, text
from mitigation.errors import MitigationError
from mitigation.methods import comparison
from scoring.adapters.facts import SCHEMA, Adapter, Numbers
from scoring.report.page import template
from scoring.report.plots import draw

_TEMPLATES = Path(__file__).parents[1] / "templates"
#: Inches of the plot.
_SIZE = (7.0, 4.8)
#: Points of a letter and of a line of the labels.
_LETTER, _LINE = 4.6, 10.5
#: The box under a text, so that no line runs through it.
_BEHIND_TEXT = {"facecolor": draw.PAPER, "edgecolor": "none", "pad": 0.6}


def tone(row: Any) -> str:
    """``kept`` for what is better or kept beyond noise, ``lost`` for what is worse or is paid with ability."""
    words = comparison.verdict_text(row)
    if words in ("nearer, ability kept", "kept"):
        return "kept"
    if words in ("nearer, ability lost", "further", "lost"):
        return "lost"
    return ""


def page(model: str, tables: Sequence[comparison.DomainTable], measured: Mapping[str, Any]) -> str:
    """The text of ``methods.html``."""
    panels = [plot(table) for table in tables]
    measured_columns: set[str] = set()
    for table in tables:
        measured_columns |= set(table.columns)
    # In the order of columns.toml, whatever the order of measurement was.
    columns = {name: column for name, column in comparison.COLUMNS.items() if name in measured_columns}
    html = template("methods.html.j2", _TEMPLATES)
    html.globals.update(
        change_text=comparison.change_text,
        verdict_text=comparison.verdict_text,
        tone=tone,
        decimals=numbers.decimals,
        not_measured=not_measured,
    )
    return html.render(
        model=model,
        tables=tables,
        measured=measured,
        columns=columns,
        panels=panels,
    )


def not_measured(table: comparison.DomainTable) -> list[str]:
    """The methods that papers print for a domain and that were not measured here, each once."""
    names: list[str] = []
    for name, _ in table.printed:
        recipe = comparison.PRINTED["recipes"].get(name)
        if recipe not in table.cells() and name not in (*comparison.UNCHANGED, *names):
            names.append(name)
    return names


def markdown(model: str, tables: Sequence[comparison.DomainTable]) -> str:
    """The text of ``methods.md``: the conclusion and all scores of each domain."""
    page = text.templates(_TEMPLATES).get_template("methods.md.j2")
    return page.render(model=model, tables=tables, shown=_markdown_cell)


def _markdown_cell(row: Any) -> str:
    change = comparison.change_text(row)
    if change:
        change = f" ({change}, n {row.n:,.0f})"
    return f"{numbers.decimals(row.after, 2, missing='')}{change} {comparison.verdict_text(row)}".strip()


class Dot(NamedTuple):
    """A method in the plot: the change of its distance from the ideal value and that of LMS, with intervals."""

    method: str
    distance: Numbers
    ability: Numbers
    colour: str


def plot(table: comparison.DomainTable) -> draw.Panel | None:
    """How far each method moves the score of bias from its ideal value against the change of LMS; None without LMS.

    Methods that changed one of them beyond noise are in colour, with their intervals.
    """
    ideal = comparison.COLUMNS[table.bias].ideal
    if ideal is None:
        return None
    dots = _dots(table, ideal)
    if not dots:
        return None

    def paint(axes: Axes) -> None:
        _paint_dots(axes, dots)
        axes.set(xlabel=f"change of the distance of {table.bias} from {ideal:g}", ylabel="change of LMS")
        # Zero is always shown, and the interval of a grey dot is not drawn, so it does not widen the axes.
        distances: list[Numbers] = []
        abilities: list[Numbers] = []
        for dot in dots:
            x, y = dot.distance[0], dot.ability[0]
            distances.append(dot.distance if dot.colour else (x, x, x))
            abilities.append(dot.ability if dot.colour else (y, y, y))
        axes.set_xlim(limits([*distances, (0.0, 0.0, 0.0)]))
        axes.set_ylim(limits([*abilities, (0.0, 0.0, 0.0)]))
        _name_corners(axes)
        _name_dots(axes, dots)

    label = f"Change of the distance of {table.bias} from {ideal:g} and change of LMS of {len(dots)} methods"
    return draw.panel(table.domain, f"{label}, {table.domain}", _SIZE, paint)


def _dots(table: comparison.DomainTable, ideal: float) -> list[Dot]:
    """The methods with a score of bias and with LMS, in colour if one of these changed beyond noise."""
    dots = []
    for method, row in table.cells().items():
        if table.bias not in row or "LMS" not in row:
            continue
        bias, lms = row[table.bias], row["LMS"]
        distance = moved_away(bias.before, (bias.difference, bias.low, bias.high), ideal)
        # A loss of either kind is shown before a gain.
        verdicts = {bias.verdict, lms.verdict}
        if verdicts & {"further", "lost"}:
            colour = draw.LINE_3
        elif "nearer" in verdicts:
            colour = draw.LINE_2
        else:
            colour = ""
        if math.isfinite(distance[0] + lms.difference):
            dots.append(Dot(method, distance, (lms.difference, lms.low, lms.high), colour))
    return dots


def _paint_dots(axes: Axes, dots: Sequence[Dot]) -> None:
    """Draws lines through zero, and each dot with its intervals if it is in colour."""
    for line in (axes.axvline, axes.axhline):
        line(0, color=draw.INK, linewidth=0.9, linestyle=(0, (4, 2)))
    for dot in dots:
        x, left, right = dot.distance
        y, low, high = dot.ability
        if dot.colour:
            axes.plot((left, right), (y, y), color=dot.colour, linewidth=1.1, alpha=0.7)
            axes.plot((x, x), (low, high), color=dot.colour, linewidth=1.1, alpha=0.7)
        colour = dot.colour or draw.THIRD
        axes.plot(x, y, "o", color=colour, markersize=5.5, markeredgecolor=draw.PAPER, zorder=4)


def _name_corners(axes: Axes) -> None:
    """Writes what each corner of the plot means; places are shares of the axes."""
    for x, words, side in ((0, "nearer", "left"), (1, "further", "right")):
        for y, also, end in ((0, "less able", "bottom"), (1, "more able", "top")):
            label = axes.text(
                0.005 + 0.99 * x, 0.01 + 0.98 * y, f"{words}, {also}", transform=axes.transAxes, color=draw.SOFT
            )
            label.set(ha=side, va=end, style="italic", bbox=_BEHIND_TEXT)


def _name_dots(axes: Axes, dots: Sequence[Dot]) -> None:
    """Writes the name of each method next to its dot, with a line to the dot where the name is far from it."""
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    # Labels are placed in points (72 an inch), because their size does not depend on the scale of the axes. The plot
    # without its margins is 0.6 inches smaller than the figure.
    across = 72 * (_SIZE[0] - 0.6) / (right - left)
    up = 72 * (_SIZE[1] - 0.6) / (high - low)
    points = [(across * dot.distance[0], up * dot.ability[0]) for dot in dots]
    # A letter is about as wide everywhere, so the width of a text is estimated.
    widths = [_LETTER * len(dot.method) + 4 for dot in dots]
    places = label_places(points, widths, (across * left, across * right))
    leader = {"arrowstyle": "-", "color": draw.SOFT, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
    for dot, point, place in zip(dots, points, places, strict=True):
        shift = place[0] - point[0], place[1] - point[1]
        axes.annotate(
            dot.method,
            (dot.distance[0], dot.ability[0]),
            xytext=shift,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8.5,
            color=draw.INK if dot.colour else draw.SOFT,
            bbox=_BEHIND_TEXT,
            arrowprops=leader if abs(shift[1]) > _LINE else None,
            zorder=5,
        )


def limits(estimates: Sequence[tuple[float, ...]]) -> tuple[float, float]:
    """The ends of an axis for values with their intervals; intervals much longer than the median one are cut off.

    >>> limits([(0.0, -1.0, 1.0), (1.0, 0.0, 2.0), (0.0, -30.0, 30.0)])
    (-2.4, 2.4)
    >>> limits([(2.0, math.nan, math.nan)])  # of one example, which has no interval
    (1.0, 3.0)
    """
    ends: list[tuple[float, float, float]] = []
    lengths: list[float] = []
    for value, low, high in estimates:
        if not math.isfinite(low):
            low = value
        if not math.isfinite(high):
            high = value
        ends.append((value, low, high))
        if high > low:
            lengths.append(high - low)
    most = median(lengths) if lengths else 0.0
    least = min(max(low, value - most) for value, low, _ in ends)
    largest = max(min(high, value + most) for value, _, high in ends)
    # A tenth of the range on both sides; a range of length zero gets a margin of one.
    margin = 0.1 * (largest - least) or 1.0
    return least - margin, largest + margin


def label_places(
    dots: Sequence[tuple[float, float]], widths: Sequence[float], ends: tuple[float, float] = (-math.inf, math.inf)
) -> list[tuple[float, float]]:
    """The middle of the label of each dot, in points: the nearest place next to it that no label and no dot has.

    Labels are ``widths`` wide and stay within the ``ends`` of the axis.

    >>> [tuple(map(round, place)) for place in label_places([(0, 0), (0, 0)], [20, 20])]
    [(16, 0), (-16, 0)]
    """
    placed: list[tuple[float, float, float]] = []
    for (x, y), width in zip(dots, widths, strict=True):
        # Nearest first: on the line of the dot, then a line further up and down, on its right and on its left.
        nearby = []
        for reach in range(12):
            for up in (1, -1):
                for side in (1, -1):
                    nearby.append((x + side * (width / 2 + 6), y + up * reach * _LINE))
        chosen = nearby[0]
        for place in nearby:
            if _is_free(place, width, placed, dots, ends):
                chosen = place
                break
        placed.append((chosen[0], chosen[1], width))
    return [(x, y) for x, y, _ in placed]


def _is_free(
    place: tuple[float, float],
    width: float,
    labels: Sequence[tuple[float, float, float]],
    dots: Sequence[tuple[float, float]],
    ends: tuple[float, float],
) -> bool:
    """Whether a label in a place neither leaves the axes nor touches another label (x, y, width) or a dot."""
    x, y = place
    if x - width / 2 < ends[0] or x + width / 2 > ends[1]:
        return False
    for label_x, label_y, label_width in labels:
        if abs(x - label_x) < (width + label_width) / 2 and abs(y - label_y) < _LINE:
            return False
    # A dot is 6 points wide and its label a line high, with a point between them.
    return not any(abs(x - dot_x) < width / 2 + 3 and abs(y - dot_y) < 7 for dot_x, dot_y in dots)


def moved_away(before: float, change: tuple[float, float, float], ideal: float) -> tuple[float, float, float]:
    """The change of |score − ideal| by a change of the score, with the ends of its interval.

    >>> moved_away(54.0, (-2.0, -5.0, 1.0), 50.0), moved_away(54.0, (-1.0, -2.0, 0.5), 50.0)
    ((-2.0, -4.0, 1.0), (-1.0, -2.0, 0.5))
    """
    # The distance has its least value, zero, inside an interval that contains the ideal value.
    value, low, high = change
    distance = abs(before - ideal)
    least, most = sorted((abs(before + low - ideal) - distance, abs(before + high - ideal) - distance))
    if low <= ideal - before <= high:
        least = -distance
    return abs(before + value - ideal) - distance, least, most


def write(
    folder: Path, model: str, rows: Sequence[comparison.Method], measured: Mapping[str, Any] | None = None
) -> list[comparison.DomainTable]:
    """Writes ``methods.json``, ``.csv`` (the table of changes), ``.md`` and ``.html``; what they say of each domain.

    ``measured`` says how the scores were measured; without it the folder's own statement is kept.
    """
    # A call that makes nothing new keeps what the folder says.
    measured = measured or comparison.measured_before(folder)
    methods = []
    for row in rows:
        facts: dict[str, Any] = {"method": row.name, "reason": row.reason, "changes": [], "cost": None}
        if row.adapter:
            facts |= _facts(row.adapter)
        methods.append(facts)
    frame = comparison.changes_frame(model, rows)
    tables = comparison.tables_of(frame, rows)
    contents = {
        "methods.json": comparison.METHODS.content({"model": model, "measured": measured, "methods": methods}),
        "methods.csv": frame.to_csv(index=False).encode(),
        "methods.md": markdown(model, tables).encode(),
        "methods.html": page(model, tables, measured or {}).encode(),
    }
    files.put_all(folder, contents, MitigationError)
    return tables


def _facts(adapter: Adapter) -> dict[str, Any]:
    """The recipe, its settings, changes and cost, as JSON; NaN is null."""
    facts = json.loads(SCHEMA.dump_json(adapter))
    return {name: facts[name] for name in ("recipe", "settings", "changes", "cost")}
