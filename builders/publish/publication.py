"""The files of a Hub repository for a built data-set folder, as far as licences allow to publish it."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from builders.dataset import BuildError
from builders.files.manifest import NAME, ConfigEntry, Manifest, SourceEntry, file_sha256, read_manifest
from builders.publish.published import PublishedConfig, licence_facts, published
from builders.sources.catalogue import catalogue
from builders.text.embedded import DATA
from cards.common import draw
from cards.common.packages import required
from cards.common.text import templates
from cards.common.verdict import Numbers
from cards.dataset_card import dataset_card, default_config, eval_yaml

TEXTS = DATA / "licences"
#: The folder of licence texts in a repository, with SPDX names, and the page about them.
FOLDER, PAGE = "LICENSES", "LICENSES.md"
#: The scores of real models, and the picture of them in a repository.
REAL_MODELS = Path(__file__).parents[2] / "scoring" / "data" / "real_models.csv"
PICTURE = "images/scores.svg"
#: The licence of what the project wrote itself.
OWN = "Apache-2.0"
#: The prefix of identifiers of licences without a standard text, and with that of licences that take a link.
_OTHER = "LicenseRef-"
_LINKED = (_OTHER, "CC-")


@dataclass(frozen=True, slots=True)
class Publication:
    """The files of a repository by path, as bytes or local files.

    ``benchmark`` is the text of ``eval.yaml``; None for a data set that is no benchmark. ``states`` has a line for
    each config, published or withheld with the reason. Without ``files`` nothing may be published.
    """

    repository: str
    version: str
    files: Mapping[str, bytes | Path]
    states: tuple[str, ...]
    benchmark: bytes | None = None

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
    described = set()
    for config in manifest.configs.values():
        for split in config.splits.values():
            path = folder / split.file
            if not path.is_file() or file_sha256(path) != split.sha256:
                raise BuildError(f"{path} is not the file that {NAME} describes; rebuild the folder.")
            described.add(split.file)
    files = {path.relative_to(folder).as_posix() for path in (folder / "data").rglob("*") if path.is_file()}
    # A file that no config describes would be published without a licence.
    unknown = sorted(files - described)
    if unknown:
        raise BuildError(f"{folder / unknown[0]} belongs to no config; take it out of the folder or rebuild it.")
    return manifest


def make_publication(folder: Path, organisation: str, url: str, *, restricted: bool = False) -> Publication:
    """The publication of a folder: data, card, manifest, ``eval.yaml``, Croissant and licence texts.

    Parameters
    ----------
    url:
        The address of the Hub.
    restricted:
        Publish also text that is left out by default. This needs the right to do so.

    Raises
    ------
    BuildError
        When a file is not as in the manifest, or the text of a licence or the package for Croissant is missing.
    """
    with required("Publishing", "hub", BuildError):
        from cards.formats.croissant import NAME as CROISSANT
        from cards.formats.croissant import croissant

    manifest = verified_manifest(folder)
    configs = {name: published(folder, manifest, name, restricted=restricted) for name in manifest.configs}
    entries = {name: config.entry for name, config in configs.items() if config.files}
    repository = f"{organisation}/{manifest.name}"
    # Own configs come before published ones, and whole ones before those without some text.
    shown = sorted(configs, key=lambda name: (name.endswith("-paper"), bool(configs[name].reason)))
    states = tuple(_state(name, configs[name]) for name in shown)
    if not entries:
        return Publication(repository, manifest.version, {}, states)
    left_out = dict(manifest.left_out)
    data: dict[str, bytes | Path] = {}
    for name, published_config in configs.items():
        data |= published_config.files
        if name not in entries:
            left_out[name] = f"not redistributed: {published_config.reason}"
    keys = set()
    for entry in entries.values():
        keys.add(entry.licence)
        keys.update(source.licence for source in entry.sources)
    licences = manifest.licences
    # A config may lack a licence where text that licences forbid is published too.
    if all(keys):
        licences = {key: dict(licence_facts(manifest, key)) for key in sorted(keys)}
    # The Hub has another card than the folder, and its users may edit it there.
    text = replace(manifest, configs=entries, left_out=left_out, licences=licences, card="")
    facts = text.json()
    row = _first_row(data, entries[default_config(asdict(text))])
    scores = published_scores(manifest)
    card = dataset_card(facts, organisation=organisation, row=row, scores=scores, picture=PICTURE)
    files: dict[str, bytes | Path] = {
        "README.md": card.encode(),
        NAME: facts.encode(),
        CROISSANT: croissant(facts, f"{url}/datasets/{repository}").encode(),
        PAGE: licence_page(text).encode(),
    }
    files |= licence_texts(text)
    files |= data
    if scores:
        lines = [(model, numbers) for model, numbers, _ in scores]
        files[PICTURE] = draw.models(lines, manifest.scores["title"], manifest.scores["ideal"])
    evaluation = eval_yaml(facts)
    benchmark = evaluation.encode() if evaluation else None
    # Sorted, so that the same folder gives the same commit.
    return Publication(repository, manifest.version, dict(sorted(files.items())), states, benchmark)


def published_scores(manifest: Manifest) -> list[tuple[str, Numbers, int]]:
    """The models whose answers others published: name, score with its interval, number of examples, by score.

    They are those of ``scoring/data/real_models.csv``, for the score that the data set declares.
    """
    declared = manifest.scores
    if not declared:
        return []
    found = []
    with REAL_MODELS.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if all(line[name] == declared[name] for name in ("benchmark", "group", "metric")):
                numbers = float(line["value"]), float(line["low"]), float(line["high"])
                found.append((line["model"], numbers, int(line["n"])))
    return sorted(found, key=lambda score: (score[1], score[0]))


def _state(name: str, config: PublishedConfig) -> str:
    """One line that says what is published of a config, and why not all."""
    if not config.files:
        return f"withheld   {name}: {config.reason}"
    rows = f"{sum(split.rows for split in config.entry.splits.values()):,} rows"
    if not config.reason:
        return f"published  {name}: {rows}, {config.entry.licence}"
    return f"published  {name}: {rows} without {', '.join(config.entry.quotes)}, because of {config.reason}"


def _first_row(files: Mapping[str, bytes | Path], config: ConfigEntry) -> dict[str, Any]:
    """The first row of the last split of a config, which the card loads."""
    # Read from what is published, so that the card shows no text that is left out.
    content = files[list(config.splits.values())[-1].file]
    table = pq.read_table(io.BytesIO(content) if isinstance(content, bytes) else content)
    row: dict[str, Any] = table.slice(0, 1).to_pylist()[0]
    return row


def licence_texts(manifest: Manifest) -> dict[str, bytes]:
    """The text of each licence of a data set, by its path in the repository.

    A standard licence that allows redistribution needs its text, except that the licences of Creative Commons take a
    link for it (section 3.a.1.C). Other licences are only linked on the page.

    Raises
    ------
    BuildError
        When the text of a licence is missing.
    """
    result = {}
    for key in sorted(_used(manifest) | {OWN}):
        file = _file(key)
        if file and file.is_file():
            result[f"{FOLDER}/{key}.txt"] = file.read_bytes()
        elif file or (licence_facts(manifest, key)["redistribute"] and not key.startswith(_LINKED)):
            raise BuildError(
                f"{manifest.name} is published under {key}, whose text is missing; add it to "
                f"builders/data/{TEXTS.name} and give the name of the file as its text in sources.toml."
            )
    return result


def licence_page(manifest: Manifest) -> str:
    """A Markdown page: each licence with its configs and sources, and the notices of the sources.

    Raises
    ------
    BuildError
        When a source has no notice in ``sources.toml``.
    """
    under, facts = {}, {}
    for key in sorted(_used(manifest)):
        configs = [name for name, config in manifest.configs.items() if config.licence == key]
        sources = sorted({source.name for source in _sources(manifest) if source.licence == key})
        under[key] = {"configs": configs, "sources": sources}
    # The page always names the licence of the project, under which are the card and the manifest.
    for key in under.keys() | {OWN}:
        facts[key] = {**licence_facts(manifest, key), "file": _file(key)}
    template = templates(DATA).get_template("licences.md.j2")
    return template.render(own=OWN, folder=FOLDER, facts=facts, under=under, notices=list(_notices(manifest)))


def _used(manifest: Manifest) -> set[str]:
    """The licences of the configs and of their sources."""
    licences = {source.licence for source in _sources(manifest)}
    licences.update(config.licence for config in manifest.configs.values())
    return licences


def _sources(manifest: Manifest) -> Iterator[SourceEntry]:
    """The sources that something is published of."""
    for config in manifest.configs.values():
        for source in config.sources:
            # A source that only decides which rows are left out gives no text.
            if source.name not in config.filters:
                yield source


def _file(key: str) -> Path | None:
    """The file with the text of a licence, or None."""
    licence = catalogue().licences.get(key)
    if licence is None or not licence.text:
        return None
    return TEXTS / licence.text


def _notices(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    """The copyright notices of the sources under standard licences, with the address of each statement."""
    sources = catalogue()
    standard = {source.name for source in _sources(manifest) if not source.licence.startswith(_OTHER)}
    for family in sorted({name.partition("/")[0] for name in standard}):
        if family not in sources.notices:
            # Standard licences require that the copyright notice goes with the copies.
            raise BuildError(f"{family} has no entry in [notices] of sources.toml; add where it states its licence.")
        yield family, sources.notices[family]
