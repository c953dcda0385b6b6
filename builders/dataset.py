"""The types that all builders share: sources, rows, configs, data sets and errors."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import ConfigDict, Field

from builders.text.embedded import table
from builders.text.words import normalise

_STRICT = ConfigDict(extra="forbid", str_min_length=1)


class BuildError(Exception):
    """An error that stops a build. The message is one sentence for the user."""

    exit_code = 1


class SourceChanged(BuildError):
    """A source file does not have the pinned bytes."""


class SourceUnavailable(BuildError):
    """A source file is neither in the mirror nor in the cache, and cannot be downloaded."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Remote:
    """One upstream file, pinned by ``sha256`` or, if only that is known, by its git blob id.

    ``member`` is the name of the file inside the archive if ``url`` is a zip archive.
    """

    __pydantic_config__ = _STRICT

    url: Annotated[str, Field(pattern="^https://")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] = ""
    git_blob: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] = ""
    member: str = ""

    @property
    def file(self) -> str:
        """The bare file name, as shown in the ``source_file`` column."""
        # The member is named, because one archive may hold several sources.
        return (self.member or self.url).rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to get a source: its files, and what they lack in comparison with the first alternative."""

    __pydantic_config__ = _STRICT

    files: Annotated[tuple[Remote, ...], Field(min_length=1)]
    lacks: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Upstream files under one licence, with alternatives in order of preference."""

    __pydantic_config__ = _STRICT

    name: str
    licence: str
    citation: str
    alternatives: Annotated[tuple[Alternative, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Origin:
    """The source and file of a row, and the number of the record in that file, from 0."""

    source: str
    file: str
    row: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """A source with verified local files.

    ``alternative`` is the index of the alternative that was used; ``paths`` are in the order of its ``files``.
    """

    source: Source
    alternative: int
    paths: tuple[Path, ...]

    @property
    def used(self) -> Alternative:
        """The alternative that was used."""
        return self.source.alternatives[self.alternative]

    @property
    def path(self) -> Path:
        """The path of the only file."""
        (path,) = self.paths
        return path

    def origin(self, row: int, file: int = 0) -> Origin:
        """The origin of record number ``row`` of file number ``file``."""
        return Origin(self.source.name, self.used.files[file].file, row)


#: Fetched sources by name.
Files = Mapping[str, Fetched]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a split. ``values`` has exactly the columns of the config.

    ``licence`` is only set where it differs from the licence of the config.
    """

    split: str
    id: str
    origin: Origin
    values: Mapping[str, Any]
    licence: str = ""


@dataclass(frozen=True, slots=True)
class Drop:
    """A record that is left out, with the reason. The manifest counts the reasons."""

    split: str
    origin: Origin
    reason: str


Rows = Iterator[Row | Drop]


@dataclass(frozen=True, slots=True)
class Config:
    """One table of a data set.

    Parameters
    ----------
    name:
        The name for ``load_dataset``. It ends in ``-paper`` if the config has the published definition.
    summary:
        One sentence for the card.
    licence:
        SPDX identifier (or ``LicenseRef-…``) of the rows, a key of ``[licences]`` in ``sources.toml``.
    columns:
        The columns between ``id`` and :data:`PROVENANCE`. Made by :func:`columns`, or by :func:`text`, :func:`texts`
        and :func:`column`.
    rows:
        A function from the fetched sources to rows and drops, in their final order.
    sources:
        Names in ``sources.toml``; empty if the project has all data itself.
    splits:
        In the order of the card.
    disjoint:
        A column of which no two splits may share a phrase (the leak check), or empty. Configs of one data set
        with the same column are checked together.
    embedded:
        Files of the project that rows come from, relative to its root. The manifest has their hashes.
    cite:
        Keys of ``[citations]`` in ``sources.toml`` beyond those of the sources.
    packages:
        Optional packages that the rows need, each with the extra of this project that installs it.
    filters:
        Those of ``sources`` that only decide which rows are left out. No column has anything of them, so their
        licences do not bind the config.
    language:
        The code of the language of the rows, where the data set has several.
    quotes:
        Columns with text of the sources. Where a licence does not allow to publish it, the config is published
        without these columns, and :func:`builders.with_text` restores them from the sources.
    quoted:
        Makes rows with the columns of ``quotes`` from the sources that are no filters. Every id of the config must
        be among their ids; other rows and drops are ignored. By default ``rows``.
    """

    name: str
    summary: str
    licence: str
    columns: tuple[pa.Field, ...]
    rows: Callable[[Files], Rows]
    sources: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("test",)
    disjoint: str = ""
    embedded: tuple[str, ...] = ()
    cite: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    filters: tuple[str, ...] = ()
    language: str = ""
    quotes: tuple[str, ...] = ()
    quoted: Callable[[Files], Rows] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the table."""
        every_column = columns("id") + self.columns + PROVENANCE
        return pa.schema(every_column)

    @property
    def profile(self) -> str:
        """``paper`` for a published definition, ``clean`` for this project's own."""
        return "paper" if self.name.endswith("-paper") else "clean"


@dataclass(frozen=True, slots=True)
class DataSet:
    """A versioned data set: one folder with a card and a manifest.

    ``version`` is semantic: a patch corrects words, a minor version adds rows or columns, a major version changes
    the meaning of a score on the data. ``language`` is a code, or several with spaces between them. ``written``
    describes how this project wrote sentences, and their limits. ``task_categories`` are the Hub's names of the tasks.
    ``benchmark`` says how the data set is a benchmark on the Hub (:mod:`cards.dataset_card`); without it, the data set
    is none. ``benchmarks`` are the benchmarks that read it, and ``changes`` says what each version changed.
    ``scores`` names the score of published models that the card shows: ``benchmark``, ``group``, ``metric``, ``title``
    and ``ideal``. ``language_creators`` says who wrote its texts and ``annotations_creators`` its labels, in the words
    of the Hub.

    Example
    -------
    A complete file for ``probes build --include FILE.py``::

        from builders.dataset import Config, DataSet, Origin, Row, text

        def rows(files):
            yield Row("test", "nurse", Origin("mine", "jobs.py", 0), {"prompt": "The nurse said that"})

        DATASET = DataSet(
            name="jobs", version="1.0.0", title="Jobs", summary="Prompts about jobs.", validity="One prompt only.",
            configs=(Config("prompts", "One prompt.", "Apache-2.0", (text("prompt"),), rows),),
        )
    """

    name: str
    version: str
    title: str
    summary: str
    configs: tuple[Config, ...]
    validity: str
    differences: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    language: str = "en"
    tags: tuple[str, ...] = field(default=("gender-bias", "fairness", "evaluation"))
    task_categories: tuple[str, ...] = ("text-generation",)
    benchmark: Mapping[str, Any] = field(default_factory=dict)
    benchmarks: tuple[str, ...] = ()
    changes: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, Any] = field(default_factory=dict)
    annotations_creators: tuple[str, ...] = ()
    language_creators: tuple[str, ...] = ()


def declared(
    name: str, rows: Mapping[str, Callable[[Files], Rows]], quoted: Mapping[str, Callable[[Files], Rows]] | None = None
) -> DataSet:
    """A data set of the project, of which ``builders/data/datasets/NAME.toml`` has all but its functions.

    The file has the fields of :class:`DataSet`, and in ``configs`` those of each :class:`Config` by its name, with the
    columns in the form of :func:`columns`. A config with ``like`` has the fields of another one where it has no own.

    Parameters
    ----------
    rows, quoted:
        The functions of the configs, by name.

    >>> declared("gender-pmi", {"words": lambda files: iter(())}).configs[0].splits
    ('train',)
    """
    # TOML has lists; the declared classes are frozen and have tuples.
    facts = _with_tuples(table(f"datasets/{name}"))
    entries, configs = facts.pop("configs"), []
    for config, fields in entries.items():
        # The entry's own fields win over those of the config that it is like.
        entry = _with_tuples(entries.get(fields.get("like"), {}) | fields)
        entry |= {"columns": columns(entry["columns"]), "quoted": (quoted or {}).get(config)}
        entry.pop("like", None)
        configs.append(Config(config, rows=rows[config], **entry))
    return DataSet(name=name, configs=tuple(configs), **facts)


def _with_tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {field: tuple(value) if isinstance(value, list) else value for field, value in entry.items()}


_COLUMN = re.compile(r"(\w+)(?::(\w+))?(\??)")


def columns(text: str) -> tuple[pa.Field, ...]:
    """Columns from their names; a type may follow (``list`` is one of strings), and ``?`` where a value may be null.

    >>> columns("prompt score:float64? mended:list")[1:]
    (pyarrow.Field<score: double>, pyarrow.Field<mended: list<item: string> not null>)
    """
    return tuple(
        pa.field(
            name, pa.list_(pa.string()) if kind == "list" else pa.type_for_alias(kind or "string"), nullable=bool(null)
        )
        for name, kind, null in _COLUMN.findall(text)
    )


#: The last columns of every config: the source and the licence of the row.
PROVENANCE = columns("language source source_file source_row:int64 licence")


def text(name: str, *, nullable: bool = False) -> pa.Field:
    """A string column.

    >>> text("prompt")
    pyarrow.Field<prompt: string not null>
    """
    return pa.field(name, pa.string(), nullable=nullable)


def content_id(prefix: str, *texts: str) -> str:
    """An identifier of a content: a prefix and a hash of the normalised texts.

    It does not depend on Unicode form, case, kind of apostrophe and white space.

    >>> content_id("stsb", "is  playing a Flute") == content_id("stsb", "is playing a flute")
    True
    """
    # A separator that occurs in no text, so that ("a b", "c") and ("a", "b c") differ.
    joined = "\x1f".join(normalise(t) for t in texts)
    return f"{prefix}-{hashlib.sha256(joined.encode()).hexdigest()[:12]}"
