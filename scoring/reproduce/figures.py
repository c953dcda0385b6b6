"""The figures of the papers, drawn from what was measured: runs of models, published responses, built data sets.

``scoring/data/printed/figures.toml`` declares what each shows. One function, :func:`chart`, draws all of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import cards.results
from cards.draw import PALETTE, canvas, image, interval, styled
from cards.text import slug
from scoring import benchmarks
from scoring.metrics import sums
from scoring.report.plots import draw
from scoring.reproduce import published
from scoring.reproduce.measured import Measured, UnreachableError
from scoring.reproduce.printed import PrintedTable
from scoring.result import read_examples
from scoring.statistics.stats import measure
from scoring.types import Benchmark, Group, Metric, Table

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

Kind = Literal["dots", "bars", "histogram", "curve"]
#: A value and both ends of its interval, which are NaN where there is none.
Numbers = tuple[float, float, float]
#: The colours of series, by their names in the palette.
_COLOURS = ("line-1", "male", "line-2", "ink", "line-3", "female", "third")


@dataclass(frozen=True, slots=True)
class Panel:
    """A drawing: its series by label, each with numbers by their place, which is a name or a number on the axis.

    Of a histogram the places are those of the rows, and only the values count.
    """

    title: str
    kind: Kind
    series: Mapping[str, Mapping[Any, Numbers]]
    axis: str = ""
    unit: str = ""


def panels(table: PrintedTable, found: Measured, model: str = "") -> list[Panel]:
    """The panels of a figure; of one model, or of all that have a run or published responses.

    Raises
    ------
    UnreachableError
        When nothing was measured that it shows; the message says what it needs.
    """
    made = []
    for entry in table.panels:
        if "reason" in entry:
            raise UnreachableError(entry["reason"])
        if series := dict(_of_declared(entry, found, model)):
            names = {name: entry[name] for name in ("title", "axis", "unit") if name in entry}
            made.append(Panel(kind=entry.get("kind", "dots"), series=series, **names))
    if not made:
        ways = {"run": f"a run of a model (probes reproduce {table.id} --model MODEL)"}
        ways |= {"published": f"published responses (probes reproduce {table.id} --published)"}
        ways |= {"of": f"the built data sets (probes reproduce {table.id} --published)"}
        lacks = [way for name, way in ways.items() if name in table.panels[0] and (name != "of" or len(ways) == 1)]
        raise UnreachableError("needs " + " or ".join(lacks or [ways["of"]]))
    return made


def _of_declared(entry: Mapping[str, Any], found: Measured, model: str) -> Iterator[tuple[str, Mapping[Any, Numbers]]]:
    """The series of a panel by label."""
    if entry.get("of") == "kept":
        yield from _kept(found)
    elif "of" in entry:
        for path in _runs(entry, found, model, "sweep.json"):
            content = json.loads(path.read_text(encoding="utf-8"))
            for label, points in content[entry["of"]].items():
                yield (
                    f"{label}, {content['model']}",
                    {x: (_number(v), _number(low), _number(high)) for x, v, low, high in points},
                )
    elif entry.get("kind") == "histogram":
        for name, benchmark, table in _examples(entry, found, model):
            for group in _groups(entry, benchmark, table):
                for column in entry["metrics"].values():
                    values = np.asarray(table[column], dtype=float)[group.mask] if column in table else np.zeros(0)
                    points = {n: (float(v), math.nan, math.nan) for n, v in enumerate(values) if math.isfinite(v)}
                    yield f"{group.name}, {name}", points
    else:
        yield from _of_scores(entry, dict(_scores(entry, found, model)))


def _of_scores(
    entry: Mapping[str, Any], scores: Mapping[str, Mapping[tuple[str, str], Numbers]]
) -> Iterator[tuple[str, Mapping[Any, Numbers]]]:
    """Series over models, one for each group and metric; or over metrics, one for each model and group."""
    by_metric = entry.get("rows") == "metric"
    series: dict[str, dict[Any, Numbers]] = {}
    for name, own in scores.items():
        for group, label in own:
            parts, place = ((name, group), label) if by_metric else ((group, label), name)
            series.setdefault(", ".join(filter(None, parts)), {})[place] = own[group, label]
    return ((label, points) for label, points in series.items() if any(math.isfinite(v) for v, *_ in points.values()))


def _scores(
    entry: Mapping[str, Any], found: Measured, model: str
) -> Iterator[tuple[Any, Mapping[tuple[str, str], Numbers]]]:
    """By model, or by thousands of training steps, the numbers by the labels of group and metric."""
    if of := entry.get("published"):
        for label in published.sources(of):
            try:
                known = found.scores(of, label)
            except UnreachableError:
                continue  # the files of some models are not everywhere
            named = label if of == "unstereo" else int(label) / 1000
            yield (
                named,
                {
                    (group, metric): _numbers(known[names[0], m])
                    for group, names in entry["groups"].items()
                    for metric, m in entry["metrics"].items()
                },
            )
    for name, benchmark, table in _examples(entry, found, model):
        metrics = {metric.name: metric for metric in benchmark.metrics("paper")}
        chosen = [
            (label, metrics.get(m) or _column(m), group)
            for group in _groups(entry, benchmark, table)
            for label, m in entry["metrics"].items()
        ]
        items = [(group, metric) for _, metric, group in chosen]
        estimates = measure(items, table, table[benchmark.cluster], resamples=found.resamples)
        yield name, {(g.name, label): e.numbers for (label, _, g), e in zip(chosen, estimates, strict=True)}


def _column(name: str) -> Metric:
    """The mean of a column of examples, where it has a value."""
    return sums.mean(name, lambda t: t[name], None, 0, 1, "", where=lambda t: np.isfinite(t[name].astype(float)))


def _runs(entry: Mapping[str, Any], found: Measured, model: str, file: str) -> list[Path]:
    return sorted(found.runs.glob(f"{slug(model) if model else '*'}/{entry['run']}/{file}")) if "run" in entry else []


def _examples(entry: Mapping[str, Any], found: Measured, model: str) -> Iterator[tuple[str, Benchmark, Table]]:
    """The name, the benchmark and the examples of each run."""
    for path in _runs(entry, found, model, "results.json"):
        yield (
            cards.results.load(path).model,
            benchmarks.get(entry["benchmark"]),
            read_examples(path.parent, entry["benchmark"]),
        )


def _groups(entry: Mapping[str, Any], benchmark: Benchmark, table: Table) -> list[Group]:
    """The groups of a panel that have rows, each pooled from groups of the benchmark."""
    masks = {group.name: group.mask for group in benchmark.groups(table)}
    none = np.zeros(len(table["id"]), bool)
    pooled = [
        Group(label, np.any([masks.get(n, none) for n in names], axis=0)) for label, names in entry["groups"].items()
    ]
    return [group for group in pooled if group.mask.any()]


def _kept(found: Measured) -> Iterator[tuple[str, Mapping[Any, Numbers]]]:
    """The share of sentences of each set of UnStereoEval whose |MaxPMIDiff| is within a limit, by the limit."""
    limits = np.linspace(0, 3, 61)
    sizes: dict[str, list[float]] = {}
    for rows in found.built:
        natural = rows[rows["natural"] != False]  # noqa: E712 - an empty cell is not judged, and kept
        sizes.setdefault(natural["id"].iloc[0].partition("-paper")[0], []).extend(natural["max_pmi_diff"].abs())
    for name, own in sizes.items():
        shares = [100 * float(np.mean(np.array(own) <= limit)) for limit in limits]
        yield name, {float(x): (y, math.nan, math.nan) for x, y in zip(limits, shares, strict=True)}


def _numbers(score: Mapping[str, Any]) -> Numbers:
    return float(score["value"]), float(score["low"]), float(score["high"])


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def chart(drawn: Sequence[Panel], title: str) -> dict[str, bytes]:
    """The files of a figure by their endings: its panels below each other."""
    sizes = [_size(panel) for panel in drawn]
    with styled():
        figure = canvas(sizes[0][0], 0.4 + sum(height for _, height in sizes))
        figure.suptitle(title, fontsize=10, x=0.01, ha="left", wrap=True)
        ratios = {"height_ratios": [height for _, height in sizes]}
        rows = figure.subplots(len(drawn), 1, squeeze=False, gridspec_kw=ratios)[:, 0]
        for axes, panel in zip(rows, drawn, strict=True):
            _paint(axes, panel, PALETTE)
            axes.set_title(panel.title, fontsize=9, loc="left")
        return {"svg": image(figure), "png": image(figure, "png")}


def inline(drawn: Sequence[Panel]) -> draw.Figure:
    """The figure for a page, in the page's own colours."""
    inks = dict(zip(PALETTE, draw.INKS, strict=True))
    made = (
        draw.panel(p.title, f"{p.title}: {', '.join(p.series)}.", _size(p), partial(_paint, panel=p, inks=inks))
        for p in drawn
    )
    return draw.Figure("", "", (), tuple(made))


