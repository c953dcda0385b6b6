"""The page of methods side by side: a conclusion, a short table and a plot for each domain, all scores folded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from cards.files import put_all
from cards.text import cell as escaped
from cards.text import decimals
from cards.verdict import LEVEL
from mitigation.columns import COLUMNS
from mitigation.comparison import (
    FILES,
    METHODS,
    RECIPES,
    UNCHANGED,
    Method,
    changes_frame,
    costs,
    measured_before,
    own_files,
)
from mitigation.errors import MitigationError
from scoring.adapters.facts import SCHEMA, Adapter
from scoring.report.page import template
from scoring.report.plots import draw

_TEMPLATES = Path(__file__).with_name("templates")
#: Inches of the plot.
_SIZE = (7.0, 4.8)
#: Points of a letter and of a line of the labels.
_LETTER, _LINE = 4.6, 10.5
_ORDER = ("nearer", "unclear", "", "further")


@dataclass(frozen=True, slots=True)
class DomainTable:
    """What the page says of a domain.

    Parameters
    ----------
    frame, seeds:
        The table of changes of the domain, and that of single seeds of the methods that have several.
    bias:
        The column by which methods are judged: that of held-out pairs, or else the first score of bias.
    cost:
        Method to its cost in words.
    missing:
        Method to the reason why it could not be made.
    """

    domain: str
    frame: pd.DataFrame
    seeds: pd.DataFrame
    bias: str
    cost: Mapping[str, str]
    missing: Mapping[str, str]

    @property
    def columns(self) -> list[str]:
        """The columns that were measured, in their order."""
        return [name for name in COLUMNS if name in set(self.measured.column)]

    @property
    def measured(self) -> pd.DataFrame:
        """The changes that were measured."""
        return self.frame[self.frame.source == "measured"]

    @property
    def tests(self) -> int:
        """The number of changes of bias scores, for which p-values are corrected."""
        return int(self.measured.p.notna().sum())

    @property
    def by_chance(self) -> float:
        """How many p-values would be below 0.05 where no method changed anything."""
        return LEVEL * self.tests

    def cells(self, frame: pd.DataFrame | None = None) -> dict[str, dict[str, Any]]:
        """Method to column to the change; methods that bring the score of bias nearer come first."""
        rows: dict[str, dict[str, Any]] = {}
        for row in records(self.measured if frame is None else frame):
            rows.setdefault(row.method, {})[row.column] = row
        return dict(sorted(rows.items(), key=lambda item: _ORDER.index(getattr(item[1].get(self.bias), "verdict", ""))))

    @property
    def base(self) -> dict[str, str]:
        """Column to the score of the unchanged model; scores of the own pairs of a method are in its row.

        The differentiation score is of two runs: the model agrees with itself.
        """
        others = self.measured[~self.measured.own_pairs.astype(bool)].drop_duplicates("column")
        scores = {row.column: decimals(row.before, 2, missing="") for row in records(others)}
        return {column: "100.00" if column == "DS" else score for column, score in scores.items()}

    @property
    def printed(self) -> dict[tuple[str, str], dict[str, float]]:
        """Method and printed table to its figures by column, the unchanged model first."""
        rows: dict[tuple[str, str], dict[str, float]] = {}
        for row in records(self.frame[self.frame.source != "measured"]):
            rows.setdefault((row.method, row.source), {})[row.column] = row.after
        return dict(sorted(rows.items(), key=lambda item: item[0][0] not in UNCHANGED))

    @property
    def conclusion(self) -> list[str]:
        """Which methods bring the score of bias nearer to its ideal value and at what cost; "None" if none does."""
        ideal, rows = (
            COLUMNS[self.bias].ideal or 0.0,
            [row[self.bias] for row in self.cells().values() if self.bias in row],
        )
        near, far = ([row for row in rows if row.verdict == which] for which in ("nearer", "further"))
        said = [
            f"{row.method} brings {self.bias} nearer to {ideal:g}: {change_text(row)} from {row.before:.2f}, language "
            f"ability {row.ability}, {self.cost[row.method]}."
            for row in near
        ]
        none = f"None of {len(rows)} methods brings {self.bias} nearer to {ideal:g} beyond noise"
        of_model = f" (unchanged model: {self.base[self.bias]})" if self.bias in self.base else ""
        said = said or [f"{none}{of_model}."]
        if far:
            said.append(f"Further from it: {', '.join(f'{row.method} ({change_text(row)})' for row in far)}.")
        others = self.measured[(self.measured.verdict == "nearer") & (self.measured.column != self.bias)]
        kept = others[others.ability == "kept"].groupby("column", sort=False).method.agg(list)
        if len(kept):
            which = "; ".join(f"{column} ({', '.join(names)})" for column, names in kept.items())
            said.append(f"Other scores of bias nearer to their ideal values, with language ability kept: {which}.")
        return said


def tables_of(frame: pd.DataFrame, methods: Sequence[Method]) -> list[DomainTable]:
    """What is said of each domain in which any method has a score of bias."""
    several = set(frame[frame.seeds > 1].method)
    seeds = changes_frame("", [method for method in methods if _is_seed(method, several)], alone=True)
    tables = []
    for domain, of in frame.groupby("domain", sort=False):
        measured = set(of[of.source == "measured"].column)
        bias = next(name for name, column in COLUMNS.items() if name in measured and not column.ability)
        missing = {method.name: method.reason for method in methods if not method.adapter}
        own = seeds[seeds.domain == domain]
        tables.append(DomainTable(str(domain), of, own, bias, costs(methods, str(domain)), missing))
    return tables


def _is_seed(method: Method, several: set[str]) -> bool:
    return method.adapter is not None and any(method.name == name or f"{name}-" in method.name for name in several)


def records(frame: pd.DataFrame) -> list[Any]:
    """The rows of a table, with the columns as attributes."""
    return list(frame.itertuples(index=False))


def change_text(row: Any) -> str:
    """The difference of a change with its interval; of an agreement, which has none, the interval of the score."""
    if math.isnan(row.low):
        return "" if math.isnan(row.after_low) else f"[{row.after_low:.2f}, {row.after_high:.2f}]"
    return f"{row.difference:+.2f} [{row.low:.2f}, {row.high:.2f}]"


def verdict_text(row: Any) -> str:
    """What a change says; no text says less bias without what the method does to ability."""
    return f"nearer, ability {row.ability}" if row.verdict == "nearer" else str(row.verdict)


def tone(row: Any) -> str:
    """``kept`` for what is better or kept beyond noise, ``lost`` for what is worse or is paid with ability."""
    words = verdict_text(row)
    if words in ("nearer, ability kept", "kept"):
        return "kept"
    return "lost" if words in ("nearer, ability lost", "further", "lost") else ""


def page(model: str, tables: Sequence[DomainTable], measured: Mapping[str, Any]) -> str:
    """The text of ``methods.html``."""
    panels, used = [plot(table) for table in tables], {name for table in tables for name in table.columns}
    made = template("methods.html.j2", _TEMPLATES)
    made.globals.update(change_text=change_text, verdict_text=verdict_text, tone=tone, decimals=decimals)
    columns = {name: column for name, column in COLUMNS.items() if name in used}
    return made.render(
        model=model,
        tables=tables,
        measured=measured,
        columns=columns,
        panels=panels,
        recipes=RECIPES,
        unchanged=UNCHANGED,
    )


def markdown(model: str, tables: Sequence[DomainTable]) -> str:
    """The text of ``methods.md``: the conclusion and all scores of each domain."""
    lines = []
    for table in tables:
        names = table.columns
        lines += [f"### {escaped(model)}, {table.domain}", "", *table.conclusion, ""]
        lines += [f"| method | {' | '.join(names)} | cost |", f"| --- | {'---: | ' * len(names)}--- |"]
        texts = [[f"{escaped(model)} (unchanged)", *(table.base.get(name, "") for name in names), ""]]
        for method, row in table.cells().items():
            scores = [_markdown_cell(row[name]) if name in row else "" for name in names]
            texts.append([escaped(method), *scores, table.cost[method]])
        for (method, source), figures in table.printed.items():
            scores = [f"{figures[name]:.2f}" if name in figures else "" for name in names]
            texts.append([f"{escaped(method)} (printed: {source})", *scores, ""])
        texts += [
            [escaped(name), f"not made: {escaped(why)}", *[""] * len(names)] for name, why in table.missing.items()
        ]
        lines += [*(f"| {' | '.join(text)} |" for text in texts), ""]
    return "\n".join(lines) + "\n"


def _markdown_cell(row: Any) -> str:
    change = f" ({change_text(row)}, n {row.n:,.0f})" if change_text(row) else ""
    return f"{decimals(row.after, 2, missing='')}{change} {verdict_text(row)}".strip()


def plot(table: DomainTable) -> draw.Panel | None:
    """How far each method moves the score of bias from its ideal value against the change of LMS; None without LMS.

    Methods that changed one of them beyond noise are in colour, with their intervals.
    """
    ideal, dots = COLUMNS[table.bias].ideal, []
    for method, row in table.cells().items():
        if table.bias in row and "LMS" in row and ideal is not None:
            bias, lms = row[table.bias], row["LMS"]
            moved = moved_away(bias.before, (bias.difference, bias.low, bias.high), ideal)
            said = {bias.verdict, lms.verdict}
            colour = draw.LINE_3 if {"further", "lost"} & said else draw.LINE_2 if "nearer" in said else ""
            if math.isfinite(moved[0] + lms.difference):
                dots.append((method, moved, (lms.difference, lms.low, lms.high), colour))
    if not dots:
        return None

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
                text.set(ha=sides[0], va=sides[1], style="italic")
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
    known = [tuple(x if math.isfinite(x) else value for x in (value, low, high)) for value, low, high in estimates]
    most = median([high - low for _, low, high in known if high > low] or [0.0])
    least = min(max(low, value - most) for value, low, _ in known)
    largest = max(min(high, value + most) for value, _, high in known)
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
            inside = ends[0] <= place[0] - width / 2 and place[0] + width / 2 <= ends[1]
            apart = all(abs(place[0] - u) >= (width + w) / 2 or abs(place[1] - v) >= _LINE for u, v, w in placed)
            return (
                inside and apart and all(abs(place[0] - u) >= width / 2 + 3 or abs(place[1] - v) >= 7 for u, v in dots)
            )

        place = next(filter(free, beside), beside[0])
        placed.append((*place, width))
    return [(x, y) for x, y, _ in placed]


def moved_away(before: float, change: tuple[float, float, float], ideal: float) -> tuple[float, float, float]:
    """The change of |score − ideal| by a change of the score, with the ends of its interval.

    >>> moved_away(54.0, (-2.0, -5.0, 1.0), 50.0), moved_away(54.0, (-1.0, -2.0, 0.5), 50.0)
    ((-2.0, -4.0, 1.0), (-1.0, -2.0, 0.5))
    """
    far, (value, low, high) = abs(before - ideal), change
    ends = sorted(abs(before + end - ideal) - far for end in (low, high))
    return abs(before + value - ideal) - far, -far if low <= ideal - before <= high else ends[0], ends[1]


def write(
    folder: Path, model: str, rows: Sequence[Method], measured: Mapping[str, Any] | None = None
) -> list[DomainTable]:
    """Writes ``methods.json``, ``.csv`` (the table of changes), ``.md`` and ``.html``; what they say of each domain.

    ``measured`` says how the scores were measured; without it the folder's own statement is kept.
    """
    measured = measured or measured_before(folder)
    facts = [
        {"method": row.name, "reason": row.reason, "changes": [], "cost": None}
        | (_facts(row.adapter) if row.adapter else {})
        for row in rows
    ]
    content, frame = {"model": model, "measured": measured, "methods": facts}, changes_frame(model, rows)
    tables = tables_of(frame, rows)
    texts = (
        METHODS.content(content),
        frame.to_csv(index=False).encode(),
        markdown(model, tables).encode(),
        page(model, tables, measured or {}).encode(),
    )
    put_all(folder, dict(zip(FILES, texts, strict=True)), MitigationError, ours=own_files(folder))
    return tables


def _facts(adapter: Adapter) -> dict[str, Any]:
    """The recipe, its settings, changes and cost, as JSON; NaN is null."""
    facts = json.loads(SCHEMA.dump_json(adapter))
    return {name: facts[name] for name in ("recipe", "settings", "changes", "cost")}
