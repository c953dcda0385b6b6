"""A file in which a person marks rows: a line a row, tab-separated, read back at the next run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.generation.chat import ChatError
from builders.generation.pipeline import Account
from builders.parsers import read

_MARKS = ("accepted", "rejected", "")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a person said of a row: ``accepted``, ``rejected`` or nothing, and why."""

    verdict: str
    note: str


def read_review(path: Path) -> dict[str, Mark]:
    """The marks by the row's id; none when there is no file.

    Only the columns ``id``, ``verdict`` and ``note``, the first three, are read: what a spreadsheet does
    to the others does not matter.

    Raises
    ------
    ChatError
        When a verdict is neither "accepted" nor "rejected", or a line has no three columns.
    """
    if not path.is_file():
        return {}
    marks = {}
    for number, line in enumerate(read.lines(path)[1:], 2):
        row, verdict, note, *_ = (part.strip().strip('"') for part in (line + "\t\t").split("\t"))
        verdict = verdict.casefold()
        if verdict not in _MARKS:
            raise ChatError(f'{path.name} line {number} has the verdict {verdict!r}; write "accepted" or "rejected".')
        if row:
            marks[row] = Mark(verdict, note)
    return marks


def apply(
    rows: Sequence[dict[str, Any]], marks: Mapping[str, Mark], account: Account, only_accepted: bool
) -> list[dict[str, Any]]:
    """The rows that were not rejected, or only those that were accepted; each says whether it was."""

    def fault(row: dict[str, Any]) -> str:
        verdict = marks[row["id"]].verdict if row["id"] in marks else ""
        if verdict == "rejected":
            return "was rejected in the review"
        return "was not accepted in the review" if only_accepted and not verdict else ""

    kept = account.keep("review", rows, fault, lambda row: str(row["prompt"]))
    return [{**row, "accepted": row["id"] in marks and marks[row["id"]].verdict == "accepted"} for row in kept]


def review_text(rows: Sequence[Mapping[str, Any]], marks: Mapping[str, Mark], shown: Sequence[str]) -> str:
    """The file for these rows, with the marks that there are; marks of other rows stay at the end."""
    lines = ["\t".join(("id", "verdict", "note", *shown))]
    lines += [_line(row["id"], marks, [str(row[name]) for name in shown]) for row in rows]
    here = {row["id"] for row in rows}
    lines += [_line(name, marks, []) for name in marks if name not in here]
    return "\n".join(lines) + "\n"


def _line(name: str, marks: Mapping[str, Mark], cells: Sequence[str]) -> str:
    mark = marks.get(name, Mark("", ""))
    return "\t".join((name, mark.verdict, mark.note, *cells))
