"""Compares an existing data-set folder with a fresh build, row by row."""

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
from builders.builder import Builder, Profile
from builders.dataset import BuildError, SourceUnavailable
from builders.manifest import NAME, ConfigEntry, Manifest, file_sha256, read_manifest
from builders.sources.fetch import Fetcher

#: Highest number of differences that are listed for one file.
LISTED = 5


def differences(folder: Path, published: Manifest, fresh: Manifest, fresh_folder: Path) -> tuple[list[str], list[str]]:
    """The differences of a published folder from a fresh build, and remarks on files with another encoding only.

    Each difference is a sentence with the file, the config, the row id and the column.
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
                rows = list(islice(_row_differences(path, fresh_folder / expected.file, name), LISTED))
                wrong += rows
                if not rows:
                    remarks.append(_encoding(expected.file, entry, fresh.configs[name]))
    wrong += _manifest_differences(published, fresh)
    listed = {split.file for entry in fresh.configs.values() for split in entry.splits.values()}
    for path in sorted((folder / "data").rglob("*")):
        if path.is_file() and path.relative_to(folder).as_posix() not in listed:
            wrong.append(f"{path.relative_to(folder).as_posix()}: the file belongs to no config.")
    return wrong, remarks


#: Facts of a manifest that may differ between machines although all rows are the same.
_OF_THE_MACHINE = {"encoder", "sha256", "bytes"}
#: Facts that depend on which configs a folder holds.
_OF_ALL_CONFIGS = {"left_out", "licences", "citations"}


def _manifest_differences(published: Manifest, fresh: Manifest) -> Iterator[str]:
    """The facts in which a published manifest differs from a fresh one, without those that depend on the machine."""
    ours, theirs = (_flat(json.loads(manifest.json())) for manifest in (fresh, published))
    for key in sorted(theirs.keys() | ours.keys()):
        is_unchecked = key[0] in _OF_ALL_CONFIGS or (key[0] == "configs" and key[1] not in published.configs)
        if not is_unchecked and key[-1] not in _OF_THE_MACHINE and theirs.get(key) != ours.get(key):
            yield f"{NAME}: {' '.join(key)} is {theirs.get(key)!r}, expected {ours.get(key)!r}."


def _flat(value: Any, key: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """The leaves of nested dictionaries by their path."""
    if not isinstance(value, dict):
        return {key: value}
    return {path: leaf for name, inner in value.items() for path, leaf in _flat(inner, (*key, name)).items()}


def _row_differences(path: Path, fresh: Path, config: str) -> Iterator[str]:
    file = f"{path.parent.parent.name}/{path.parent.name}/{path.name}"
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        yield f"{file}: config {config} cannot be read as Parquet ({str(error).splitlines()[0]})."
        return
    expected = pq.read_table(fresh)
    if table.schema.names != expected.schema.names:
        yield f"{file}: config {config} has the columns {table.schema.names}, expected {expected.schema.names}."
        return
    ours = {row["id"]: row for row in expected.to_pylist()}
    theirs = {row["id"]: row for row in table.to_pylist()}
    for row_id in ours.keys() - theirs.keys():
        yield f"{file}: config {config} lacks the row {row_id}."
    for row_id in theirs.keys() - ours.keys():
        yield f"{file}: config {config} has the row {row_id}, which the sources do not give."
    for row_id, row in theirs.items():
        for column, value in row.items():
            if row_id in ours and value != ours[row_id][column]:
                place = f"{file}: config {config}, row {row_id}, column {column}"
                yield f"{place} is {value!r}, expected {ours[row_id][column]!r}."
    if theirs.keys() == ours.keys() and (list(theirs) != list(ours) or table.num_rows != expected.num_rows):
        yield f"{file}: config {config} has its rows in another order or more than once."


def _encoding(file: str, published: ConfigEntry, fresh: ConfigEntry) -> str:
    return f"{file}: same rows, other encoder ({published.encoder} wrote the folder, {fresh.encoder} is here)."


def check(names: Sequence[str], fetcher: Fetcher, out: Path, progress: Progress) -> tuple[list[str], list[str]]:
    """The :func:`differences` of published folders from a fresh build of the same configs, and remarks.

    Raises
    ------
    SourceUnavailable
        When a published config cannot be built and so cannot be checked.
    """
    wrong, remarks = [], []
    with tempfile.TemporaryDirectory(prefix="check-") as scratch:
        builder = Builder(fetcher, Path(scratch), Profile.all, progress)
        for name in names:
            folder = out / name
            published = _published(folder)
            result = builder.stage(datasets.get(name))
            unchecked = [config for config in published.configs if config in result.left_out]
            if unchecked or not result.manifest or not result.staged:
                raise SourceUnavailable(
                    f"{name}: {', '.join(unchecked)} cannot be checked without its sources; "
                    f"{next(iter(result.left_out.values()))}"
                )
            new_wrong, new_remarks = differences(folder, published, result.manifest, result.staged)
            wrong += [f"{name}/{sentence}" for sentence in new_wrong]
            remarks += [f"{name}/{sentence}" for sentence in new_remarks]
    return wrong, remarks


def _published(folder: Path) -> Manifest:
    manifest = read_manifest(folder)
    if manifest is None:
        raise BuildError(f"{folder} has no manifest.json to check; build it first with the same --out.")
    return manifest
