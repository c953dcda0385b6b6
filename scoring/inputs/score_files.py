"""Files of existing scores: Parquet, CSV or StereoSet's JSON; errors name the rows of wrong cells."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scoring.types import Floats, ScoringError


class ScoreFile:
    """The rows of a file, whose cells are checked when a column is taken.

    Raises
    ------
    ScoringError
        When there is no such file, it is neither Parquet nor CSV, has no row, or lacks one of ``columns``.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path = path
        needed = ", ".join(columns)
        if not path.is_file():
            with_columns = f" with the columns {needed}" if needed else ""
            raise ScoringError(f"There is no file {path}; give a Parquet or CSV file{with_columns}.")
        try:
            with path.open("rb") as file:
                start = file.read(4)
            read = _json if start[:1] == b"{" else _csv
            self._frame: pd.DataFrame = pq.read_table(path).to_pandas() if start == b"PAR1" else read(path)
        except (pa.ArrowException, csv.Error, ValueError) as error:
            problem = " ".join(str(error).split())
            raise ScoringError(
                f"{path} cannot be read ({problem}); give Parquet, or CSV in UTF-8 with a header."
            ) from None
        given = ", ".join(map(str, self._frame.columns))
        if lacking := ", ".join(name for name in columns if name not in self._frame):
            there = f"the columns {given} but not {lacking}" if given else "no columns"
            raise ScoringError(f"{path} has {there}; it needs {needed}.")
        if self._frame.empty:
            raise ScoringError(f"{path} has no rows; give one for each scored example.")

    def __len__(self) -> int:
        return len(self._frame)

    def __contains__(self, column: str) -> bool:
        return column in self._frame

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in their order."""
        return [str(name) for name in self._frame.columns]

    def cells(self, name: str) -> pd.Series[str]:
        """A column as text, empty where there is nothing."""
        column = self._frame[name].astype(object)
        return column.where(column.notna(), "").astype(str).str.strip()

    def texts(self, name: str) -> NDArray[Any]:
        """A column as text, without an empty cell."""
        texts = self.cells(name).to_numpy(dtype=object)
        self.refuse(texts == "", "has no {name} in {rows}; give one in every row.", name)
        return texts

    def numbers(self, name: str, *, may_lack: bool = False) -> Floats:
        """A column as finite numbers, NaN where it is empty and may be."""
        text = self.cells(name)
        empty = text.str.lower().isin(["", "nan", "none", "null", "na"]).to_numpy(dtype=bool)
        values: Floats = pd.to_numeric(text.where(~empty, "nan"), errors="coerce").to_numpy(dtype=np.float64)
        wrong = ~np.isfinite(values) & ~empty
        self.refuse(wrong, "has {value!r} as {name} ({rows}); expected a finite number.", name)
        if not may_lack:
            self.refuse(empty, "has no {name} in {rows}; give a finite number or leave the row out.", name)
        return values

    def check_unique(self, ids: NDArray[Any], name: str) -> None:
        """Refuses an identifier that is there twice."""
        twice = pd.Series(ids).duplicated().to_numpy()
        self.refuse(twice, "has the {name} {value!r} twice ({rows}); give each one row.", name, ids)

    def refuse(self, wrong: NDArray[np.bool_], problem: str, name: str, values: Iterable[Any] = ()) -> None:
        """Raises an error if a row is ``wrong``.

        ``problem`` is its text, with ``name``, ``rows`` and ``value``: the first wrong one of ``values``, by default
        of the cells of the column.
        """
        if not wrong.any():
            return
        rows = np.flatnonzero(wrong) + 1
        shown = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
        value = (list(values) or self.cells(name).tolist())[rows[0] - 1]
        rows_text = f"{'row' if len(rows) == 1 else 'rows'} {shown}"
        raise ScoringError(f"{self.path} {problem.format(name=name, rows=rows_text, value=value)}")


def _json(path: Path) -> pd.DataFrame:
    """Predictions as StereoSet's code and bias-bench write them: a list of rows for each task."""
    try:
        tasks = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    lists = tasks.values() if isinstance(tasks, dict) else [None]
    if not all(isinstance(rows, list) and all(isinstance(row, dict) for row in rows) for rows in lists):
        raise ValueError("expected lists of rows by task")
    return pd.DataFrame([{"task": task, **row} for task, rows in tasks.items() for row in rows])


def _csv(path: Path) -> pd.DataFrame:
    """A CSV file as texts; pandas itself would shift the cells of a row that has too many."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = [row for row in csv.reader(file, strict=True) if row] or [[]]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise csv.Error(f"row {number} has {len(row)} cells, the header {len(header)}")
    return pd.DataFrame(rows, columns=header, dtype=object)
