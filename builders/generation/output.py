"""The files that a pipeline writes. The same responses give the same bytes.

The review file is a tab-separated table in which a person accepts or rejects rows; it is read by the next command.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from builders.files.manifest import file_sha256
from builders.generation.pipeline import FilterLog
from builders.generation.responses import ChatError, ChatResponse
from builders.parsers import read
from cards.common.files import put_all

ROWS, DROPPED, REVIEW, MANIFEST = "rows.jsonl", "dropped.jsonl", "review.tsv", "manifest.json"
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
        # Two more tabs, so that a line with an id alone has all three cells. Spreadsheet programs add quotes.
        cells = [cell.strip().strip('"') for cell in (line + "\t\t").split("\t")]
        row_id, verdict, note = cells[0], cells[1].casefold(), cells[2]
        if verdict not in _VERDICTS:
            raise ChatError(f'{path.name} line {number} has the verdict {verdict!r}; write "accepted" or "rejected".')
        if row_id:
            reviews[row_id] = Review(verdict, note)
    return reviews


def apply_reviews(
    rows: Sequence[dict[str, Any]], reviews: Mapping[str, Review], log: FilterLog, only_accepted: bool
) -> list[dict[str, Any]]:
    """The rows that were not rejected, or only the accepted ones, with a column ``accepted``."""

    def verdict(row: dict[str, Any]) -> str:
        review = reviews.get(row["id"])
        return review.verdict if review else ""

    def fault(row: dict[str, Any]) -> str:
        if verdict(row) == "rejected":
            return "was rejected in the review"
        if only_accepted and not verdict(row):
            return "was not accepted in the review"
        return ""

    accepted = log.filter("review", rows, fault, lambda row: str(row["prompt"]))
    return [{**row, "accepted": verdict(row) == "accepted"} for row in accepted]


def review_text(rows: Sequence[Mapping[str, Any]], reviews: Mapping[str, Review], columns: Sequence[str]) -> str:
    """The review file of these rows with their reviews; reviews of other rows are kept at the end."""
    lines = ["\t".join(["id", "verdict", "note", *columns])]
    row_ids = set()
    for row in rows:
        row_ids.add(row["id"])
        lines.append(_line(row["id"], reviews, [str(row[name]) for name in columns]))
    # What a person wrote about a row that this generation does not have is not thrown away.
    for row_id in reviews:
        if row_id not in row_ids:
            lines.append(_line(row_id, reviews, []))
    return "\n".join(lines) + "\n"


def _line(row_id: str, reviews: Mapping[str, Review], cells: Sequence[str]) -> str:
    review = reviews.get(row_id, Review("", ""))
    return "\t".join([row_id, review.verdict, review.note, *cells])


def generation_manifest(
    name: str, model: str, settings: Any, responses: Mapping[str, ChatResponse], log: FilterLog
) -> dict[str, Any]:
    """The settings, a digest and the token counts of the responses, and the counts of the log.

    It has no paths, and no dates but those of the responses.
    """
    return {
        "pipeline": name,
        "model": model,
        "settings": {option.name: _setting(getattr(settings, option.name)) for option in fields(settings)},
        "replies": _response_facts(responses),
        "stages": log.stages(),
        "remarks": log.remarks,
    }


def _response_facts(responses: Mapping[str, ChatResponse]) -> dict[str, Any]:
    """The number of responses and their digest, models, servers, first and last date and token counts."""
    digest = hashlib.sha256()
    models: Counter[str] = Counter()
    servers, dates = set(), []
    prompt_tokens = completion_tokens = uncounted = 0
    # By key, so that the digest does not depend on the order in which responses arrived.
    for number, key in enumerate(sorted(responses)):
        response = responses[key]
        if number:
            digest.update(b"\n")
        digest.update(response.to_line().encode())
        models[response.model] += 1
        dates.append(response.date)
        if response.server:
            servers.add(response.server)
        if response.usage:
            prompt_tokens += response.usage["prompt_tokens"]
            completion_tokens += response.usage["completion_tokens"]
        else:
            # Servers need not count tokens; then the sums are too low by these responses.
            uncounted += 1
    return {
        "count": len(responses),
        "sha256": digest.hexdigest(),
        "models": dict(sorted(models.items())),
        "servers": sorted(servers),
        "first": min(dates, default=None),
        "last": max(dates, default=None),
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "uncounted": uncounted,
    }


def stage_lines(log: FilterLog) -> list[str]:
    """One line for each stage: how many texts it kept, and the reasons for those that it dropped."""
    lines = []
    for stage, counts in log.stages().items():
        reasons = ", ".join(f"{count} x {reason}" for reason, count in counts["dropped"].items())
        # Reasons only where something was dropped.
        lines.append(f"{stage}: {counts['kept']} of {counts['given']} kept{reasons and f' ({reasons})'}")
    return lines


def _setting(value: Any) -> Any:
    """A setting as the manifest records it: a file by its name and hash."""
    if isinstance(value, Path):
        return {"file": value.name, "sha256": file_sha256(value)}
    if isinstance(value, list):
        return [_setting(element) for element in value]
    return value


def write_output(
    out: Path,
    manifest: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    log: FilterLog,
    review_columns: Sequence[str] = (),
    reviews: Mapping[str, Review] | None = None,
) -> None:
    """Writes the folder. Each file replaces the old one in one step, the manifest last.

    Raises
    ------
    ChatError
        When a file cannot be written.
    """
    texts = {ROWS: _json_lines(rows), DROPPED: _json_lines(log.dropped)}
    entry = {"file": ROWS, "rows": len(rows), "sha256": hashlib.sha256(texts[ROWS].encode()).hexdigest()}
    if reviews is not None:  # a file that the user edits; what it said is in the new one
        texts[REVIEW] = review_text(rows, reviews, review_columns)
    # The manifest is the last of the mapping, so a folder with a new manifest is complete.
    texts[MANIFEST] = json.dumps({**manifest, "rows": entry}, indent=2, ensure_ascii=False) + "\n"
    put_all(out, {name: text.encode() for name, text in texts.items()}, ChatError, edited=[REVIEW])


def _json_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
