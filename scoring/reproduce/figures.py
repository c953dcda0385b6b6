"""The figures of the papers, drawn from what was measured: runs of models, published responses, built data sets.

``scoring/data/printed/figures.toml`` declares what each shows. One function, :func:`chart`, draws all of them.
"""

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from matplotlib.axes import Axes

import cards.results
import scoring.published
from cards.common.draw import DOTTED, PALETTE, canvas, image, interval, styled
from cards.common.stored import Stored, number
from cards.common.text import slug
from pmi.types import PUBLISHED_PAIRS, SHE_HE
from scoring import benchmarks
from scoring.adapters import facts
from scoring.asking.result import read_examples
from scoring.metrics import sums
from scoring.report.plots.draw import plain
from scoring.reproduce import published
from scoring.reproduce.measured import Measured, UnreachableError
from scoring.reproduce.printed import PrintedTable, printed_tables
from scoring.statistics.stats import measure
from scoring.types import Benchmark, Group, ScoringError, Table

#: ``sweep.json``.
SWEEP = Stored("a sweep of layers and units", "remove it, and run the same command again")
#: A value and both ends of its interval, which are NaN where there is none.
Numbers = tuple[float, float, float]
#: Numbers by their place: a name, a number on the axis, or the number of a row.
Points = Mapping[Any, Numbers]
#: The colours of series; where there are more series, the next ones have other dashes or a hollow mark.
_COLOURS = [PALETTE[name] for name in ("line-1", "male", "line-2", "ink", "line-3", "female", "third")]
_DASHES = ("-", "--", ":", "-.")
#: With more lines than this, the bands of their intervals would hide the lines and are left out.
_BANDS = 3
#: Thresholds ε on the difference of two log-probabilities, in nats.
_THRESHOLDS = np.linspace(0, 6, 61)
#: Characters of a title that fit into the width of a figure.
_WIDTH = 72
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
    elif entry.get("of") == "pmi":
        yield from _pmi(found._once("gendered_pmi"))
    elif entry.get("of") == "pairs":
        yield from _pairs(found._once("gendered_pmi"))
    elif entry.get("of") == "preferences":
        yield from _preferences(entry, found)
    elif entry.get("of") == "thresholds":
        yield from _thresholds(entry, found)
    elif entry.get("of") == "shares":
        yield from _shares(entry, found)
    elif entry.get("of") == "decoding":
        yield from _decoding(entry, found, model)
    elif "of" in entry:
        for path in _runs(entry, found, model, "sweep.json"):
            content = SWEEP.read(path, dict, ScoringError) or {}
            if content["model"] in entry.get("models", [content["model"]]) or model:
                curves = _curves(content[entry["of"]])
                yield from ((f"{label}, {content['model']}", points) for label, points in curves)
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


def _pmi(table: pd.DataFrame) -> Iterator[tuple[str, Points]]:
    """The distribution over words of the PMI with she and with he."""
    for word in ("she", "he"):
        values = table[f"pmi__{word}"].dropna().to_numpy()
        edges = np.linspace(float(np.floor(values.min())), float(np.ceil(values.max())), 61)
        yield f"{word} (n = {len(values):,})", _histogram(values, edges)


def _pairs(table: pd.DataFrame) -> Iterator[tuple[str, Points]]:
    """Kendall's correlation over words of δ of each pair of gendered words with δ of she and he."""
    reference = table["pmi__she"] - table["pmi__he"]
    points: dict[Any, Numbers] = {}
    for pair in PUBLISHED_PAIRS:
        columns = [f"pmi__{pair.first}", f"pmi__{pair.second}"]
        if not set(columns) <= set(table.columns) or pair == SHE_HE:
            continue
        delta = table[columns[0]] - table[columns[1]]
        if delta.notna().sum() > 1:
            points[f"{pair.first}, {pair.second}"] = (float(reference.corr(delta, method="kendall")), _NAN, _NAN)
    yield "", points


