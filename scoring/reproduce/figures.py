"""The figures of the papers, drawn from what was measured: runs of models, published responses, built data sets.

``scoring/data/printed/figures.toml`` declares what each shows. One function, :func:`chart`, draws all of them.
"""

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm

import cards.results
import scoring.published
from cards.common.draw import DOTTED, PALETTE, canvas, image, interval, styled
from cards.common.stored import Stored, number
from cards.common.text import slug
from pmi.types import PUBLISHED_PAIRS
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
    """A drawing: what ``figures.toml`` declares of it, its series by label, and what it lacks of the printed one."""

    entry: Mapping[str, Any]
    series: Mapping[str, Points]
    lacks: str = ""

    @property
    def places(self) -> list[Any]:
        """The places of all series, each once."""
        places: dict[Any, None] = {}
        for points in self.series.values():
            places.update(dict.fromkeys(points))
        return list(places)

    @property
    def height(self) -> float:
        """In inches, with title, labels and legend."""
        body = 1.6
        # Dots have a row for each place, and in it room for a dot of each series.
        if self.entry["kind"] == "dots":
            body = max(0.6, len(self.places) * (0.14 + 0.09 * len(self.series)))
        # Words below bars are upright.
        if self.entry["kind"] == "bars":
            body = 1.9
        # A grid of names has a row for each, and the names below it; one of numbers is a square.
        if self.entry["kind"] == "grid":
            body = 3.4
            if "scale" in self.entry:
                body = 1.2 + 0.13 * len({row for _, row in self.places})
        # The legend has two columns.
        return body + 0.8 + 0.17 * math.ceil(len(self.series) / 2) + 0.14 * len(_wrapped(self.lacks))


def panels(table: PrintedTable, measured: Measured, model: str = "") -> list[Panel]:
    """The panels of a figure; of one model, or of all that have a run or published responses.

    Raises
    ------
    UnreachableError
        When nothing was measured that it shows; the message says what it needs.
    """
    drawn: list[Panel] = []
    for entry in table.panels:
        if entry.get("of") == "cases":
            found = list(_cases(entry, measured, model))
        else:
            series = dict(_series(entry, measured, model))
            found = [Panel(entry, series, _lacks(entry, series))] if series else []
        for panel in found:
            # What several panels lack is said once.
            if any(panel.lacks == earlier.lacks for earlier in drawn):
                panel = replace(panel, lacks="")
            drawn.append(panel)
    if not drawn:
        raise UnreachableError(table.panels[0]["reason"])
    return drawn


def title_of(table: PrintedTable, model: str) -> str:
    """The title of a drawing; a figure of one model has the name of the one that is drawn instead of it."""
    models = table.panels[0].get("models", ())
    if model and len(models) == 1:
        return table.title.replace(models[0], model)
    return table.title


def _lacks(entry: Mapping[str, Any], series: Mapping[str, Points]) -> str:
    """What a panel lacks of the printed one: parts that are not drawn, and models without a run or scores.

    >>> _lacks({"models": ["gpt2", "gpt2-xl"]}, {"subject, gpt2": {}})
    'Not here: gpt2-xl.'
    """
    sentences = [entry["lacks"]] if "lacks" in entry else []
    models = entry.get("shows", entry.get("models", ()))
    if entry.get("of") == "shares":
        models = published.printed_models()
    elif entry.get("of") == "preferences":  # counts of models, for which all are needed
        models = ()
    places = [place for points in series.values() for place in points]
    # A place of dots is a model, and one of a scatter has it after its number.
    names = {str(name) for place in places for name in (place if isinstance(place, tuple) else (place,))}
    for label in series:
        names.update(label.split(", "))
    missing = [name for name in models if name not in names]
    if missing:
        sentences.append(f"Not here: {', '.join(missing)}.")
    return " ".join(sentences)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100, break_on_hyphens=False)


