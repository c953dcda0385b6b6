"""The scores of all real models: every run of published responses, as one file of facts.

:func:`collect` makes the runs from pinned files. :func:`read` and :func:`write` keep their scores in
``docs/models/scores.json``: numbers, not texts, so the licences of the responses do not matter for it.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cards.common.files import put
from scoring.types import Floats, ScoringError, Table
from tools.docs.pages import ROOT

# The site shows the kept scores, and its environment has no packages that fetch and score.
if TYPE_CHECKING:
    from scoring.asking.result import RunResult

SCORES = ROOT / "docs" / "models" / "scores.json"
#: Texts of others, which are never part of the project.
EXAMPLES = ROOT / "docs" / "models" / "examples.json"
_NAMES = ROOT / "tools" / "templates" / "real_models.csv"
#: Groups and metrics that the page has, by source, of sources with more than it shows; the others are in the runs.
SHOWN: Mapping[str, Collection[tuple[str, str]]] = {
    "unstereo": [
        (name, metric)
        for name in ("ours-5", "ours-10", "ours-20", "winobias", "winogender")
        for metric in ("tau@0.5", "pref_disparity@0.5")
    ],
    "stereoset": [("intrasentence gender", "ss"), ("intrasentence gender", "lms"), ("intrasentence overall", "ss")],
    "pythia-bias": [("gender", "ss")],
    "pythia-winobias": [
        (f"type {number}, {words}", "pro_less_anti") for number in (1, 2) for words in ("stands for", "refers to")
    ],
}
#: Sources that the page leaves out: steps of training and models after a recipe are no models of their own.
NOT_SHOWN = ("unstereo-steps", "stereoset-test", "bbq-debiased")
#: Baselines of the authors of StereoSet, which are no models of their own.
BASELINES = ("EnsembleModel", "SentimentModel")
#: Metrics of :mod:`scoring.published` that are left out: another scale of one that is shown.
_LEFT_OUT = ("g_s_published", "gas", "gas_female")
#: What a score has of an estimate.
_OF_ESTIMATE = (
    "benchmark",
    "group",
    "metric",
    "value",
    "low",
    "high",
    "n",
    "clusters",
    "ideal",
    "least",
    "most",
    "reading",
)
#: Of OccuGender the page has the scores without a debiasing prompt; single jobs and the others are in the runs.
_OF_OCCUGENDER = re.compile(r"(explicit|implicit)(, (female|male) jobs)?")


@dataclass(frozen=True, slots=True)
class Score:
    """A score of a model: where it is from, the value with its 95 % interval, and how to read it."""

    source: str
    benchmark: str
    group: str
    metric: str
    value: float
    low: float
    high: float
    n: int
    clusters: int
    ideal: float | None = None
    least: float = math.nan
    most: float = math.nan
    reading: str = ""


@dataclass(slots=True)
class Model:
    """A model with its scores; ``kind`` is base, chat, masked, or says that it is not stated."""

    name: str
    year: int
    kind: str
    scores: list[Score] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)

    def score(self, source: str, group: str, metric: str) -> Score | None:
        """The score of a place, or None."""
        for score in self.scores:
            if (score.source, score.group, score.metric) == (source, group, metric):
                return score
        return None


@dataclass(frozen=True, slots=True)
class Collected:
    """All models by name, how each source was asked, and what was left out with the reason."""

    models: Mapping[str, Model]
    settings: Mapping[str, str]
    left_out: Sequence[str]


@cache
def facts() -> dict[str, dict[str, str]]:
    """Name, year and kind of each model, by the label of a source and by its own name."""
    with _NAMES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["label"]: row for row in rows} | {row["name"]: row for row in rows}


def collect(data: Path, *, offline: bool, resamples: int, say: Callable[[str], None] = lambda _: None) -> Collected:
    """Makes all runs of real models from pinned files, of a mirror, the cache or the network.

    Parameters
    ----------
    data:
        The folder of the built data sets, which are built where they are missing.
    say:
        Called with a sentence before long work.
    """
    from scoring import published

    models: dict[str, Model] = {}
    settings: dict[str, str] = {}
    left_out: list[str] = []
    fetcher = published.default_fetcher(offline=offline)
    for source in published.names():
        if source in NOT_SHOWN:
            continue
        settings[source] = published.get(source).settings
        for label in published.models(source):
            if label in BASELINES:
                left_out.append(f"{source}, {label}: a baseline of the authors and no language model of its own.")
                continue
            try:
                run = published.score(source, label, data, resamples=resamples, fetcher=fetcher)
            except (published.BrokenFileError, published.UnavailableError) as error:
                left_out.append(f"{source}, {label}: {error}")
                continue
            say(f"{source}: {label}")
            model = _model(models, label, source)
            model.scores += of_run(source, run)
            model.remarks += [f"{source}: {remark}" for remark in run.remarks if remark != settings[source]]
            model.examples += examples_of(run)
        left_out += [f"{source}, {label}: {why}" for label, why in published.get(source).absent.items()]
    return Collected(models, settings, left_out)


def _model(models: dict[str, Model], label: str, source: str) -> Model:
    # The same label names another model in another source, or in another one of the same authors.
    names = (f"{source}:{label}", f"{source.partition('-')[0]}:{label}", label)
    row = next((facts()[name] for name in names if name in facts()), None)
    if row is None:
        raise ScoringError(f"The year and the kind of {label} ({source}) are not known; add a line to {_NAMES}.")
    return models.setdefault(row["name"], Model(row["name"], int(row["year"]), row["kind"]))


def of_run(source: str, run: RunResult) -> list[Score]:
    """The scores of a run of published responses, and of a friend's pronoun the slope over jobs."""
    scores = []
    for estimate in run.report.estimates:
        single = estimate.benchmark == "occugender" and not _OF_OCCUGENDER.fullmatch(estimate.group)
        here = source not in SHOWN or (estimate.group, estimate.metric) in SHOWN[source]
        if here and not single and estimate.metric not in _LEFT_OUT:
            scores.append(Score(source, **{name: getattr(estimate, name) for name in _OF_ESTIMATE}))
    of_jobs = [table for table in run.tables.values() if "female_share" in table and "friend" in table]
    scores += [slope_over_jobs(source, table) for table in of_jobs]
    return [score for score in scores if math.isfinite(score.value)]


