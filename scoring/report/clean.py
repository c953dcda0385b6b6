"""What leaves a run is plain: no secrets, no numbers of a library, no text that cannot be encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cards.text import secrets
from scoring.types import Comparison, Difference, Estimate, Report, ScoringError, Table


def redactor(environment: Mapping[str, str]) -> Callable[[Any], Any]:
    """A function that hides the environment's secrets in text, and makes text encodable; else the identity."""
    pattern = secrets(environment)

    def hide(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return pattern.sub("[redacted]", value.encode("utf-8", "replace").decode())

    return hide


def cleaned(report: Report, hide: Callable[[Any], Any]) -> Report:
    """The report in plain Python values, without secrets."""
    values = {f.name: _plain(getattr(report, f.name), hide) for f in fields(Report) if f.name != "estimates"}
    return Report(**values, estimates=tuple(Estimate(**_plain(asdict(entry), hide)) for entry in report.estimates))


def cleaned_comparison(comparison: Comparison, hide: Callable[[Any], Any]) -> Comparison:
    """The comparison in plain Python values, without secrets."""
    return Comparison(
        cleaned(comparison.run, hide),
        cleaned(comparison.base, hide),
        tuple(Difference(**_plain(asdict(entry), hide)) for entry in comparison.differences),
        tuple(Estimate(**_plain(asdict(entry), hide)) for entry in comparison.agreements),
    )


def _plain(value: Any, hide: Callable[[Any], Any]) -> Any:
    match value:
        case np.generic():
            return _plain(value.item(), hide)
        case Mapping():
            return {str(hide(str(k))): _plain(v, hide) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v, hide) for v in value]
        case str() | int() | float() | None:
            return hide(value)
    raise ScoringError(f"The report holds {value!r}, a {type(value).__name__}; use text, numbers, lists and mappings.")


def clean_table(table: Table, hide: Callable[[Any], Any]) -> dict[str, NDArray[Any]]:
    """The table without secrets in its texts."""
    return {
        name: np.array([hide(v) for v in column.tolist()], dtype=object) if column.dtype.kind in "OUT" else column
        for name, column in table.items()
    }
