"""Building and reading data sets from Python; the command ``probes build`` does the same.

Imports are made when a function is called, so importing this module is cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from builders.builder import BuildResult


def build(
    *names: str,
    out: str | Path = "output",
    mirror: str | Path | None = None,
    offline: bool = False,
    profile: Literal["all", "clean", "paper"] = "all",
    include: str | Path | Sequence[str | Path] = (),
) -> list[BuildResult]:
    """Builds data sets into a folder: ``build("occugender", out="output")``.

    Parameters
    ----------
    names:
        Names of data sets; without names, all are built.
    out:
        The folder that has one folder for each data set.
    mirror:
        Folder with the source files as HOST/PATH; by default that of ``PROBES_MIRROR``.
    offline:
        Use no network; configs whose sources are neither mirrored nor cached are left out.
    profile:
        Build published definitions (``paper``), this project's own (``clean``), or ``all``.
    include:
        Python files outside the project that define a ``DATASET``.

    Raises
    ------
    builders.dataset.BuildError
        When a name is unknown, a source changed, or a row is wrong. The old folders stay as they were.
    """
    from builders import datasets
    from builders.builder import Profile, build_datasets
    from builders.dataset import BuildError
    from builders.sources.fetch import Fetcher, default_cache, default_mirror
    from cards.common.options import checked, in_python, visible_console
    from cards.common.progress import Progress

    wanted = {"out": Path, "mirror": Path | None, "offline": bool, "profile": Literal["all", "clean", "paper"]}
    options = {"out": out, "mirror": mirror, "offline": offline, "profile": profile}
    chosen = {name: checked(name, hint, options[name], BuildError) for name, hint in wanted.items()}
    for path in checked("include", list[Path], include, BuildError):
        datasets.include(path)
    console = visible_console()
    with in_python(BuildError), Progress(disable=console.quiet, console=console, transient=True) as progress:
        for name in checked("names", list[str], names, BuildError):
            datasets.get(name)
        fetcher = Fetcher(default_cache(), chosen["mirror"] or default_mirror(), offline, progress)
        return build_datasets(names or datasets.names(), fetcher, chosen["out"], Profile(profile), progress)


@overload
def load(name: str, config: str = "", split: None = None, *, out: str | Path = "output") -> DatasetDict: ...
@overload
def load(name: str, config: str = "", *, split: str, out: str | Path = "output") -> Dataset: ...
@overload
def load(name: str, config: str, split: str, *, out: str | Path = "output") -> Dataset: ...
def load(name: str, config: str = "", split: str | None = None, *, out: str | Path = "output") -> Dataset | DatasetDict:
    """The rows of a built config: ``load("occugender", "jobs")``.

    Parameters
    ----------
    split:
        With a split the result is a ``datasets.Dataset``; without, a ``datasets.DatasetDict`` of all splits.
    out:
        The folder in which :func:`build` has written.

    Raises
    ------
    builders.dataset.BuildError
        When the folder has no such data set, config or split, or a file is not the one of its manifest.
    """
    import pyarrow.parquet as pq
    from datasets import Dataset, DatasetDict, NamedSplit

    from builders.dataset import BuildError
    from builders.files.manifest import NAME, file_sha256, read_manifest
    from cards.common.options import checked

    folder = checked("out", Path, out, BuildError) / checked("name", str, name, BuildError)
    manifest = read_manifest(folder)
    if manifest is None:
        raise BuildError(f"{folder} has no data set; build it with builders.build({name!r}, out={str(out)!r}).")
    if config not in manifest.configs:
        raise BuildError(f"{folder} has no config {config!r}; give one of {', '.join(manifest.configs)}.")
    splits = manifest.configs[config].splits
    if split is not None and split not in splits:
        raise BuildError(f"{config} has no split {split!r}; it has {', '.join(splits)}.")
    chosen = {name: entry for name, entry in splits.items() if split in (None, name)}
    for entry in chosen.values():
        path = folder / entry.file
        if not path.is_file() or file_sha256(path) != entry.sha256:
            raise BuildError(f"{path} is not the file that {NAME} describes; build the data set again.")
    # Not by load_dataset, whose cache can return the rows of an earlier build.
    rows = {name: Dataset(pq.read_table(folder / entry.file), split=NamedSplit(name)) for name, entry in chosen.items()}
    return DatasetDict(rows) if split is None else rows[split]


def with_text(
    rows: Dataset | DatasetDict,
    dataset: str = "",
    config: str = "",
    *,
    mirror: str | Path | None = None,
    offline: bool = False,
) -> Dataset | DatasetDict:
    """Published rows with the text that a licence does not allow to publish, read from its source.

    ``with_text(load_dataset("org/gender-neutral-probes", "stsb"))`` returns the rows of a local build. The source
    is downloaded once, or read from the mirror, and every text is checked by its published hash. Rows that lack
    nothing are returned as they are.

    Parameters
    ----------
    dataset, config:
        The names of data set and config; by default those that ``load_dataset`` noted.
    mirror, offline:
        As for :func:`build`.

    Raises
    ------
    builders.dataset.BuildError
        When the names are not known, a source is not available, or a text does not have its published hash.
    """
    from datasets import Dataset, DatasetDict

    from builders.dataset import BuildError
    from builders.publish.restore import lacking, restored

    if isinstance(rows, DatasetDict):
        return DatasetDict(
            {split: with_text(part, dataset, config, mirror=mirror, offline=offline) for split, part in rows.items()}
        )
    if not lacking(rows.column_names):
        return rows
    dataset, config = dataset or rows.info.dataset_name or "", config or rows.info.config_name or ""
    if not dataset or not config:
        raise BuildError(
            "These rows do not say of which data set they are; give with_text the data set and the config."
        )
    table = rows.with_format("arrow")[:]
    whole = restored(table, dataset, config, mirror=Path(mirror) if mirror else None, offline=offline)
    return Dataset(whole, split=rows.split)
