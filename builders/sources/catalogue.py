"""The pinned sources, their licences, notices and citations, read from ``sources.toml`` and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tomllib import TOMLDecodeError, loads
from typing import Any
from urllib.parse import urlsplit

from builders.dataset import Alternative, BuildError, Remote, Source
from builders.parsers import read

PINS = Path(__file__).with_name("sources.toml")


@dataclass(frozen=True, slots=True)
class Licence:
    """Terms of a source; ``redistribute`` says whether its rows may be published by others.

    ``text`` names the file of ``data/licences`` that has the whole text, where that is a standard one.
    """

    id: str
    name: str
    url: str
    redistribute: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Where a source states its licence, and the notice of the holder given with it; empty where none is known."""

    stated: str
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything ``sources.toml`` holds.

    ``citations`` maps a key to its BibTeX entry, ``notices`` what comes before the slash in the names of
    sources to their notice.
    """

    sources: Mapping[str, Source]
    licences: Mapping[str, Licence]
    citations: Mapping[str, str]
    notices: Mapping[str, Notice] = field(default_factory=dict)


@cache
def catalogue(path: Path = PINS) -> Catalogue:
    """Read and check the pinned sources, their licences and citations.

    Raises
    ------
    BuildError
        For an unknown or missing key, an unpinned file, an address that is not https, or a licence or
        citation that has no entry.

    >>> catalogue().sources["winogender/sentences"].licence
    'MIT'
    """
    try:
        table = loads(read.text(path))
    except TOMLDecodeError as error:
        raise BuildError(f"{path.name} is not TOML: {error}.") from None
    top = _fields(table, path.name, {"sources": dict, "licences": dict, "citations": dict}, {"notices": dict})
    licence = {"name": str, "url": str, "redistribute": bool}
    text = {"text": str}
    licences = {k: Licence(k, **_fields(v, f"licence {k!r}", licence, text)) for k, v in top["licences"].items()}
    notices = {
        k: Notice(**_fields(v, f"notice {k!r}", {"stated": str}, {"notice": str}))
        for k, v in top.get("notices", {}).items()
    }
    citations = _fields(top["citations"], "[citations]", dict.fromkeys(top["citations"], str))
    sources = {name: _source(name, entry) for name, entry in top["sources"].items()}
    for source in sources.values():
        for key, kind, known in ((source.licence, "licence", licences), (source.citation, "citation", citations)):
            if key not in known:
                raise BuildError(f"source {source.name!r} has the {kind} {key!r}, which [{kind}s] does not list.")
    return Catalogue(sources, licences, citations, notices)


def _fields(
    entry: Any, where: str, required: Mapping[str, type], optional: Mapping[str, type] | None = None
) -> dict[str, Any]:
    """The table ``entry``, once it has exactly the keys and types it should have."""
    kinds = {**required, **(optional or {})}
    if not isinstance(entry, dict):
        raise BuildError(f"{where} is {entry!r}, expected a table with {', '.join(kinds)}.")
    for key in entry.keys() - kinds.keys():
        raise BuildError(f"{where} has the unknown key {key!r}, expected only {', '.join(kinds)}.")
    for key in required.keys() - entry.keys():
        raise BuildError(f"{where} has no {key!r}; add it.")
    for key, value in entry.items():
        if type(value) is not kinds[key] or value in ("", []):
            filled = " that is not empty" * (type(value) is kinds[key])
            raise BuildError(f"{where} has {key} = {value!r}, expected a {kinds[key].__name__}{filled}.")
    return entry


def _source(name: str, entry: Any) -> Source:
    where = f"source {name!r}"
    fields = _fields(entry, where, {"licence": str, "citation": str, "alternatives": list})
    alternatives = []
    for number, alternative in enumerate(fields.pop("alternatives"), 1):
        place = f"{where} alternative {number}"
        given = _fields(alternative, place, {"files": list}, {"lacks": str})
        files = tuple(_remote(file, f"a file of {place}") for file in given["files"])
        alternatives.append(Alternative(files, given.get("lacks", "")))
    return Source(name=name, alternatives=tuple(alternatives), **fields)


def _remote(entry: Any, where: str) -> Remote:
    remote = Remote(**_fields(entry, where, {"url": str}, {"sha256": str, "git_blob": str, "member": str}))
    if not remote.url.startswith("https://"):
        raise BuildError(f"{where} has the address {remote.url!r}, expected one that begins with https://.")
    mirror_path(remote.url)
    if not (remote.sha256 or remote.git_blob):
        raise BuildError(f"{where}, {remote.url}, is not pinned; give its sha256 or git_blob.")
    for kind, value, length in (("sha256", remote.sha256, 64), ("git_blob", remote.git_blob, 40)):
        if value and not re.fullmatch(rf"[0-9a-f]{{{length}}}", value):
            raise BuildError(f"{where} has {kind} = {value!r}, expected {length} lower-case hexadecimal digits.")
    return remote


def mirror_path(url: str) -> str:
    """Where a mirror or the cache keeps the file at ``url``.

    >>> mirror_path("https://example.org/data/words.csv")
    'example.org/data/words.csv'
    """
    parts = urlsplit(url)
    steps = (parts.netloc + parts.path).split("/")
    if len(steps) < 2 or {"", ".", ".."} & set(steps) or parts.query or parts.fragment:
        raise BuildError(f"{url!r} has no place in a mirror: expected HOST/PATH without '..', query or fragment.")
    return "/".join(steps)