def _series(entry: Mapping[str, Any], measured: Measured, model: str) -> Iterator[tuple[str, Points]]:
    """The series of a panel by label."""
    match entry.get("of"):
        case "kept":
            yield from _kept(measured._once("built"))
        case "delta":
            yield from _deltas(measured)
        case "pmi":
            yield from _pmi(measured._once("gendered_pmi"))
        case "pairs":
            yield from _pairs(measured._once("gendered_pmi"))
        case "joint":
            yield from _joint(measured._once("gendered_pmi"))
        case "preferences":
            yield from _preferences(entry, measured)
        case "thresholds":
            yield from _thresholds(entry, measured)
        case "shares":
            yield from _shares(entry, measured)
        case "decoding":
            yield from _decoding(entry, measured, model)
        case "words":
            yield from _words(entry, measured, model)
        case str():
            # Any other source is a part of the file of a sweep.
            yield from _sweeps(entry, measured, model)
        case None if "column" in entry:
            yield from _columns(entry, measured, model)
        case None if "metrics" in entry:
            yield from _metrics(entry, measured, model)


def _deltas(measured: Measured) -> Iterator[tuple[str, Points]]:
    """The distribution of δ over the words of the built data set ``gender-pmi``."""
    path = measured.data / "gender-pmi" / "data" / "words" / "train.parquet"
    if not path.is_file():
        return
    deltas = pq.read_table(path, columns=["delta"])["delta"].to_numpy()
    if len(deltas):
        yield f"words (n = {len(deltas):,})", _histogram(deltas, np.linspace(-3, 3, 61))


def _sweeps(entry: Mapping[str, Any], measured: Measured, model: str) -> Iterator[tuple[str, Points]]:
    """The curves of the sweeps of the models that a figure shows, or of one model."""
    for path in _runs(entry, measured, model, "sweep.json"):
        content = SWEEP.read(path, dict, ScoringError) or {}
        name = content["model"]
        if model or name in entry.get("models", [name]):
            for label, points in _curves(content[entry["of"]]):
                yield f"{label}, {name}", points


def _columns(entry: Mapping[str, Any], measured: Measured, model: str) -> Iterator[tuple[str, Points]]:
    """The distribution of a column over the examples of each run and group."""
    edges = np.linspace(0, entry["most"], 33)
    for name, _, table, groups in _examples(entry, measured, model):
        # A run of another version may lack the column; its series is empty then.
        column = np.asarray(table.get(entry["column"], np.full(len(table["id"]), _NAN)), dtype=float)
        for group in groups:
            values = column[group.mask & np.isfinite(column)]
            yield f"{group.name}, {name} (n = {len(values):,})", _histogram(values, edges)


def _metrics(entry: Mapping[str, Any], measured: Measured, model: str) -> Iterator[tuple[str, Points]]:
    """The scores of groups and metrics: a series for each model over metrics, or for each metric over models."""
    series: dict[str, dict[Any, Numbers]] = {}
    for name, group_name, metric, numbers in _scores(entry, measured, model):
        if not math.isfinite(numbers[0]):
            continue
        if entry.get("rows") == "metric":
            label = name
            place = metric
        else:
            label = metric
            place = name
        # A panel of one group or of one metric has an empty name for it, which the label leaves out.
        label = ", ".join(part for part in (group_name, label) if part)
        series.setdefault(label, {})[place] = numbers
    yield from series.items()


def _histogram(values: Any, edges: Any) -> Points:
    """The percent of values in each bin, at its right end."""
    counts, _ = np.histogram(values, edges)
    shares = 100 * counts / max(len(values), 1)
    return {float(x): (float(y), _NAN, _NAN) for x, y in zip(edges[1:], shares, strict=True)}


def _pmi(table: pd.DataFrame) -> Iterator[tuple[str, Points]]:
    """The distribution over words of the PMI with she and with he."""
    for word in ("she", "he"):
        values = table[f"pmi__{word}"].dropna().to_numpy()
        edges = np.linspace(float(np.floor(values.min())), float(np.ceil(values.max())), 61)
        yield f"{word} (n = {len(values):,})", _histogram(values, edges)


def _joint(table: pd.DataFrame) -> Iterator[tuple[str, Points]]:
    """The words that have a PMI with both pronouns, in percent, by their PMI with he and with she."""
    both = table[["pmi__he", "pmi__she"]].dropna()
    values = both.to_numpy()
    edges = np.linspace(float(np.floor(values.min())), float(np.ceil(values.max())), 61)
    counts, _, _ = np.histogram2d(both["pmi__he"], both["pmi__she"], [edges, edges])
    middles = (edges[:-1] + edges[1:]) / 2
    points: dict[Any, Numbers] = {}
    for place, count in np.ndenumerate(counts):
        # A cell without a word is empty, because the colours are of logarithms.
        percent = 100 * count / len(both) if count else _NAN
        points[float(middles[place[0]]), float(middles[place[1]])] = (percent, _NAN, _NAN)
    yield f"% of {len(both):,} words", points


