"""Published responses become runs: files that others put on the web, read from pinned addresses, without a model.

Each file of this folder describes one source as ``PUBLISHED``: which pinned files it has (``builders/sources``), of
which benchmark they are responses, and how they become the table of examples of that benchmark. Everything after the
table is that of any run: metrics, intervals, ``results.json``, pages and ``probes compare``.

>>> models("gest")[:2]
('albert-base-v2', 'bert-base-multilingual-cased')
>>> result = run("gest", "gpt2", data="output")  # doctest: +SKIP
>>> result.save("runs/gest-gpt2")  # doctest: +SKIP

:func:`runs` gives the runs of all models of a source one after the other, and the reasons why some are left out. A
run on disk is read by :func:`scoring.load`. From a terminal: ``probes published gest --model gpt2 --out runs``.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import builders
from builders.dataset import BuildError, Fetched, Source, SourceUnavailable
from builders.manifest import read_manifest
from builders.sources.catalogue import catalogue
from builders.sources.fetch import Fetcher, default_cache, default_mirror
from cards.registry import Registry
from cards.text import did_you_mean
from scoring import benchmarks, tables
from scoring.options import Settings
from scoring.prompts import get as prompt_named
from scoring.result import RunResult
from scoring.run import Part, estimate, report_of
from scoring.statistics.stats import RESAMPLES
from scoring.tables import Loaded
from scoring.types import BY_OTHERS, DATA, Benchmark, Estimate, ScoringError, Table

_NOT_BY_ROW = "The source states no licence, so the rows of this run are for this machine alone; do not publish them."


class BrokenFileError(ScoringError):
    """A published file cannot be used; the message says why."""


class UnavailableError(ScoringError):
    """A published file, or a source of a data set, is neither in the mirror nor in the cache nor on the web."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Responses:
    """What the files of a model say.

    Parameters
    ----------
    table:
        The examples, in the columns of the benchmark.
    splits:
        The rows that were asked, whose names and versions the report has.
    remarks:
        What is left out, with the reason, and what else a reader has to know.
    estimates:
        Scores with their intervals where the source has no examples; the table is empty then.
    """

    table: Table
    splits: tuple[Loaded, ...]
    remarks: tuple[str, ...] = ()
    estimates: tuple[Estimate, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedSource:
    """A source of published responses.

    Parameters
    ----------
    benchmark:
        The name of the benchmark that the responses are of.
    summary:
        What the responses are, in one sentence.
    settings:
        How they were made by others, as far as it is known.
    files:
        What the names of the pinned sources begin with, before a slash and the name of the model.
    read:
        ``read(files, data)`` makes the table of examples from the verified files of a model; ``data`` is the folder of
        the built data sets. It raises a :class:`BrokenFileError` for files that cannot be used.
    profile:
        Whose definitions the responses follow: the published ones (``paper``) or those of the project (``clean``).
    datasets:
        The data sets that ``read`` needs; what is missing is built.
    asked:
        ``asked(benchmark)`` gives the benchmark with the groups and metrics of such responses, such as those of
        sampled texts; by default all of the benchmark.
    note:
        What scores of this source mean and do not mean; it stands before that of the benchmark.
    absent:
        Models that belong to the source and whose responses nobody can have, with the reason.
    """

    benchmark: str
    summary: str
    settings: str
    files: str
    read: Callable[[Fetched, Path], Responses]
    profile: Literal["clean", "paper"] = "clean"
    datasets: tuple[str, ...] = ()
    asked: Callable[[Benchmark], Benchmark] = lambda benchmark: benchmark
    note: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)


REGISTRY = Registry((__name__, __path__), "PUBLISHED", PublishedSource, "published source", ScoringError, dash=True)
names, get = REGISTRY.names, REGISTRY.get


def sources(name: str) -> dict[str, Source]:
    """The pinned files of each model of a source, by the name of the model."""
    begin = f"{get(name).files}/"
    pinned = catalogue().sources
    return {key.removeprefix(begin): pinned[key] for key in sorted(pinned) if key.startswith(begin)}


def models(name: str) -> tuple[str, ...]:
    """The names of the models of a source."""
    return tuple(sources(name))


