"""The figures of the papers, drawn from what was measured: runs of models, published responses, built data sets.

``scoring/data/printed/figures.toml`` declares what each shows. One function, :func:`chart`, draws all of them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from matplotlib.axes import Axes

import cards.results
from cards.draw import DOTTED, PALETTE, canvas, image, interval, styled
from cards.stored import Stored, number
from cards.text import slug
from scoring import benchmarks
from scoring.metrics import sums
from scoring.report.plots.draw import plain
from scoring.reproduce import published
from scoring.reproduce.measured import Measured, UnreachableError
from scoring.reproduce.printed import PrintedTable, printed_tables
from scoring.result import read_examples
from scoring.statistics.stats import measure
from scoring.types import Benchmark, Group, ScoringError, Table

#: ``sweep.json``.
SWEEP = Stored("a sweep of layers and units", "remove it, and run the same command again")
#: A value and both ends of its interval, which are NaN where there is none.
Numbers = tuple[float, float, float]
#: Numbers by their place: a name, a number on the axis, or the number of a row.
Points = Mapping[Any, Numbers]
#: The colours of series.
_COLOURS = [PALETTE[name] for name in ("line-1", "male", "line-2", "ink", "line-3", "female", "third")]
_NAN = math.nan


@dataclass(frozen=True, slots=True)
class Panel:
    """A drawing: what ``figures.toml`` declares of it, and its series by label."""

    entry: Mapping[str, Any]
    series: Mapping[str, Points]

    @property
    def places(self) -> list[Any]:
        """The places of all series, each once."""
        return list(dict.fromkeys(place for points in self.series.values() for place in points))

    @property
    def height(self) -> float:
        """In inches, with title, labels and legend."""
        rows = len(self.places) * (0.14 + 0.09 * len(self.series)) if self.entry["kind"] == "dots" else 1.6
        return max(0.6, rows) + 0.8 + 0.17 * math.ceil(len(self.series) / 2)


def panels(table: PrintedTable, found: Measured, model: str = "") -> list[Panel]:
    """The panels of a figure; of one model, or of all that have a run or published responses.

    Raises
    ------
    UnreachableError
        When nothing was measured that it shows; the message says what it needs.
    """
    made = [Panel(entry, dict(_series(entry, found, model))) for entry in table.panels]
    if shown := [panel for panel in made if panel.series]:
        return shown
    raise UnreachableError(table.panels[0]["reason"])


def _series(entry: Mapping[str, Any], found: Measured, model: str) -> Iterator[tuple[str, Points]]:
    """The series of a panel by label."""
    if entry.get("of") == "kept":
        yield from _kept(found._once("built"))
    elif entry.get("of") == "delta":
        path = found.data / "gender-pmi" / "data" / "words" / "train.parquet"
        deltas = pq.read_table(path, columns=["delta"])["delta"].to_numpy() if path.is_file() else ()
        yield from [(f"words (n = {len(deltas):,})", _histogram(deltas, np.linspace(-3, 3, 61)))] if len(deltas) else ()
    elif "of" in entry:
        for path in _runs(entry, found, model, "sweep.json"):
            content = SWEEP.read(path, dict, ScoringError) or {}
            yield from ((f"{label}, {content['model']}", p) for label, p in _curves(content[entry["of"]]))
    elif "column" in entry:
        edges = np.linspace(0, entry["most"], 33)
        for name, _, table, groups in _examples(entry, found, model):
            # A run of another version may lack the column; its series is empty then.
            column = np.asarray(table.get(entry["column"], np.full(len(table["id"]), _NAN)), dtype=float)
            for group in groups:
                values = column[group.mask & np.isfinite(column)]
                yield f"{group.name}, {name} (n = {len(values):,})", _histogram(values, edges)
    elif "metrics" in entry:
        series: dict[str, dict[Any, Numbers]] = {}
        for name, group_name, metric, numbers in _scores(entry, found, model):
            # A panel has either a series for each model over metrics, or one for each metric over models.
            one, place = (name, metric) if entry.get("rows") == "metric" else (metric, name)
            if math.isfinite(numbers[0]):
                series.setdefault(", ".join(filter(None, (group_name, one))), {})[place] = numbers
        yield from series.items()


def _histogram(values: Any, edges: Any) -> Points:
    """The percent of values in each bin, at its right end."""
    shares = 100 * np.histogram(values, edges)[0] / max(len(values), 1)
    return {float(x): (float(y), _NAN, _NAN) for x, y in zip(edges[1:], shares, strict=True)}


def _curves(content: Mapping[str, Sequence[Sequence[Any]]]) -> Iterator[tuple[str, Points]]:
    for label, points in content.items():
        yield label, {x: (number(value), number(low), number(high)) for x, value, low, high in points}


def swept_panels(content: Mapping[str, Any]) -> list[Panel]:
    """The panels of ``probes mitigate table fast --sweep``, of one model, as the figures of FAST declare them."""
    entries = [entry for table in printed_tables("fast") for entry in table.panels]
    return [Panel(entry, dict(_curves(content[entry["of"]]))) for entry in entries]


def _scores(entry: Mapping[str, Any], found: Measured, model: str) -> Iterator[tuple[Any, str, str, Numbers]]:
    """Model or thousands of training steps, the labels of group and metric, the numbers."""
    sources = published.sources(entry["published"]) if "published" in entry else ()
    for of, group, metric in product(sources, entry["groups"], entry["metrics"]):
        place = {"group": entry["groups"][group][0], "metric": entry["metrics"][metric], "label": of, "model": of}
        with suppress(UnreachableError):  # the files of some models are not everywhere
            value, low, high, _ = found(place | dict.fromkeys(("published", "benchmark"), entry["published"]))
            yield int(of) / 1000 if of.isdecimal() else of, group, metric, (value, low, high)
    for name, benchmark, table, groups in _examples(entry, found, model):
        metrics = {metric.name: metric for metric in benchmark.metrics("paper")}
        chosen = {label: metrics.get(m) or sums.of_column(m) for label, m in entry["metrics"].items()}
        places = list(product(groups, chosen))
        items = [(group, chosen[label]) for group, label in places]
        estimates = measure(items, table, table[benchmark.cluster], resamples=found.resamples)
        yield from ((name, g.name, label, e.numbers) for (g, label), e in zip(places, estimates, strict=True))


def _runs(entry: Mapping[str, Any], found: Measured, model: str, file: str) -> list[Path]:
    return sorted(found.runs.glob(f"{slug(model) if model else '*'}/{entry['run']}/{file}")) if "run" in entry else []


def _examples(
    entry: Mapping[str, Any], found: Measured, model: str
) -> Iterator[tuple[str, Benchmark, Table, list[Group]]]:
    """The name of the model, the benchmark and the examples of each run, and groups pooled from the benchmark's."""
    for path in _runs(entry, found, model, "results.json"):
        name, benchmark = cards.results.load(path).model, benchmarks.get(entry["benchmark"])
        table = read_examples(path.parent, benchmark.name)
        masks = {group.name: group.mask for group in benchmark.groups(table)}
        named = {label: [masks[n] for n in names if n in masks] for label, names in entry["groups"].items()}
        pooled = (Group(label, np.any(own, axis=0)) for label, own in named.items() if own)
        yield name, benchmark, table, [group for group in pooled if group.mask.any()]


