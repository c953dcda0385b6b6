"""Builds data sets in temporary folders and moves them to the output folder when all are complete."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from builders import datasets
from builders.dataset import BuildError, Config, DataSet, Files, SourceUnavailable
from builders.files import write
from builders.files.folders import recover_folder, replace_folder
from builders.files.manifest import (
    CARD,
    NAME,
    ConfigEntry,
    Manifest,
    SourceEntry,
    bytes_sha256,
    is_data_set_file,
    read_manifest,
    written_files,
)
from builders.sources.catalogue import catalogue
from builders.sources.fetch import Fetcher
from builders.text.embedded import table
from builders.text.split import check_disjoint
from cards.common.files import file_sha256, locked, refuse_strays, strays
from cards.common.packages import missing_sentence
from cards.common.progress import Progress
from cards.dataset_card import dataset_card

ROOT = Path(__file__).parent.parent


class Profile(StrEnum):
    """Which configs to build."""

    all = "all"
    clean = "clean"
    paper = "paper"


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The result of building one data set.

    ``staged`` is the temporary folder with the new files, or None if nothing changed or nothing could be built.
    ``built`` has the names of the new configs; ``left_out`` maps the configs that could not be built to the reason.
    """

    name: str
    manifest: Manifest | None
    staged: Path | None
    built: frozenset[str]
    left_out: dict[str, str]


@cache
def _project_digest() -> str:
    """SHA-256 of everything in the project that decides the rows: code, lists, templates."""
    digest = hashlib.sha256()
    # These three packages are all that rows, cards and scores of rows are made with.
    for package in ("builders", "cards", "pmi"):
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and path.suffix in {".py", ".toml", ".txt", ".tsv", ".csv", ".j2", ".json"}:
                digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def code_digest(name: str, config: Config, files: Files) -> str:
    """SHA-256 of everything but the sources that decides the rows of a config, with versions of its libraries."""
    libraries = set(config.packages)
    for file in files.values():
        # openpyxl decides what a cell holds, so its version counts where a workbook is read.
        if any(path.suffix == ".xlsx" for path in file.paths):
            libraries.add("openpyxl")
    path = datasets.included_file(name)
    parts = [_project_digest(), bytes_sha256(path.read_bytes()) if path else ""]
    for library in sorted(libraries):
        parts.append(f"{library} {version(library)}")
    return bytes_sha256("\0".join(parts).encode())


def without_details(reason: str) -> str:
    """Why a config was left out, without what depends on the machine: the text before the first colon or semicolon.

    >>> without_details("The config needs the package spacy; install it with pip install --editable '/home/me'.")
    'The config needs the package spacy.'
    """
    # Manifests of two machines must be equal, but paths and advice differ between them.
    return re.split("[:;] ", reason)[0].rstrip(".") + "."


def planned_entry(config: Config, files: Files, recipe: str) -> ConfigEntry:
    """The manifest entry of a config without its splits; equal entries give equal rows."""
    facts = _shared(config, ConfigEntry)
    facts["profile"] = config.profile
    facts["encoder"] = write.ENCODER
    facts["recipe"] = recipe
    facts["columns"] = {field.name: str(field.type) for field in config.schema}
    facts["sources"] = [SourceEntry.of(files[name].source, files[name].alternative) for name in config.sources]
    facts["embedded"] = {file: file_sha256(ROOT / file) for file in config.embedded}
    facts["splits"] = {}
    return ConfigEntry(**facts)


def _shared(declared: Config | DataSet, entry: type[ConfigEntry | Manifest]) -> dict[str, Any]:
    """The facts that a declaration and its entry in the manifest have under one name, as JSON reads them back."""
    names = {field.name for field in fields(declared)} & {field.name for field in fields(entry)}
    facts = {}
    for name in names:
        value = getattr(declared, name)
        # JSON has no tuples, and an entry is compared with one that was read.
        facts[name] = list(value) if isinstance(value, tuple) else value
    return facts


def _is_intact(folder: Path, entry: ConfigEntry) -> bool:
    """Whether all files of a config have the hashes of the manifest."""
    for split in entry.splits.values():
        path = folder / split.file
        if not path.is_file() or file_sha256(path) != split.sha256:
            return False
    return True


