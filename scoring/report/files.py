"""The files for programs: results.json and examples as Parquet, and how every file is put in place."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from scoring.types import Estimate, Report, ScoringError, Table

SCHEMA = 1


def file_name(benchmark: str) -> str:
    """The name of a benchmark's examples file; a name that had to change gets a mark that tells it from others.

    >>> file_name("unstereo"), file_name("../a b")
    ('unstereo.parquet', 'a-b-2c2c791a.parquet')
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", benchmark).strip("-.")[:80]
    mark = "" if safe == benchmark else "-" + hashlib.sha256(benchmark.encode()).hexdigest()[:8]
    return f"{safe}{mark}.parquet"


def results(report: Report, tables: Mapping[str, Table]) -> str:
    """The text of ``results.json``."""
    examples = {name: {"file": f"examples/{file_name(name)}", "rows": len(t["id"])} for name, t in tables.items()}
    return document({**asdict(report), "schema": SCHEMA, "examples": examples})


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
    """The report in a ``results.json``, or in the folder that holds one: what :func:`results` was given.

    Raises
    ------
    ScoringError
        When there is no such file, it is not of this schema, or a field is missing, unknown or holds
        something else than it should.
    """
    file = path / "results.json" if path.is_dir() else path
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise ScoringError(
            f"{file} cannot be read as results ({problem}); give a results.json or its folder."
        ) from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ScoringError(f"{file} is not results of schema {SCHEMA}; score the model again with this version.")
    try:
        named = _fields(Report, {k: v for k, v in found.items() if k not in {"schema", "examples"}}, "it")
        named["estimates"] = tuple(
            Estimate(**_fields(Estimate, entry, f"estimate {number}"))
            for number, entry in enumerate(named["estimates"], start=1)
        )
        named["speed"] = {name: _value(float, value) for name, value in named.get("speed", {}).items()}
        return Report(**named)
    except ValueError as error:
        raise ScoringError(f"{file} is no whole results file ({error}); score the model again.") from None


def _fields(kind: type, entry: Any, what: str) -> dict[str, Any]:
    """The fields of a dataclass from JSON; raises ValueError for missing, unknown or wrong ones."""
    if not isinstance(entry, dict):
        raise ValueError(f"{what} is no object")
    hints = get_type_hints(kind)
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    for problem, names in (("lacks", needed - entry.keys()), ("has the unknown field", entry.keys() - hints.keys())):
        if names:
            raise ValueError(f"{what} {problem} {', '.join(sorted(names))}")
    values = {}
    for name, value in entry.items():
        try:
            values[name] = _value(hints[name], value)
        except (TypeError, ValueError):
            raise ValueError(f"{what} has {_short(value)} as {name}") from None
    return values


def _value(hint: Any, value: Any) -> Any:
    """A value of a field from JSON, where null is a number that is not defined."""
    if hint is float:
        return math.nan if value is None else float(value)
    if hint == float | None:
        return None if value is None else float(value)
    kind = {Mapping: dict, tuple: list}.get(get_origin(hint), hint)
    if not isinstance(value, kind):
        raise TypeError
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


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
