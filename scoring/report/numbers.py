"""The scores of a report by metric and benchmark: the range of a plot, the methods of intervals, what was scored."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from cards.common.numbers import Scale
from cards.common.sentences import say
from cards.common.text import grouped
from scoring.statistics.intervals import METHODS
from scoring.types import Estimate, Measurement, Report, Table

M = TypeVar("M", bound=Measurement)
#: The intraclass correlation is shown of scores with so many clusters.
FEWEST = 6


def metric_range(estimates: Sequence[Estimate]) -> Scale:
    """The range of possible values of the metric of these estimates; a range that holds them where it is infinite."""
    # Both runs of a comparison have one metric, and its range may differ between versions.
    least = min(e.least for e in estimates)
    most = max(e.most for e in estimates)
    if math.isfinite(most - least):
        return Scale(least, most)
    return scale(estimates)


def signed_distance(value: float, score: Estimate) -> float:
    """The distance of a value from the ideal value, as a share of the metric's range on that side; NaN without one.

    >>> score = Estimate("b", "g", "ss", 75.0, 70.0, 80.0, 3.0, 9, 9, ideal=50.0, least=0, most=100)
    >>> signed_distance(75.0, score), signed_distance(0.0, score)
    (0.5, -1.0)
    """
    if score.ideal is None or not math.isfinite(value - score.ideal):
        return math.nan
    if value == score.ideal:
        return 0.0
    if value > score.ideal:
        room = score.most - score.ideal
    else:
        room = score.ideal - score.least
    # A range without an end on this side has no share, and a range of length 0 would be divided by.
    if not math.isfinite(room) or room <= 0:
        return math.nan
    return (value - score.ideal) / room


def scale(estimates: Iterable[Estimate]) -> Scale:
    """A range for estimates of one metric: its own where they fill a quarter of it, else a round one from 0.

    >>> scale([Estimate("b", "g", "gas", 0.6, 0.5, 0.7, 0.05, 9, 9, least=0, most=1)])
    Scale(low=0, high=1)
    >>> scale([Estimate("b", "g", "gas", 0.04, 0.03, 0.06, 0.01, 9, 9, least=0, most=1)])
    Scale(low=0.0, high=0.06)
    """
    listed = list(estimates)
    numbers: list[float] = []
    for estimate in listed:
        numbers += estimate.numbers
        if estimate.ideal is not None:
            numbers.append(estimate.ideal)
    low, high = _ends(numbers)
    least = min((e.least for e in listed), default=-math.inf)
    most = max((e.most for e in listed), default=math.inf)
    reach = max(-low, high)
    # Four times the room is the most that a plot may leave empty before it shows a part of the range.
    if reach >= max(-least, most) / 4:
        return Scale(least, most)
    return around([low, high])


def _ends(numbers: Iterable[float]) -> tuple[float, float]:
    """The smallest and the largest of the finite numbers and 0."""
    low = high = 0.0
    for number in numbers:
        if math.isfinite(number):
            low = min(low, number)
            high = max(high, number)
    return low, high


def around(numbers: Iterable[float]) -> Scale:
    """A round range that holds the finite numbers and 0.

    >>> around([-0.31, 0.12])
    Scale(low=-0.4, high=0.2)
    """
    low, high = _ends(numbers)
    reach = max(-low, high)
    # The range ends at whole multiples of the power of ten below its longer side.
    step = 1.0
    if reach > 0:
        step = 10.0 ** math.floor(math.log10(reach))
    steps = math.ceil(high / step)
    # A range of zeros alone has no length, so it is given one step to the right.
    if low >= 0:
        steps = max(steps, 1)
    return Scale(step * math.floor(low / step), step * steps)


def by_metric(results: Iterable[M]) -> dict[str, list[M]]:
    """Results of one benchmark under their metric, in order of appearance."""
    return grouped(results, lambda result: result.metric)


def by_benchmark(results: Iterable[M]) -> dict[str, list[M]]:
    """Results under their benchmark, in order of appearance."""
    return grouped(results, lambda result: result.benchmark)


def marked(estimate: Measurement) -> str:
    """The method of the interval in brackets, or nothing for the bootstrap, which is the usual one.

    >>> marked(Estimate("b", "g", "gas", 1.0, 0.94, 1.0, 0.0, 60, 60, method="binomial"))
    '(binomial)'
    """
    if estimate.method in ("", "bootstrap"):
        return ""
    return f"({estimate.method})"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a text table whose columns are as wide as their longest cell.

    >>> list(aligned([("n", "name"), ("10", "a")]))
    ['n   name', '10  a']
    """
    if not rows:
        return
    widths = []
    for column in range(len(rows[0])):
        widths.append(max(len(row[column]) for row in rows))
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def methods(estimates: Iterable[Measurement]) -> list[str]:
    """A sentence for each method by which an interval of these was computed, and one on how alike clusters are."""
    used = set()
    correlations = []
    for estimate in estimates:
        used.add(estimate.method)
        # Of fewer than six clusters the correlation says nothing.
        if math.isfinite(estimate.icc) and estimate.clusters >= FEWEST:
            correlations.append(estimate.icc)
    sentences = []
    for method, words in METHODS.items():
        if method not in used:
            continue
        mark = f"marked ({method})"
        if method == "bootstrap":
            mark = "without a mark"
        sentences.append(say("run.intervals", mark=mark, method=words))
    if correlations:
        correlations.sort()
        middle = correlations[len(correlations) // 2]
        sentences.append(say("run.icc", middle=f"{middle:.2f}", largest=f"{correlations[-1]:.2f}"))
    return sentences


#: Below this share of different texts a page warns.
_FEW_TEXTS = 0.5


def few_texts(table: Table) -> str:
    """A warning where a table of continuations has few different texts; else an empty text."""
    # In the agreement of ways, a column of that name has numbers.
    if "gender_class" not in table or table["text"].dtype.kind != "O":
        return ""
    # A table of ways has the side of each text in this column, and no texts.
    texts = [text.strip().casefold() for text in table["text"].tolist() if isinstance(text, str)]
    distinct = len(set(texts))
    if distinct >= _FEW_TEXTS * len(texts):
        return ""
    return say("run.texts", rows=f"{len(texts):,}", distinct=f"{distinct:,}")


def facts(report: Report) -> dict[str, str]:
    """What was scored and how, as text by name; data sets with their versions."""
    datasets = []
    for name, version in sorted(report.data.items()):
        # "stereoset/intra/validation" and "1.0.0 (1234abcd)": the configs of a data set share its name and version.
        dataset = f"{name.partition('/')[0]} {version.partition(' ')[0]}"
        if dataset not in datasets:
            datasets.append(dataset)
    language = "not measured"
    if report.language:
        language = report.language.sentence
    return {
        "model": report.model,
        "revision": report.revision or "none",
        "adapter": report.adapter or "none",
        "dtype": report.dtype,
        "prompt": report.prompt or "none",
        "profile": report.profile,
        "data": ", ".join(datasets) or "none",
        "language ability": language,
    }
