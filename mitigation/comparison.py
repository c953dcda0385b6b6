"""Many methods on one model side by side: what each does to bias and to language ability, and what it costs.

Everything is read from the facts of the adapters' folders, so folders that other machines made can be added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cards.files import put
from mitigation.comparison_tables import Method, domain_tables
from mitigation.errors import MitigationError
from scoring.adapters.facts import FACTS, SCHEMA, Adapter, read


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
    measured = _content(folder).get("measured")
    return measured if isinstance(measured, dict) else None


def reasons_before(folder: Path) -> dict[str, str]:
    """Method to reason, for those that could not be made as the ``methods.json`` of a folder says.

    Raises
    ------
    MitigationError
        If the file cannot be read.
    """
    methods = _content(folder).get("methods")
    rows = [row for row in methods if isinstance(row, dict)] if isinstance(methods, list) else []
    return {str(row.get("method")): str(row["reason"]) for row in rows if row.get("reason")}


def _content(folder: Path) -> dict[str, Any]:
    """The object in ``methods.json``; empty without the file."""
    path = folder / "methods.json"
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise MitigationError(f"{path} is no whole JSON ({error}); remove it, and it is written again.") from None
    return content if isinstance(content, dict) else {}


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
    put(folder / "methods.json", (json.dumps(content, indent=1) + "\n").encode())
    tables = domain_tables(model, rows)
    put(folder / "methods.md", markdown(model, tables).encode())
    put(folder / "methods.html", page(model, tables, measured or {}).encode())
    return folder / "methods.html"


def _facts(adapter: Adapter) -> dict[str, Any]:
    """The recipe, its settings, changes and cost, as JSON; NaN is null."""
    facts = json.loads(SCHEMA.dump_json(adapter))
    return {name: facts[name] for name in ("recipe", "settings", "changes", "cost")}