def _preferences(entry: Mapping[str, Any], found: Measured) -> Iterator[tuple[str, Points]]:
    """By preference, the number of models that have it for each example sentence."""
    for label, preference in (("neither", "none"), ("male", "male"), ("female", "female")):
        points: dict[Any, Numbers] = {}
        for sentence, name in entry["sentences"].items():
            with suppress(UnreachableError):  # a count needs the files of all models
                count = found._once("preferences", f"{entry['models']} {name}", preference)
                points[sentence] = (float(count), _NAN, _NAN)
        if points:
            yield f"models that prefer {label}", points


def _thresholds(entry: Mapping[str, Any], found: Measured) -> Iterator[tuple[str, Points]]:
    """τ by the threshold ε of each model on one set."""
    for label in entry["models"]:
        try:
            rows = found._once("score_rows", label)
        except UnreachableError:  # the files of some models are not everywhere
            continue
        rows = rows[(rows["dataset"] == entry["dataset"]) & (rows["natural"] != False)]  # noqa: E712 - empty is kept
        gaps = abs(rows["female_logprob"] - rows["male_logprob"]).to_numpy()
        yield label, {float(x): (100 * float(np.mean(gaps <= x)), _NAN, _NAN) for x in _THRESHOLDS}


def _shares(entry: Mapping[str, Any], found: Measured) -> Iterator[tuple[str, Points]]:
    """By set, the share of neutral sentences of each model by its share of sentences preferred with *she*."""
    for label, group in entry["sets"].items():
        points: dict[Any, Numbers] = {}
        for model in published.printed_models():
            with suppress(UnreachableError):  # the files of some models are not everywhere
                scores = found._once("published", "unstereo", model)
                neutral, gap = (scores[group, name]["value"] for name in ("tau@0.5", "pref_disparity@0.5"))
                # Of 100 sentences: neutral + female + male, and female - male is the disparity.
                points[(100 - neutral + gap) / 2] = (neutral, _NAN, _NAN)
        if points:
            yield label, points


def _decoding(entry: Mapping[str, Any], found: Measured, model: str) -> Iterator[tuple[str, Points]]:
    """GAS by the value of a sampling parameter, of every run of ``probes mitigate decoding``."""
    prefix = f"gas {entry['prompts']}"
    for path in _runs(entry, found, model, "mitigation.json"):
        adapter = facts.read(path.parent)
        points = {
            float(name.removeprefix(prefix)): numbers
            for name, numbers in adapter.measures.items()
            if name.startswith(prefix)
        }
        if points:
            yield adapter.base, points


def _curves(content: Mapping[str, Sequence[Sequence[Any]]]) -> Iterator[tuple[str, Points]]:
    """The curves of a sweep; scores whose ideal is 50 are drawn as their nearness to it, as FAST does."""
    for label, points in content.items():
        if label.startswith(("SS", "PS")):
            yield f"100 − |{label} − 50|", {x: _nearness(*map(number, values)) for x, *values in points}
        else:
            yield label, {x: (number(value), number(low), number(high)) for x, value, low, high in points}


def _nearness(value: float, low: float, high: float) -> Numbers:
    """100 − |value − 50|, and the ends of its interval.

    >>> _nearness(53.0, 48.0, 58.0), _nearness(60.0, 55.0, 65.0)
    ((97.0, 92.0, 100.0), (90.0, 85.0, 95.0))
    """
    near = [100 - abs(end - 50) for end in (low, high)]
    # The largest value is inside the interval where that holds 50.
    most = 100.0 if low <= 50 <= high else max(near)
    return 100 - abs(value - 50), min(near), most


def swept_panels(content: Mapping[str, Any]) -> list[Panel]:
    """The panels of ``probes mitigate table fast --sweep``, of one model, as the figures of FAST declare them."""
    entries = [entry for table in printed_tables("fast") for entry in table.panels]
    # Figures 5 and 6 are one panel of different models.
    once = {entry["of"]: entry for entry in entries}
    return [Panel(entry, dict(_curves(content[entry["of"]]))) for entry in once.values()]


