"""Reads existing scores from Parquet or CSV; errors name the rows of wrong cells."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scoring.types import Floats, ScoringError


def read(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """The file's rows; its cells are not yet checked.

    Raises
    ------
    ScoringError
        When there is no such file, it is neither Parquet nor CSV, has no row, or lacks a column.
    """
    if not path.is_file():
        raise ScoringError(f"There is no file {path}; give a Parquet or CSV file with the columns {listed(columns)}.")
    try:
        with path.open("rb") as file:
            is_parquet = file.read(4) == b"PAR1"
        frame: pd.DataFrame = pq.read_table(path).to_pandas() if is_parquet else _csv(path)
    except (pa.ArrowException, csv.Error, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise ScoringError(f"{path} cannot be read ({problem}); give Parquet, or CSV in UTF-8 with a header.") from None
    lacking = [name for name in columns if name not in frame.columns]
    if lacking:
        there = (
            f"the columns {listed(map(str, frame.columns))} but not {listed(lacking)}"
            if len(frame.columns)
            else "no columns"
        )
        raise ScoringError(f"{path} has {there}; it needs {listed(columns)}.")
    if frame.empty:
        raise ScoringError(f"{path} has no rows; give one for each scored example.")
    return frame.reset_index(drop=True)


def _csv(path: Path) -> pd.DataFrame:
    """A CSV file as texts; pandas itself would shift the cells of a row that has too many."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = [row for row in csv.reader(file, strict=True) if row] or [[]]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise csv.Error(f"row {number} has {len(row)} cells, the header {len(header)}")
    return pd.DataFrame(rows, columns=header, dtype=object)


def listed(names: Iterable[str]) -> str:
    """Names for a sentence."""
    return ", ".join(names)


def places(wrong: NDArray[np.bool_]) -> str:
    """The first few row numbers, counted from 1 without the header."""
    rows = np.flatnonzero(wrong) + 1
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return f"{'row' if len(rows) == 1 else 'rows'} {listed(map(str, rows[:5]))}{more}"


def numbers(frame: pd.DataFrame, name: str, path: Path, *, may_lack: bool = False) -> Floats:
    """A column as numbers, NaN where it is empty and may be.

    Raises
    ------
    ScoringError
        When a cell holds no finite number; names the rows, counted from 1.
    """
    text = cells(frame, name)
    empty = text.str.lower().isin(["", "nan", "none", "null", "na"]).to_numpy(dtype=bool)
    values: Floats = pd.to_numeric(text.where(~empty, "nan"), errors="coerce").to_numpy(dtype=np.float64)
    wrong = ~np.isfinite(values) & ~empty
    if wrong.any():
        shown = text[wrong].iloc[0]
        raise ScoringError(f"{path} has {shown!r} as {name} ({places(wrong)}); expected a finite number.")
    if empty.any() and not may_lack:
        raise ScoringError(f"{path} has no {name} in {places(empty)}; give a finite number or leave the row out.")
    return values


def cells(frame: pd.DataFrame, name: str) -> pd.Series[str]:
    """A column as text, empty where there is nothing."""
    column = frame[name].astype(object)
    return column.where(column.notna(), "").astype(str).str.strip()


def texts(frame: pd.DataFrame, name: str, path: Path) -> NDArray[Any]:
    """A column as text.

    Raises
    ------
    ScoringError
        When a cell is empty.
    """
    found = cells(frame, name).to_numpy(dtype=object)
    if (found == "").any():
        raise ScoringError(f"{path} has no {name} in {places(found == '')}; give one in every row.")
    return found


def unique(ids: Sequence[str] | NDArray[Any], path: Path, what: str) -> None:
    """Checks identifiers, called ``what`` in the error.

    Raises
    ------
    ScoringError
        When one is there twice.
    """
    twice = pd.Series(ids).duplicated().to_numpy()
    if twice.any():
        shown = ids[int(np.flatnonzero(twice)[0])]
        raise ScoringError(f"{path} has the {what} {shown!r} twice ({places(twice)}); give each one row.")