def _pairs(table: pd.DataFrame) -> Iterator[tuple[str, Points]]:
    """Kendall's correlation over words of δ of each two pairs of gendered words, over words that have both."""
    deltas = {}
    for pair in PUBLISHED_PAIRS:
        first = f"pmi__{pair.first}"
        second = f"pmi__{pair.second}"
        if first in table.columns and second in table.columns:
            deltas[f"{pair.first}, {pair.second}"] = table[first] - table[second]
    correlations = pd.DataFrame(deltas).corr(method="kendall", min_periods=2)
    points: dict[Any, Numbers] = {}
    values = correlations.to_numpy()
    for (across, column), (down, row) in product(enumerate(deltas), repeat=2):
        points[column, row] = (float(values[down, across]), _NAN, _NAN)
    yield "Kendall's τ", points


def _preferences(entry: Mapping[str, Any], measured: Measured) -> Iterator[tuple[str, Points]]:
    """By preference, the number of models that have it for each example sentence."""
    for label, preference in (("neither", "none"), ("male", "male"), ("female", "female")):
        points: dict[Any, Numbers] = {}
        for sentence, name in entry["sentences"].items():
            with suppress(UnreachableError):  # a count needs the files of all models
                count = measured._once("preferences", f"{entry['models']} {name}", preference)
                points[sentence] = (float(count), _NAN, _NAN)
        if points:
            yield f"models that prefer {label}", points


def _thresholds(entry: Mapping[str, Any], measured: Measured) -> Iterator[tuple[str, Points]]:
    """τ by the threshold ε of each model on one set; without the files of a model, from the authors' drawing."""
    for label in entry["models"]:
        points: dict[Any, Numbers] = {}
        try:
            rows = measured._once("score_rows", label)
        except UnreachableError:  # the files of some models are not everywhere
            with suppress(UnreachableError):
                curve = measured._once("drawn_curves").get((entry["dataset"], label), {})
                for threshold, value in curve.items():
                    if threshold <= _THRESHOLDS[-1]:
                        points[threshold] = (value, _NAN, _NAN)
            if points:
                yield label, points
            continue
        rows = rows[(rows["dataset"] == entry["dataset"]) & (rows["natural"] != False)]  # noqa: E712 - empty is kept
        gaps = abs(rows["female_logprob"] - rows["male_logprob"]).to_numpy()
        for threshold in _THRESHOLDS:
            points[float(threshold)] = (100 * float(np.mean(gaps <= threshold)), _NAN, _NAN)
        yield label, points


def _shares(entry: Mapping[str, Any], measured: Measured) -> Iterator[tuple[str, Points]]:
    """By set, the share of neutral sentences of each model by its share of sentences preferred with *she*."""
    for label, group in entry["sets"].items():
        points: dict[Any, Numbers] = {}
        for model in published.printed_models():
            with suppress(UnreachableError):  # the files of some models are not everywhere
                scores = measured._once("published", "unstereo", model)
                neutral = scores[group, "tau@0.5"]["value"]
                disparity = scores[group, "pref_disparity@0.5"]["value"]
                # Of 100 sentences: neutral + female + male, and female - male is the disparity. The place has the
                # model too, because two models may have the same share.
                points[(100 - neutral + disparity) / 2, model] = (neutral, _NAN, _NAN)
        if points:
            yield label, points


def _decoding(entry: Mapping[str, Any], measured: Measured, model: str) -> Iterator[tuple[str, Points]]:
    """GAS by the value of a sampling parameter, of every run of ``probes mitigate decoding``."""
    prefix = f"gas {entry['prompts']}"
    for path in _runs(entry, measured, model, "mitigation.json"):
        adapter = facts.read(path.parent)
        points = {}
        for name, numbers in adapter.measures.items():
            if name.startswith(prefix):
                points[float(name.removeprefix(prefix))] = numbers
        if points:
            yield adapter.base, points


