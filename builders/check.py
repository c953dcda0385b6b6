"""Compares an existing data-set folder with a fresh build: every file, row, statistic and fact."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from builders import datasets
from builders.builder import Builder, Profile, count_changes, row_changes, without_details
from builders.dataset import BuildError, DataSet, SourceUnavailable
from builders.files.manifest import CARD, NAME, ConfigEntry, Manifest, bytes_sha256, file_sha256, read_manifest
from builders.publish.publication import make_publication
from builders.publish.published import closed, published_form
from builders.sources.fetch import Fetcher
from cards.common.files import strays
from cards.common.packages import missing_sentence
from cards.common.progress import Progress
from cards.common.stored import parsed
from cards.dataset_card import BENCHMARK, dataset_card
from pmi.types import first_line

#: Highest number of differences that are listed for one file.
LISTED = 5
#: A published folder has this file, which names the repository. The Hub and its client add the other files.
CROISSANT = "croissant.json"
_OF_THE_HUB = re.compile(r"\.gitattributes|\.cache/.*")


def differences(
    folder: Path, published: Manifest, fresh: Manifest, fresh_folder: Path, dataset: DataSet
) -> tuple[list[str], list[str]]:
    """The differences of a published folder from a fresh build, and remarks on files with another encoding only.

    Each difference is a sentence with the file, the config, the row id and the column.
    """
    wrong: list[str] = []
    remarks: list[str] = []
    if (folder / CROISSANT).is_file():
        fresh = published_form(fresh_folder, fresh, published)
    for name, entry in published.configs.items():
        if name not in fresh.configs:
            wrong.append(f"{folder.name}: the config {name} is not one of this data set.")
            continue
        for split, expected in fresh.configs[name].splits.items():
            path = folder / expected.file
            if split not in entry.splits or not path.is_file():
                wrong.append(f"{expected.file}: the file is missing (config {name}, split {split}).")
                continue
            # Equal bytes need no reading. Another encoder may write the same rows as other bytes; then the rows are
            # compared, and the stated hash with the file itself.
            encoder = fresh.configs[name].encoder
            is_same = file_sha256(path) == expected.sha256
            is_ours = entry.encoder == encoder
            faults = []
            if not is_same:
                faults = _file_differences(path, fresh_folder / expected.file, name, statistics=not is_ours)
            if not faults and not is_ours:
                faults = list(_stated(path, expected.file, entry, split))
                if not faults and not is_same:
                    remarks.append(
                        f"{expected.file}: same rows, other encoder ({entry.encoder} wrote the folder, "
                        f"{encoder} is here)."
                    )
            elif not faults and not is_same:
                faults = [f"{expected.file}: same rows, but other bytes than {entry.encoder} writes."]
            wrong += faults
    for name, entry in published.configs.items():
        # No difference of its own: another version of the code may well write the same rows.
        if name in fresh.configs and entry.recipe != fresh.configs[name].recipe:
            remarks.append(
                f"{NAME}: {name} was built by another version of the code or of its libraries; its rows and facts are "
                "compared."
            )
    wrong += _manifest_differences(published, _expected(published, fresh, dataset))
    wrong += _left_out_differences(published, fresh, dataset)
    wrong += _other_files(folder, published)
    return wrong, remarks


def _expected(published: Manifest, fresh: Manifest, dataset: DataSet) -> Manifest:
    """The fresh manifest of the published configs only."""
    entries = {}
    for name, entry in fresh.configs.items():
        if name not in published.configs:
            continue
        earlier = published.configs[name]
        splits = dict(entry.splits)
        if earlier.encoder != entry.encoder:
            # Another encoder writes other bytes; the stated ones are compared with the files.
            for split, expected in entry.splits.items():
                if split in earlier.splits:
                    stated = earlier.splits[split]
                    splits[split] = replace(expected, sha256=stated.sha256, bytes=stated.bytes)
        # A difference of the recipe is a remark, not a difference.
        entries[name] = replace(entry, encoder=earlier.encoder, splits=splits, recipe=earlier.recipe)
    # The hash of the card is compared with the card.
    return replace(Builder.manifest(dataset, entries, {}), left_out=published.left_out, card=published.card)


def _stated(path: Path, file: str, entry: ConfigEntry, split: str) -> Iterator[str]:
    """What the manifest says of the bytes of a file and is not so."""
    stated = entry.encoder, entry.splits[split].sha256, entry.splits[split].bytes
    # Parquet names its writer as "parquet-cpp-arrow version 17.0.0".
    encoder = f"pyarrow {pq.read_metadata(path).created_by.rpartition(' ')[2]}"
    computed = encoder, file_sha256(path), path.stat().st_size
    for fact, value, expected in zip(("encoder", "sha256", "bytes"), stated, computed, strict=True):
        if value != expected:
            yield f"{NAME}: the {fact} of {file} is {value!r}, and the file has {expected!r}."


def _manifest_differences(published: Manifest, fresh: Manifest) -> Iterator[str]:
    """The facts in which a published manifest differs from a fresh one."""
    # Flat, so that a difference is named by its path and not by a whole table.
    expected = _flat(asdict(fresh))
    stated = _flat(asdict(published))
    for key in sorted(stated.keys() | expected.keys()):
        # Configs that only the published folder has were named already.
        if key[0] == "configs" and key[1] not in fresh.configs:
            continue
        if stated.get(key) != expected.get(key):
            yield f"{NAME}: {' '.join(key)} is {stated.get(key)!r}, expected {expected.get(key)!r}."


def _flat(value: Any, key: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """The leaves of nested dictionaries by their path."""
    if not isinstance(value, dict):
        return {key: value}
    # An empty dictionary has no leaf, so it is equal to a missing one.
    leaves = {}
    for name, inner in value.items():
        leaves.update(_flat(inner, (*key, name)))
    return leaves


def _left_out_differences(published: Manifest, fresh: Manifest, dataset: DataSet) -> Iterator[str]:
    """Configs that are said to be left out and are not, or for a reason that none of their sources can give."""
    configs = {config.name: config for config in dataset.configs}
    # What a push withholds is left out for a reason that the licences give, not the sources.
    withheld = {name: closed(fresh, config) for name, config in fresh.configs.items()}
    for name, reason in published.left_out.items():
        reasons = []
        is_left_out = name in configs and name not in published.configs
        if is_left_out:
            reasons += [f"{source} is not available." for source in configs[name].sources]
        if name in configs:
            for package, extra in configs[name].packages.items():
                reasons.append(without_details(missing_sentence("The config", package, extra)))
        if withheld.get(name):
            reasons.append(f"not redistributed: {withheld[name]}")
        if not is_left_out or reason not in reasons:
            yield f"{NAME}: left_out {name} is {reason!r}, expected {' or '.join(map(repr, reasons)) or 'nothing'}."


def _other_files(folder: Path, published: Manifest) -> Iterator[str]:
    """Files other than data that are not as a build or a publication writes them, and files that belong to neither."""
    try:
        files = _texts(folder, published)
    except Exception as error:  # a manifest may lack any fact that a template needs
        yield f"{folder.name}: the other files cannot be compared ({first_line(error)})."
        return
    if published.card and published.card != bytes_sha256(files[CARD]):
        yield f"{NAME}: card is {published.card!r}, and the card that is written has {bytes_sha256(files[CARD])!r}."
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            yield f"{name}: the file is missing."
        elif path.read_bytes() != expected:
            yield f"{name}: the file is not the one that is written from the manifest."
    # A copy from the Hub also has files of the Hub itself, which no manifest lists.
    for name in strays(folder, files.keys() | published.files):
        if CROISSANT not in files or not _OF_THE_HUB.fullmatch(name):
            yield f"{name}: the file belongs to no config."


def _texts(folder: Path, published: Manifest) -> Mapping[str, bytes]:
    """The files of a folder besides its data."""
    # Only a publication has this file; a local build has the manifest and the card alone.
    if not (folder / CROISSANT).is_file():
        facts = parsed((folder / NAME).read_bytes())
        earlier = {"sha256": facts["sha256"]} if "sha256" in facts else {}
        text = published.json(**earlier)
        return {NAME: text.encode(), CARD: dataset_card(text).encode()}
    url = str(json.loads((folder / CROISSANT).read_bytes())["url"])
    host, _, repository = url.partition("/datasets/")
    publication = make_publication(folder, repository.partition("/")[0], host, restricted=True)
    files = {name: content for name, content in publication.files.items() if isinstance(content, bytes)}
    # A push may leave out eval.yaml, and the Hub may refuse it.
    if publication.benchmark and (folder / BENCHMARK).is_file():
        files[BENCHMARK] = publication.benchmark
    return files


def _file_differences(path: Path, fresh: Path, config: str, *, statistics: bool) -> list[str]:
    """The first differences of two Parquet files in schema, rows and, if asked for, column statistics."""
    file = f"{path.parent.parent.name}/{path.parent.name}/{path.name}"
    try:
        faults = list(islice(_table_differences(file, config, pq.read_table(fresh), pq.read_table(path)), LISTED))
        if statistics and not faults and _statistics(path) != _statistics(fresh):
            return [f"{file}: config {config} has other column statistics than its rows."]
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: text that is not UTF-8
        return [f"{file}: config {config} cannot be read as Parquet ({first_line(error)})."]
    return faults


def _table_differences(file: str, config: str, expected: pa.Table, table: pa.Table) -> Iterator[str]:
    if table.schema.names != expected.schema.names:
        yield f"{file}: config {config} has the columns {table.schema.names}, expected {expected.schema.names}."
        return
    for ours, theirs in zip(expected.schema, table.schema, strict=True):
        if not theirs.equals(ours, check_metadata=True):
            yield f"{file}: config {config}, column {ours.name} is {theirs}, expected {ours}."
    if table.schema.metadata != expected.schema.metadata:
        yield f"{file}: config {config} has metadata in its schema that a build does not write."
    yield from _row_differences(file, config, expected, table)


def _statistics(path: Path) -> list[Any]:
    """Number of values and nulls, lowest and highest value of each column of each row group."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    # A reader may trust these instead of the rows, so they are compared as well.
    statistics = [group.column(column).statistics for group in groups for column in range(group.num_columns)]
    return [
        metadata.num_rows,
        *(item and (item.num_values, item.null_count, item.min, item.max) for item in statistics),
    ]


