"""Many methods on one model side by side: what each does to bias and to language ability, and what it costs.

Everything is read from the facts of the adapters' folders, so folders that other machines made can be added.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cards.files import put
from cards.text import templates
from mitigation.columns import COLUMNS, DOMAINS, change_of, said
from mitigation.errors import MitigationError
from scoring.adapters.facts import FACTS, SCHEMA, Adapter, Change, Cost, Numbers, read


@dataclass(frozen=True, slots=True)
class MethodRow:
    """A method: the name of its folder, its adapter, or the sentence that says why it could not be made."""

    name: str
    adapter: Adapter | None = None
    reason: str = ""


def rows_of(folder: Path, reasons: Mapping[str, str] | None = None) -> list[MethodRow]:
    """A row for each adapter below a folder, by name, and for each method that could not be made.

    Raises
    ------
    MitigationError
        If there is no adapter, or the adapters belong to several models.
    """
    found: dict[str, Adapter] = {path.parent.name: read(path.parent) for path in sorted(folder.glob(f"*/{FACTS}"))}
    bases = sorted({adapter.revision for adapter in found.values()})
    if len(bases) != 1:
        raise MitigationError(
            f"{folder} has adapters of {len(bases)} models; give a folder with the adapters of one model."
        )
    made = [MethodRow(name, adapter) for name, adapter in found.items()]
    return [*made, *(MethodRow(name, reason=reason) for name, reason in (reasons or {}).items() if name not in found)]


def measured_before(folder: Path) -> Mapping[str, Any] | None:
    """How the methods of a folder were measured, as its ``methods.json`` says; None without it.

    Raises
    ------
    MitigationError
        If the file cannot be read.
    """
    path = folder / "methods.json"
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise MitigationError(f"{path} is no whole JSON ({error}); remove it, and it is written again.") from None
    measured = content.get("measured") if isinstance(content, dict) else None
    return measured if isinstance(measured, dict) else None


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


def write(folder: Path, model: str, rows: Sequence[MethodRow], measured: Mapping[str, Any] | None = None) -> Path:
    """Writes ``methods.json`` and the page ``methods.html`` into a folder, and returns the page.

    A domain without any score is left out, and a column that no method has. ``measured`` says how the scores were
    measured; without it the folder's own statement is kept.
    """
    measured = measured or measured_before(folder)
    domains = []
    for domain in DOMAINS:
        columns = [column for column in COLUMNS if any(change_in(row, column, domain) for row in rows)]
        if any(not COLUMNS[column].ability for column in columns):
            domains.append(
                {"name": domain, "columns": columns, "rows": list(_shown_rows(rows, columns, domain, model))}
            )
            domains[-1]["plot"] = plot(rows, domain)
    page = templates(Path(__file__).with_name("templates"), html=True).get_template("methods.html.j2")
    put(folder / "methods.html", page.render(model=model, domains=domains).encode())
    facts = [
        {"method": row.name, "reason": row.reason, "changes": [], "cost": None}
        | (_facts(row.adapter) if row.adapter else {})
        for row in rows
    ]
    put(
        folder / "methods.json",
        (json.dumps({"model": model, "measured": measured, "methods": facts}, indent=1) + "\n").encode(),
    )
    return folder / "methods.html"


def change_in(row: MethodRow, column: str, domain: str) -> Change | None:
    """The change of a row in a column, or None if it was not measured."""
    return change_of(row.adapter, column, domain) if row.adapter else None


def _facts(adapter: Adapter) -> dict[str, Any]:
    """The recipe, its settings, changes and cost, as JSON; NaN is null."""
    facts = json.loads(SCHEMA.dump_json(adapter))
    return {name: facts[name] for name in ("recipe", "settings", "changes", "cost")}


def _shown_rows(rows: Sequence[MethodRow], columns: Sequence[str], domain: str, model: str) -> Iterator[dict[str, Any]]:
    measured = [row for row in rows if row.adapter]
    base = []
    for column in columns:
        change = next((change for row in measured if (change := change_in(row, column, domain))), None)
        base.append({"value": _number(change.before[0]), "difference": "", "said": ""} if change else None)
    yield {"name": model, "reason": "", "cells": base, "cost": ""}
    for row in rows:
        cells = []
        for column in columns:
            change = change_in(row, column, domain)
            cells.append(change and _cell(change, column))
        cost = _cost(row.adapter.cost) if row.adapter else ""
        yield {"name": row.name, "reason": row.reason, "cells": cells, "cost": cost}


def _cell(change: Change, column: str) -> dict[str, str]:
    value, low, high = change.difference
    text = "" if math.isnan(low) else f"{value:+.2f} [{low:.2f}, {high:.2f}], n {change.n}"
    return {"value": _number(change.after[0]), "difference": text, "said": said(change, column)}


def _cost(cost: Cost) -> str:
    return f"{cost.seconds:,.0f} s, {cost.parameters:,} parameters, {cost.memory / 2**30:.2f} GiB"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def plot(rows: Sequence[MethodRow], domain: str) -> str:
    """A PNG in base64: |SS − 50| after each method against the difference of LMS, both with intervals; "" without."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    points = [(row.name, change_in(row, "SS StereoSet", domain), change_in(row, "LMS", domain)) for row in rows]
    drawn = [(name, ss, lms) for name, ss, lms in points if ss and lms]
    if not drawn:
        return ""
    figure = Figure(figsize=(6.5, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.axvline(abs(drawn[0][1].before[0] - 50), color="#9aa5b1", linewidth=0.8)
    axes.axhline(0, color="#9aa5b1", linewidth=0.8)
    for name, ss, lms in drawn:
        far, (low, high) = abs(ss.after[0] - 50), _distance(ss.after)
        value, least, most = lms.difference
        axes.errorbar(
            far,
            value,
            xerr=[[far - low], [high - far]],
            yerr=[[value - least], [most - value]],
            marker="o",
            markersize=4,
            color="#1b4f8f",
            ecolor="#b8c7dc",
            linewidth=0.8,
        )
        axes.annotate(name, (far, value), xytext=(4, 4), textcoords="offset points", fontsize=7)
    axes.set_xlabel("distance of SS from 50 (grey line: unchanged model)", fontsize=8)
    axes.set_ylabel("difference of LMS", fontsize=8)
    axes.tick_params(labelsize=7)
    content = io.BytesIO()
    figure.savefig(content, dpi=110, format="png", metadata={"Software": None})
    return base64.b64encode(content.getvalue()).decode()


def _distance(score: Numbers) -> tuple[float, float]:
    """The ends of the interval of |score − 50|.

    >>> _distance((53.0, 48.0, 58.0)), _distance((40.0, 38.0, 43.0))
    ((0.0, 8.0), (7.0, 12.0))
    """
    _, low, high = score
    if math.isnan(low):
        return abs(score[0] - 50), abs(score[0] - 50)
    ends = sorted((abs(low - 50), abs(high - 50)))
    return (0.0 if low <= 50 <= high else ends[0]), ends[1]