def _words(entry: Mapping[str, Any], measured: Measured, model: str) -> Iterator[tuple[str, Points]]:
    """JSD of the template prompt of each word of a topic, in the order of the data set."""
    for name, _, table, _ in _examples(entry, measured, model):
        points: dict[Any, Numbers] = {}
        for place in np.flatnonzero(np.asarray(table["topic"]) == entry["topic"]):
            if math.isfinite(table["jsd"][place]):
                # An id is templates-TOPIC-WORD.
                word = str(table["id"][place]).partition(f"{entry['topic']}-")[2]
                points[word] = (float(table["jsd"][place]), _NAN, _NAN)
        if points:
            yield name, points


def _cases(entry: Mapping[str, Any], measured: Measured, model: str) -> Iterator[Panel]:
    """Six natural prompts with their texts, and the probability of each word as the next token.

    Two have a gendered text and the largest difference between the genders, two have that difference and a neutral
    text, and two have a neutral text and the smallest difference; the paper does not say how it chose its six.
    """
    for name, _, table, _ in _examples(entry, measured, model):
        rows: Any = pd.DataFrame(
            {key: np.asarray(table[key]) for key in ("config", "prompt", "text", "gender_class", "jsd")}
        )
        female, male = np.asarray(table["female_mass"]), np.asarray(table["male_mass"])
        rows["difference"] = abs(female - male) / (female + male)
        rows = rows[(rows["config"] == "stsb") & rows["difference"].notna()].sort_values("difference", kind="stable")
        neutral = rows[rows["gender_class"] == "neutral"]
        gendered = rows[rows["gender_class"].isin(["female", "male"])]
        chosen = (
            ("gendered text and probabilities", gendered.tail(2)),
            ("gendered probabilities alone", neutral.tail(2)),
            ("neither", neutral.head(2)),
        )
        for kind, cases in chosen:
            for place, case in cases.iterrows():
                text = " ".join(f"{case['prompt']} | {case['text'].removeprefix(case['prompt'])}".split())
                facts_of = f"female {female[place]:.3f}, male {male[place]:.3f}, JSD {case['jsd']:.3f}"
                lines = [f"{kind}, {name}", facts_of, *textwrap.wrap(textwrap.shorten(text, 130), 66)]
                points = {form: (float(table[column][place]), _NAN, _NAN) for form, column in entry["metrics"].items()}
                series = {name: points}
                yield Panel({**entry, "title": "\n".join(lines)}, series, _lacks(entry, series))
        return  # the paper has one model


def _curves(content: Mapping[str, Sequence[Sequence[Any]]]) -> Iterator[tuple[str, Points]]:
    """The curves of a sweep; scores whose ideal is 50 are drawn as their nearness to it, as FAST does."""
    for label, rows in content.items():
        is_near_50 = label.startswith(("SS", "PS"))
        points = {}
        for x, stored_value, stored_low, stored_high in rows:
            # JSON has null for NaN.
            numbers = (number(stored_value), number(stored_low), number(stored_high))
            if is_near_50:
                value, low, high = numbers
                numbers = _nearness(value, low, high)
            points[x] = numbers
        if is_near_50:
            yield f"100 − |{label} − 50|", points
        else:
            yield label, points


def _nearness(value: float, low: float, high: float) -> Numbers:
    """100 − |value − 50|, and the ends of its interval.

    >>> _nearness(53.0, 48.0, 58.0), _nearness(60.0, 55.0, 65.0)
    ((97.0, 92.0, 100.0), (90.0, 85.0, 95.0))
    """
    of_low = 100 - abs(low - 50)
    of_high = 100 - abs(high - 50)
    # The largest value is inside the interval where that holds 50.
    most = max(of_low, of_high)
    if low <= 50 <= high:
        most = 100.0
    return 100 - abs(value - 50), min(of_low, of_high), most


def swept_panels(content: Mapping[str, Any]) -> list[Panel]:
    """The panels of ``probes mitigate table fast --sweep``, of one model, as the figures of FAST declare them."""
    # Figures 5 and 6 are one panel of different models, so of panels with one source the last one is taken.
    entries = {}
    for table in printed_tables("fast"):
        for entry in table.panels:
            entries[entry["of"]] = entry
    return [Panel(entry, dict(_curves(content[source]))) for source, entry in entries.items()]


