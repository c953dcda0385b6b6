"""The same items in several wordings: neutral texts before each item, the mean score over them, and a G-study.

``stereoset-wordings`` asks every item of ``stereoset`` after each of several texts, the same for all options of an
item: instructions, questions, stories, dialogues and lists, from ``data/wordings.toml``. Its scores are the means of
the scores of all wordings, with intervals over clusters of items and over wordings, which are drawn at random too. The
benchmark itself asks the items without such a text, and is not part of the mean, so published scores stay as they are.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from scoring import types
from scoring.inputs.columns import first_of_each, numbered
from scoring.metrics import variance
from scoring.metrics.sums import mean_over
from scoring.types import Benchmark, BenchmarkContext, Contrast, Floats, Group, Metric, Request, Row, Table

_DATA = tomllib.loads((Path(__file__).parents[1] / "data").joinpath("wordings.toml").read_text(encoding="utf-8"))
#: The texts by class of items and name; all classes have the same names.
TEXTS: Mapping[str, Mapping[str, str]] = _DATA["texts"]
NAMES: tuple[str, ...] = tuple(TEXTS["sentences"])
#: Neutral questions that a chat is asked first, where it has two turns.
OPENINGS: tuple[str, ...] = tuple(_DATA["openings"]["texts"])
#: The fewest items of a group whose scores are reported.
FEWEST = 10

_NOTE = """Means over wordings, neutral texts before each item, of which the plain wording is none. Intervals include
the wordings: other wordings of these kinds would give other means. Those of shares of variance and of reliabilities
are over items alone, for these wordings."""
#: In a benchmark where each item is a cluster, all wordings of an item are one.
_CLUSTERS = {"id": "item", "row": "item", "opening": "item"}

#: What a headline says besides the score, which is the mean over wordings.
_STUDY = """ Mean over wordings. Of the variance of a preference, wordings make {share_wordings} % and items \
{share_items} %; a reliability of .8 of the order of items takes this many wordings: {wordings_for_80}."""


def text(benchmark: Benchmark, row: Row) -> str:
    """The text before the item of a row that has a wording."""
    name = benchmark.wordings
    if name == "template":
        # OccuGender asks outright or lets the model continue, and each needs texts of its own.
        name = row["template"].partition("-")[0]
    if name not in TEXTS:
        raise types.ScoringError(
            f"The benchmark {benchmark.name} has the wordings {name!r}; give one of {', '.join(TEXTS)}, or template."
        )
    return TEXTS[name][row["wording"]]


def count(number: str) -> int:
    """The number of wordings that is asked for: all, or a number from 2 on.

    Raises
    ------
    ScoringError
        For anything else.

    >>> count("all"), count("5")
    (10, 5)
    """
    if number == "all":
        return len(NAMES)
    if not number.isdecimal() or not 2 <= int(number) <= len(NAMES):
        raise types.ScoringError(f"There are no {number!r} wordings; give all, or a number from 2 to {len(NAMES)}.")
    return int(number)


def asked(benchmark: Benchmark, number: int) -> dict[str, Any]:
    """The fields of a benchmark whose items are asked in so many wordings."""

    def each(row: Row) -> Iterator[Row]:
        # Ids are those of a split, so the name of an item has the config and the split too.
        item = f"{row['config']}/{row['split']}/{row['id']}"
        for name in NAMES[:number]:
            yield {**row, "id": f"{row['id']}/{name}", "item": item, "wording": name}

    def requests(profile: str, row: Row, context: BenchmarkContext) -> Iterator[Request]:
        for request in benchmark.requests(profile, row, context):
            yield request.after(text(benchmark, row))

    def to_record(profile: str, row: Row, responses: types.Responses, context: BenchmarkContext) -> types.Line:
        # What the benchmark encodes must have the tokens that it has after the text.
        after_text = replace(context, encode=partial(_encoded_after, context, text(benchmark, row)))
        record = benchmark.to_record(profile, row, responses, after_text)
        return _with_wording(record, row)

    def metrics(profile: str) -> list[Metric]:
        return _averages(benchmark, benchmark.metrics(profile), sampled=False)

    headline = benchmark.headline
    if headline:
        headline = replace(headline, dataset="", sentence=headline.sentence + _STUDY)
    sampled = benchmark.sampled
    if sampled:
        sampled = _sampled(benchmark, sampled)
    return {
        "each": each,
        "requests": requests,
        "to_record": to_record,
        "needs": benchmark.needs,
        "kinds": benchmark.kinds,
        "groups": partial(groups, benchmark),
        "metrics": metrics,
        "cluster": _CLUSTERS.get(benchmark.cluster, benchmark.cluster),
        "headline": headline,
        "sampled": sampled,
        "note": _NOTE,
    }


def _sampled(benchmark: Benchmark, task: types.Sampled) -> types.Sampled:
    """The questions of a benchmark after the texts, for a model that answers in words."""

    def question(profile: str, row: Row) -> list[str]:
        plain = task.question(profile, row)
        if isinstance(plain, str):
            plain = [plain]
        return [f"{text(benchmark, row)} {turn}" for turn in plain if turn]

    def to_records(row: Row, answers: Sequence[str]) -> list[types.Line]:
        return [_with_wording(line, row) for line in task.to_records(row, answers)]

    def metrics(profile: str) -> list[Metric]:
        return _averages(benchmark, task.metrics(profile), sampled=True)

    return replace(
        task,
        question=question,
        to_records=to_records,
        metrics=metrics,
        groups=partial(groups, replace(benchmark, groups=task.groups)),
        cluster=_CLUSTERS.get(task.cluster, task.cluster),
    )


def _with_wording(line: types.Line, row: Row) -> types.Line:
    return line | {"item": row["item"], "wording": row["wording"]}


def _encoded_after(context: BenchmarkContext, before: str, texts: Sequence[str]) -> list[Any]:
    """The token ids that texts have after another text and a space."""
    whole = [before]
    for following in texts:
        whole.append(f"{before} {following}")
    encodings = context.encode(whole)
    length = len(encodings[0].ids)
    return [SimpleNamespace(ids=encoding.ids[length:]) for encoding in encodings[1:]]


def _averages(benchmark: Benchmark, metrics: Sequence[Metric], *, sampled: bool) -> list[Metric]:
    """The means of metrics over wordings, and the G-study."""
    means = [averaged(metric) for metric in metrics]
    return means + _study(benchmark, sampled=sampled)


def averaged(metric: Metric) -> Metric:
    """The mean of a metric over wordings, which its interval takes as drawn at random."""
    title, short = metric.names
    reading = f"Mean over wordings. {metric.reading}"
    mean = mean_over(metric, "wording", metric.name, reading)
    return replace(mean, parts=metric.final, names=(f"{title or metric.name}, over wordings", short or metric.name))


def groups(benchmark: Benchmark, table: Table) -> list[Group]:
    """The groups of a benchmark with :data:`FEWEST` items or more; of the one that is shown each wording too."""
    large = []
    items, _ = numbered(table["item"])
    for group in benchmark.groups(table):
        if len(np.unique(items[group.mask])) >= FEWEST:
            large.append(group)
    # The group of the headline, or else the first, is shown by wording.
    first = large[:1]
    if benchmark.headline:
        shown = [group for group in large if group.name == benchmark.headline.shown]
        first = shown[:1] or first
    study = frozenset(metric.name for metric in _study(benchmark, sampled=True))
    by_wording = []
    for group in first:
        for name in dict.fromkeys(table["wording"]):
            mask = group.mask & (table["wording"] == name)
            by_wording.append(Group(f"{group.name}, {name}", mask, group.without | study))
    return large + by_wording


def _study(benchmark: Benchmark, *, sampled: bool) -> list[Metric]:
    design = partial(by_wording, benchmark)
    return list(variance.shares(design, ["wordings"], sampled=sampled)) + list(variance.decisions(design))


def preference(table: Table, contrast: Contrast, way: str = "") -> Floats:
    """The difference of the numbers of both sides, for each example; a text that has a class is 1, -1 or 0."""
    if "gender_class" in table and (way == "text" or contrast.numbers[0] not in table):
        first, second = (table["gender_class"] == name for name in contrast.names)
    else:
        first, second = (table[name] for name in contrast.numbers)
    return np.asarray(first, np.float64) - np.asarray(second, np.float64)


def by_wording(benchmark: Benchmark, table: Table) -> tuple[Floats, Floats]:
    """The preference [lines, wordings] of each item, on its first line, and the variance of its samples' mean.

    Other lines have NaN, and so has an item that lacks a wording.
    """
    assert benchmark.contrast
    values = preference(table, benchmark.contrast)
    items, count = numbered(table["item"])
    first = first_of_each(items, count)
    wordings, number = numbered(table["wording"])
    # Every line has the number of its cell, so sums over samples are counts with weights.
    shape = (count, number)
    cells = items * number + wordings
    size = count * number
    n = np.bincount(cells, minlength=size).reshape(shape)
    total = np.bincount(cells, values, size).reshape(shape)
    squares = np.bincount(cells, values**2, size).reshape(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / n
        # The variance of a mean of n samples; one sample says nothing of it, and has 0.
        noise = np.where(n > 1, (squares / n - mean**2) / (n - 1), 0.0)
    x = np.full((len(values), number), np.nan)
    sampling = np.zeros((len(values), number))
    x[first] = mean
    sampling[first] = noise
    return x, sampling
