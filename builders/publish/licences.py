"""The licences of a published data set: their texts, and a page that lists the configs and sources of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from builders.dataset import BuildError
from builders.embedded import DATA
from builders.manifest import Manifest, SourceEntry
from builders.publish.published import licence_facts
from builders.sources.catalogue import catalogue

TEXTS = DATA / "licences"
#: The folder of licence texts in a repository, with SPDX names, and the page about them.
FOLDER, PAGE = "LICENSES", "LICENSES.md"
#: The licence of what the project wrote itself.
OWN = "Apache-2.0"
#: The prefix of identifiers of licences without a standard text, and with that of licences that take a link.
_OTHER = "LicenseRef-"
_LINKED = (_OTHER, "CC-")


def texts(manifest: Manifest) -> dict[str, bytes]:
    """The text of each licence of a data set, by its path in the repository.

    A standard licence that allows redistribution needs its text, except that the licences of Creative Commons take a
    link for it (section 3.a.1.C). Other licences are only linked on the page.

    Raises
    ------
    BuildError
        When the text of a licence is missing.
    """
    result = {}
    for key in sorted({OWN, *_used(manifest)}):
        file = _file(key)
        if file and file.is_file():
            result[f"{FOLDER}/{key}.txt"] = file.read_bytes()
        elif file or (licence_facts(manifest, key)["redistribute"] and not key.startswith(_LINKED)):
            raise BuildError(
                f"{manifest.name} is published under {key}, whose text is missing; add it to "
                f"builders/data/{TEXTS.name} and give the name of the file as its text in sources.toml."
            )
    return result


def page(manifest: Manifest) -> str:
    """A Markdown page: each licence with its configs and sources, and the notices of the sources.

    Raises
    ------
    BuildError
        When a source has no notice in ``sources.toml``.
    """
    lines = [
        "# Licences",
        "",
        f"Each row names its licence in the column `licence`. What the project itself wrote, this page, the card and "
        f"the manifest among it, is under {_linked(manifest, OWN)}. What was changed against the sources, and whom "
        "to cite, is in `README.md`.",
        "",
        *(_line(manifest, key) for key in sorted(_used(manifest))),
    ]
    if notices := list(_notices(manifest)):
        lines += ["", "## Notices of the sources", "", *notices]
    return "\n".join(lines) + "\n"


def _line(manifest: Manifest, key: str) -> str:
    """A licence with what is under it, and which part under which terms."""
    terms = licence_facts(manifest, key).get("terms", "")
    return f"- {key}: {_linked(manifest, key)}; {_under(manifest, key)}{terms and f'. {terms}'}"


def _used(manifest: Manifest) -> set[str]:
    """The licences of the configs and of their sources."""
    return {config.licence for config in manifest.configs.values()} | {source.licence for source in _sources(manifest)}


def _sources(manifest: Manifest) -> Iterator[SourceEntry]:
    """The sources that something is published of."""
    for config in manifest.configs.values():
        yield from (source for source in config.sources if source.name not in config.filters)


def _file(key: str) -> Path | None:
    """The file with the text of a licence, or None."""
    known = catalogue().licences.get(key)
    return TEXTS / known.text if known and known.text else None


def _linked(manifest: Manifest, key: str) -> str:
    """A link to a licence, and one to its text if there is one."""
    facts = licence_facts(manifest, key)
    link = f"[{facts['name']}]({facts['url']})"
    return f"{link}, [whole text]({FOLDER}/{key}.txt)" if _file(key) else link


def _under(manifest: Manifest, key: str) -> str:
    """The configs and sources under a licence."""
    configs = [name for name, config in manifest.configs.items() if config.licence == key]
    sources = sorted({source.name for source in _sources(manifest) if source.licence == key})
    groups = (("configs", configs), ("sources", sources))
    return "; ".join(f"{kind} {', '.join(f'`{name}`' for name in names)}" for kind, names in groups if names)


def _notices(manifest: Manifest) -> Iterator[str]:
    """The copyright notices of the sources under standard licences, with the address of each statement."""
    known = catalogue()
    standard = {source.name for source in _sources(manifest) if not source.licence.startswith(_OTHER)}
    for family in sorted({name.partition("/")[0] for name in standard}):
        if family not in known.notices:
            raise BuildError(f"{family} has no entry in [notices] of sources.toml; add where it states its licence.")
        notice = known.notices[family]
        yield f"- `{family}`: {notice.notice or 'no notice of a holder is known'} (licence stated at <{notice.stated}>)"
