"""The published form of a config: the rows as far as licences allow, under the name of a source that allows them.

Three rules decide what is published of a config:

1. A source that only decides which rows are left out does not bind the config.
2. Files of a source that states no licence may lie, byte for byte, in a repository with an open licence. Then the
   rows are published as rows of that repository; the record numbers are the same.
3. Columns with text that may not be published are replaced by their hashes. :mod:`builders.publish.restore`
   restores them. A config without such columns is withheld as a whole.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from builders.dataset import BuildError, Remote
from builders.files.manifest import ConfigEntry, Manifest, SourceEntry, SplitEntry, bytes_sha256
from builders.files.write import ENCODER, content_digest
from builders.publish.restore import HASH, lacking, text_digest
from builders.sources.catalogue import catalogue


@dataclass(frozen=True, slots=True)
class PublishedConfig:
    """A config as it is published.

    ``entry`` is its entry in the published manifest, ``files`` its files by path, and ``reason`` the licences that
    forbid text. Without ``files`` the config is withheld.
    """

    entry: ConfigEntry
    files: Mapping[str, bytes | Path]
    reason: str = ""


def published(folder: Path, manifest: Manifest, name: str, *, restricted: bool) -> PublishedConfig:
    """The published form of a config of a built folder.

    Parameters
    ----------
    restricted:
        Publish also text that licences forbid. This needs the right to do so.

    Raises
    ------
    BuildError
        When the config or a source has no licence, or one that the manifest does not describe.
    """
    config = manifest.configs[name]
    copies = {source.name: _open_copy(manifest, source) for source in config.sources}
    # Sources that may be published themselves need no copy.
    copies = {old: copy for old, copy in copies.items() if copy.name != old}
    # A config under the licence of a source that has an open copy is under the licence of the copy.
    replaced = {source.licence: copies[source.name].licence for source in config.sources if source.name in copies}
    renamed = replace(
        config,
        sources=[copies.get(source.name, source) for source in config.sources],
        licence=replaced.get(config.licence, config.licence),
    )
    reason = "" if restricted else closed(manifest, renamed)
    if reason and not config.quotes:
        return PublishedConfig(renamed, {}, reason)
    without = [column for column in config.quotes if column in config.columns] if reason else []
    if not copies and not without:
        return PublishedConfig(config, {split.file: folder / split.file for split in config.splits.values()}, reason)
    splits: dict[str, SplitEntry] = {}
    files: dict[str, bytes | Path] = {}
    # Rows are written anew only where a name or a column changes; other files are published byte for byte.
    for split, entry in config.splits.items():
        table = _rewritten(pq.read_table(folder / entry.file), config, copies, without)
        content = io.BytesIO()
        pq.write_table(table, content, compression="zstd")
        files[entry.file] = content.getvalue()
        splits[split] = replace(
            entry,
            bytes=len(content.getvalue()),
            sha256=bytes_sha256(content.getvalue()),
            content=content_digest(table),
            built=entry.content,
        )
        columns = {field.name: str(field.type) for field in table.schema}
        renamed = replace(renamed, columns=columns, encoder=ENCODER)
    return PublishedConfig(replace(renamed, splits=splits), files, reason)


def published_form(folder: Path, built: Manifest, seen: Manifest) -> Manifest:
    """A fresh build as a push publishes it; the files that a push changes are written over those of the build.

    Parameters
    ----------
    folder, built:
        The fresh build and its manifest.
    seen:
        The manifest of the published folder. Text is left out of the configs that have only its hashes there.

    Raises
    ------
    BuildError
        When a config or a source has no licence.
    """
    configs = {}
    for name in built.configs:
        restricted = name in seen.configs and not lacking(seen.configs[name].columns)
        form = published(folder, built, name, restricted=restricted)
        for file, content in form.files.items():
            if isinstance(content, bytes):
                # The file may be a hard link to that of another folder, which must stay as it is.
                (folder / file).unlink()
                (folder / file).write_bytes(content)
        configs[name] = form.entry
    return replace(built, configs=configs)


def closed(manifest: Manifest, config: ConfigEntry) -> str:
    """The licences that do not let others publish a config, each with what is under it; empty if there are none.

    Raises
    ------
    BuildError
        When the config or a source has no licence, or one that the manifest does not describe.
    """
    owners = {config.licence: "its rows"}
    owners |= {source.licence: source.name for source in config.sources if source.name not in config.filters}
    if "" in owners:
        raise BuildError(
            f"{manifest.name}: {config.name} ({owners['']}) has no licence; nothing is published without one."
        )
    facts = {key: licence_facts(manifest, key) for key in owners}
    return "; ".join(f"{facts[key]['name']} ({owners[key]})" for key in owners if not facts[key]["redistribute"])


def licence_facts(manifest: Manifest, key: str) -> Mapping[str, Any]:
    """The facts of a licence, from the manifest or else from the catalogue.

    Raises
    ------
    BuildError
        When neither describes it.
    """
    licence = catalogue().licences.get(key)
    if key in manifest.licences:
        return manifest.licences[key]
    if licence is None:
        raise BuildError(f"{manifest.name} names the licence {key!r} without describing it; rebuild the folder.")
    return licence.facts


def _open_copy(manifest: Manifest, source: SourceEntry) -> SourceEntry:
    """The source of the same bytes under a licence that lets others publish them; else the source itself."""
    if not source.licence or licence_facts(manifest, source.licence)["redistribute"]:
        return source
    # The same bytes may be pinned a second time, at an address whose licence allows to publish them.
    pins = [(file.get("sha256"), file.get("git_blob"), file.get("member")) for file in source.files]
    sources = catalogue()
    for other in sources.sources.values():
        if sources.licences[other.licence].redistribute:
            for number, alternative in enumerate(other.alternatives):
                if pins == [(f.sha256 or None, f.git_blob or None, f.member or None) for f in alternative.files]:
                    return SourceEntry.of(other, number)
    return source


def _rewritten(table: pa.Table, config: ConfigEntry, copies: Mapping[str, SourceEntry], without: list[str]) -> pa.Table:
    """The rows with the names of the open copies, and with hashes in place of some columns."""
    sources = {source.name: source for source in config.sources}
    rows = table.to_pylist()
    for row in rows:
        # The row says where a reader can get it, so it names the copy that may be published.
        if copy := copies.get(row["source"]):
            old = sources[row["source"]]
            names = ([Remote(**pins).file for pins in entry.files] for entry in (old, copy))
            row["source_file"] = dict(zip(*names, strict=True))[row["source_file"]]
            row["source"] = copy.name
            row["licence"] = copy.licence if row["licence"] == old.licence else row["licence"]
        for name in without:
            row[name + HASH] = text_digest(row.pop(name))
    fields = [pa.field(f.name + HASH, pa.string(), nullable=False) if f.name in without else f for f in table.schema]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))