def slope_over_jobs(source: str, table: Table) -> Score:
    """The slope over jobs of the share of *she* against the share of women in the labour market.

    1 follows reality; more is steeper than reality, and 0 is the same for all jobs. The interval is that of a
    correlation over jobs, which a slope is times both standard deviations. ``most`` is the slope of a model that says
    *she* in all texts of the jobs with more women than the mean, and in none of the others.

    >>> jobs = np.repeat(["nurse", "cook", "pilot"], 10)
    >>> friend = np.array(["female"] * 10 + ["female", "male"] * 5 + ["male"] * 10)
    >>> share = np.repeat([75.0, 50.0, 25.0], 10)
    >>> found = slope_over_jobs("made", {"row": jobs, "friend": friend, "female_share": share})
    >>> round(found.value, 2), found.most
    (2.0, 2.0)
    """
    from scoring.metrics.sums import products, uncorrelated
    from scoring.statistics.intervals import PSEUDO, of_correlation

    shares, percent, steps, every = [], [], [], []
    for job in dict.fromkeys(table["row"].tolist()):
        rows = table["row"] == job
        women, men = (int(np.sum(table["friend"][rows] == gender)) for gender in ("female", "male"))
        known = float(table["female_share"][rows][0])
        if not math.isfinite(known):
            continue
        every.append(known / 100)
        # A job whose texts have neither she nor he says nothing of which.
        if women + men:
            shares.append(women / (women + men))
            percent.append(known / 100)
            steps.append(1 / (women + men))
    x, y, jobs = np.array(percent), np.array(shares), np.array(every)
    place = (source, "neutral", "jobs", "slope")
    if len(x) < 3 or not np.ptp(x):
        return Score(*place, math.nan, math.nan, math.nan, len(x), len(x))
    # In units of their standard deviations the slope is the correlation. Shares of few texts that are all equal may
    # differ by half of the step from one share to the next.
    scale = max(float(y.std()), float(np.mean(steps)) / 2) / float(x.std())
    sums = products(y / scale, x)
    total = sums.sum(axis=0)
    pseudo = uncorrelated(total, PSEUDO / len(x))
    interval = of_correlation(float(_slope(total + pseudo)), _slope(total + pseudo - sums), len(x))
    value = scale * float(_slope(total))
    # The largest slope of answers between 0 and 1: a slope is a sum of answers times distances from the mean.
    from_mean = jobs - jobs.mean()
    ceiling = float(from_mean[from_mean > 0].sum() / (from_mean**2).sum())
    ends = max(-ceiling, min(value, scale * interval.low)), min(ceiling, max(value, scale * interval.high))
    reading = "Slope over jobs of the share of she against the share of women in the labour market; 1 follows reality."
    return Score(*place, value, *ends, len(x), len(x), 1.0, -ceiling, ceiling, reading)


def _slope(sums: Floats) -> Floats:
    """The slope of the first column of :func:`scoring.metrics.sums.products` on the second."""
    n, x, y, _, yy, xy = np.moveaxis(sums, -1, 0)
    slope: Floats = (n * xy - x * y) / (n * yy - y * y)
    return slope


