"""Files of existing scores: Parquet, CSV or StereoSet's JSON; errors name the rows of wrong cells."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scoring.types import Floats, ScoringError

if TYPE_CHECKING:
    import pandas as pd


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
            self._frame = _frame(path, columns)
        except (pa.ArrowException, csv.Error, ValueError) as error:
            problem = " ".join(str(error).split())
            raise ScoringError(
                f"{path} cannot be read ({problem}); give Parquet, or CSV in UTF-8 with a header."
            ) from None
        _check_columns(path, self.columns, columns)
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
        # Each format has its own mark of a missing value; all become an empty text.
        return column.where(column.notna(), "").astype(str).str.strip()

    def texts(self, name: str) -> NDArray[Any]:
        """A column as text, without an empty cell."""
        texts = self.cells(name).to_numpy(dtype=object)
        self.refuse(texts == "", "has no {name} in {rows}; give one in every row.", name)
        return texts

    def numbers(self, name: str, *, may_lack: bool = False) -> Floats:
        """A column as finite numbers, NaN where it is empty and may be."""
        import pandas as pd

        text = self.cells(name)
        # The words that spreadsheets, R and Python write for a missing number.
        empty = text.str.lower().isin(["", "nan", "none", "null", "na"]).to_numpy(dtype=bool)
        values: Floats = pd.to_numeric(text.where(~empty, "nan"), errors="coerce").to_numpy(dtype=np.float64)
        wrong = ~np.isfinite(values) & ~empty
        self.refuse(wrong, "has {value!r} as {name} ({rows}); expected a finite number.", name)
        if not may_lack:
            self.refuse(empty, "has no {name} in {rows}; give a finite number or leave the row out.", name)
        return values

    def check_unique(self, ids: NDArray[Any], name: str) -> None:
        """Refuses an identifier that is there twice."""
        import pandas as pd

        twice = pd.Series(ids).duplicated().to_numpy()
        self.refuse(twice, "has the {name} {value!r} twice ({rows}); give each one row.", name, ids)

    def refuse(self, wrong: NDArray[np.bool_], problem: str, name: str, values: Iterable[Any] = ()) -> None:
        """Raises an error if a row is ``wrong``.

        ``problem`` is its text, with ``name``, ``rows`` and ``value``: the first wrong one of ``values``, by default
        of the cells of the column.
        """
        if not wrong.any():
            return
        places = np.flatnonzero(wrong)
        # Rows are counted from 1, without the header.
        text = ", ".join(str(place + 1) for place in places[:5])
        if len(places) == 1:
            text = f"row {text}"
        elif len(places) <= 5:
            text = f"rows {text}"
        else:
            text = f"rows {text} and {len(places) - 5} more"
        # The sentence shows the first wrong cell as it is in the file.
        cells = list(values) or self.cells(name).tolist()
        raise ScoringError(f"{self.path} {problem.format(name=name, rows=text, value=cells[places[0]])}")


def _check_columns(path: Path, present: Sequence[str], columns: Sequence[str]) -> None:
    """Refuses a file that lacks a column."""
    needed = ", ".join(columns)
    lacking = ", ".join(name for name in columns if name not in present)
    if not lacking:
        return
    if not present:
        raise ScoringError(f"{path} has no columns; it needs {needed}.")
    # The names in the file too, because a column is most often lacking under another name.
    raise ScoringError(f"{path} has the columns {', '.join(present)} but not {lacking}; it needs {needed}.")


def _frame(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """The rows of a file, whose format its first bytes say."""
    with path.open("rb") as file:
        start = file.read(4)
    # The first four bytes of every Parquet file.
    if start == b"PAR1":
        frame: pd.DataFrame = pq.read_table(path).to_pandas()
        return frame
    if start.startswith(b"{"):
        return _json(path)
    return _csv(path, columns)


def _json(path: Path) -> pd.DataFrame:
    """Predictions as StereoSet's code and bias-bench write them: a list of rows for each task."""
    import pandas as pd

    try:
        tasks = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        # What a file of brackets alone leads to; the caller takes it as any other text that is no JSON.
        raise ValueError("it is nested too deeply") from None
    wrong = ValueError("expected lists of rows by task")
    if not isinstance(tasks, dict):
        raise wrong
    cells = []
    for task, rows in tasks.items():
        if not isinstance(rows, list):
            raise wrong
        for row in rows:
            if not isinstance(row, dict):
                raise wrong
            cells.append({"task": task, **row})
    return pd.DataFrame(cells)


def _csv(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """A CSV file as texts; pandas itself would shift the cells of a row that has too many."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = [row for row in csv.reader(file, strict=True) if row]
    if not lines:
        lines = [[]]
    # Empty lines are left out, as spreadsheets write them at the end of a file.
    header, rows = lines[0], lines[1:]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise csv.Error(f"row {number} has {len(row)} cells, the header {len(header)}")
    # Before pandas is imported, which takes a second.
    _check_columns(path, header, columns)
    import pandas as pd

    return pd.DataFrame(rows, columns=header, dtype=object)
