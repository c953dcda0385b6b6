"""The page of methods side by side: a conclusion, a short table and a plot for each domain, all scores folded."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes

from cards.common.files import put_all
from cards.common.numbers import decimals
from cards.common.text import templates
from mitigation.errors import MitigationError
from mitigation.methods import comparison
from mitigation.methods.comparison import COLUMNS, PRINTED
from scoring.adapters.facts import SCHEMA, Adapter
from scoring.report.page import template
from scoring.report.plots import draw

_TEMPLATES = Path(__file__).parents[1] / "templates"
#: Inches of the plot.
_SIZE = (7.0, 4.8)
#: Points of a letter and of a line of the labels.
_LETTER, _LINE = 4.6, 10.5


def tone(row: Any) -> str:
    """``kept`` for what is better or kept beyond noise, ``lost`` for what is worse or is paid with ability."""
    words = comparison.verdict_text(row)
    if words in ("nearer, ability kept", "kept"):
        return "kept"
    return "lost" if words in ("nearer, ability lost", "further", "lost") else ""


def page(model: str, tables: Sequence[comparison.DomainTable], measured: Mapping[str, Any]) -> str:
    """The text of ``methods.html``."""
    panels, used = [plot(table) for table in tables], {name for table in tables for name in table.columns}
    made = template("methods.html.j2", _TEMPLATES)
    made.globals.update(
        change_text=comparison.change_text,
        verdict_text=comparison.verdict_text,
        tone=tone,
        decimals=decimals,
        not_run=not_run,
    )
    columns = {name: column for name, column in COLUMNS.items() if name in used}
    return made.render(
        model=model,
        tables=tables,
        measured=measured,
        columns=columns,
        panels=panels,
    )


def not_run(table: comparison.DomainTable) -> list[str]:
    """The methods that papers print for a domain and that were not run here, each once."""
    names: list[str] = []
    for name, _ in table.printed:
        recipe = PRINTED["recipes"].get(name)
        if recipe not in table.cells() and name not in (*comparison.UNCHANGED, *names):
            names.append(name)
    return names


def markdown(model: str, tables: Sequence[comparison.DomainTable]) -> str:
    """The text of ``methods.md``: the conclusion and all scores of each domain."""
    return templates(_TEMPLATES).get_template("methods.md.j2").render(model=model, tables=tables, shown=_markdown_cell)


def _markdown_cell(row: Any) -> str:
    change = f" ({comparison.change_text(row)}, n {row.n:,.0f})" if comparison.change_text(row) else ""
    return f"{decimals(row.after, 2, missing='')}{change} {comparison.verdict_text(row)}".strip()


def plot(table: comparison.DomainTable) -> draw.Panel | None:
    """How far each method moves the score of bias from its ideal value against the change of LMS; None without LMS.

    Methods that changed one of them beyond noise are in colour, with their intervals.
    """
    ideal, dots = COLUMNS[table.bias].ideal, []
    for method, row in table.cells().items():
        if table.bias in row and "LMS" in row and ideal is not None:
            bias, lms = row[table.bias], row["LMS"]
            moved = moved_away(bias.before, (bias.difference, bias.low, bias.high), ideal)
            verdicts = {bias.verdict, lms.verdict}
            colour = draw.LINE_3 if {"further", "lost"} & verdicts else draw.LINE_2 if "nearer" in verdicts else ""
            if math.isfinite(moved[0] + lms.difference):
                dots.append((method, moved, (lms.difference, lms.low, lms.high), colour))
    if not dots:
        return None

    # Lines do not run through a text.
    behind = {"facecolor": draw.PAPER, "edgecolor": "none", "pad": 0.6}

    def paint(axes: Axes) -> None:
        for line in (axes.axvline, axes.axhline):
            line(0, color=draw.INK, linewidth=0.9, linestyle=(0, (4, 2)))
        for _, (x, left, right), (y, low, high), colour in dots:
            if colour:
                axes.plot((left, right), (y, y), color=colour, linewidth=1.1, alpha=0.7)
                axes.plot((x, x), (low, high), color=colour, linewidth=1.1, alpha=0.7)
            axes.plot(x, y, "o", color=colour or draw.THIRD, markersize=5.5, markeredgecolor=draw.PAPER, zorder=4)
        axes.set(xlabel=f"change of the distance of {table.bias} from {ideal:g}", ylabel="change of LMS")
        axes.set_xlim(limits([*(moved if colour else moved[:1] * 3 for _, moved, _, colour in dots), (0.0,) * 3]))
        axes.set_ylim(limits([*(able if colour else able[:1] * 3 for _, _, able, colour in dots), (0.0,) * 3]))
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        for x, words in enumerate(("nearer", "further")):
            for y, also in enumerate(("less able", "more able")):
                place, sides = (0.005 + 0.99 * x, 0.01 + 0.98 * y), (("left", "right")[x], ("bottom", "top")[y])
                text = axes.text(*place, f"{words}, {also}", transform=axes.transAxes, color=draw.SOFT)
                text.set(ha=sides[0], va=sides[1], style="italic", bbox=behind)
        # Labels are placed in points, because their size does not depend on the scale of the axes.
        scale = 72 * (_SIZE[0] - 0.6) / (right - left), 72 * (_SIZE[1] - 0.6) / (high - low)
        points = [(scale[0] * x, scale[1] * y) for _, (x, *_), (y, *_), _ in dots]
        widths = [_LETTER * len(method) + 4 for method, *_ in dots]
        places = label_places(points, widths, (scale[0] * left, scale[0] * right))
        for (method, (x, *_), (y, *_), colour), point, place in zip(dots, points, places, strict=True):
            shift = place[0] - point[0], place[1] - point[1]
            leader = {"arrowstyle": "-", "color": draw.SOFT, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
            axes.annotate(
                method,
                (x, y),
                xytext=shift,
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=8.5,
                color=draw.INK if colour else draw.SOFT,
                bbox=behind,
                arrowprops=leader if abs(shift[1]) > _LINE else None,
                zorder=5,
            )

    label = f"Change of the distance of {table.bias} from {ideal:g} and change of LMS of {len(dots)} methods"
    return draw.panel(table.domain, f"{label}, {table.domain}", _SIZE, paint)


def limits(estimates: Sequence[tuple[float, ...]]) -> tuple[float, float]:
    """The ends of an axis for values with their intervals; intervals much longer than the median one are cut off.

    >>> limits([(0.0, -1.0, 1.0), (1.0, 0.0, 2.0), (0.0, -30.0, 30.0)])
    (-2.4, 2.4)
    >>> limits([(2.0, math.nan, math.nan)])  # of one example, which has no interval
    (1.0, 3.0)
    """
    ends = [tuple(x if math.isfinite(x) else value for x in (value, low, high)) for value, low, high in estimates]
    most = median([high - low for _, low, high in ends if high > low] or [0.0])
    least = min(max(low, value - most) for value, low, _ in ends)
    largest = max(min(high, value + most) for value, _, high in ends)
    margin = 0.1 * (largest - least) or 1.0
    return least - margin, largest + margin


def label_places(
    dots: Sequence[tuple[float, float]], widths: Sequence[float], ends: tuple[float, float] = (-math.inf, math.inf)
) -> list[tuple[float, float]]:
    """The middle of the label of each dot, in points: the nearest place beside it that no label and no dot has.

    Labels are ``widths`` wide and stay within the ``ends`` of the axis.

    >>> [tuple(map(round, place)) for place in label_places([(0, 0), (0, 0)], [20, 20])]
    [(16, 0), (-16, 0)]
    """
    placed: list[tuple[float, float, float]] = []
    for (x, y), width in zip(dots, widths, strict=True):
        beside = [
            (x + side * (width / 2 + 6), y + up * reach * _LINE)
            for reach in range(12)
            for up in (1, -1)
            for side in (1, -1)
        ]

        def free(place: tuple[float, float], width: float = width) -> bool:
            # A label may neither leave the axes nor touch another label or a dot.
            inside = ends[0] <= place[0] - width / 2 and place[0] + width / 2 <= ends[1]
            apart = all(abs(place[0] - u) >= (width + w) / 2 or abs(place[1] - v) >= _LINE for u, v, w in placed)
            return (
                inside and apart and all(abs(place[0] - u) >= width / 2 + 3 or abs(place[1] - v) >= 7 for u, v in dots)
            )

        # The nearest place where the label hides neither another label nor a dot; the first one if there is none.
        place = next(filter(free, beside), beside[0])
        placed.append((*place, width))
    return [(x, y) for x, y, _ in placed]


def moved_away(before: float, change: tuple[float, float, float], ideal: float) -> tuple[float, float, float]:
    """The change of |score − ideal| by a change of the score, with the ends of its interval.

    >>> moved_away(54.0, (-2.0, -5.0, 1.0), 50.0), moved_away(54.0, (-1.0, -2.0, 0.5), 50.0)
    ((-2.0, -4.0, 1.0), (-1.0, -2.0, 0.5))
    """
    # The distance has its least value, zero, inside an interval that contains the ideal value.
    far, (value, low, high) = abs(before - ideal), change
    ends = sorted(abs(before + end - ideal) - far for end in (low, high))
    return abs(before + value - ideal) - far, -far if low <= ideal - before <= high else ends[0], ends[1]


def write(
    folder: Path, model: str, rows: Sequence[comparison.Method], measured: Mapping[str, Any] | None = None
) -> list[comparison.DomainTable]:
    """Writes ``methods.json``, ``.csv`` (the table of changes), ``.md`` and ``.html``; what they say of each domain.

    ``measured`` says how the scores were measured; without it the folder's own statement is kept.
    """
    measured = measured or comparison.measured_before(folder)
    facts = [
        {"method": row.name, "reason": row.reason, "changes": [], "cost": None}
        | (_facts(row.adapter) if row.adapter else {})
        for row in rows
    ]
    content, frame = {"model": model, "measured": measured, "methods": facts}, comparison.changes_frame(model, rows)
    tables = comparison.tables_of(frame, rows)
    texts = (
        comparison.METHODS.content(content),
        frame.to_csv(index=False).encode(),
        markdown(model, tables).encode(),
        page(model, tables, measured or {}).encode(),
    )
    put_all(folder, dict(zip(comparison.FILES, texts, strict=True)), MitigationError, ours=comparison.own_files(folder))
    return tables


def _facts(adapter: Adapter) -> dict[str, Any]:
    """The recipe, its settings, changes and cost, as JSON; NaN is null."""
    facts = json.loads(SCHEMA.dump_json(adapter))
    return {name: facts[name] for name in ("recipe", "settings", "changes", "cost")}
