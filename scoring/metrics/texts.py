"""The names and readings of the metrics of the project, from ``data/metrics.toml``."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _table() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads((Path(__file__).parents[1] / "data" / "metrics.toml").read_text(encoding="utf-8"))


def texts(family: str, name: str, at: object = "") -> dict[str, Any]:
    """The reading and the names of a metric, as arguments of :class:`scoring.types.Metric`; ``at`` is its number.

    >>> texts("fairness", "tau", 0.5)["names"]
    ('Pairs without a preference, τ(0.5)', 'τ(0.5)')
    """
    fields = {field: text.replace("{at}", str(at)) for field, text in _table()[family][name].items()}
    names = fields.pop("title"), fields.pop("short")
    return {**fields, "names": names}