def _row_differences(file: str, config: str, expected: pa.Table, table: pa.Table) -> Iterator[str]:
    # Rows are compared by id, so that one row too many does not make all rows after it differ.
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


def diff(names: Sequence[str], fetcher: Fetcher, out: Path, progress: Progress) -> Iterator[str]:
    """What a build would change in each folder, as lines: a sentence for each file, and its rows before and after.

    A row that was removed has ``-`` before it and one that is new ``+``; a changed one has both, with the columns that
    differ.

    Raises
    ------
    SourceUnavailable
        When a config of the folder cannot be built.
    """
    with tempfile.TemporaryDirectory(prefix="diff-") as scratch:
        builder = Builder(fetcher, Path(scratch), Profile.all, progress)
        for name in names:
            before, staged, after = _fresh(builder, name, out / name)
            for config, entry in after.configs.items():
                for split, new in entry.splits.items():
                    old = before.configs[config].splits.get(split) if config in before.configs else None
                    if old and old.content == new.content:
                        continue
                    tables = [pq.read_table(staged / new.file)]
                    tables.insert(0, pq.read_table(out / name / old.file) if old else tables[0].slice(0, 0))
                    yield f"{name} {config} {split}: {count_changes(*tables)}"
                    for row_id, ours, theirs in row_changes(*tables):
                        for mark, values in (("-", ours), ("+", theirs)):
                            if values:
                                yield f"{mark} {row_id} {json.dumps(values, ensure_ascii=False)}"


def _fresh(builder: Builder, name: str, folder: Path) -> tuple[Manifest, Path, Manifest]:
    """The manifest of a folder, a fresh build of the same configs, and its manifest."""
    published = read_manifest(folder)
    if published is None:
        raise BuildError(f"{folder} has no manifest.json to check; build it first with the same --out.")
    # Built in another folder, so that a check never changes the published one.
    result = builder.stage(datasets.get(name))
    unchecked = [config for config in published.configs if config in result.left_out]
    if unchecked or not result.manifest or not result.staged:
        raise SourceUnavailable(
            f"{name}: {', '.join(unchecked)} cannot be checked without its sources; "
            f"{next(iter(result.left_out.values()))}"
        )
    return published, result.staged, result.manifest


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
            folder, dataset = out / name, datasets.get(name)
            published, staged, manifest = _fresh(builder, name, folder)
            new_wrong, new_remarks = differences(folder, published, manifest, staged, dataset)
            wrong += [f"{name}/{sentence}" for sentence in new_wrong]
            remarks += [f"{name}/{sentence}" for sentence in new_remarks]
    return wrong, remarks