def _size(panel: Panel) -> tuple[float, float]:
    return 5.6, 0.9 + _height(panel) + 0.2 * math.ceil(len(panel.series) / 2) * (len(panel.series) > 1)


def _paint(axes: Axes, panel: Panel, inks: Mapping[str, str]) -> None:
    colours = [inks[name] for name in _COLOURS]
    {"dots": _dots, "bars": _bars, "histogram": _histogram, "curve": _curve}[panel.kind](axes, panel, colours)
    curve, flat = panel.kind == "curve", panel.kind in ("dots", "bars")
    axes.set(xlabel=panel.axis if curve else panel.unit)
    axes.set_ylabel(panel.unit if curve else "% of prompts" if not flat else "")
    axes.grid(visible=False)
    axes.grid(axis="x" if flat else "y", color=inks["rule"], linewidth=0.6)
    if len(panel.series) > 1:
        below = -0.45 / _height(panel)
        axes.legend(fontsize=7.5, ncols=2, frameon=False, loc="upper left", bbox_to_anchor=(0, below), borderpad=0)


def _height(panel: Panel) -> float:
    if panel.kind not in ("dots", "bars"):
        return 1.6
    return len(_places(panel)) * (0.26 if panel.kind == "bars" else 0.14 + 0.1 * len(panel.series))


