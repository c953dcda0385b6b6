"""The pinned sources with their licences, notices and citations, read from ``sources.toml`` and checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tomllib import TOMLDecodeError, loads
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import ConfigDict, StrictBool, TypeAdapter, ValidationError

from builders.dataset import BuildError, Source
from builders.parsers import read
from cards.common.stored import first_fault

PINS = Path(__file__).with_name("sources.toml")
_STRICT = ConfigDict(extra="forbid", str_min_length=1)
_included: list[Path] = []


@dataclass(frozen=True, slots=True)
class Licence:
    """The terms of a source. ``redistribute`` says whether others may publish its rows.

    ``text`` is the name of the file of ``data/licences`` with the whole text, for standard licences. ``terms``
    says which part is under which terms, if one sentence does not.
    """

    __pydantic_config__ = _STRICT

    id: str
    name: str
    url: str
    redistribute: StrictBool
    text: str = ""
    terms: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """What a manifest has of it."""
        facts = {"name": self.name, "url": self.url, "redistribute": self.redistribute}
        return facts | ({"terms": self.terms} if self.terms else {})


@dataclass(frozen=True, slots=True)
class Notice:
    """The address where a source states its licence, and the copyright notice there; empty if there is none."""

    __pydantic_config__ = _STRICT

    stated: str
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The content of ``sources.toml``.

    ``citations`` maps a key to its BibTeX entry; ``notices`` maps the part before the slash of the names of
    sources to their notice.
    """

    __pydantic_config__ = _STRICT

    sources: Mapping[str, Source]
    licences: Mapping[str, Licence]
    citations: Mapping[str, str]
    notices: Mapping[str, Notice] = field(default_factory=dict)


_CATALOGUE = TypeAdapter(Catalogue)


def include(path: Path) -> None:
    """Adds the sources, licences, notices and citations of a file to :func:`catalogue`."""
    if path.resolve() not in _included:
        _included.append(path.resolve())
        catalogue.cache_clear()


@cache
def catalogue(path: Path = PINS) -> Catalogue:
    """The pinned sources, their licences, notices and citations, with those of included files.

    Raises
    ------
    BuildError
        For an unknown or missing key, an unpinned file, an address that is not https, or a licence or
        citation that has no entry.

    >>> catalogue().sources["winogender/sentences"].licence
    'MIT'
    """
    tables: dict[str, Any] = {}
    for file in (path, *_included):
        for name, table in _read(file).items():
            earlier = tables.setdefault(name, table)
            if earlier is not table and isinstance(table, dict):
                tables[name] = {**table, **earlier}  # an included file does not change an entry of the project
    try:
        result = _CATALOGUE.validate_python(
            tables | {"sources": _with_key(tables, "sources", "name"), "licences": _with_key(tables, "licences", "id")}
        )
    except ValidationError as error:
        raise BuildError(f"{path.name} has a wrong entry, {first_fault(error)}; correct it.") from None
    # What the types cannot say: every key names an entry, and every file is pinned and has a place in a mirror.
    for name, source in result.sources.items():
        for key, kind, entries in (
            (source.licence, "licence", result.licences),
            (source.citation, "citation", result.citations),
        ):
            if key not in entries:
                raise BuildError(f"source {name!r} has the {kind} {key!r}, which [{kind}s] does not list.")
        for alternative in source.alternatives:
            for remote in alternative.files:
                mirror_path(remote.url)
                if not (remote.sha256 or remote.git_blob):
                    place = f"A file of source {name!r}, {remote.url},"
                    raise BuildError(f"{place} is not pinned; give its sha256 or git_blob.")
    return result


def _read(path: Path) -> dict[str, Any]:
    try:
        return loads(read.text(path))
    except TOMLDecodeError as error:
        raise BuildError(f"{path.name} is not TOML: {error}.") from None


def _with_key(tables: Mapping[str, Any], table: str, field_name: str) -> Any:
    """The entries of a table, each with its key as a field; entries that are not tables stay as they are."""
    entries = tables.get(table)
    if not isinstance(entries, dict):
        return entries
    # The types need the key as a field; what is no table is refused by them with a better sentence.
    return {key: {**entry, field_name: key} if isinstance(entry, dict) else entry for key, entry in entries.items()}


def mirror_path(url: str) -> str:
    """The path of the file at ``url`` in a mirror or the cache.

    >>> mirror_path("https://example.org/data/gendered%20words.csv")
    'example.org/data/gendered words.csv'
    """
    parts = urlsplit(url)
    steps = unquote(parts.netloc + parts.path).split("/")
    # A query or ".." would give several addresses one file, or a file outside the folder.
    if len(steps) < 2 or {"", ".", ".."} & set(steps) or parts.query or parts.fragment:
        raise BuildError(f"{url!r} has no place in a mirror: expected HOST/PATH without '..', query or fragment.")
    return "/".join(steps)
