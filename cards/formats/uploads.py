"""Results of others: what a page takes from them, and what from this project.

Whoever uploads a run can write any number into it, with a right checksum. So ideal values, ranges, titles, readings and
headlines are those that this project declares (:class:`Declarations`), the number of examples is counted anew where the
examples are there, impossible values are refused, and what nobody else can check is shown as reported by its owner. A
benchmark that this project does not know is shown under its name, without an ideal value and so without a verdict.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cards.common.files import file_sha256
from cards.common.sentences import say
from cards.common.text import CardError
from cards.overview.model_matrix import Cell
from cards.results import Estimate, Headline, Report, check_names, check_numbers

DECLARED = Path(__file__).parents[1] / "data" / "declared.json"
#: What a page says of a benchmark that this project does not know.
UNKNOWN = "not of this project"


class Declared(NamedTuple):
    """What this project declares of a metric: ideal value, range, names and how to read it.

    ``ability`` marks a metric of language ability.
    """

    ideal: float | None
    least: float
    most: float
    title: str = ""
    short: str = ""
    reading: str = ""
    ability: bool = False


class Declarations(Protocol):
    """What is declared of benchmarks; ``scoring.declared`` has those of this project."""

    def metrics(self, run: Report, benchmark: str) -> Mapping[str, Declared] | None:
        """What is declared of each metric of a benchmark of a run, by name; None for a benchmark that is not known."""

    def headline(self, run: Report, benchmark: str) -> Headline | None:
        """The published number of a benchmark; None where there is none."""

    def counts(self, run: Report, benchmark: str, file: Path) -> Mapping[str, int] | None:
        """The number of examples of each group in a file of examples; None where they cannot be counted."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A run as a page may show it.

    ``reported`` has the benchmarks that nobody but the owner of the run can check, and ``unknown`` those that this
    project does not know.
    """

    run: Report
    reported: frozenset[str]
    unknown: frozenset[str]

    def dataset(self, benchmark: str) -> str:
        """The data set of a benchmark; of an unknown one a name that no data set of this project has."""
        return f"{benchmark} ({UNKNOWN})" if benchmark in self.unknown else self.run.headlines[benchmark].dataset

    def sentences(self, where: str) -> Iterator[str]:
        """What a reader of the page has to know of the run, which is called ``where``."""
        if self.unknown:
            names = ", ".join(f"{name:.80}" for name in sorted(self.unknown))
            yield say("leaderboard.unknown", where=where, names=names, unknown=UNKNOWN)


def checked_run(run: Report, folder: Path, declarations: Declarations) -> Upload:
    """A run with what this project declares, and its examples counted.

    Parameters
    ----------
    folder:
        Where the files with the examples are.

    Raises
    ------
    CardError
        When a score has an ideal value of its own, or counts more examples than there are.
    """
    estimates: list[Estimate] = []
    headlines: dict[str, Headline] = {}
    reported, unknown = set(), set()
    for benchmark in run.benchmarks:
        metrics = declarations.metrics(run, benchmark)
        file = _examples(run.examples.get(benchmark), folder)
        counts = declarations.counts(run, benchmark, file) if file else None
        scores = [score for score in run.estimates if score.benchmark == benchmark]
        estimates += [_checked(score, (metrics or {}).get(score.metric), counts) for score in scores]
        uploaded = run.headlines.get(benchmark)
        if metrics is None:
            unknown.add(benchmark)
            if uploaded:
                # Only the names of groups and metrics are taken: sentences of others are not put on a page.
                headlines[benchmark] = Headline(uploaded.dataset, uploaded.metric, uploaded.groups, uploaded.shown)
        elif uploaded:
            headline = declarations.headline(run, benchmark)
            if headline:
                headlines[benchmark] = headline
        if counts is None:
            reported.add(benchmark)
    checked = replace(run, estimates=tuple(estimates), headlines=headlines)
    return Upload(checked, frozenset(reported), frozenset(unknown))


def _examples(about: Any, folder: Path) -> Path | None:
    """The file of the examples of a benchmark, if it is as the results say; None where there is none."""
    if not isinstance(about, Mapping) or not isinstance(about.get("file"), str):
        return None
    file = folder / about["file"]
    # A path out of the folder would let an upload name any file of this machine.
    inside = folder.resolve() in file.resolve().parents
    return file if inside and file.is_file() and file_sha256(file) == about.get("sha256") else None


def _checked(score: Estimate, known: Declared | None, counts: Mapping[str, int] | None) -> Estimate:
    where = f"{score.benchmark}, {score.group}: {score.metric}"
    if counts is not None:
        counted = counts.get(score.group, 0)
        if score.n > counted:
            raise CardError(f"{where} is of {score.n} examples, and there are {counted}; these results are not shown.")
        # Fewer examples than stated is possible, where some have no score for a metric.
        score = replace(score, n=counted, clusters=min(score.clusters, counted))
    if known is None:
        # Without a declaration there is no ideal value, so the owner cannot make a score look unbiased.
        return replace(score, ideal=None, least=math.nan, most=math.nan, title="", short="", reading="", ability=False)
    _check_ideal(where, score.ideal, known)
    return replace(score, **known._asdict())


@cache
def declared() -> Mapping[tuple[str, str], Declared]:
    """What is declared of metrics over published data sets, by data set and metric (``data/declared.json``)."""
    scores: dict[tuple[str, str], Declared] = {}
    for entry in json.loads(DECLARED.read_text(encoding="utf-8")):
        of_metric = Declared(entry["ideal"], float(entry["least"]), float(entry["most"]), entry["title"])
        scores.setdefault((entry["dataset"], entry["metric"]), of_metric)
    return scores


@cache
def headline_tasks() -> Mapping[tuple[str, str], Sequence[str]]:
    """The configs whose score reports show in one row, by data set and metric.

    >>> headline_tasks()["unstereo", "us_score"]
    ['ours-5']
    """
    entries = json.loads(DECLARED.read_text(encoding="utf-8"))
    return {(entry["dataset"], entry["metric"]): entry["tasks"] for entry in entries}


def checked_cell(cell: Cell, dataset: str, where: str) -> Cell:
    """A published score with the ideal value and range of this project; it is always one reported by its owner.

    Raises
    ------
    CardError
        When it has an ideal value of its own, or a number that cannot be.
    """
    check_names(where, (cell.metric, cell.setting, dataset))
    check_numbers(f"{where}: {cell.metric}", cell.numbers, cell.n)
    known = declared().get((dataset, cell.metric))
    if known is None:
        return replace(cell, ideal=None, least=math.nan, most=math.nan, reported=True)
    _check_ideal(f"{where}: {cell.metric}", cell.ideal, known)
    within = known.least <= cell.value <= known.most or math.isnan(cell.value)
    if not within:
        raise CardError(
            f"{where}: {cell.metric} is {cell.value:g}, and ranges from {known.least:g} to {known.most:g}; these "
            "results are not shown."
        )
    return replace(cell, ideal=known.ideal, least=known.least, most=known.most, reported=True)


def _check_ideal(where: str, given: float | None, known: Declared) -> None:
    same = given == known.ideal or (given is not None and known.ideal is not None and math.isclose(given, known.ideal))
    if not same:
        raise CardError(
            f"{where} is given the ideal value {given}, and this project declares {known.ideal}; these results are not "
            "shown."
        )
