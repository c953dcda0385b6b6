"""The manifest of a data-set folder: its files, the sources of its rows, and the dropped records."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from builders.dataset import BuildError, Source
from cards.common.files import file_sha256 as file_sha256
from cards.common.stored import first_fault, without_checksum

NAME, CARD = "manifest.json", "README.md"
_STRICT = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """One Parquet file. ``sha256`` is of its bytes; ``content`` is of its rows and independent of the encoder.

    ``built`` is the ``content`` of the rows as they are built, if other columns or licences are published.
    """

    __pydantic_config__ = _STRICT

    file: str
    rows: int
    bytes: int
    sha256: str
    content: str
    dropped: dict[str, int]
    built: str = ""


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A source: the alternative that was used, what that lacks, and its pinned files."""

    __pydantic_config__ = _STRICT

    name: str
    licence: str
    citation: str
    alternative: int
    lacks: str
    files: list[dict[str, str]]

    @classmethod
    def of(cls, source: Source, alternative: int) -> SourceEntry:
        """The entry of a source of which an alternative is used."""
        used, pins = source.alternatives[alternative], ("url", "sha256", "git_blob", "member")
        files = [{pin: value for pin in pins if (value := getattr(remote, pin))} for remote in used.files]
        return cls(source.name, source.licence, source.citation, alternative, used.lacks, files)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config: its schema, its splits, its sources, and what built it.

    ``recipe`` is a digest of the code, ``embedded`` has the hash of each file of the project that rows come from.
    ``filters`` are the names of sources that only decide which rows are left out, and ``quotes`` the columns with
    text of the sources; a published config may lack these columns.
    """

    __pydantic_config__ = _STRICT

    name: str
    summary: str
    profile: str
    licence: str
    encoder: str
    recipe: str
    columns: dict[str, str]
    sources: list[SourceEntry]
    embedded: dict[str, str]
    cite: list[str]
    splits: dict[str, SplitEntry]
    filters: list[str] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Manifest:
    """All facts of a data-set folder that a card or a check needs.

    ``left_out`` maps the name of each config that could not be built to the reason.
    """

    __pydantic_config__ = _STRICT

    name: str
    version: str
    title: str
    summary: str
    language: str
    tags: list[str]
    validity: str
    differences: list[str]
    configs: dict[str, ConfigEntry]
    left_out: dict[str, str]
    licences: dict[str, dict[str, Any]]
    citations: dict[str, str]
    written: list[str] = field(default_factory=list)
    task_categories: list[str] = field(default_factory=list)
    benchmark: dict[str, Any] = field(default_factory=dict)
    benchmarks: list[str] = field(default_factory=list)
    changes: dict[str, str] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    annotations_creators: list[str] = field(default_factory=list)
    language_creators: list[str] = field(default_factory=list)
    #: What each column means that is not in every data set.
    meanings: dict[str, str] = field(default_factory=dict)
    #: SHA-256 of the card, by which a card that a user edited is known; manifests of earlier versions have none.
    card: str = ""

    @property
    def files(self) -> set[str]:
        """The files of the folder: the Parquet files, the card and the manifest itself."""
        return {split.file for entry in self.configs.values() for split in entry.splits.values()} | {NAME, CARD}

    def json(self, **earlier: str) -> str:
        """The text of the file; ``earlier`` are fields that an earlier version wrote at its end."""
        return json.dumps(asdict(self) | earlier, indent=2, ensure_ascii=False) + "\n"


def is_data_set_file(file: str) -> bool:
    """Whether a path below a data-set folder is one that a build writes.

    >>> is_data_set_file("data/stsb/test.parquet"), is_data_set_file("data/notes.txt")
    (True, False)
    """
    return file in (NAME, CARD) or re.fullmatch(r"data/[^/]+/[^/]+\.parquet", file) is not None


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a data-set folder, or None when there is none.

    Raises
    ------
    BuildError
        When the file does not have the fields of a manifest.
    """
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        manifest = _MANIFEST.validate_json(without_checksum(path.read_bytes()))
        foreign = sorted(file for file in manifest.files if not is_data_set_file(file))
        fault = f"{foreign[0]!r} is not a file of a data set" if foreign else ""
    except ValidationError as error:
        fault = first_fault(error)
    if fault:
        raise BuildError(
            f"{path} is not a manifest of this version ({fault}); move the folder away or choose another --out."
        )
    return manifest


_MANIFEST = TypeAdapter(Manifest)


def written_files(folder: Path) -> set[str]:
    """The files of a data-set folder that a build wrote: those of its manifest."""
    manifest = read_manifest(folder)
    return manifest.files if manifest else set()


def bytes_sha256(content: bytes) -> str:
    """SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