def _scores(entry: Mapping[str, Any], measured: Measured, model: str) -> Iterator[tuple[Any, str, str, Numbers]]:
    """Model or thousands of training steps, the labels of group and metric, the numbers."""
    yield from _published_scores(entry, measured)
    for name, benchmark, table, groups in _examples(entry, measured, model):
        metrics = {metric.name: metric for metric in benchmark.metrics("paper")}
        items = []
        labels = []
        for group in groups:
            for label, metric_name in entry["metrics"].items():
                # A name that is not of a metric is of a column, of which the mean is shown.
                items.append((group, metrics.get(metric_name) or sums.of_column(metric_name)))
                labels.append((group.name, label))
        # Examples of an earlier version of a benchmark can be without its clusters; then each example is one.
        clusters = table.get(benchmark.cluster, table["id"])
        estimates = measure(items, table, clusters, resamples=measured.resamples)
        for (group_name, label), estimate in zip(labels, estimates, strict=True):
            yield name, group_name, label, estimate.numbers


def _published_scores(entry: Mapping[str, Any], measured: Measured) -> Iterator[tuple[Any, str, str, Numbers]]:
    """As :func:`_scores`, of the models with published responses."""
    if "published" not in entry:
        return
    source = entry["published"]
    for model in sorted(scoring.published.models(source), key=_thousands):
        if model.endswith("-intervened"):
            continue  # it is another model than the one whose training the steps are of
        place: str | float = model
        if "-step" in model:
            place = _thousands(model)
        for group, metric in product(entry["groups"], entry["metrics"]):
            with suppress(UnreachableError):  # the files of some models are not everywhere
                scores = measured._once("published", source, model)
                numbers = scores[entry["groups"][group][0], entry["metrics"][metric]]
                yield place, group, metric, (numbers["value"], numbers["low"], numbers["high"])


def _thousands(model: str) -> float:
    """The training step that a name ends with, in thousands; 0 without one.

    >>> _thousands("pythia-6.9b-deduped-step134000"), _thousands("gpt2")
    (134.0, 0.0)
    """
    _, separator, step = model.rpartition("-step")
    if not separator or not step.isdecimal():
        return 0.0
    return int(step) / 1000


def _runs(entry: Mapping[str, Any], measured: Measured, model: str, file: str) -> list[Path]:
    """A file of the run that a panel names, of a model or of every model that has it."""
    if "run" not in entry:
        return []
    folder = "*"
    if model:
        folder = slug(model)
    return sorted(measured.runs.glob(f"{folder}/{entry['run']}/{file}"))


def _examples(
    entry: Mapping[str, Any], measured: Measured, model: str
) -> Iterator[tuple[str, Benchmark, Table, list[Group]]]:
    """The name of the model, the benchmark and the examples of each run, and groups pooled from the benchmark's."""
    for path in _runs(entry, measured, model, "results.json"):
        name = cards.results.load(path).model
        benchmark = benchmarks.get(entry["benchmark"])
        if not model and name not in entry.get("models", [name]):
            continue  # the figure is of other models
        table = read_examples(path.parent, benchmark.name)
        masks = {group.name: group.mask for group in benchmark.groups(table)}
        pooled = []
        for label, names in entry["groups"].items():
            # A run over a part of the rows may lack a group.
            masks_of_label = [masks[group] for group in names if group in masks]
            if masks_of_label:
                mask = np.any(masks_of_label, axis=0)
                if mask.any():
                    pooled.append(Group(label, mask))
        yield name, benchmark, table, pooled


def _kept(built: Iterable[Any]) -> Iterator[tuple[str, Points]]:
    """The share of sentences of each set of UnStereoEval whose |MaxPMIDiff| is within a limit, by the limit."""
    sizes: dict[str, list[float]] = {}
    for rows in built:
        natural = rows[rows["natural"] != False]  # noqa: E712 - an empty cell is not judged, and kept
        # WinoBias is in two parts, whose ids begin alike.
        name = rows["id"].iloc[0].partition("-paper")[0]
        sizes.setdefault(name, []).extend(natural["max_pmi_diff"].abs())
    for name, of_set in sizes.items():
        size = np.array(of_set)
        points: dict[Any, Numbers] = {}
        for limit in np.linspace(0, 3, 61).tolist():
            points[limit] = (100 * float(np.mean(size <= limit)), _NAN, _NAN)
        yield name, points


