"""results.json, results.md and examples as Parquet. What leaves a run is plain: no secrets, no numbers of a library."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import cards.results
from cards.text import CardError, cell, slug
from scoring.report.numbers import Scale, by_benchmark, by_metric, facts, interval, marked, methods, scale
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
        of_file = {"sha256": hashlib.sha256(files[file]).hexdigest()} if file in files else {}
        examples[name] = {"file": file, "rows": len(table["id"]), **of_file}
    return cards.results.text(report, examples)


def read(path: Path) -> Report:
    """The report in a ``results.json``, or in the folder that has one.

    Raises
    ------
    ScoringError
        When there is no such file, it has another schema, or a field is missing, unknown or of another type.
    """
    try:
        return cards.results.load(path)
    except CardError as error:
        raise ScoringError(str(error)) from None


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


def markdown(report: Report) -> str:
    """The text of ``results.md``."""
    lines = ["# Scores", "", *(f"- {name}: {cell(text)}" for name, text in facts(report).items()), ""]
    lines += ["| benchmark | group | metric | value [95 % interval] | ideal | n | clusters |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    for estimates in by_benchmark(report.estimates).values():
        scales = {name: scale(group) for name, group in by_metric(estimates).items()}
        lines += [_line(e, scales[e.metric]) for e in estimates]
    lines += ["", *(f"- {sentence}" for sentence in methods(report.estimates))]
    return "\n".join(lines) + "\n"


def _line(e: Estimate, on: Scale) -> str:
    value = " ".join(filter(None, (on.text(e.value), interval(e, on), marked(e), e.why and f"({cell(e.why)})")))
    ideal = "" if e.ideal is None else on.text(e.ideal)
    return f"| {' | '.join([*map(cell, (e.benchmark, e.group, e.metric)), value, ideal, str(e.n), str(e.clusters)])} |"


def cleaned(value: Any, hide: Callable[[Any], Any]) -> Any:
    """A report or a comparison in plain Python values, without secrets.

    Raises
    ------
    ScoringError
        For a value that JSON has no form for.
    """
    match value:
        case np.generic():
            return cleaned(value.item(), hide)
        case Mapping():
            return {str(hide(str(k))): cleaned(v, hide) for k, v in value.items()}
        case list() | tuple():
            return type(value)(cleaned(v, hide) for v in value)
        case str() | int() | float() | None:
            return hide(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: cleaned(getattr(value, f.name), hide) for f in fields(value)})
    raise ScoringError(f"The report holds {value!r}, a {type(value).__name__}; use text, numbers, lists and mappings.")


def clean_table(table: Table, hide: Callable[[Any], Any]) -> dict[str, NDArray[Any]]:
    """The table without secrets in its texts."""
    return {
        name: np.array([hide(v) for v in column.tolist()], dtype=object) if column.dtype.kind in "OUT" else column
        for name, column in table.items()
    }
