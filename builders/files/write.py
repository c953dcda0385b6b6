"""Checks rows and writes them to Parquet files."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from builders.dataset import BuildError, Config, Drop, Origin, Row
from builders.files.manifest import SplitEntry, file_sha256

ENCODER = f"pyarrow {pa.__version__}"
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


def tables(config: Config, rows: Iterable[Row | Drop], language: str) -> dict[str, tuple[pa.Table, dict[str, int]]]:
    """The checked table of each split, and the number of dropped records by reason.

    Raises
    ------
    BuildError
        When columns, types, split or id of a row do not agree with the config, or a split has no rows.
    """
    columns = {field.name: field.nullable for field in config.schema}
    rows_by_split: dict[str, list[dict[str, Any]]] = {split: [] for split in config.splits}
    dropped: dict[str, Counter[str]] = {split: Counter() for split in config.splits}
    # By id, to name both places of an id that occurs twice.
    seen: dict[str, Origin] = {}
    for row in rows:
        if row.split not in rows_by_split:
            raise BuildError(
                f"{_where(config, row.origin)} has the split {row.split!r}; the config has {', '.join(config.splits)}."
            )
        if isinstance(row, Drop):
            dropped[row.split][row.reason] += 1
            continue
        if row.id in seen:
            raise BuildError(
                f"{_where(config, row.origin)} has the id {row.id!r}, which {_where(config, seen[row.id])} has too; "
                "ids must be unique."
            )
        seen[row.id] = row.origin
        record = {
            "id": row.id,
            **row.values,
            "language": language,
            "source": row.origin.source,
            "source_file": row.origin.file,
            "source_row": row.origin.row,
            "licence": row.licence or config.licence,
        }
        if fault := _fault(record, columns):
            raise BuildError(f"{_where(config, row.origin)} {fault}.")
        rows_by_split[row.split].append(record)
    empty = [split for split, records in rows_by_split.items() if not records]
    if empty:
        raise BuildError(f"{config.name} has no row in {', '.join(empty)}; a published split must not be empty.")
    return {s: (_table(config, records), dict(sorted(dropped[s].items()))) for s, records in rows_by_split.items()}


def _where(config: Config, origin: Origin) -> str:
    return f"{config.name}: {origin.file} row {origin.row}"


def _fault(record: dict[str, Any], columns: dict[str, bool]) -> str:
    """What is wrong with a record, or an empty text; ``columns`` maps each name to whether it is nullable."""
    # Exactly the columns of the config: a missing one would be null without a word.
    if record.keys() != columns.keys():
        return f"differs from the config's columns in {', '.join(sorted(record.keys() ^ columns.keys()))}"
    for name, value in record.items():
        if value is None and not columns[name]:
            return f"has no {name}; the column may not be null"
        if isinstance(value, str) and (_CONTROL.search(value) or not (value or columns[name])):
            return f"has {value!r} as {name}; expected text without control characters"
    return ""


def _table(config: Config, records: list[dict[str, Any]]) -> pa.Table:
    try:
        return pa.Table.from_pylist(records, schema=config.schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BuildError(f"{config.name} has a value of another type than its column: {error}.") from None


def content_digest(table: pa.Table) -> str:
    """SHA-256 of the rows in order, independent of how Parquet encodes them."""
    digest = hashlib.sha256()
    for record in table.to_pylist():
        digest.update(json.dumps(record, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def write_split(folder: Path, config: Config, split: str, table: pa.Table, dropped: dict[str, int]) -> SplitEntry:
    """Writes ``data/CONFIG/SPLIT.parquet`` below the folder."""
    file = f"data/{config.name}/{split}.parquet"
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")
    return SplitEntry(file, table.num_rows, path.stat().st_size, file_sha256(path), content_digest(table), dropped)
