"""What a pipeline leaves: rows, what was left out and why, a manifest; the same bytes from the same replies."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from builders.generation.asking import Asker, Question
from builders.generation.chat import ChatError, Record
from builders.generation.pipeline import Account
from builders.generation.review import Mark, review_text
from builders.manifest import file_sha256

ROWS, DROPPED, REVIEW, MANIFEST = "rows.jsonl", "dropped.jsonl", "review.tsv", "manifest.json"


@dataclass
class Witness:
    """Passes questions on and remembers every reply that was used, by key."""

    ask: Asker
    records: dict[str, Record] = field(default_factory=dict)

    def __call__(self, stage: str, questions: Sequence[Question]) -> list[Record]:
        """The record of each question, in their order."""
        found = self.ask(stage, questions)
        self.records |= {each.key: each for each in found}
        return found


def manifest(name: str, model: str, settings: Any, records: Mapping[str, Record], account: Account) -> dict[str, Any]:
    """What the rows were made of and what became of every text; no path, and no date but those of the replies."""
    replies = [records[key] for key in sorted(records)]
    digest = hashlib.sha256("\n".join(each.json() for each in replies).encode()).hexdigest()
    counted = [each.usage for each in replies if each.usage]
    return {
        "pipeline": name,
        "model": model,
        "settings": {each.name: _told(getattr(settings, each.name)) for each in fields(settings)},
        "replies": {
            "count": len(replies),
            "sha256": digest,
            "models": dict(sorted(Counter(each.model for each in replies).items())),
            "first": min((each.date for each in replies), default=None),
            "last": max((each.date for each in replies), default=None),
            "prompt_tokens": sum(usage["prompt_tokens"] for usage in counted),
            "completion_tokens": sum(usage["completion_tokens"] for usage in counted),
            "uncounted": len(replies) - len(counted),
        },
        "stages": account.stages(),
        "remarks": account.remarks,
    }


def _told(value: Any) -> Any:
    """A setting as the manifest has it: of a file, its name and hash."""
    if isinstance(value, Path):
        return {"file": value.name, "sha256": file_sha256(value)}
    return [_told(each) for each in value] if isinstance(value, list) else value


def write(
    out: Path,
    facts: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    account: Account,
    shown: Sequence[str] = (),
    marks: Mapping[str, Mark] | None = None,
) -> None:
    """Writes the folder; each file takes the place of the old one whole, the manifest last.

    Raises
    ------
    ChatError
        When a file cannot be written.
    """
    texts = {ROWS: _lines(rows), DROPPED: _lines(account.dropped)}
    if marks is not None:
        texts[REVIEW] = review_text(rows, marks, shown)
    entry = {"file": ROWS, "rows": len(rows), "sha256": hashlib.sha256(texts[ROWS].encode()).hexdigest()}
    texts[MANIFEST] = json.dumps({**facts, "rows": entry}, indent=2, ensure_ascii=False) + "\n"
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            _replace(out / name, text)
    except OSError as error:
        raise ChatError(f"{out} cannot be written ({error.strerror or error}); give another --out.") from None


def _lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