def examples_of(run: RunResult, count: int = 3) -> list[str]:
    """Texts of a run, word for word, or of a run without texts the sentences with the largest scores.

    A source without a licence that allows to publish its rows has none.
    """
    from scoring import published

    table = next(iter(run.tables.values()), {})
    if not table or not published.by_row(run.report.environment["licence"]):
        return []
    if "friend" in table:
        chosen = [n for n, kind in enumerate(table["friend"]) if kind in ("female", "male", "they")]
        # Far from each other in the table, so of different prompts.
        places = chosen[:: max(1, len(chosen) // count)][:count]
        return [f"{table['prompt'][n]} → {_cut(table['text'][n])}" for n in places]
    if "declared" in table:
        of_each = [np.flatnonzero(table["declared"] == pronoun) for pronoun in ("xe", "they", "she")]
        first = [rows[0] for rows in of_each if len(rows)][:count]
        return [f"{table['before'][n]} → {_cut(table['text'][n])}" for n in first]
    if "log_ratio" in table:
        from scoring.benchmarks.gest import WORDINGS

        sentences: dict[str, str] = {}
        # The largest first; a sentence has a score in each wording.
        for n in np.argsort(-np.abs(table["log_ratio"].astype(float)), kind="stable"):
            words = [word.strip() for word in WORDINGS[str(table["wording"][n])].words]
            ratio = float(table["log_ratio"][n])
            more, less = words if ratio > 0 else words[::-1]
            said = f"{table['text'][n]} → {more}, {math.exp(abs(ratio)):,.3g} times as likely as {less}"
            sentences.setdefault(str(table["item"][n]), said)
            if len(sentences) == count:
                break
        return list(sentences.values())
    return []


def _cut(text: str, most: int = 240) -> str:
    """A text without spaces around it, cut at a word with a mark where it is long.

    >>> _cut(" one two three ", 8)
    'one two …'
    """
    text = " ".join(str(text).split())
    return text if len(text) <= most else f"{text[:most].rpartition(' ')[0]} …"


#: What a kept score has of its own, in this order; the others are of its metric.
_OWN = ("source", "benchmark", "group", "metric", "value", "low", "high", "n", "clusters")
_OF_METRIC = ("ideal", "least", "most", "reading")


def write(collected: Collected, path: Path = SCORES) -> None:
    """Keeps the scores, without examples, which are texts of others."""
    models, metrics = [], {}
    for model in sorted(collected.models.values(), key=lambda model: model.name.lower()):
        about = {"name": model.name, "year": model.year, "kind": model.kind, "remarks": model.remarks}
        rows = []
        for score in model.scores:
            rows.append([_kept(getattr(score, name)) for name in _OWN])
            metrics[f"{score.source} {score.metric}"] = {name: _kept(getattr(score, name)) for name in _OF_METRIC}
        models.append({**about, "scores": rows})
    content = {
        "settings": dict(collected.settings),
        "left out": list(collected.left_out),
        "metrics": metrics,
        "models": models,
    }
    lines = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace('],["', '],\n["')
    put(path, f"{lines}\n".encode())


def table_of_package(collected: Collected) -> str:
    """The table of the package: the scores that are rows of a report (:mod:`scoring.report.real_models`), as CSV."""
    from cards.overview.families import place
    from scoring import benchmarks, published
    from scoring.report.real_models import FIELDS

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for model in sorted(collected.models.values(), key=lambda model: model.name.lower()):
        for score in model.scores:
            headline = benchmarks.get(score.benchmark).headline
            if headline is None:
                continue
            groups = (headline.shown, *headline.styles)
            metrics = (headline.metric, *(headline.leaning or ())[:1])
            if score.group not in groups or score.metric not in metrics:
                continue
            size = place(model.name).parameters
            size_text = f"{size:.3g}" if math.isfinite(size) else ""
            key = (score.benchmark, score.group, score.metric, model.name, model.year, model.kind)
            profile = published.get(score.source).profile
            writer.writerow([*key, size_text, score.source, profile, score.value, score.low, score.high, score.n])
    return text.getvalue()


def write_examples(collected: Collected, path: Path = EXAMPLES) -> None:
    """Keeps the texts of others on this machine; git ignores the file, and the site shows them where it is."""
    texts = {name: model.examples for name, model in sorted(collected.models.items()) if model.examples}
    put(path, f"{json.dumps(texts, ensure_ascii=False, indent=1)}\n".encode())


def read_examples(collected: Collected, path: Path = EXAMPLES) -> None:
    """Gives each model the texts that :func:`write_examples` kept, if there are any."""
    texts = json.loads(path.read_bytes()) if path.is_file() else {}
    for name, model in collected.models.items():
        model.examples[:] = texts.get(name, [])


def _kept(value: Any) -> Any:
    """A value as it is kept: five digits are more than any interval supports, and the file stays small."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def read(path: Path = SCORES) -> Collected:
    """The scores that :func:`write` kept."""
    content = json.loads(path.read_bytes())
    models = {}
    for entry in content["models"]:
        scores = []
        for row in entry["scores"]:
            values = dict(zip(_OWN, row, strict=True))
            values |= content["metrics"][f"{values['source']} {values['metric']}"]
            scores.append(Score(**{name: _number(name, value) for name, value in values.items()}))
        models[entry["name"]] = Model(entry["name"], entry["year"], entry["kind"], scores, entry["remarks"])
    return Collected(models, content["settings"], content["left out"])


def _number(name: str, value: Any) -> Any:
    # A number without a value is NaN, but for the ideal, which a metric may lack.
    return math.nan if value is None and name != "ideal" else value
