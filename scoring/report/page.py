"""The page of a run: scores with intervals, plots, decisive examples, nothing outside itself."""

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from numpy.typing import NDArray

from cards.common.numbers import Scale, counted, detectable_text, interval, minus
from cards.common.sentences import say
from cards.common.text import templates
from cards.results import PARAMETERS
from scoring import benchmarks
from scoring.inference.load_options import BUNDLED
from scoring.inputs.columns import at, length
from scoring.report import numbers
from scoring.report.context import beside, coverage, next_steps, printed
from scoring.report.headlines import answer_of, described, few_examples, headline_scores, model_name, ranked
from scoring.report.real_models import among
from scoring.types import Contrast, Estimate, Floats, Report, Table

#: How many decisive examples of a benchmark the page shows, and of those of the first screen how many speak for what
#: the model does in most rows, and against it.
SHOWN, FOR, AGAINST = 20, 2, 1


#: Parts of a sentence, each with whether the other sentence has something else there.
Parts = list[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an example: its name, number and text in parts, and its share of the probability of both sides."""

    name: str
    number: float
    parts: Parts
    share: float


@dataclass(frozen=True, slots=True)
class Example:
    """An example for the page: who is preferred, by how much, what was compared."""

    preferred: str
    difference: float
    sides: tuple[Side, ...]
    text: str
    about: str


def decisive(
    table: Table, contrast: Contrast | None, inside: NDArray[np.bool_] | None = None, count: int = SHOWN
) -> list[Example]:
    """The examples with the largest absolute difference, ties in the order of the table.

    ``inside`` are the rows that may be shown; None is all of them.
    """
    if contrast is None or not table or not set(contrast.numbers) <= table.keys():
        return []  # sampled answers have no probabilities to compare
    difference, order = _by_difference(table, contrast, inside)
    return _examples(table, contrast, difference, order[:count])


def deciding(table: Table, contrast: Contrast | None, inside: NDArray[np.bool_] | None = None) -> list[Example]:
    """Two examples for what the model does in most of them, and one against it, of those of :func:`decisive`."""
    if contrast is None or not table or not set(contrast.numbers) <= table.keys():
        return []
    difference, order = _by_difference(table, contrast, inside)
    first = [row for row in order if difference[row] > 0]
    second = [row for row in order if difference[row] < 0]
    usual, other = first, second
    if len(second) > len(first):
        usual, other = second, first
    return _examples(table, contrast, difference, usual[:FOR] + other[:AGAINST])


def _by_difference(table: Table, contrast: Contrast, inside: NDArray[np.bool_] | None) -> tuple[Floats, list[int]]:
    """The differences of the two sides, and the rows that have one by its size."""
    first_column, second_column = contrast.numbers
    first = np.asarray(table[first_column], dtype=np.float64)
    second = np.asarray(table[second_column], dtype=np.float64)
    difference = np.where(np.isfinite(first) & np.isfinite(second), first - second, 0.0)
    if inside is not None:
        difference = np.where(inside, difference, 0.0)
    # Stable, so that the page of the same run is the same on every machine.
    order = np.argsort(-np.abs(difference), kind="stable")
    return difference, [int(row) for row in order if difference[row]]


def _examples(table: Table, contrast: Contrast, difference: Floats, chosen: list[int]) -> list[Example]:
    """The examples in some rows of a table."""
    # Only these rows are read of a table whose texts are in a file.
    rows = {}
    shown_columns = contrast.numbers + contrast.sentences + contrast.about + ("prompt", "text")
    for name in shown_columns:
        if name in table:
            rows[name] = at(table, name, chosen)
    examples = []
    for place, row in enumerate(chosen):
        examples.append(_example(rows, contrast, place, float(difference[row])))
    return examples


def _example(table: Table, contrast: Contrast, row: int, difference: float) -> Example:
    """The example in a row of a table, with its texts shortened."""
    sentences = [_short(table[column][row]) for column in contrast.sentences]
    texts = []
    if not sentences:
        # Without a pair of sentences, the prompt and what follows it are shown instead.
        sentences = ["", ""]
        for column in ("prompt", "text"):
            if column in table:
                texts.append(_short(table[column][row]))
    first, second = sentences
    sides = []
    numbers_of_sides = [float(table[column][row]) for column in contrast.numbers]
    shares = _shares(*numbers_of_sides, probabilities=contrast.probabilities)
    texts_of_sides = marked_differences(first, second)
    for side in zip(contrast.names, numbers_of_sides, texts_of_sides, shares, strict=True):
        sides.append(Side(*side))
    about: list[str] = []
    for column in contrast.about:
        fact = _short(table[column][row], 80)
        if fact and fact not in about:
            about.append(fact)
    if difference < 0:
        preferred = contrast.names[1]
    else:
        preferred = contrast.names[0]
    return Example(preferred, difference, tuple(sides), " → ".join(texts), " · ".join(about))


def _shares(first: float, second: float, *, probabilities: bool) -> tuple[float, float]:
    """The share of each of two sides in the probability of both, from their probabilities or logarithms.

    >>> _shares(0.03, 0.01, probabilities=True), _shares(-7.0, -7.0, probabilities=False)
    ((0.75, 0.25), (0.5, 0.5))
    """
    if probabilities:
        share = first / (first + second)
    else:
        # Beyond 700 the exponential of a float is too large.
        share = 1 / (1 + math.exp(min(second - first, 700.0)))
    return share, 1 - share


def _short(value: object, limit: int = 400) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def marked_differences(first: str, second: str) -> tuple[Parts, Parts]:
    """Two sentences in parts, with what differs marked.

    >>> marked_differences("She ate.", "He ate.")[0]
    [('She', True), (' ate.', False)]
    """
    # Words and the white space between them, so that the parts of a sentence join to the sentence.
    left_words = re.findall(r"\s+|\S+", first)
    right_words = re.findall(r"\s+|\S+", second)
    matcher = difflib.SequenceMatcher(None, left_words, right_words, autojunk=False)
    left: Parts = []
    right: Parts = []
    for tag, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        differs = tag != "equal"
        if left_start < left_end:
            left.append(("".join(left_words[left_start:left_end]), differs))
        if right_start < right_end:
            right.append(("".join(right_words[right_start:right_end]), differs))
    return left, right


#: How many groups of a metric the page shows before the others have to be unfolded.
UNFOLDED = 6


@dataclass(frozen=True, slots=True)
class Scores:
    """The estimates of one metric on one scale, with its readings and ideal value."""

    metric: str
    readings: list[str]
    ideal: float | None
    scale: Scale
    estimates: list[Estimate]


@dataclass(frozen=True, slots=True)
class Section:
    """The section of one benchmark; ``same_validity`` is an earlier one whose text says what these scores mean too."""

    name: str
    validity: list[str]
    same_validity: str
    scores: list[Scores]
    methods: list[str]
    figures: list[Any]
    examples: list[Example]
    deciding: list[Example]
    rows: int


def page(
    report: Report,
    tables: Mapping[str, Table],
    validity: Mapping[str, str],
    more: Iterable[Section] = (),
    others: Sequence[Report] = (),
) -> str:
    """The text of ``report.html``.

    ``more`` sections follow those of the benchmarks. The page shows the scores of the runs ``others`` next to its own.
    """
    estimates = numbers.by_benchmark(report.estimates)
    names = list(dict.fromkeys([*estimates, *tables]))
    # Benchmarks of one data set share their text, which is shown once, in the section of the first of them.
    first_with: dict[str, str] = {}
    sections = []
    for name in names:
        text = validity.get(name, "")
        same_validity = ""
        if name in validity and first_with.setdefault(text, name) != name:
            same_validity = first_with[text]
        inside = rows_of_headline(report, name, tables.get(name, {}))
        sections.append(_section(name, text, same_validity, estimates.get(name, []), tables.get(name, {}), inside))
    headlines = ranked(headline_scores(report))
    numbered = []
    for number, run in enumerate(others, 1):
        numbered.append(f"{number} {described(run)}")
    return template("report.html.j2").render(
        report=report,
        name=model_name(report),
        settings=report.settings(),
        partial=report.partial,
        few_examples=few_examples(report),
        headlines=headlines,
        answer=answer_of(report),
        coverage=coverage(report),
        printed=printed(report),
        others=[described(run) for run in others],
        numbered=numbered,
        beside={h.estimate.key: beside(h.estimate, report, others) for h in headlines},
        among={h.estimate.key: among(report, h.estimate) for h in headlines},
        bundled=report.model in BUNDLED,
        about_model=about_model(report),
        next_steps=next_steps(report),
        facts=numbers.facts(report),
        sections=sections + list(more),
        environment=list(_flat(report.environment)),
        speed=list(_flat(report.speed)),
        unfolded=UNFOLDED,
        has_rows=bool(tables),
    )


def rows_of_headline(report: Report, name: str, table: Table) -> NDArray[np.bool_] | None:
    """Which rows of the table of a benchmark are of the groups of its rows; None where this is not known."""
    from scoring.asking.estimates import as_asked  # with it come builders, which a list of benchmarks does not need

    shown = {row.estimate.group for row in headline_scores(report) if row.estimate.benchmark == name}
    # A benchmark of an --include file is not known where its results are shown again.
    if not table or not benchmarks.known(name):
        return None
    inside = None
    # Examples of an earlier version may lack columns of today's groups.
    with suppress(KeyError):
        for group in as_asked(benchmarks.get(name), report).groups(table):
            if group.name in shown:
                inside = group.mask if inside is None else inside | group.mask
    return inside


def _section(
    name: str,
    validity: str,
    same_validity: str,
    estimates: list[Estimate],
    table: Table,
    inside: NDArray[np.bool_] | None,
) -> Section:
    """The section of a benchmark; a benchmark without a table has no plots of examples and no rows."""
    from scoring.report import plots  # matplotlib is loaded where something is drawn, not to read results

    paragraphs = [p for p in re.split(r"\n\s*\n", validity) if p.strip()]
    # A benchmark of an --include file is not known where its results are shown again.
    contrast = None
    if benchmarks.known(name):
        contrast = benchmarks.get(name).contrast
    rows = 0
    if table:
        rows = length(table)
    return Section(
        name=name,
        validity=paragraphs,
        same_validity=same_validity,
        scores=scores(estimates),
        methods=numbers.methods(estimates) + list(filter(None, [numbers.few_texts(table)])),
        figures=plots.figures(table, estimates),
        examples=decisive(table, contrast, inside),
        deciding=deciding(table, contrast, inside),
        rows=rows,
    )


def scores(estimates: Iterable[Estimate]) -> list[Scores]:
    """Estimates of one benchmark by their metric."""
    return [_scores(metric, group) for metric, group in numbers.by_metric(estimates).items()]


def _scores(metric: str, estimates: list[Estimate]) -> Scores:
    """The estimates of one metric; the ideal value is in the heading when all groups share it."""
    readings = list(dict.fromkeys(e.reading for e in estimates if e.reading))
    ideals = {e.ideal for e in estimates}
    ideal = None
    if len(ideals) == 1:
        ideal = ideals.pop()
    return Scores(metric, readings, ideal, numbers.scale(estimates), estimates)


def template(name: str, *folders: Path) -> jinja2.Template:
    """A template of further folders or of this package; values are escaped in HTML."""
    environment = templates(*folders, Path(__file__).parent / "templates", html=True)
    environment.filters["minus"] = minus
    # Four digits, without zeros at the end or with them, as in a column of which all rows have four.
    environment.filters["number"] = lambda value: minus(f"{value:,.4g}")
    environment.filters["digits"] = lambda value: minus(f"{value:#.4g}")
    environment.filters["more"] = lambda count: counted(count, "more group")
    environment.tests["nan"] = math.isnan
    environment.globals["marked"] = numbers.marked
    environment.globals["common_place"] = common_place
    environment.globals["endless"] = endless
    environment.globals["say"] = say
    environment.globals["detectable_text"] = detectable_text
    environment.globals["interval"] = lambda e, on: interval(e.low, e.high, on.text)
    return environment.get_template(name)


def about_model(report: Report) -> str:
    """The size of the model and how it was read, in a few words for the first screen.

    >>> about_model(Report("a", "", "", "float32", "", "", {}, (), {"parameters": 134515008}))
    '135 million parameters, float32'
    """
    parts = []
    count = report.environment.get(PARAMETERS)
    if isinstance(count, int) and count > 0:
        if count < 10**9:
            parts.append(f"{count / 10**6:.3g} million parameters")
        else:
            parts.append(f"{count / 10**9:.3g} billion parameters")
    parts.append(report.dtype)
    return ", ".join(part for part in parts if part)


def common_place(value: float, score: Estimate) -> float | None:
    """The place of a value on the scale that all metrics share, in percent: the ideal value is in the middle.

    The left end is the lowest possible value below the ideal, the right end the highest above it; None without one.

    >>> score = Estimate("b", "g", "ss", 75.0, 70.0, 80.0, 3.0, 9, 9, ideal=50.0, least=0, most=100)
    >>> common_place(75.0, score), common_place(50.0, score)
    (75.0, 50.0)
    """
    distance = numbers.signed_distance(value, score)
    if math.isnan(distance):
        return None
    # The distance is -1 to 1 within the range, and the place 0 to 100; rounding to two digits is below a pixel.
    return round(50 + 50 * min(max(distance, -1.0), 1.0), 2)


def endless(*scores: Estimate, real: Iterable[float] = ()) -> Scale | None:
    """A scale of its own for scores whose range has no end, with the ideal value in the middle; None without one.

    The values of ``real`` models are on it too.

    >>> score = Estimate("b", "g", "s", 0.4, -0.91, 1.71, 0.6, 9, 9, ideal=0.0, least=-math.inf, most=math.inf)
    >>> endless(score)
    Scale(low=-2.0, high=2.0)
    """
    distances = []
    for score in scores:
        if score.ideal is None or not math.isfinite(score.value):
            return None
        distances += [number - score.ideal for number in (score.value, score.low, score.high) if math.isfinite(number)]
    ideal = scores[0].ideal
    assert ideal is not None
    distances += [value - ideal for value in real]
    reach = numbers.around([0.0, *map(abs, distances)]).high
    return Scale(ideal - reach, ideal + reach)


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, list[str]]]:
    """Nested mappings as lines of a name and its texts."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name} · ")
        elif isinstance(value, list | tuple):
            yield above + name, [_fact(part) for part in value]
        else:
            yield above + name, [_fact(value)]


def _fact(value: Any) -> str:
    """A value of the environment as text.

    >>> _fact(0.1234567), _fact(123456.7), _fact(True), _fact(None)
    ('0.1235', '123,457', 'yes', 'none')
    """
    if value is None:
        return "none"
    # bool is a kind of int, and a number that is counted has no decimals; only a float is rounded.
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    if isinstance(value, float):
        # Four digits of a large number would be written with an exponent.
        if abs(value) < 1e4:
            return f"{value:,.4g}"
        return f"{value:,.0f}"
    return str(value)