def run(
    name: str,
    model: str,
    data: str | Path = DATA,
    *,
    resamples: int = RESAMPLES,
    offline: bool = False,
    fetcher: Fetcher | None = None,
) -> RunResult:
    """The run that the published responses of a model are: its report, examples and remarks.

    Parameters
    ----------
    name, model:
        One of :func:`names` and one of its :func:`models`.
    data:
        The folder of the built data sets; those that are missing are built there.
    fetcher:
        Gets the files; by default from a mirror (``PROBES_MIRROR``), the cache or the network.

    Raises
    ------
    ScoringError
        When there is no such source or model, its files are not available, or they cannot be used.
    """
    source, known = get(name), sources(name)
    if model not in known:
        near = did_you_mean(model, known)
        raise ScoringError(f"{name} has no model {model!r}{near}; its models are {', '.join(known)}.")
    fetcher = fetcher or Fetcher(default_cache(), default_mirror(), offline)
    try:
        build(source, Path(data), offline=offline)
        fetched = fetcher.get(known[model])
        responses = source.read(fetched, Path(data))
    except SourceUnavailable as error:
        raise UnavailableError(str(error)) from None
    except BuildError as error:
        raise ScoringError(str(error)) from None
    return _result(name, source, model, fetched, responses, resamples)


def build(source: PublishedSource, data: Path, *, offline: bool = False) -> None:
    """Builds the data sets that a source needs and that are not there."""
    missing = [name for name in source.datasets if read_manifest(data / name) is None]
    if missing:
        builders.build(*missing, out=data, offline=offline)


def _result(
    name: str, source: PublishedSource, model: str, fetched: Fetched, responses: Responses, resamples: int
) -> RunResult:
    plain = benchmarks.get(source.benchmark)
    benchmark = source.asked(plain)
    part = Part(benchmark, responses.splits)
    settings = Settings(benchmarks=source.benchmark, profile=source.profile, resamples=resamples)
    engine = {
        "engine": BY_OTHERS,
        "source": name,
        "answers": source.settings,
        "files": [remote.url for remote in fetched.used.files],
        "licence": fetched.source.licence,
    }
    report = report_of(
        [part],
        settings,
        prompt_named("plain"),
        responses.estimates or estimate(benchmark, source.profile, responses.table, resamples),
        engine,
        {},
        model=model,
        revision=f"{BY_OTHERS} ({name})",
        adapter="",
        dtype=BY_OTHERS,
        headlines={plain.name: benchmark.headline} if benchmark.headline else {},
    )
    published_by_row = catalogue().licences[fetched.source.licence].redistribute
    remarks = (source.settings, *responses.remarks, *(() if published_by_row else (_NOT_BY_ROW,)))
    note = "\n\n".join(filter(None, (source.note, source.settings, plain.validity)))
    examples = {plain.name: responses.table} if responses.table else {}
    return RunResult(report, examples, {plain.name: note}, remarks)


def runs(
    name: str, data: str | Path = DATA, *, resamples: int = RESAMPLES, offline: bool = False
) -> Iterator[tuple[str, RunResult | BrokenFileError]]:
    """The run of each model of a source in the order of names, or why its files cannot be used.

    Raises
    ------
    ScoringError
        When there is no such source, or its files are not available.
    """
    fetcher = Fetcher(default_cache(), default_mirror(), offline)
    for model in models(name):
        try:
            yield model, run(name, model, data, resamples=resamples, offline=offline, fetcher=fetcher)
        except BrokenFileError as error:
            yield model, error


def built(data: Path, dataset: str, config: str, split: str = "test") -> Loaded:
    """The rows of a split of a built data set."""
    return tables.load(str(data), dataset, config, split)


def records(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file that has at least these columns.

    Raises
    ------
    BrokenFileError
        When it is no CSV file with these columns, or has no row.
    """
    csv.field_size_limit(1 << 24)  # a stored reply is long
    try:
        with path.open(encoding="utf-8", newline="") as file:
            found = list(csv.DictReader(file, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise BrokenFileError(f"{path.name} cannot be read ({error}); it is left out.") from None
    given = found[0].keys() if found else ()
    if lacking := [name for name in columns if name not in given]:
        raise BrokenFileError(f"{path.name} has no column {lacking[0]!r}, or no row; it is left out.")
    return found
