"""Published responses become runs: files that others put on the web, read from pinned addresses, without a model.

:mod:`scoring.responses` has the sources, one file each. Everything after the table of examples is that of any run:
metrics, intervals, ``results.json``, pages and ``probes compare``.

>>> models("gest")[:2]
('Llama-2-13b-chat-hf', 'Llama-2-13b-hf')
>>> result = run("gest", "gpt2", data="output")  # doctest: +SKIP
>>> result.save("runs/gest-gpt2")  # doctest: +SKIP

:func:`runs` gives the runs of all models of a source one after the other, and the reasons why some are left out. A
run on disk is read by :func:`scoring.load`. From a terminal: ``probes published gest --model gpt2 --out runs``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import builders
from builders.dataset import BuildError, Fetched, SourceUnavailable
from builders.files.manifest import read_manifest
from builders.sources.catalogue import catalogue
from builders.sources.fetch import Fetcher, default_cache, default_mirror
from cards.common.text import did_you_mean
from scoring import benchmarks
from scoring.asking.estimates import estimate
from scoring.asking.result import RunResult
from scoring.asking.run import Part, report_of
from scoring.inputs.prompts import get as prompt_named
from scoring.options import Settings
from scoring.responses import BrokenFileError, PublishedResponses, PublishedSource, get, models, names, sources
from scoring.statistics.stats import RESAMPLES
from scoring.types import BY_OTHERS, DATA, ScoringError

__all__ = [
    "BrokenFileError",
    "UnavailableError",
    "by_row",
    "default_fetcher",
    "get",
    "models",
    "names",
    "runs",
    "score",
    "sources",
]

_NOT_BY_ROW = "The source states no licence, so the rows of this run are for this machine alone; do not publish them."


class UnavailableError(ScoringError):
    """A published file, or a source of a data set, is neither in the mirror nor in the cache nor on the web."""

    exit_code = 2


def by_row(licence: str) -> bool:
    """Whether a licence of the catalogue allows to publish rows of its source; scores are facts and always may be.

    >>> by_row("MIT"), by_row("LicenseRef-None-Stated")
    (True, False)
    """
    return catalogue().licences[licence].redistribute


def default_fetcher(*, offline: bool = False) -> Fetcher:
    """Gets files from a mirror (``PROBES_MIRROR``), the cache, or the network."""
    return Fetcher(default_cache(), default_mirror(), offline)


def score(
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
    fetcher = fetcher or default_fetcher(offline=offline)
    try:
        build(source, Path(data), offline=fetcher.offline)
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
    name: str, source: PublishedSource, model: str, fetched: Fetched, responses: PublishedResponses, resamples: int
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
    headlines = {}
    if benchmark.headline:
        headlines[plain.name] = benchmark.headline
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
        headlines=headlines,
    )
    remarks = [source.settings, *responses.remarks]
    if not by_row(fetched.source.licence):
        remarks.append(_NOT_BY_ROW)
    paragraphs = [text for text in (source.note, source.settings, plain.validity) if text]
    examples = {}
    # Some sources have scores alone.
    if responses.table:
        examples[plain.name] = responses.table
    return RunResult(report, examples, {plain.name: "\n\n".join(paragraphs)}, tuple(remarks))


def runs(
    name: str, data: str | Path = DATA, *, resamples: int = RESAMPLES, offline: bool = False
) -> Iterator[tuple[str, RunResult | BrokenFileError]]:
    """The run of each model of a source in the order of names, or why its files cannot be used.

    Raises
    ------
    ScoringError
        When there is no such source, or its files are not available.
    """
    fetcher = default_fetcher(offline=offline)
    for model in models(name):
        try:
            yield model, score(name, model, data, resamples=resamples, offline=offline, fetcher=fetcher)
        except BrokenFileError as error:
            yield model, error