class Builder:
    """Builds the new and changed configs of data sets for one output folder."""

    def __init__(self, fetcher: Fetcher, out: Path, profile: Profile, progress: Progress) -> None:
        self.fetcher = fetcher
        self.out = out
        self.profile = profile
        self.progress = progress
        self.bar = progress.add_task("", total=0)
        self.configs = 0

    def stage(self, dataset: DataSet) -> BuildResult:
        """Builds a data set into a temporary folder in the output folder.

        Configs whose entry in the manifest would not change are not built again; their files are linked. So are
        configs that this build cannot or should not build, if the data set still has the same version.
        """
        target = self.out / dataset.name
        old = read_manifest(target)
        old_configs = old.configs if old else {}
        plans, left_out = self._plan(dataset)
        # Configs of the folder that cannot be built now stay as they are, if they are whole and of this version.
        unchanged = {name: entry for name, entry in old_configs.items() if name not in plans}
        if unchanged and old and old.version != dataset.version:
            raise BuildError(
                f"{target} holds version {old.version} with the configs {', '.join(unchanged)}, which this build does "
                f"not rebuild for version {dataset.version}; rebuild them too or choose another --out."
            )
        for name, entry in unchanged.items():
            left_out.pop(name, None)
            if not _is_intact(target, entry):
                raise BuildError(
                    f"{target}: the files of {name} are not as in its manifest, and this build does not rebuild them; "
                    "rebuild them with their sources or delete the folder."
                )
        # An entry without its splits names all that decides the rows, so a config with an equal one is not built again.
        for name, (entry, _) in plans.items():
            current = old_configs.get(name)
            if current and replace(current, splits={}) == entry and _is_intact(target, current):
                unchanged[name] = current
        todo = {name: plan for name, plan in plans.items() if name not in unchanged}
        # Nothing can be built and nothing was: a folder without rows would look like a data set.
        if not todo and not unchanged:
            return BuildResult(dataset.name, None, None, frozenset(), left_out)
        self.configs += len(todo)
        self.progress.update(self.bar, total=self.configs)
        # In the output folder, so that it can be renamed without copying to another file system.
        staged = self.out / f".new-{dataset.name}"
        entries = dict(unchanged)
        for name, plan in todo.items():
            entries[name] = self._build(dataset, name, plan, staged)
        if old and old.version == dataset.version:
            _refuse_other_rows(target, old_configs, entries, staged)
        # The manifest keeps why configs of the other profile were left out.
        old_left_out = old.left_out if old and self.profile != Profile.all else {}
        manifest = self.manifest(dataset, entries, old_left_out | left_out)
        # A card of another version of the templates is written anew although no row changes.
        card = dataset_card(manifest.json())
        manifest = replace(manifest, card=bytes_sha256(card.encode()))
        same = (target / CARD).is_file() and (target / CARD).read_text(encoding="utf-8") == card
        if not todo and old == manifest and same:
            return BuildResult(dataset.name, manifest, None, frozenset(), left_out)
        for entry in unchanged.values():
            for split in entry.splits.values():
                # A hard link, because the folder is replaced as a whole and large files need not be copied.
                _link(target / split.file, staged / split.file)
        # Before the manifest is written: a folder with a manifest counts as a data set.
        _check_leaks(dataset, manifest, staged)
        (staged / NAME).write_text(manifest.json(), encoding="utf-8")
        (staged / CARD).write_text(card, encoding="utf-8")
        return BuildResult(dataset.name, manifest, staged, frozenset(todo), left_out)

    def _plan(self, dataset: DataSet) -> tuple[dict[str, tuple[ConfigEntry, Files]], dict[str, str]]:
        """The configs that can be built, with their manifest entries and sources, and why the others cannot."""
        plans: dict[str, tuple[ConfigEntry, Files]] = {}
        left_out = {}
        for config in dataset.configs:
            if self.profile not in (Profile.all, config.profile):
                continue
            # A config that cannot be built is left out with its reason, so that the others can be.
            missing = [package for package in config.packages if find_spec(package) is None]
            if missing:
                extra = config.packages[missing[0]]
                left_out[config.name] = missing_sentence("The config", missing[0], extra)
                continue
            try:
                files = {name: self.fetcher.get(catalogue().sources[name]) for name in config.sources}
            except SourceUnavailable as error:
                left_out[config.name] = str(error)
                continue
            recipe = code_digest(dataset.name, config, files)
            plans[config.name] = planned_entry(config, files, recipe), files
        return plans, left_out

    def _build(self, dataset: DataSet, name: str, plan: tuple[ConfigEntry, Files], staged: Path) -> ConfigEntry:
        self.progress.update(self.bar, description=f"{dataset.name} {name}")
        (config,) = (config for config in dataset.configs if config.name == name)
        entry, files = plan
        # All tables are made before the first file is written, so an error leaves no file of this config.
        tables = write.tables(config, config.rows(files), config.language or dataset.language)
        splits = {}
        for split, (rows, dropped) in tables.items():
            splits[split] = write.write_split(staged, config, split, rows, dropped)
        self.progress.advance(self.bar)
        return replace(entry, splits=splits)

    @staticmethod
    def manifest(dataset: DataSet, entries: dict[str, ConfigEntry], left_out: dict[str, str]) -> Manifest:
        """The manifest of a data set with these configs, in the order of the data set."""
        configs, reasons = {}, {}
        licences, citations = set(), set()
        for config in dataset.configs:
            if config.name in entries:
                entry = entries[config.name]
                configs[config.name] = entry
                licences.add(entry.licence)
                citations.update(entry.cite)
                for source in entry.sources:
                    licences.add(source.licence)
                    citations.add(source.citation)
            elif config.name in left_out:
                reasons[config.name] = without_details(left_out[config.name])
        pinned = catalogue()
        facts = _shared(dataset, Manifest)
        for name in ("benchmark", "changes", "scores"):
            facts[name] = dict(getattr(dataset, name))
        facts["configs"] = configs
        facts["left_out"] = reasons
        # Sorted, because a manifest of the same content has the same bytes.
        facts["licences"] = {key: pinned.licences[key].facts for key in sorted(licences)}
        facts["citations"] = {key: pinned.citations[key] for key in sorted(citations)}
        facts["meanings"] = _meanings(dataset.name, configs)
        return Manifest(**facts)


