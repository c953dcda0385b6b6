"""The licences of what is published: their whole texts, and a page that says what is under which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from builders.dataset import DATA, BuildError
from builders.manifest import Manifest, SourceEntry
from builders.sources.catalogue import catalogue

TEXTS = DATA / "licences"
#: Where texts lie in a repository, by the names of SPDX, and the page about them.
FOLDER, PAGE = "LICENSES", "LICENSES.md"
#: The licence of what the project itself wrote.
OWN = "Apache-2.0"
#: What the identifier of a licence begins with that is no standard text.
_OTHER = "LicenseRef-"


def texts(manifest: Manifest) -> dict[str, bytes]:
    """The whole text of each licence of a data set, by its path in the repository.

    What may be published by others only under a standard licence goes with the text of that licence. A
    licence of another kind, or of a source that keeps publishing to itself, is linked to.

    Raises
    ------
    BuildError
        When a text is not there, naming the licence.
    """
    found = {}
    for key in sorted({OWN, *_used(manifest)}):
        file = _file(key)
        if file and file.is_file():
            found[f"{FOLDER}/{key}.txt"] = file.read_bytes()
        elif file or (_facts(manifest, key)["redistribute"] and not key.startswith(_OTHER)):
            raise BuildError(
                f"{manifest.name} is to be published under {key}, whose text is not there; put it into "
                f"builders/data/{TEXTS.name} and name the file as its text in sources.toml."
            )
    return found


def page(manifest: Manifest) -> str:
    """Each licence with its text, the configs and sources under it, and the notices of the sources.

    Raises
    ------
    BuildError
        When it is not known where a source states its licence, naming the source.
    """
    lines = [
        "# Licences",
        "",
        f"Each row names its licence in the column `licence`. What the project itself wrote, this page, the card and "
        f"the manifest among it, is under {_linked(manifest, OWN)}. What was changed against the sources, and whom "
        "to cite, is in `README.md`.",
        "",
        *(f"- {key}: {_linked(manifest, key)}; {_under(manifest, key)}" for key in sorted(_used(manifest))),
    ]
    if notices := list(_notices(manifest)):
        lines += ["", "## Notices of the sources", "", *notices]
    return "\n".join(lines) + "\n"


def _used(manifest: Manifest) -> set[str]:
    """The licences of the configs and of their sources."""
    return {config.licence for config in manifest.configs.values()} | {each.licence for each in _sources(manifest)}


def _sources(manifest: Manifest) -> Iterator[SourceEntry]:
    return (source for config in manifest.configs.values() for source in config.sources)


def _facts(manifest: Manifest, key: str) -> Mapping[str, Any]:
    """What the data set says of a licence; what the project says where the data set has nothing under it."""
    return manifest.licences.get(key) or asdict(catalogue().licences[key])


def _file(key: str) -> Path | None:
    """The file with the whole text of a licence; None where none is told."""
    known = catalogue().licences.get(key)
    return TEXTS / known.text if known and known.text else None


def _linked(manifest: Manifest, key: str) -> str:
    """The name of a licence with its address, and its text where there is one."""
    facts = _facts(manifest, key)
    told = f"[{facts['name']}]({facts['url']})"
    return f"{told}, [whole text]({FOLDER}/{key}.txt)" if _file(key) else told


def _under(manifest: Manifest, key: str) -> str:
    """The configs and sources under a licence."""
    configs = [name for name, config in manifest.configs.items() if config.licence == key]
    sources = sorted({source.name for source in _sources(manifest) if source.licence == key})
    told = (("configs", configs), ("sources", sources))
    return "; ".join(f"{what} {', '.join(f'`{name}`' for name in names)}" for what, names in told if names)


def _notices(manifest: Manifest) -> Iterator[str]:
    """The copyright notices of the sources under standard licences, and where they state their licence."""
    known = catalogue()
    standard = {source.name for source in _sources(manifest) if not source.licence.startswith(_OTHER)}
    for family in sorted({name.partition("/")[0] for name in standard}):
        if family not in known.notices:
            raise BuildError(f"It is not known where {family} states its licence; add it to [notices] of sources.toml.")
        told = known.notices[family]
        yield f"- `{family}`: {told.notice or 'no notice of a holder is known'} (licence stated at <{told.stated}>)"
