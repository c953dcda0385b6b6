"""Builds data sets beside the output folder and puts them in place when all are whole."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet as pq
from filelock import FileLock, Timeout
from rich.progress import Progress

from builders import datasets, write
from builders.dataset import BuildError, Config, DataSet, Fetched, Files, SourceUnavailable
from builders.manifest import NAME, ConfigEntry, Manifest, SourceEntry, SplitEntry, file_sha256, read_manifest
from builders.sources.catalogue import catalogue
from builders.sources.fetch import Fetcher
from builders.text.split import check_disjoint
from cards.dataset_card import dataset_card

ROOT = Path(__file__).parent.parent
CARD = "README.md"
#: Libraries that take part in making rows; another version may make other rows.
_MAKERS = ("openpyxl", "spacy")


class Profile(StrEnum):
    """Which configs to build."""

    all = "all"
    clean = "clean"
    paper = "paper"


@dataclass(frozen=True, slots=True)
class Result:
    """A data set after its turn.

    ``staged`` is the folder to publish, or None when nothing changed or nothing could be built;
    ``built`` names the configs made anew, ``left_out`` the others with the reason.
    """

    name: str
    manifest: Manifest | None
    staged: Path | None
    built: frozenset[str]
    left_out: dict[str, str]


@cache
def recipe() -> str:
    """Digest of everything in this project that decides what is built: code, lists, templates, libraries."""
    digest = hashlib.sha256()
    for package in ("builders", "cards", "pmi"):
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and path.suffix in {".py", ".toml", ".txt", ".tsv", ".csv", ".j2", ".json"}:
                digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    for library in _MAKERS:
        digest.update(f"{library} {version(library)}\0".encode())
    return digest.hexdigest()


def planned(config: Config, files: Files) -> ConfigEntry:
    """The manifest entry of a config before its rows are made; equal entries give equal rows."""
    return ConfigEntry(
        name=config.name,
        summary=config.summary,
        profile=config.profile,
        licence=config.licence,
        encoder=write.ENCODER,
        recipe=recipe(),
        columns={field.name: str(field.type) for field in config.schema},
        sources=[_source_entry(files[name]) for name in config.sources],
        embedded={file: file_sha256(ROOT / file) for file in config.embedded},
        cite=list(config.cite),
        splits={},
    )


def _source_entry(fetched: Fetched) -> SourceEntry:
    source, used = fetched.source, fetched.used
    pins = ("url", "sha256", "git_blob", "member")
    return SourceEntry(
        name=source.name,
        licence=source.licence,
        citation=source.citation,
        alternative=fetched.alternative,
        lacks=used.lacks,
        files=[{pin: value for pin in pins if (value := getattr(file, pin))} for file in used.files],
    )


def _intact(folder: Path, entry: ConfigEntry) -> bool:
    files = [(folder / split.file, split.sha256) for split in entry.splits.values()]
    return all(path.is_file() and file_sha256(path) == digest for path, digest in files)


class Rebuild:
    """One run of the command: fetches, builds beside the output, and publishes when all is whole."""

    def __init__(self, fetcher: Fetcher, out: Path, profile: Profile, progress: Progress) -> None:
        self.fetcher = fetcher
        self.out = out
        self.profile = profile
        self.progress = progress
        self.bar = progress.add_task("", total=0)
        self.configs = 0

    def stage(self, dataset: DataSet) -> Result:
        """Builds what is not current yet into a folder beside the published one.

        Configs that this run cannot or should not build stay as they were published, provided that
        their version is still the data set's.
        """
        target = self.out / dataset.name
        old = read_manifest(target)
        published = old.configs if old else {}
        plans, left_out = self._plan(dataset)
        carried = {name: entry for name, entry in published.items() if name not in plans}
        if carried and old and old.version != dataset.version:
            raise BuildError(
                f"{target} holds version {old.version} with the configs {', '.join(carried)}, which this run does not "
                f"rebuild for version {dataset.version}; rebuild them too or choose another --out."
            )
        for name, entry in carried.items():
            left_out.pop(name, None)
            if not _intact(target, entry):
                raise BuildError(
                    f"{target}: the files of {name} are not what its manifest says and this run does not rebuild them; "
                    "rebuild them with their sources or delete the folder."
                )
        for name, (entry, _) in plans.items():
            current = published.get(name)
            if current and replace(current, splits={}) == entry and _intact(target, current):
                carried[name] = current
        todo = {name: plan for name, plan in plans.items() if name not in carried}
        if not todo and not carried:
            return Result(dataset.name, None, None, frozenset(), left_out)
        self.configs += len(todo)
        self.progress.update(self.bar, total=self.configs)
        staged = self.out / f".new-{dataset.name}"
        entries = carried | {name: self._build(dataset, name, plan, staged) for name, plan in todo.items()}
        # Configs of the other profile stay left out for the reason they were.
        remembered = old.left_out if old and self.profile != Profile.all else {}
        manifest = self._manifest(dataset, entries, remembered | left_out)
        if not todo and old == manifest and _text(target / CARD) == dataset_card(manifest.json()):
            return Result(dataset.name, manifest, None, frozenset(), left_out)
        for entry in carried.values():
            for split in entry.splits.values():
                _link(target / split.file, staged / split.file)
        _check_leaks(dataset, manifest, staged)
        (staged / NAME).write_text(manifest.json(), encoding="utf-8")
        (staged / CARD).write_text(dataset_card(manifest.json()), encoding="utf-8")
        return Result(dataset.name, manifest, staged, frozenset(todo), left_out)

    def _plan(self, dataset: DataSet) -> tuple[dict[str, tuple[ConfigEntry, Files]], dict[str, str]]:
        """Configs that can be built now, with their sources, and why the others cannot."""
        plans: dict[str, tuple[ConfigEntry, Files]] = {}
        left_out = {}
        for config in dataset.configs:
            if self.profile in (Profile.all, config.profile):
                try:
                    files = {name: self.fetcher.get(catalogue().sources[name]) for name in config.sources}
                    plans[config.name] = planned(config, files), files
                except SourceUnavailable as error:
                    left_out[config.name] = str(error)
        return plans, left_out

    def _build(self, dataset: DataSet, name: str, plan: tuple[ConfigEntry, Files], staged: Path) -> ConfigEntry:
        self.progress.update(self.bar, description=f"{dataset.name} {name}")
        (config,) = (c for c in dataset.configs if c.name == name)
        entry, files = plan
        splits: dict[str, SplitEntry] = {}
        for split, (table, dropped) in write.tables(config, config.rows(files), dataset.language).items():
            splits[split] = write.write_split(staged, config, split, table, dropped)
        self.progress.advance(self.bar)
        return replace(entry, splits=splits)

    @staticmethod
    def _manifest(dataset: DataSet, entries: dict[str, ConfigEntry], left_out: dict[str, str]) -> Manifest:
        configs = {config.name: entries[config.name] for config in dataset.configs if config.name in entries}
        sources = [source for entry in configs.values() for source in entry.sources]
        licences = {entry.licence for entry in configs.values()} | {source.licence for source in sources}
        citations = {key for entry in configs.values() for key in entry.cite} | {s.citation for s in sources}
        known = catalogue()
        return Manifest(
            name=dataset.name,
            version=dataset.version,
            title=dataset.title,
            summary=dataset.summary,
            language=dataset.language,
            tags=list(dataset.tags),
            validity=dataset.validity,
            differences=list(dataset.differences),
            written=list(dataset.written),
            configs=configs,
            left_out={c.name: left_out[c.name] for c in dataset.configs if c.name in left_out.keys() - configs.keys()},
            licences={
                key: {"name": it.name, "url": it.url, "redistribute": it.redistribute}
                for key in sorted(licences)
                for it in [known.licences[key]]
            },
            citations={key: known.citations[key] for key in sorted(citations)},
        )


def _check_leaks(dataset: DataSet, manifest: Manifest, folder: Path) -> None:
    """No two splits share a phrase, over all configs that name the same column."""
    phrases: dict[str, dict[str, list[str]]] = {}
    for config in dataset.configs:
        if config.disjoint and config.name in manifest.configs:
            for split, entry in manifest.configs[config.name].splits.items():
                column = pq.read_table(folder / entry.file, columns=[config.disjoint])[config.disjoint]
                phrases.setdefault(config.disjoint, {}).setdefault(split, []).extend(column.to_pylist())
    for column_name, splits in phrases.items():
        check_disjoint(f"{dataset.name} ({column_name})", splits)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keeps a second rebuild out of the folder."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(out / ".lock", timeout=0):
            yield
    except Timeout:
        raise BuildError(f"Another rebuild is at work in {out}; wait for it or choose another --out.") from None


def rebuild(names: Sequence[str], fetcher: Fetcher, out: Path, profile: Profile, progress: Progress) -> list[Result]:
    """Builds the named data sets and puts them in place; on any error the old output stays whole.

    Raises
    ------
    BuildError
        When a source changed, a row is not what its config says, or two splits share a phrase.
    """
    with _alone(out):
        for name in datasets.names():
            write.recover(out / name)
        leftovers = [out / f".new-{name}" for name in datasets.names()]
        _remove(leftovers)
        try:
            run = Rebuild(fetcher, out, profile, progress)
            results = [run.stage(datasets.get(name)) for name in names]
            for result in results:
                if result.staged:
                    write.publish(result.staged, out / result.name)
            return results
        except OSError as error:
            raise BuildError(
                f"{error.strerror or error} while writing to {out}; the old output is as it was. "
                "Make room or choose another --out."
            ) from None
        finally:
            _remove(leftovers)


def _remove(folders: Sequence[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
