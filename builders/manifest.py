"""The manifest of a data-set folder: its files, the sources of its rows, and the dropped records."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from builders.dataset import BuildError
from builders.validation import first_fault

NAME, CARD = "manifest.json", "README.md"
_STRICT = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """One Parquet file. ``sha256`` is of its bytes; ``content`` is of its rows and independent of the encoder."""

    __pydantic_config__ = _STRICT

    file: str
    rows: int
    bytes: int
    sha256: str
    content: str
    dropped: dict[str, int]


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


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config: its schema, its splits, its sources, and what built it.

    ``recipe`` is a digest of the code, ``embedded`` has the hash of each file of the project that rows come from.
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

    @property
    def files(self) -> set[str]:
        """The files of the folder: the Parquet files, the card and the manifest itself."""
        return {split.file for entry in self.configs.values() for split in entry.splits.values()} | {NAME, CARD}

    def json(self) -> str:
        """The text of the file."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


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
        manifest = _MANIFEST.validate_json(path.read_bytes())
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


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