def _refuse_other_rows(
    target: Path, old: Mapping[str, ConfigEntry], new: Mapping[str, ConfigEntry], staged: Path
) -> None:
    """Raises an error when a config has other rows than the folder of the same version.

    Rows out of another alternative of a source are no change of the data set; the manifest says what it lacks.
    """
    for name in new.keys() & old.keys():
        before, after = old[name], new[name]
        if [source.alternative for source in before.sources] != [source.alternative for source in after.sources]:
            continue
        for split, entry in after.splits.items():
            earlier = before.splits.get(split)
            if earlier and earlier.content != entry.content:
                counted = "its file is missing"
                if (target / earlier.file).is_file():
                    counted = count_changes(pq.read_table(target / earlier.file), pq.read_table(staged / entry.file))
                raise BuildError(
                    f"{target.name} {name} {split} has other rows than the folder {target} of the same version "
                    f"({counted}); give the data set a new version, or move the folder away. "
                    "The option diff of probes build shows the rows."
                )


def row_changes(before: pa.Table, after: pa.Table) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each row that was removed, added or changed: its id, and the columns that differ, before and after.

    >>> old = pa.table({"id": ["a", "b"], "text": ["one", "two"]})
    >>> list(row_changes(old, pa.table({"id": ["b", "c"], "text": ["2", "three"]})))
    [('a', {'text': 'one'}, {}), ('b', {'text': 'two'}, {'text': '2'}), ('c', {}, {'text': 'three'})]
    """
    old, new = ({row.pop("id"): row for row in table.to_pylist()} for table in (before, after))
    for row_id in old | new:
        ours, theirs = old.get(row_id, {}), new.get(row_id, {})
        differing = [column for column in ours | theirs if ours.get(column) != theirs.get(column)]
        if differing:
            yield row_id, {c: ours[c] for c in differing if c in ours}, {c: theirs[c] for c in differing if c in theirs}


def count_changes(before: pa.Table, after: pa.Table) -> str:
    """How many rows were changed, added and removed, in words."""
    counts = {"changed": 0, "new": 0, "gone": 0}
    for _, old, new in row_changes(before, after):
        counts["new" if not old else "gone" if not new else "changed"] += 1
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "another order"


def _meanings(name: str, configs: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """What the columns of a data set mean, in the order in which the configs have them."""
    wording = table("columns")
    # A data set may say more of a column than the text that holds for all data sets.
    known = wording["all"] | wording.get(name, {})
    meanings = {}
    for config in configs.values():
        for column in config.columns:
            if column in known:
                meanings[column] = known[column]
    return meanings


def _check_leaks(dataset: DataSet, manifest: Manifest, folder: Path) -> None:
    """Raises an error when two splits share a phrase, over all configs that name the same column."""
    phrases: dict[str, dict[str, list[str]]] = {}
    for config in dataset.configs:
        if not config.disjoint or config.name not in manifest.configs:
            continue
        # Read from the files, because the configs that were not built again count too.
        for split, entry in manifest.configs[config.name].splits.items():
            column = pq.read_table(folder / entry.file, columns=[config.disjoint])[config.disjoint]
            phrases.setdefault(config.disjoint, {}).setdefault(split, []).extend(column.to_pylist())
    for column_name, splits in phrases.items():
        check_disjoint(f"{dataset.name} ({column_name})", splits)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def build_datasets(
    names: Sequence[str], fetcher: Fetcher, out: Path, profile: Profile, progress: Progress
) -> list[BuildResult]:
    """Builds the named data sets, one folder each in ``out``; on any error the old folders stay as they were.

    Raises
    ------
    BuildError
        When a source changed, a row does not agree with its config, two splits share a phrase, or a folder that
        would be replaced has a file that no build wrote.
    """
    replaced: list[str] = []
    with locked(out, BuildError):
        try:
            _recover(out, names)
            builder = Builder(fetcher, out, profile, progress)
            results = [builder.stage(datasets.get(name)) for name in names]
            for result in results:
                if result.staged:
                    replace_folder(result.staged, out / result.name)
                    replaced.append(result.name)
            return results
        except OSError as error:
            # Folders are exchanged one after another, so some may be new when the disk fails.
            rest = ""
            if replaced:
                rest = f"{', '.join(replaced)} is new and the rest of "
            raise BuildError(
                f"{error.strerror or error} while writing to {out}; {rest}the old output is unchanged. "
                "Make room or choose another --out."
            ) from None
        finally:
            for name in names:
                _remove_staged(out / f".new-{name}")


def _recover(out: Path, names: Sequence[str]) -> None:
    """Tidies up after an interrupted build, and refuses folders that would be replaced but were not built.

    Raises
    ------
    BuildError
        When a folder with the name of a data set, or of a temporary one, has a file that no build wrote, or that was
        changed since.
    """
    for name in names:
        recover_folder(out / name, written_files, BuildError)
        refuse_strays(out / name, written_files(out / name), BuildError)
        _refuse_changed(out / name)
        _remove_staged(out / f".new-{name}")
        # What is left there now is no file of a build, and may be of the user.
        refuse_strays(out / f".new-{name}", (), BuildError)


def _refuse_changed(folder: Path) -> None:
    """Refuses a data set with a file that has not the hash of its manifest: it may hold the work of a user."""
    manifest = read_manifest(folder)
    if manifest is None:
        return
    hashes = {split.file: split.sha256 for config in manifest.configs.values() for split in config.splits.values()}
    if manifest.card:
        hashes[CARD] = manifest.card
    for name, sha256 in hashes.items():
        path = folder / name
        if path.is_file() and file_sha256(path) != sha256:
            raise BuildError(
                f"{path} was changed since it was built, and would be replaced; move it away and build again, or "
                "choose another --out."
            )


def _remove_staged(folder: Path) -> None:
    """Removes a temporary folder, unless it has a file that no build writes."""
    if all(is_data_set_file(file) for file in strays(folder, ())):
        shutil.rmtree(folder, ignore_errors=True)