def _scores(entry: Mapping[str, Any], found: Measured, model: str) -> Iterator[tuple[Any, str, str, Numbers]]:
    """Model or thousands of training steps, the labels of group and metric, the numbers."""
    models = scoring.published.models(entry["published"]) if "published" in entry else ()
    for of, group, metric in product(sorted(models, key=_thousands), entry["groups"], entry["metrics"]):
        if of.endswith("-intervened"):
            continue  # it is another model than the one whose training the steps are of
        with suppress(UnreachableError):  # the files of some models are not everywhere
            numbers = found._once("published", entry["published"], of)[
                entry["groups"][group][0], entry["metrics"][metric]
            ]
            shown = (numbers["value"], numbers["low"], numbers["high"])
            yield _thousands(of) if "-step" in of else of, group, metric, shown
    for name, benchmark, table, groups in _examples(entry, found, model):
        metrics = {metric.name: metric for metric in benchmark.metrics("paper")}
        chosen = {label: metrics.get(m) or sums.of_column(m) for label, m in entry["metrics"].items()}
        places = list(product(groups, chosen))
        items = [(group, chosen[label]) for group, label in places]
        # Examples of an earlier version of a benchmark can be without its clusters; then each example is one.
        clusters = table.get(benchmark.cluster, table["id"])
        estimates = measure(items, table, clusters, resamples=found.resamples)
        yield from ((name, g.name, label, e.numbers) for (g, label), e in zip(places, estimates, strict=True))


def _thousands(model: str) -> float:
    """The training step that a name ends with, in thousands; 0 without one.

    >>> _thousands("pythia-6.9b-deduped-step134000"), _thousands("gpt2")
    (134.0, 0.0)
    """
    _, _, step = model.rpartition("-step")
    return int(step) / 1000 if step.isdecimal() and step != model else 0.0


def _runs(entry: Mapping[str, Any], found: Measured, model: str, file: str) -> list[Path]:
    return sorted(found.runs.glob(f"{slug(model) if model else '*'}/{entry['run']}/{file}")) if "run" in entry else []


def _examples(
    entry: Mapping[str, Any], found: Measured, model: str
) -> Iterator[tuple[str, Benchmark, Table, list[Group]]]:
    """The name of the model, the benchmark and the examples of each run, and groups pooled from the benchmark's."""
    for path in _runs(entry, found, model, "results.json"):
        name, benchmark = cards.results.load(path).model, benchmarks.get(entry["benchmark"])
        if not model and name not in entry.get("models", [name]):
            continue  # the figure is of other models
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
        lines = len(textwrap.wrap(title, _WIDTH))
        figure = canvas(5.6, 0.2 + 0.2 * lines + sum(heights))
        figure.suptitle(textwrap.fill(title, _WIDTH), fontsize=10, x=0.01, ha="left")
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
        ink, dashes = _COLOURS[n % len(_COLOURS)], _DASHES[n // len(_COLOURS) % len(_DASHES)]
        mark = "o" if len(points) < 30 else ""
        if panel.entry["kind"] == "points":
            axes.plot(sorted(points), value, "o", color=ink, markersize=3.5, label=label)
            continue
        step = "steps-pre" if "column" in panel.entry or panel.entry.get("of") in ("delta", "pmi") else "default"
        line: dict[str, Any] = {"color": ink, "linewidth": 1.3, "linestyle": dashes, "marker": mark, "markersize": 3}
        axes.plot(sorted(points), value, drawstyle=step, label=label, zorder=3, **line)
        if len(panel.series) <= _BANDS:
            axes.fill_between(sorted(points), low, high, color=ink, alpha=0.12, linewidth=0, zorder=1)
        else:  # thin bars at the ends of the intervals, which leave the lines in sight
            axes.vlines(sorted(points), low, high, color=ink, alpha=0.35, linewidth=0.8, zorder=1)
    if panel.entry["axis"] in ("block", "units"):  # whole numbers, as they are
        axes.set_xscale("log" if panel.entry["axis"] == "units" else "linear")
        shown = sorted(panel.places)[:: max(1, len(panel.places) // 12)]
        axes.set_xticks(shown, list(map(str, shown)))
        axes.set_xticks([], minor=True)
