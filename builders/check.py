"""Proves an existing data-set folder row by row against a fresh build."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import Progress

from builders import datasets
from builders.build import Profile, Rebuild
from builders.dataset import BuildError, SourceUnavailable
from builders.manifest import NAME, ConfigEntry, Manifest, file_sha256, read_manifest
from builders.sources.fetch import Fetcher

#: How many differences of one file are told in full.
SHOWN = 5


def differences(folder: Path, published: Manifest, fresh: Manifest, fresh_folder: Path) -> tuple[list[str], list[str]]:
    """What a published folder has wrong, and remarks on what is merely encoded in another way.

    Each difference is a sentence that names the file, the config, the row id and the column.
    """
    wrong: list[str] = []
    remarks: list[str] = []
    for name, entry in published.configs.items():
        if name not in fresh.configs:
            wrong.append(f"{folder.name}: the config {name} is not one of this data set.")
            continue
        for split, expected in fresh.configs[name].splits.items():
            path = folder / expected.file
            if split not in entry.splits or not path.is_file():
                wrong.append(f"{expected.file}: the file is missing (config {name}, split {split}).")
            elif file_sha256(path) != expected.sha256:
                found = list(islice(_rows(path, fresh_folder / expected.file, name), SHOWN))
                wrong += found
                if not found:
                    remarks.append(_encoding(expected.file, entry, fresh.configs[name]))
    wrong += _facts(published, fresh)
    listed = {split.file for entry in fresh.configs.values() for split in entry.splits.values()}
    for path in sorted((folder / "data").rglob("*")):
        if path.is_file() and path.relative_to(folder).as_posix() not in listed:
            wrong.append(f"{path.relative_to(folder).as_posix()}: the file belongs to no config.")
    return wrong, remarks


#: Facts of a manifest that may differ between machines while every row is the same.
_OF_THE_MACHINE = {"encoder", "sha256", "bytes"}
#: Facts that depend on which configs a folder holds.
_OF_ALL_CONFIGS = {"left_out", "licences", "citations"}


def _facts(published: Manifest, fresh: Manifest) -> Iterator[str]:
    """Facts of the published manifest that a fresh one states otherwise, but for what the machine decides."""
    ours, theirs = (_flat(json.loads(manifest.json())) for manifest in (fresh, published))
    for key in sorted(theirs.keys() | ours.keys()):
        unproved = key[0] in ("left_out", "licences", "citations") or (
            key[0] == "configs" and key[1] not in published.configs
        )
        if not unproved and key[-1] not in _OF_THE_MACHINE and theirs.get(key) != ours.get(key):
            yield f"{NAME}: {' '.join(key)} is {theirs.get(key)!r}, expected {ours.get(key)!r}."


def _flat(value: Any, key: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(value, dict):
        return {key: value}
    return {path: leaf for name, inner in value.items() for path, leaf in _flat(inner, (*key, name)).items()}


def _rows(path: Path, fresh: Path, config: str) -> Iterator[str]:
    file = f"{path.parent.parent.name}/{path.parent.name}/{path.name}"
    try:
        found = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        yield f"{file}: config {config} cannot be read as Parquet ({str(error).splitlines()[0]})."
        return
    expected = pq.read_table(fresh)
    if found.schema.names != expected.schema.names:
        yield f"{file}: config {config} has the columns {found.schema.names}, expected {expected.schema.names}."
        return
    ours = {row["id"]: row for row in expected.to_pylist()}
    theirs = {row["id"]: row for row in found.to_pylist()}
    for id_ in ours.keys() - theirs.keys():
        yield f"{file}: config {config} lacks the row {id_}."
    for id_ in theirs.keys() - ours.keys():
        yield f"{file}: config {config} has the row {id_}, which the sources do not give."
    for id_, row in theirs.items():
        for column, value in row.items():
            if id_ in ours and value != ours[id_][column]:
                yield (
                    f"{file}: config {config}, row {id_}, column {column} is {value!r}, expected {ours[id_][column]!r}."
                )
    if theirs.keys() == ours.keys() and (list(theirs) != list(ours) or found.num_rows != expected.num_rows):
        yield f"{file}: config {config} has its rows in another order or more than once."


def _encoding(file: str, published: ConfigEntry, fresh: ConfigEntry) -> str:
    return f"{file}: same rows, other encoder ({published.encoder} wrote the folder, {fresh.encoder} is here)."


def check(names: Sequence[str], fetcher: Fetcher, out: Path, progress: Progress) -> tuple[list[str], list[str]]:
    """Compares published folders with a fresh build of the same configs: differences and remarks.

    Raises
    ------
    SourceUnavailable
        When a published config cannot be rebuilt here and so cannot be proved.
    """
    wrong, remarks = [], []
    with tempfile.TemporaryDirectory(prefix="check-") as scratch:
        run = Rebuild(fetcher, Path(scratch), Profile.all, progress)
        for name in names:
            folder = out / name
            published = _published(folder)
            result = run.stage(datasets.get(name))
            unproved = [config for config in published.configs if config in result.left_out]
            if unproved or not result.manifest or not result.staged:
                raise SourceUnavailable(
                    f"{name}: {', '.join(unproved)} cannot be checked without its sources; "
                    f"{next(iter(result.left_out.values()))}"
                )
            found, told = differences(folder, published, result.manifest, result.staged)
            wrong += [f"{name}/{sentence}" for sentence in found]
            remarks += [f"{name}/{sentence}" for sentence in told]
    return wrong, remarks


def _published(folder: Path) -> Manifest:
    manifest = read_manifest(folder)
    if manifest is None:
        raise BuildError(f"{folder} has no manifest.json to check; build it first with the same --out.")
    return manifest