def _kept(built: Iterable[Any]) -> Iterator[tuple[str, Points]]:
    """The share of sentences of each set of UnStereoEval whose |MaxPMIDiff| is within a limit, by the limit."""
    sizes: dict[str, list[float]] = {}
    for rows in built:
        natural = rows[rows["natural"] != False]  # noqa: E712 - an empty cell is not judged, and kept
        sizes.setdefault(rows["id"].iloc[0].partition("-paper")[0], []).extend(natural["max_pmi_diff"].abs())
    for name, own in sizes.items():
        yield name, {x: (100 * float(np.mean(np.array(own) <= x)), _NAN, _NAN) for x in np.linspace(0, 3, 61).tolist()}


def chart(drawn: Sequence[Panel], title: str) -> dict[str, bytes]:
    """The files of a figure by their endings, with its panels below each other."""
    heights = [panel.height for panel in drawn]
    with styled():
        figure = canvas(5.6, 0.4 + sum(heights))
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
        rows = figure.subfigures(len(drawn), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, panel in zip(rows, drawn, strict=True):
            axes, entry, flat = part.subplots(), panel.entry, panel.entry["kind"] == "dots"
            (_dots if flat else _curve)(axes, panel)
            axes.set_title(entry["title"], fontsize=9, loc="left")
            axes.set(xlabel=entry.get("axis", entry["unit"]), ylabel="" if flat else entry["unit"])
            axes.grid(axis="x" if flat else "y", color=PALETTE["rule"], linewidth=0.6)
            if "ideal" in entry:
                (axes.axvline if flat else axes.axhline)(entry["ideal"], color=PALETTE["soft"], linestyle=DOTTED)
            if len(panel.series) > 1:
                legend = axes.get_legend_handles_labels()
                part.legend(*legend, fontsize=7.5, ncols=2, frameon=False, loc="outside lower left")
        return {"svg": image(figure), "png": image(figure, "png")}


def _dots(axes: Axes, panel: Panel) -> None:
    for n, (label, points) in enumerate(panel.series.items()):
        shift = 0.7 * ((n + 0.5) / len(panel.series) - 0.5)
        inside = "white" if n // len(_COLOURS) % 2 else ""
        for place, numbers in points.items():
            row, first = panel.places.index(place) + shift, place == next(iter(points))
            interval(axes, numbers, row, _COLOURS[n % len(_COLOURS)], inside, label if first else None)
    axes.set_yticks(range(len(panel.places)), [plain(place, 40) for place in panel.places], fontsize=8)
    axes.set_ylim(len(panel.places) - 0.4, -0.6)


def _curve(axes: Axes, panel: Panel) -> None:
    for n, (label, points) in enumerate(panel.series.items()):
        value, low, high = np.array([points[x] for x in sorted(points)]).T
        ink, mark = _COLOURS[n % len(_COLOURS)], "o-" if len(points) < 30 else "-"
        step = "steps-pre" if "column" in panel.entry or panel.entry.get("of") == "delta" else "default"
        axes.plot(sorted(points), value, mark, drawstyle=step, color=ink, linewidth=1.3, markersize=3, label=label)
        axes.fill_between(sorted(points), low, high, color=ink, alpha=0.15, linewidth=0)
    if panel.entry["axis"] in ("block", "units"):  # whole numbers, as they are
        axes.set_xscale("log" if panel.entry["axis"] == "units" else "linear")
        shown = sorted(panel.places)[:: max(1, len(panel.places) // 12)]
        axes.set_xticks(shown, list(map(str, shown)))
        axes.set_xticks([], minor=True)