def chart(drawn: Sequence[Panel], title: str) -> dict[str, bytes]:
    """The files of a figure by their endings, with its panels below each other."""
    heights = [panel.height for panel in drawn]
    with styled():
        lines = len(textwrap.wrap(title, _WIDTH))
        figure = canvas(5.6, 0.2 + 0.2 * lines + sum(heights))
        figure.suptitle(textwrap.fill(title, _WIDTH), fontsize=10, x=0.01, ha="left")
        rows = figure.subfigures(len(drawn), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, panel in zip(rows, drawn, strict=True):
            axes = part.subplots()
            entry = panel.entry
            axis = entry.get("axis", entry["unit"])
            # Dots have the places from top to bottom and the numbers from left to right; curves have numbers upwards.
            if entry["kind"] == "dots":
                _dots(axes, panel)
                axes.set(xlabel=axis, ylabel="")
                axes.grid(axis="x", color=PALETTE["rule"], linewidth=0.6)
                line_at = axes.axvline
            elif entry["kind"] == "bars":
                _bars(axes, panel)
                axes.set(ylabel=entry["unit"])
                line_at = axes.axhline
            elif entry["kind"] == "grid":
                _grid(axes, panel)
            else:
                _curve(axes, panel)
                axes.set(xlabel=axis, ylabel=entry["unit"])
                axes.grid(axis="y", color=PALETTE["rule"], linewidth=0.6)
                line_at = axes.axhline
            axes.set_title(entry["title"], fontsize=9, loc="left")
            if "ideal" in entry:
                line_at(entry["ideal"], color=PALETTE["soft"], linestyle=DOTTED)
            if panel.lacks:
                part.suptitle("\n".join(_wrapped(panel.lacks)), fontsize=7, x=0.01, ha="left")
            # A curve alone has its name too: it may be of one model where the printed figure has several.
            if len(panel.series) > 1 or entry["kind"] == "curve":
                handles, labels = axes.get_legend_handles_labels()
                part.legend(handles, labels, fontsize=7.5, ncols=2, frameon=False, loc="outside lower left")
        return {"svg": image(figure), "png": image(figure, "png")}


def _dots(axes: Axes, panel: Panel) -> None:
    """Draws a row for each place, and in it a dot with its interval for each series."""
    places = panel.places
    count = len(panel.series)
    for index, (label, points) in enumerate(panel.series.items()):
        # The dots of a row are one below the other, around its middle.
        shift = 0.7 * ((index + 0.5) / count - 0.5)
        ink = _COLOURS[index % len(_COLOURS)]
        # After all colours were used once, the same colours come again with hollow dots.
        fill = ""
        if index // len(_COLOURS) % 2:
            fill = "white"
        # The first dot of a series alone has its label, so that the legend has it once.
        label_of_dot: str | None = label
        for place, numbers in points.items():
            interval(axes, numbers, places.index(place) + shift, ink, fill, label_of_dot)
            label_of_dot = None
    axes.set_yticks(range(len(places)), [plain(place, 40) for place in places], fontsize=8)
    axes.set_ylim(len(places) - 0.4, -0.6)


def _bars(axes: Axes, panel: Panel) -> None:
    """Draws a bar for each place and series."""
    places = panel.places
    width = 0.8 / len(panel.series)
    for index, (label, points) in enumerate(panel.series.items()):
        x = [places.index(place) + (index + 0.5) * width - 0.4 for place in points]
        axes.bar(
            x, [value for value, _, _ in points.values()], width, color=_COLOURS[index % len(_COLOURS)], label=label
        )
    axes.set_xticks(range(len(places)), [plain(place, 20) for place in places], rotation=90, fontsize=6.5)
    axes.set_xlim(-0.7, len(places) - 0.3)


def _grid(axes: Axes, panel: Panel) -> None:
    """Draws a coloured cell for each place, which is a column and a row; rows of names go from top to bottom."""
    entry = panel.entry
    ((label, points),) = panel.series.items()
    columns = list(dict.fromkeys(column for column, _ in points))
    rows = list(dict.fromkeys(row for _, row in points))
    values = np.array([[points[column, row][0] for column in columns] for row in rows])
    if "scale" in entry:
        low, high = entry["scale"]
        cells = axes.pcolormesh(np.ma.masked_invalid(values), vmin=low, vmax=high, cmap="PuOr_r", rasterized=True)
        for axis, names in ((axes.xaxis, columns), (axes.yaxis, rows)):
            axis.set_ticks(np.arange(len(names)) + 0.5, names, fontsize=5.5)
        axes.tick_params(axis="x", rotation=90)
        axes.invert_yaxis()
    else:
        # In the lightest grey of the scale a cell of one word is not white.
        greys = ListedColormap(colormaps["Greys"](np.linspace(0.25, 1, 256)))
        shown = np.ma.masked_invalid(values)
        cells = axes.pcolormesh(columns, rows, shown, norm=LogNorm(), cmap=greys, shading="nearest", rasterized=True)
        axes.set(xlabel=entry["axis"], ylabel=entry["unit"])
    bar = axes.figure.colorbar(cells, ax=axes, label=label, shrink=0.7)
    if "scale" not in entry:
        # Ticks of our own: those of a logarithm are at powers of ten, of which there may be one.
        ticks = np.geomspace(float(np.nanmin(values)), float(np.nanmax(values)), 5).tolist()
        bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
        bar.minorticks_off()


def _neutrality(axes: Axes, differences: Sequence[float]) -> None:
    """Draws where both pronouns are preferred equally often, and where they differ by so many points."""
    female = np.linspace(0, 100, 2)
    for difference in differences:
        # neutral + female + male = 100, and male = female + difference or female - difference.
        for side in {difference, -difference}:
            line = DOTTED if difference else "--"
            axes.plot(female, 100 - 2 * female + side, color=PALETTE["soft"], linestyle=line, linewidth=0.9, zorder=0)
    axes.set(xlim=(0, 100), ylim=(0, 100))


def _curve(axes: Axes, panel: Panel) -> None:
    """Draws a line with its intervals for each series, or for ``points`` the marks alone."""
    entry = panel.entry
    # A histogram has its values at the right ends of bins.
    drawstyle = "default"
    if "column" in entry or entry.get("of") in ("delta", "pmi"):
        drawstyle = "steps-pre"
    if "differences" in entry:
        _neutrality(axes, entry["differences"])
    # A dashed series has the colour of the one that it belongs to.
    stems = list(dict.fromkeys(label.removesuffix(entry.get("dashed", "")) for label in panel.series))
    for label, points in panel.series.items():
        x = sorted(points)
        value, low, high = np.array([points[place] for place in x]).T
        stem = label.removesuffix(entry.get("dashed", ""))
        index = stems.index(stem)
        ink = _COLOURS[index % len(_COLOURS)]
        dashes = _DASHES[index // len(_COLOURS) % len(_DASHES)]
        if stem != label:
            dashes = "--"
        if entry["kind"] == "points":
            axes.plot([place for place, _ in x], value, "o", color=ink, markersize=3.5, label=label)
            continue
        # Marks of more points would touch.
        mark = ""
        if len(points) < 30:
            mark = "o"
        axes.plot(
            x,
            value,
            drawstyle=drawstyle,
            label=label,
            zorder=3,
            color=ink,
            linewidth=1.3,
            linestyle=dashes,
            marker=mark,
            markersize=3,
        )
        if len(panel.series) <= _BANDS:
            axes.fill_between(x, low, high, color=ink, alpha=0.12, linewidth=0, zorder=1)
        else:  # thin bars at the ends of the intervals, which do not hide the lines
            axes.vlines(x, low, high, color=ink, alpha=0.35, linewidth=0.8, zorder=1)
    # Blocks and units are whole numbers; at most a dozen of them have room on the axis.
    if entry["axis"] in ("block", "units"):
        if entry["axis"] == "units":
            axes.set_xscale("log")
        ticks = sorted(panel.places)
        shown = ticks[:: max(1, len(ticks) // 12)]
        axes.set_xticks(shown, [str(tick) for tick in shown])
        axes.set_xticks([], minor=True)
