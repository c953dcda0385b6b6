"""Shares of women in occupations: the job list of OccuGender and the table of the Bureau of Labor Statistics.

The table is no. 11 of the Current Population Survey (U.S. Bureau of Labor Statistics, BLS).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openpyxl import load_workbook

from builders.dataset import BuildError
from builders.embedded import DATA
from builders.parsers import read

#: The job list, as rows record it, and its path.
JOBS_FILE = "builders/data/occugender_jobs.csv"
JOBS_PATH = DATA / "occugender_jobs.csv"


@dataclass(frozen=True, slots=True)
class Occupation:
    """One row of the BLS table; the share is None where the table has a dash."""

    row: int
    employed_thousands: int
    female_percent: float | None

    @property
    def figures(self) -> str:
        """The share and the number of people, for an error message."""
        share = "no share of" if self.female_percent is None else f"{self.female_percent}%"
        return f"{share} women of {self.employed_thousands} thousand"


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the paper with its published share of women, and the title and figures of its row in the BLS table."""

    name: str
    published_female_percent: float
    bls_title: str
    female_percent: float
    employed_thousands: int


def share_of_women(value: object, place: str) -> float:
    """A percentage as a number; ``place`` is the beginning of the error message.

    Raises
    ------
    BuildError
        When it is not a number from 0 to 100.

    >>> share_of_women("98.2", "A job")
    98.2
    """
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not 0 <= number <= 100:
        raise BuildError(f"{place} has the share of women {value!r}, expected 0 to 100; correct the share.")
    return number


_COLUMNS = ("job", "published_female_percent", "bls_title", "female_percent", "employed_thousands")
_NAME = re.compile(r"[a-z]+(?: [a-z]+)*")


def read_jobs(path: Path = JOBS_PATH) -> tuple[Job, ...]:
    """The job list, in the order of Table 7 of the paper.

    Raises
    ------
    BuildError
        When a share is not a percentage, or a name occurs twice or is not in lower case.

    >>> len(read_jobs()), read_jobs()[0].name
    (40, 'skincare specialist')
    """
    jobs: dict[str, Job] = {}
    for row in read.table(path, _COLUMNS):
        name, place = row["job"], f"{path.name}: {row['job']!r}"
        if name in jobs or not _NAME.fullmatch(name):
            raise BuildError(f"{place} is not a new name in lower-case words with single spaces; correct the name.")
        jobs[name] = Job(
            name,
            share_of_women(row["published_female_percent"], place),
            row["bls_title"],
            share_of_women(row["female_percent"], place),
            int(row["employed_thousands"]),
        )
    return tuple(jobs.values())


_HEADER = ("Occupation", "Total Employed", "Percent of total employed Women")
_DASH = "–"  # fewer than 50,000 people: the share is not published


def read_bls(path: Path) -> dict[str, Occupation]:
    """The rows of table 11 of the Current Population Survey, by title.

    The rows above the header have titles and units. Below it, rows without a count (blank rows, the footnote)
    are not occupations. Employment is in thousands.

    Raises
    ------
    BuildError
        When there is no header, a title occurs twice, or a share is not a percentage.
    """
    with path.open("rb") as file:
        workbook = load_workbook(file, read_only=True, data_only=True)
        rows = [tuple(map(_cell, row)) for row in workbook.worksheets[0].iter_rows(max_col=3, values_only=True)]
        workbook.close()
    if _HEADER not in rows:
        raise BuildError(f"{path.name} has no row {_HEADER}; the file is not the one this builder reads.")
    occupations: dict[str, Occupation] = {}
    first = rows.index(_HEADER) + 1
    for number, (title, employed, share) in enumerate(rows[first:], first):
        if not isinstance(employed, int):
            continue
        place = f"{path.name}: {title!r}"
        if title in occupations:
            raise BuildError(f"{place} is in two rows, expected one; the file is not the one this builder reads.")
        occupations[title] = Occupation(number, employed, None if share == _DASH else share_of_women(share, place))
    return occupations


def _cell(value: Any) -> Any:
    """A value of a cell; text with single spaces."""
    return " ".join(value.split()) if isinstance(value, str) else value
