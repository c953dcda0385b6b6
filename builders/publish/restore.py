"""Restores the columns that a published config lacks because of a licence, from the sources themselves.

A config is published without its column ``statement`` if a licence does not allow others to publish the text. It has
the column ``statement_sha256`` instead, the SHA-256 of the text in UTF-8. Here the pinned source is read on this
machine, the text is found by the id of the row, and its hash is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from builders import datasets
from builders.dataset import BuildError, Config, Row
from builders.sources.catalogue import catalogue

if TYPE_CHECKING:
    from builders.sources.fetch import Fetcher

#: The end of the name of a column with the hashes of a text.
HASH = "_sha256"


def text_digest(text: str | list[str]) -> str:
    r"""SHA-256 of a text in UTF-8, in hexadecimal; of a list of texts, with ``\x1f`` between them."""
    if not isinstance(text, str):
        # The unit separator occurs in no text, so other lists of texts have other digests.
        text = "\x1f".join(text)
    return hashlib.sha256(text.encode()).hexdigest()


def lacking(columns: Iterable[str]) -> list[str]:
    """The columns of which a table has only the hashes.

    >>> lacking(["id", "prompt_sha256", "source"])
    ['prompt']
    """
    names = set(columns)
    hashed = [name.removesuffix(HASH) for name in columns if name.endswith(HASH)]
    return [name for name in hashed if name not in names]


def restored(
    table: pa.Table, dataset: str, config: str, *, mirror: Path | None = None, offline: bool = False
) -> pa.Table:
    """A published table with the columns that it lacks, equal to the table of a local build.

    A table that lacks none is returned as it is.

    Raises
    ------
    BuildError
        When there is no such config, a source is not available, or a text does not have the hash of its row.
    """
    names = lacking(table.column_names)
    if not names:
        return table
    configs = {declared.name: declared for declared in datasets.get(dataset).configs}
    if config not in configs:
        raise BuildError(f"{dataset} has no config {config}; give the name it was published under.")
    chosen = configs[config]
    # With the downloads comes an HTTP client, which rows without hashes do not need.
    from builders.sources.fetch import Fetcher, default_cache, default_mirror

    texts = _texts(chosen, names, Fetcher(default_cache(), mirror or default_mirror(), offline))
    rows = []
    for row in table.to_pylist():
        text = _matching(row, names, texts, config)
        columns = {name: value for name, value in row.items() if not name.endswith(HASH)}
        rows.append(columns | text)
    # The declared schema has the columns in the order of a local build.
    return pa.Table.from_pylist(rows, schema=chosen.schema)


def _texts(config: Config, names: list[str], fetcher: Fetcher) -> dict[str, list[dict[str, str]]]:
    """The restored columns by row id; an id may have several texts, which differ in their hashes."""
    files = {}
    for name in config.sources:
        # Sources that only leave out rows are not needed: the published rows are those that were kept.
        if name not in config.filters:
            source = catalogue().sources[name]
            files[source.name] = fetcher.get(source)
    rows = config.quoted or config.rows
    texts: dict[str, list[dict[str, str]]] = {}
    for row in rows(files):
        if isinstance(row, Row):
            texts.setdefault(row.id, []).append({name: row.values[name] for name in names})
    return texts


def _matching(
    row: Mapping[str, str], names: list[str], texts: Mapping[str, list[dict[str, str]]], config: str
) -> dict[str, str]:
    """The text of a row, by its id and its hashes."""
    # Ids ignore case and white space, so several texts may have one; the hash tells them apart.
    for text in texts.get(row["id"], []):
        if all(text_digest(text[name]) == row[name + HASH] for name in names):
            return text
    raise BuildError(
        f"{config}: the sources do not have the text of row {row['id']} with the published hash; load the "
        "revision that this version of the package builds."
    )
