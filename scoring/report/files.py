"""The files for programs: results.json and examples as Parquet, and how every file is put in place."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import cards.results
from cards.results import SCHEMA
from cards.text import CardError, slug
from scoring.types import Estimate, Report, ScoringError, Table


def file_name(benchmark: str) -> str:
    """The name of a benchmark's examples file.

    >>> file_name("unstereo"), file_name("../a b")
    ('unstereo.parquet', 'a-b-2c2c791a.parquet')
    """
    return f"{slug(benchmark)}.parquet"


def results(report: Report, tables: Mapping[str, Table], files: Mapping[str, bytes] = MappingProxyType({})) -> str:
    """The text of ``results.json``; ``files`` has the examples by their path, whose checksums it records."""
    examples: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        file = f"examples/{file_name(name)}"
        checksum = {"sha256": hashlib.sha256(files[file]).hexdigest()} if file in files else {}
        examples[name] = {"file": file, "rows": len(table["id"]), **checksum}
    content = _finite({**asdict(report), "schema": SCHEMA, "examples": examples})
    return document(content | {"sha256": cards.results.checksum(content)})


def document(facts: Mapping[str, Any]) -> str:
    """A mapping as JSON that a page may hold."""
    text = json.dumps(_finite(facts), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    # A "<" before what could start a tag is spelt as an escape: the file stays harmless inside a page.
    return re.sub(r"<(?=[A-Za-z/!?])", r"\\u003c", text) + "\n"


def _finite(value: Any) -> Any:
    match value:
        case Mapping():
            return {k: _finite(v) for k, v in value.items()}
        case list() | tuple():
            return [_finite(v) for v in value]
        case float() if not math.isfinite(value):
            return None if math.isnan(value) else str(value)
    return value


def read(path: Path) -> Report:
    """The report in a ``results.json``, or in the folder that has one.

    Raises
    ------
    ScoringError
        When there is no such file, it has another schema, or a field is missing, unknown or of another type.
    """
    try:
        run = asdict(cards.results.load(path))
    except CardError as error:
        raise ScoringError(str(error)) from None
    estimates = tuple(Estimate(**score) for score in run["estimates"])
    return Report(**{f.name: run[f.name] for f in fields(Report)} | {"estimates": estimates})


def parquet(benchmark: str, table: Table) -> bytes:
    """A table of examples as Parquet.

    Raises
    ------
    ScoringError
        When there is no ``id``, columns differ in length or one mixes types.
    """
    if "id" not in table:
        raise ScoringError(f"The examples of {benchmark} have no column id; give every example an identifier.")
    try:
        columns = {
            name: pa.array(column.tolist() if column.dtype == object else column) for name, column in table.items()
        }
        stored = pa.table(columns)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ScoringError(
            f"The examples of {benchmark} cannot be stored ({error}); give columns of one type and length."
        ) from error
    file = io.BytesIO()
    pq.write_table(stored, file, compression="zstd")
    return file.getvalue()
