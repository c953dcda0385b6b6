"""The review file: a tab-separated table in which a person accepts or rejects rows, read at the next run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.generation.pipeline import FilterLog
from builders.generation.responses import ChatError
from builders.parsers import read

_VERDICTS = ("accepted", "rejected", "")


@dataclass(frozen=True, slots=True)
class Review:
    """The verdict on a row (``accepted``, ``rejected`` or empty) and a note."""

    verdict: str
    note: str


def read_reviews(path: Path) -> dict[str, Review]:
    """The reviews by row id; empty when there is no file.

    Only the first three columns are read (``id``, ``verdict``, ``note``), so a spreadsheet program may change
    the others.

    Raises
    ------
    ChatError
        When a verdict is neither "accepted" nor "rejected".
    """
    if not path.is_file():
        return {}
    reviews = {}
    for number, line in enumerate(read.lines(path)[1:], 2):
        row_id, verdict, note, *_ = (cell.strip().strip('"') for cell in (line + "\t\t").split("\t"))
        verdict = verdict.casefold()
        if verdict not in _VERDICTS:
            raise ChatError(f'{path.name} line {number} has the verdict {verdict!r}; write "accepted" or "rejected".')
        if row_id:
            reviews[row_id] = Review(verdict, note)
    return reviews


def apply_reviews(
    rows: Sequence[dict[str, Any]], reviews: Mapping[str, Review], log: FilterLog, only_accepted: bool
) -> list[dict[str, Any]]:
    """The rows that were not rejected, or only the accepted ones, with a column ``accepted``."""

    def fault(row: dict[str, Any]) -> str:
        verdict = reviews[row["id"]].verdict if row["id"] in reviews else ""
        if verdict == "rejected":
            return "was rejected in the review"
        return "was not accepted in the review" if only_accepted and not verdict else ""

    kept = log.filter("review", rows, fault, lambda row: str(row["prompt"]))
    return [{**row, "accepted": row["id"] in reviews and reviews[row["id"]].verdict == "accepted"} for row in kept]


def review_text(rows: Sequence[Mapping[str, Any]], reviews: Mapping[str, Review], columns: Sequence[str]) -> str:
    """The review file of these rows with their reviews; reviews of other rows are kept at the end."""
    lines = ["\t".join(("id", "verdict", "note", *columns))]
    lines += [_line(row["id"], reviews, [str(row[name]) for name in columns]) for row in rows]
    row_ids = {row["id"] for row in rows}
    lines += [_line(row_id, reviews, []) for row_id in reviews if row_id not in row_ids]
    return "\n".join(lines) + "\n"


def _line(row_id: str, reviews: Mapping[str, Review], cells: Sequence[str]) -> str:
    review = reviews.get(row_id, Review("", ""))
    return "\t".join((row_id, review.verdict, review.note, *cells))
