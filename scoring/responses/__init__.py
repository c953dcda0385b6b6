"""Sources of responses that others published: one file each, with how its pinned files become examples of a benchmark.

Each file of this folder describes one source as ``PUBLISHED``: which pinned files it has (``builders/sources``), of
which benchmark they are responses, and how they become the table of examples of that benchmark.
:mod:`scoring.published` makes runs of them.

>>> models("gest")[:2]
('Llama-2-13b-chat-hf', 'Llama-2-13b-hf')
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from builders.dataset import Fetched, Source
from builders.sources.catalogue import catalogue
from cards.common.registry import Registry
from scoring.inputs import tables
from scoring.inputs.tables import Loaded
from scoring.types import Benchmark, Estimate, ScoringError, Table


class BrokenFileError(ScoringError):
    """A published file cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class PublishedResponses:
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
        What scores of this source mean and do not mean; a report shows it before that of the benchmark.
    absent:
        Models that belong to the source and whose responses are not published, with the reason.
    """

    benchmark: str
    summary: str
    settings: str
    files: str
    read: Callable[[Fetched, Path], PublishedResponses]
    profile: Literal["clean", "paper"] = "clean"
    datasets: tuple[str, ...] = ()
    asked: Callable[[Benchmark], Benchmark] = lambda benchmark: benchmark
    note: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)


REGISTRY = Registry((__name__, __path__), "PUBLISHED", PublishedSource, "published source", ScoringError, dash=True)
names, get = REGISTRY.names, REGISTRY.get


def sources(name: str) -> dict[str, Source]:
    """The pinned files of each model of a source, by the name of the model."""
    # The name of a pinned source is, for example, "gest-predictions/gpt2".
    begin = f"{get(name).files}/"
    pinned = catalogue().sources
    # Sorted, so that models have one order in every listing.
    return {key.removeprefix(begin): pinned[key] for key in sorted(pinned) if key.startswith(begin)}


def models(name: str) -> tuple[str, ...]:
    """The names of the models of a source."""
    return tuple(sources(name))


def built(data: Path, dataset: str, config: str, split: str = "test") -> Loaded:
    """The rows of a split of a built data set."""
    # Files are compared with the manifest, so that rows of another version are not taken.
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
            rows = list(csv.DictReader(file, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise BrokenFileError(f"{path.name} cannot be read ({error}); it is left out.") from None
    for name in columns:
        if not rows or name not in rows[0]:
            raise BrokenFileError(f"{path.name} has no column {name!r}, or no row; it is left out.")
    return rows
