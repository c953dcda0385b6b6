"""The page of a run: scores with intervals, plots, decisive examples, nothing outside itself."""

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from cards.common.numbers import Scale, counted, detectable_text, interval, minus
from cards.common.sentences import say
from cards.common.text import templates
from scoring import benchmarks
from scoring.inference.load_options import BUNDLED
from scoring.inputs.columns import at, length
from scoring.report import numbers
from scoring.report.context import beside, coverage, next_steps, printed
from scoring.report.headlines import answer_of, described, few_examples, headline_scores, model_name
from scoring.types import Contrast, Estimate, Report, Table

#: How many decisive examples of a benchmark the page shows.
SHOWN = 20


#: Parts of a sentence, each with whether the other sentence has something else there.
Parts = list[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class Example:
    """An example for the page: who is preferred, by how much, what was compared."""

    preferred: str
    difference: float
    sides: tuple[tuple[str, float, Parts], ...]
    text: str
    about: str


def decisive(table: Table, contrast: Contrast | None, count: int = SHOWN) -> list[Example]:
    """The examples with the largest absolute difference, ties in the order of the table."""
    if contrast is None or not table or not set(contrast.numbers) <= table.keys():
        return []  # sampled answers have no probabilities to compare
    first, second = (np.asarray(table[column], dtype=np.float64) for column in contrast.numbers)
    difference = np.where(np.isfinite(first) & np.isfinite(second), first - second, 0.0)
    # Stable, so that the page of the same run is the same on every machine.
    order = np.argsort(-np.abs(difference), kind="stable")[:count]
    # Only these rows are read of a table whose texts are in a file.
    chosen = [row for row in order if difference[row]]
    read = [*contrast.numbers, *contrast.sentences, *contrast.about, "prompt", "text"]
    few = {name: at(table, name, chosen) for name in read if name in table}
    return [_example(few, contrast, place, float(difference[row])) for place, row in enumerate(chosen)]


def _example(table: Table, contrast: Contrast, row: int, difference: float) -> Example:
    sentences = [_short(table[column][row]) for column in contrast.sentences] or ["", ""]
    numbers = [float(table[column][row]) for column in contrast.numbers]
    texts = [] if contrast.sentences else [column for column in ("prompt", "text") if column in table]
    about = dict.fromkeys(_short(table[column][row], 80) for column in contrast.about)
    return Example(
        contrast.names[difference < 0],
        difference,
        tuple(zip(contrast.names, numbers, marked_differences(*sentences), strict=True)),
        " → ".join(_short(table[column][row]) for column in texts),
        " · ".join(filter(None, about)),
    )


def _short(value: object, limit: int = 400) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def marked_differences(first: str, second: str) -> tuple[Parts, Parts]:
    """Two sentences in parts, with what differs marked.

    >>> marked_differences("She ate.", "He ate.")[0]
    [('She', True), (' ate.', False)]
    """
    a, b = (re.findall(r"\s+|\S+", text) for text in (first, second))
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    left = [("".join(a[i:j]), tag != "equal") for tag, i, j, *_ in blocks if i < j]
    right = [("".join(b[i:j]), tag != "equal") for tag, _, _, i, j in blocks if i < j]
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
    rows: int


def page(
    report: Report,
    tables: Mapping[str, Table],
    validity: Mapping[str, str],
    more: Iterable[Section] = (),
    others: Sequence[Report] = (),
) -> str:
    """The text of ``report.html``; ``more`` sections come after those of the benchmarks, ``others`` are runs beside."""
    from scoring.report import plots  # matplotlib is loaded where something is drawn, not to read results

    estimates = numbers.by_benchmark(report.estimates)
    names = list(dict.fromkeys([*estimates, *tables]))
    # Benchmarks of one data set share their text, which is shown once: reversed, the first one wins.
    first_with = {validity[name]: name for name in reversed(names) if name in validity}
    sections = [
        Section(
            name,
            [p for p in re.split(r"\n\s*\n", validity.get(name, "")) if p.strip()],
            "" if first_with.get(validity.get(name, ""), name) == name else first_with[validity[name]],
            scores(estimates.get(name, [])),
            numbers.methods(estimates.get(name, [])),
            plots.figures(tables.get(name, {}), estimates.get(name, [])),
            decisive(tables.get(name, {}), benchmarks.get(name).contrast if benchmarks.known(name) else None),
            length(tables[name]) if name in tables else 0,
        )
        for name in names
    ]
    headlines = headline_scores(report)
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
        numbered=[f"{number} {described(run)}" for number, run in enumerate(others, 1)],
        beside={h.estimate.key: beside(h.estimate, report, others) for h in headlines},
        bundled=report.model in BUNDLED,
        next_steps=next_steps(report),
        facts=numbers.facts(report),
        sections=[*sections, *more],
        environment=list(_flat(report.environment)),
        speed=list(_flat(report.speed)),
        unfolded=UNFOLDED,
        has_rows=bool(tables),
    )


def scores(estimates: Iterable[Estimate]) -> list[Scores]:
    """Estimates of one benchmark by their metric."""
    return [_scores(metric, group) for metric, group in numbers.by_metric(estimates).items()]


def _scores(metric: str, estimates: list[Estimate]) -> Scores:
    """The estimates of one metric; the ideal value is in the heading when all groups share it."""
    readings = list(dict.fromkeys(e.reading for e in estimates if e.reading))
    ideals = {e.ideal for e in estimates}
    return Scores(metric, readings, ideals.pop() if len(ideals) == 1 else None, numbers.scale(estimates), estimates)


def template(name: str, *folders: Path) -> jinja2.Template:
    """A template of further folders or of this package; values are escaped in HTML."""
    environment = templates(*folders, Path(__file__).parent / "templates", html=True)
    environment.filters["minus"] = minus
    environment.filters["number"] = lambda value: minus(f"{value:,.4g}")
    environment.filters["digits"] = lambda value: minus(f"{value:#.4g}")
    environment.filters["more"] = lambda count: counted(count, "more group")
    environment.tests["nan"] = math.isnan
    environment.globals |= {"marked": numbers.marked, "common_place": common_place, "say": say}
    environment.globals["detectable_text"] = detectable_text
    environment.globals["interval"] = lambda e, on: interval(e.low, e.high, on.text)
    return environment.get_template(name)


def common_place(value: float, of: Estimate) -> float | None:
    """The place of a value on the scale that all metrics share, in percent: the ideal value is in the middle.

    The left end is the lowest possible value below the ideal, the right end the highest above it; None without one.

    >>> score = Estimate("b", "g", "ss", 75.0, 70.0, 80.0, 3.0, 9, 9, ideal=50.0, least=0, most=100)
    >>> common_place(75.0, score), common_place(50.0, score)
    (75.0, 50.0)
    """
    distance = numbers.signed_distance(value, of)
    return None if math.isnan(distance) else round(50 + 50 * min(max(distance, -1.0), 1.0), 2)


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, list[str]]]:
    """Nested mappings as lines of a name and its texts."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name} · ")
        else:
            yield above + name, [_fact(v) for v in (value if isinstance(value, list | tuple) else [value])]


def _fact(value: Any) -> str:
    """A value of the environment as text.

    >>> _fact(0.1234567), _fact(123456.7), _fact(True), _fact(None)
    ('0.1235', '123,457', 'yes', 'none')
    """
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
        case None:
            return "none"
    return str(value)
