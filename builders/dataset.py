"""The few types every builder shares: where a row came from, what it holds, what was dropped."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from builders.text.words import normalise

#: Columns that every config carries after its own: where the row came from and what may be done with it.
PROVENANCE = (
    pa.field("language", pa.string(), nullable=False),
    pa.field("source", pa.string(), nullable=False),
    pa.field("source_file", pa.string(), nullable=False),
    pa.field("source_row", pa.int64(), nullable=False),
    pa.field("licence", pa.string(), nullable=False),
)

#: The source of rows made from what the project carries itself, and the folder of its lists.
PROJECT = "gender-neutral-probes"
DATA = Path(__file__).parent / "data"


class BuildError(Exception):
    """A build cannot go on. The message is one sentence for the person at the terminal."""

    exit_code = 1


class SourceChanged(BuildError):
    """A source file does not have the pinned bytes."""


class SourceUnavailable(BuildError):
    """A source file is neither on this machine nor reachable."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Remote:
    """One upstream file, pinned by ``sha256`` or, where only that is known, by git blob id.

    ``member`` names the file inside a zip archive when ``url`` is one.
    """

    url: str
    sha256: str = ""
    git_blob: str = ""
    member: str = ""

    @property
    def file(self) -> str:
        """The bare file name, as shown in the ``source_file`` column."""
        return (self.member or self.url).rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to obtain a source: the files it takes, and what they lack against the first choice."""

    files: tuple[Remote, ...]
    lacks: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Upstream material under one licence, with its alternatives in order of preference."""

    name: str
    licence: str
    citation: str
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a row came from: source, file, and the 0-based number of the record in that file."""

    source: str
    file: str
    row: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """A source whose verified bytes lie on this machine.

    ``alternative`` is the 0-based place in ``source.alternatives`` of the one that was used, and
    ``paths`` follow its ``files``.
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
        """The origin of record ``row`` in file number ``file``."""
        return Origin(self.source.name, self.used.files[file].file, row)


Files = Mapping[str, Fetched]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a split; ``values`` has exactly the config's own columns.

    ``licence`` is set only where one config mixes licences; otherwise the config's applies.
    """

    split: str
    id: str
    origin: Origin
    values: Mapping[str, Any]
    licence: str = ""


@dataclass(frozen=True, slots=True)
class Drop:
    """A record that was left out on purpose, and why. Reasons are counted in the manifest."""

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
        As given to ``load_dataset``; ends in ``-paper`` when it holds a published definition.
    summary:
        One sentence for the card.
    licence:
        SPDX identifier (or ``LicenseRef-…``) of the rows, a key of ``[licences]`` in ``sources.toml``.
    columns:
        The config's own columns; ``id`` goes before and :data:`PROVENANCE` after them. Fields are
        never null unless the field says ``nullable`` explicitly.
    rows:
        Turns the fetched sources into rows and drops, in the order they will be published.
    sources:
        Names in ``sources.toml``; empty when the project carries all it needs.
    splits:
        In the order of the card.
    disjoint:
        A column whose normalised text no two splits may share, or empty. Configs of one data set
        that name the same column are checked together (the leak check).
    embedded:
        Files of this package that the rows are read from, shown in the manifest.
    cite:
        Keys of ``[citations]`` in ``sources.toml`` beyond those of the sources.
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

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the published table."""
        return pa.schema([pa.field("id", pa.string(), nullable=False), *self.columns, *PROVENANCE])

    @property
    def profile(self) -> str:
        """``paper`` for a published definition, ``clean`` for what this project stands behind."""
        return "paper" if self.name.endswith("-paper") else "clean"


@dataclass(frozen=True, slots=True)
class DataSet:
    """A versioned data set: one folder, one card, one manifest.

    ``version`` is semantic: a patch mends words, a minor adds rows or columns, a major changes
    what a score computed from the data means. ``written`` tells how sentences that this project
    wrote came about, and their limits.
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


def text(name: str, *, nullable: bool = False) -> pa.Field:
    """A string column, not null unless said so.

    >>> text("prompt")
    pyarrow.Field<prompt: string not null>
    """
    return pa.field(name, pa.string(), nullable=nullable)


def column(name: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
    """A column of any Arrow type, not null unless said so.

    >>> column("max_pmi_diff", pa.float64(), nullable=True)
    pyarrow.Field<max_pmi_diff: double>
    """
    return pa.field(name, kind, nullable=nullable)


def content_id(prefix: str, *texts: str) -> str:
    """An identifier that depends on the normalised content alone.

    Unicode form, case, kind of apostrophe and white space do not change it.

    >>> content_id("stsb", "is  playing a Flute") == content_id("stsb", "is playing a flute")
    True
    """
    joined = "\x1f".join(normalise(t) for t in texts)
    return f"{prefix}-{hashlib.sha256(joined.encode()).hexdigest()[:12]}"
