"""The same items in several wordings: neutral texts before each item, the mean score over them, and a G-study.

``stereoset-wordings`` asks every item of ``stereoset`` after each of several texts, the same for all options of an
item: instructions, questions, stories, dialogues and lists, from ``data/wordings.toml``. Its scores are the means of
the scores of all wordings, with intervals over clusters of items and over wordings, which are drawn at random too. The
plain wording is the benchmark itself, and is no part of the mean. So published scores stay as they are.
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
from scoring.metrics import variance
from scoring.metrics.sums import mean_over
from scoring.types import Benchmark, BenchmarkContext, Contrast, Floats, Group, Metric, Request, Row, Table

_DATA = tomllib.loads((Path(__file__).parents[1] / "data").joinpath("wordings.toml").read_text(encoding="utf-8"))
#: The texts by class of items and name; all classes have the same names.
TEXTS: Mapping[str, Mapping[str, str]] = _DATA["texts"]
NAMES: tuple[str, ...] = tuple(TEXTS["sentences"])
#: Neutral questions that a chat is asked first, where it has two turns.
OPENINGS: tuple[str, ...] = tuple(_DATA["openings"]["texts"])
#: So many items a group has whose scores are reported.
FEWEST = 10

_NOTE = """Means over wordings, neutral texts before each item, of which the plain wording is none. Intervals include
the wordings: other wordings of these kinds would give other means. Those of shares of variance and of reliabilities
are over items alone, for these wordings."""

#: What a headline says besides the score, which is the mean over wordings.
_STUDY = """ Mean over wordings. Of the variance of a preference, wordings make {share_wordings} % and items \
{share_items} %; a reliability of .8 of the order of items takes this many wordings: {wordings_for_80}."""


def class_of(benchmark: Benchmark) -> str:
    """The class of the items of a benchmark; empty where there are no wordings for them."""
    base, _, way = benchmark.name.partition("-")
    return "choices" if way == "choice" else str(_DATA["classes"].get(base, "")) if way in ("", "text") else ""


def text(benchmark: Benchmark, row: Row) -> str:
    """The text before the item of a row that has a wording."""
    of_class = class_of(benchmark)
    return TEXTS[of_class if of_class in TEXTS else row["template"].partition("-")[0]][row["wording"]]


def count(given: str) -> int:
    """The number of wordings that is asked for: all, or a number from 2 on.

    Raises
    ------
    ScoringError
        For anything else.

    >>> count("all"), count("5")
    (10, 5)
    """
    if given == "all":
        return len(NAMES)
    if not given.isdecimal() or not 2 <= int(given) <= len(NAMES):
        raise types.ScoringError(f"There are no {given!r} wordings; give all, or a number from 2 to {len(NAMES)}.")
    return int(given)


def asked(benchmark: Benchmark, number: int) -> dict[str, Any]:
    """The fields of a benchmark whose items are asked in so many wordings."""

    def each(row: Row) -> Iterator[Row]:
        for name in NAMES[:number]:
            item = "/".join(row[column] for column in ("config", "split", "id"))  # ids are those of a split
            yield {**row, "id": f"{row['id']}/{name}", "item": item, "wording": name}

    def requests(profile: str, row: Row, context: BenchmarkContext) -> Iterator[Request]:
        for request in benchmark.requests(profile, row, context):
            yield request.after(text(benchmark, row))

    def to_record(profile: str, row: Row, given: types.Responses, context: BenchmarkContext) -> types.Line:
        before = text(benchmark, row)
        behind = replace(context, encode=partial(_encoded_after, context, before))
        return benchmark.to_record(profile, row, given, behind) | _named(row)

    def question(profile: str, row: Row) -> list[str]:
        assert task
        own = task.question(profile, row)
        return [f"{text(benchmark, row)} {one}" for one in ([own] if isinstance(own, str) else own) if one]

    def metrics_of(own: Sequence[Metric], *, sampled: bool) -> list[Metric]:
        return [*map(averaged, own), *_study(benchmark, sampled=sampled)]

    alone = dict.fromkeys(("id", "row", "opening"), "item")  # where each item is a cluster, all its wordings are
    task, own = benchmark.sampled, benchmark.headline
    sampled = task and replace(
        task,
        question=question,
        to_records=lambda row, answers: [line | _named(row) for line in task.to_records(row, answers)],
        metrics=lambda profile: metrics_of(task.metrics(profile), sampled=True),
        groups=partial(groups, replace(benchmark, groups=task.groups)),
        cluster=alone.get(task.cluster, task.cluster),
    )
    return {
        "each": each,
        "requests": requests,
        "to_record": to_record,
        "needs": benchmark.needs,
        "kinds": benchmark.kinds,
        "groups": partial(groups, benchmark),
        "metrics": lambda profile: metrics_of(benchmark.metrics(profile), sampled=False),
        "cluster": alone.get(benchmark.cluster, benchmark.cluster),
        "headline": own and replace(own, dataset="", sentence=own.sentence + _STUDY),
        "sampled": sampled,
        "note": _NOTE,
    }


def _named(row: Row) -> dict[str, str]:
    return {name: row[name] for name in ("item", "wording")}


def _encoded_after(context: BenchmarkContext, before: str, texts: Sequence[str]) -> list[Any]:
    """The token ids that texts have behind another text and a space."""
    first, *whole = context.encode([before, *(f"{before} {text}" for text in texts)])
    return [SimpleNamespace(ids=encoding.ids[len(first.ids) :]) for encoding in whole]


def averaged(metric: Metric) -> Metric:
    """The mean of a metric over wordings, which its interval takes as drawn at random."""
    title, short = metric.names
    reading = f"Mean over wordings. {metric.reading}"
    mean = mean_over(metric, "wording", metric.name, reading)
    return replace(mean, parts=metric.final, names=(f"{title or metric.name}, over wordings", short or metric.name))


def groups(benchmark: Benchmark, table: Table) -> list[Group]:
    """The groups of a benchmark with :data:`FEWEST` items or more; of the one that is shown each wording too."""
    own = [
        group for group in benchmark.groups(table) if len(np.unique(table["item"][group.mask].astype(str))) >= FEWEST
    ]
    study = frozenset(metric.name for metric in _study(benchmark, sampled=True))
    shown = [group for group in own if benchmark.headline and group.name == benchmark.headline.shown] or own
    return own + [
        Group(f"{group.name}, {name}", group.mask & (table["wording"] == name), group.without | study)
        for group in shown[:1]
        for name in dict.fromkeys(table["wording"])
    ]


def _study(benchmark: Benchmark, *, sampled: bool) -> list[Metric]:
    design = partial(by_wording, benchmark)
    return [*variance.shares(design, ["wordings"], sampled=sampled), *variance.decisions(design)]


def preference(table: Table, contrast: Contrast, way: str = "") -> Floats:
    """How far each example is on the first side; a text that has a class is 1, -1 or 0."""
    of_class = "gender_class" in table and (way == "text" or contrast.numbers[0] not in table)
    names = contrast.names if of_class else contrast.numbers
    sides = (table["gender_class"] == name if of_class else table[name] for name in names)
    first, second = (np.asarray(side, np.float64) for side in sides)
    return first - second


def by_wording(benchmark: Benchmark, table: Table) -> tuple[Floats, Floats]:
    """The preference [lines, wordings] of each item, on its first line, and the variance of its samples' mean.

    Other lines have NaN, and so has an item that lacks a wording.
    """
    assert benchmark.contrast
    values = preference(table, benchmark.contrast)
    _, first, items = np.unique(table["item"].astype(str), return_index=True, return_inverse=True)
    names, wordings = np.unique(table["wording"].astype(str), return_inverse=True)
    # Every line has the number of its cell, so sums over samples are counts with weights.
    shape, cells = (len(first), len(names)), items * len(names) + wordings
    with np.errstate(invalid="ignore", divide="ignore"):
        n, total, squares = (
            np.bincount(cells, weights, len(first) * len(names)).reshape(shape)
            for weights in (np.ones(len(values)), values, values**2)
        )
        mean = total / n
        # The variance of a mean of n samples; one sample says nothing of it, and has 0.
        noise = np.where(n > 1, (squares / n - mean**2) / (n - 1), 0.0)
    x, sampling = (np.full((len(values), len(names)), fill) for fill in (np.nan, 0.0))
    x[first], sampling[first] = mean, noise
    return x, sampling
