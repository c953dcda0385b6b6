"""Scores and differences as DataFrames, and as HTML for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

from scoring.statistics.verdict import verdict
from scoring.types import Difference, Estimate, Report

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["benchmark", "group", "metric", "value", "low", "high", "ideal", "n", "clusters"]


def estimates_frame(estimates: Iterable[Estimate]) -> pd.DataFrame:
    """A row per estimate with :data:`COLUMNS`; a metric without an ideal value has NaN there."""
    import pandas as pd

    frame = pd.DataFrame([[getattr(estimate, name) for name in COLUMNS] for estimate in estimates], columns=COLUMNS)
    return frame.astype({"ideal": float})


def differences_frame(differences: Iterable[Difference], run: Report, base: Report) -> pd.DataFrame:
    """A row per difference: the scores before and after, their paired difference with interval, p, and the verdict."""
    import pandas as pd

    before, after = ({(e.benchmark, e.group, e.metric): e.value for e in side.estimates} for side in (base, run))
    rows = []
    for d in differences:
        key = d.benchmark, d.group, d.metric
        change = verdict(before[key], d)
        rows.append((*key, before[key], after[key], d.value, d.low, d.high, d.p, d.p_holm, d.ideal, d.n, change))
    columns = [
        *("benchmark", "group", "metric", "before", "after", "difference", "low", "high"),
        *("p", "p_holm", "ideal", "n", "verdict"),
    ]
    return pd.DataFrame(rows, columns=columns).astype({"ideal": float})


def frame_html(frame: pd.DataFrame, caption: str) -> str:
    """A DataFrame as an HTML table with a caption; text of the data is escaped."""
    table = frame.to_html(index=False, float_format="{:.4g}".format, na_rep="–", border=0, max_rows=60)
    return f"<p><b>{html.escape(caption)}</b></p>{table}"
