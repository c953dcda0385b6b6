"""Many methods on one model side by side: what each does to bias and to language ability, and what it costs.

Everything is read from the facts of the adapters' folders, so folders that other machines made can be added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cards.files import RECORD, put_all, refuse_foreign
from cards.stored import Stored
from mitigation.comparison_tables import Method, domain_tables
from mitigation.errors import MitigationError
from scoring.adapters.facts import FACTS, SCHEMA, Adapter, read

METHODS = Stored("a list of methods", "remove it, and it is written again", unsigned=True)
_FILES = ("methods.json", "methods.md", "methods.html")


def rows_of(folder: Path, reasons: Mapping[str, str] | None = None) -> list[Method]:
    """A row for each adapter below a folder, by name, and for each method that could not be made.

    Raises
    ------
    MitigationError
        If there is no adapter, or the adapters belong to several models.
    """
    adapters: dict[str, Adapter] = {path.parent.name: read(path.parent) for path in sorted(folder.glob(f"*/{FACTS}"))}
    bases = sorted({adapter.revision for adapter in adapters.values()})
    if len(bases) != 1:
        raise MitigationError(
            f"{folder} has adapters of {len(bases)} models; give a folder with the adapters of one model."
        )
    made = [Method(name, adapter) for name, adapter in adapters.items()]
    return [*made, *(Method(name, reason=reason) for name, reason in (reasons or {}).items() if name not in adapters)]


def measured_before(folder: Path) -> Mapping[str, Any] | None:
    """How the methods of a folder were measured, as its ``methods.json`` says; None without it.

    Raises
    ------
    MitigationError
        If the file cannot be read.
    """
    return _content(folder).get("measured")


def reasons_before(folder: Path) -> dict[str, str]:
    """Method to reason, for those that could not be made as the ``methods.json`` of a folder says.

    Raises
    ------
    MitigationError
        If the file cannot be read.
    """
    return {row["method"]: row["reason"] for row in _content(folder).get("methods", ()) if row["reason"]}


def _content(folder: Path) -> dict[str, Any]:
    """The object in ``methods.json``; empty without the file."""
    return METHODS.read(folder / "methods.json", dict, MitigationError) or {}


def _ours(folder: Path) -> tuple[str, ...]:
    """The files that an earlier version wrote, if there is its ``methods.json``."""
    return _FILES if "methods" in _content(folder) else ()


def check_files(folder: Path) -> None:
    """Refuses a folder in which :func:`write` would replace what this program did not write.

    Raises
    ------
    MitigationError
        With the first such file.
    """
    if (folder / RECORD).exists() or not _ours(folder):
        refuse_foreign(folder / RECORD, [folder / name for name in _FILES], MitigationError)


def check_same(folder: Path, measured: Mapping[str, Any]) -> None:
    """Refuses to add methods that are measured otherwise than those of a folder.

    Raises
    ------
    MitigationError
        With the first that differs of the profile, the benchmarks, the limit, the texts, the resamples and the data.
    """
    before = measured_before(folder) or {}
    pairs = {name: (value, measured.get(name)) for name, value in before.items() if name != "data"}
    old, new = before.get("data") or {}, measured["data"]
    pairs |= {name: (version, new.get(name)) for name, version in old.items()}
    other = [f"{name} {value} instead of {now}" for name, (value, now) in pairs.items() if value != now]
    if other:
        raise MitigationError(f"{folder} has methods measured with {other[0]}; give another --out.")


def write(folder: Path, model: str, rows: Sequence[Method], measured: Mapping[str, Any] | None = None) -> Path:
    """Writes ``methods.json``, ``methods.md`` and the page ``methods.html`` into a folder, and returns the page.

    ``measured`` says how the scores were measured; without it the folder's own statement is kept.
    """
    from mitigation.comparison_page import markdown, page  # with it comes matplotlib

    measured = measured or measured_before(folder)
    facts = [
        {"method": row.name, "reason": row.reason, "changes": [], "cost": None}
        | (_facts(row.adapter) if row.adapter else {})
        for row in rows
    ]
    content = {"model": model, "measured": measured, "methods": facts}
    tables = domain_tables(model, rows)
    texts = (METHODS.content(content), markdown(model, tables).encode(), page(model, tables, measured or {}).encode())
    put_all(folder, dict(zip(_FILES, texts, strict=True)), MitigationError, ours=_ours(folder))
    return folder / "methods.html"


def _facts(adapter: Adapter) -> dict[str, Any]:
    """The recipe, its settings, changes and cost, as JSON; NaN is null."""
    facts = json.loads(SCHEMA.dump_json(adapter))
    return {name: facts[name] for name in ("recipe", "settings", "changes", "cost")}