def _places(panel: Panel) -> list[Any]:
    return list(dict.fromkeys(place for points in panel.series.values() for place in points))


def _rows(axes: Axes, places: Sequence[Any]) -> None:
    axes.set_yticks(range(len(places)), [str(place)[-40:] for place in places], fontsize=8)
    axes.set_ylim(len(places) - 0.4, -0.6)


def _dots(axes: Axes, panel: Panel, colours: Sequence[str]) -> None:
    places = _places(panel)
    for n, (label, points) in enumerate(panel.series.items()):
        shift = 0.7 * ((n + 0.5) / len(panel.series) - 0.5)
        inside = "white" if n // len(colours) % 2 else ""
        shown = [(place, numbers) for place, numbers in points.items() if math.isfinite(numbers[0])]
        for m, (place, numbers) in enumerate(shown):
            row = places.index(place) + shift
            interval(axes, numbers, row, colours[n % len(colours)], inside, None if m else label)
    _rows(axes, places)


def _bars(axes: Axes, panel: Panel, colours: Sequence[str]) -> None:
    places = _places(panel)
    left = np.zeros(len(places))
    for n, (label, points) in enumerate(panel.series.items()):
        widths = np.nan_to_num([points[place][0] if place in points else 0.0 for place in places])
        axes.barh(range(len(places)), widths, left=left, height=0.68, color=colours[n % len(colours)], label=label)
        left = left + widths
    _rows(axes, places)


def _histogram(axes: Axes, panel: Panel, colours: Sequence[str]) -> None:
    values = {label: [value for value, *_ in points.values()] for label, points in panel.series.items()}
    edges = np.histogram_bin_edges(np.concatenate([list(v) for v in values.values()]), 30)
    for n, (label, own) in enumerate(values.items()):
        weights = np.full(len(own), 100 / max(len(own), 1))
        ink = colours[n % len(colours)]
        axes.hist(own, edges.tolist(), weights=weights, histtype="step", color=ink, label=f"{label} (n = {len(own):,})")


def _curve(axes: Axes, panel: Panel, colours: Sequence[str]) -> None:
    for n, (label, points) in enumerate(panel.series.items()):
        x = sorted(points)
        value, low, high = np.array([points[place] for place in x]).T
        ink = colours[n % len(colours)]
        axes.plot(x, value, "o-" if len(x) < 40 else "-", color=ink, markersize=3, linewidth=1.3, label=label)
        if np.isfinite(low).any():
            axes.fill_between(x, low, high, color=ink, alpha=0.15, linewidth=0)
    if panel.axis == "units":
        axes.set_xscale("log", base=2)
