"""The manifest: what a data-set folder holds, where every row came from, and what was dropped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from builders.dataset import BuildError

NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """One Parquet file: ``sha256`` of its bytes, ``content`` of its rows whatever wrote them."""

    file: str
    rows: int
    bytes: int
    sha256: str
    content: str
    dropped: dict[str, int]


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A source as it was used: which alternative, what that lacks, and its pinned files."""

    name: str
    licence: str
    citation: str
    alternative: int
    lacks: str
    files: list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config: its schema, what it was built by and from, and its splits."""

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
    """Everything a card or a check needs to know of one data-set folder.

    ``left_out`` maps the name of each config that could not be built to the reason.
    """

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

    def json(self) -> str:
        """The manifest as it is written."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a data-set folder, or None when there is none.

    Raises
    ------
    BuildError
        When the file is there but cannot be understood.
    """
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields["configs"] = {name: _config(entry) for name, entry in fields["configs"].items()}
        return Manifest(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BuildError(
            f"{path} is not a manifest of this version ({type(error).__name__}: {error}); "
            "move the folder away or choose another --out."
        ) from None


def _config(entry: Mapping[str, Any]) -> ConfigEntry:
    sources = [SourceEntry(**source) for source in entry["sources"]]
    splits = {name: SplitEntry(**split) for name, split in entry["splits"].items()}
    return ConfigEntry(**{**entry, "sources": sources, "splits": splits})


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
