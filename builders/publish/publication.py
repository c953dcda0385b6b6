"""The files of a Hub repository for a built data-set folder, without configs that may not be redistributed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from builders.dataset import BuildError
from builders.manifest import NAME, ConfigEntry, Manifest, file_sha256, read_manifest
from builders.publish import licences
from cards.benchmark import eval_yaml
from cards.dataset_card import dataset_card


@dataclass(frozen=True, slots=True)
class Publication:
    """The files of a repository by path, as bytes or local files; ``withheld`` maps withheld configs to the reason."""

    repository: str
    version: str
    files: Mapping[str, bytes | Path]
    withheld: Mapping[str, str]

    @property
    def tag(self) -> str:
        """The tag of the version."""
        return f"v{self.version}"


def verified_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, after checking that the data files are exactly those it describes.

    Raises
    ------
    BuildError
        When a file is missing, changed, or not described.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise BuildError(f"{folder} has no {NAME}; give a folder that builders.rebuild has written.")
    splits = {split.file: split for config in manifest.configs.values() for split in config.splits.values()}
    for file, split in splits.items():
        if not (folder / file).is_file() or file_sha256(folder / file) != split.sha256:
            raise BuildError(f"{folder / file} is not the file that {NAME} describes; rebuild the folder.")
    files = {path.relative_to(folder).as_posix() for path in (folder / "data").rglob("*") if path.is_file()}
    if unknown := sorted(files - splits.keys()):
        raise BuildError(f"{folder / unknown[0]} belongs to no config; take it out of the folder or rebuild it.")
    return manifest


def withheld_configs(manifest: Manifest) -> dict[str, str]:
    """The configs that only their source may redistribute, each with the licence and the source as the reason.

    Raises
    ------
    BuildError
        When a config or a source has no licence, or one that the manifest does not describe.
    """
    withheld = {}
    for name, config in manifest.configs.items():
        owners = {config.licence: "its rows", **{source.licence: source.name for source in config.sources}}
        if not all(owners):
            raise BuildError(
                f"{manifest.name}: {name} ({owners['']}) has no licence; nothing is published without one."
            )
        closed = [f"{manifest.licences[key]['name']} ({owners[key]})" for key in owners if not _is_open(manifest, key)]
        if closed:
            withheld[name] = "; ".join(closed)
    return withheld


def _is_open(manifest: Manifest, licence: str) -> bool:
    if licence not in manifest.licences:
        raise BuildError(f"{manifest.name} names the licence {licence!r} without describing it; rebuild the folder.")
    return bool(manifest.licences[licence]["redistribute"])


def make_publication(folder: Path, organisation: str, url: str, *, restricted: bool = False) -> Publication:
    """The publication of a folder: data, card, manifest, ``eval.yaml``, Croissant and licence texts.

    Parameters
    ----------
    url:
        The address of the Hub.
    restricted:
        Publish also the configs that are withheld by default. This needs the right to do so.

    Raises
    ------
    BuildError
        When a file is not as in the manifest, or the text of a licence or the package for Croissant is missing.
    """
    try:
        from cards.croissant import NAME as CROISSANT
        from cards.croissant import croissant
    except ImportError:
        raise BuildError("Publishing needs the package mlcroissant; install it with pip install '.[hub]'.") from None

    manifest = verified_manifest(folder)
    closed = {} if restricted else withheld_configs(manifest)
    kept = {name: config for name, config in manifest.configs.items() if name not in closed}
    repository = f"{organisation}/{manifest.name}"
    if not kept:
        return Publication(repository, manifest.version, {}, closed)
    reasons = {name: f"not redistributed: {reason}" for name, reason in closed.items()}
    published = replace(manifest, configs=kept, left_out={**manifest.left_out, **reasons})
    text = published.json()
    files: dict[str, bytes | Path] = {
        "README.md": dataset_card(text, organisation=organisation, row=_first_row(folder, kept)).encode(),
        NAME: text.encode(),
        CROISSANT: croissant(text, f"{url}/datasets/{repository}").encode(),
        licences.PAGE: licences.page(published).encode(),
        **licences.texts(published),
    }
    if evaluation := eval_yaml(text):
        files["eval.yaml"] = evaluation.encode()
    files |= {split.file: folder / split.file for config in kept.values() for split in config.splits.values()}
    return Publication(repository, manifest.version, dict(sorted(files.items())), closed)


def _first_row(folder: Path, configs: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    """The first row of the first config."""
    first = next(iter(next(iter(configs.values())).splits.values()))
    row: dict[str, Any] = pq.read_table(folder / first.file).slice(0, 1).to_pylist()[0]
    return row
