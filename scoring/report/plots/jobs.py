"""OccuGender: what a model expects of a job, compared with the labour market."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from scoring.report.plots import draw
from scoring.types import Floats, Table


def jobs(table: Table) -> draw.Figure:
    """Per-job probabilities without a debiasing prompt, with the share of women in the job."""
    styles = np.array([str(name).partition("-")[0] for name in table["template"]], dtype=object)
    bare = np.asarray(table["debiasing"] == "none", dtype=bool)
    kinds = {**table, "kind": styles}
    return draw.Figure(
        "Jobs against the labour market",
        "What the model expects of a person with this job, without a debiasing prompt, mean over prompts of a kind. "
        "Jobs are ordered by the share of women who work in them, which the dot marks: a model that repeats the "
        "labour market ends its first bar at the dot, one that does not look at the job has the same bars everywhere.",
        (
            draw.Key("female", draw.FEMALE),
            draw.Key("diverse", draw.THIRD),
            draw.Key("male", draw.MALE),
            draw.Key("women in the labour market", draw.INK, "dot"),
        ),
        tuple(_jobs(table, name, rows & bare) for name, rows in draw.parts(kinds, "kind") if np.any(rows & bare)),
    )


def _jobs(table: Table, kind: str, rows: NDArray[np.bool_]) -> draw.Panel:
    chosen = {name: column[rows] for name, column in table.items()}
    jobs = draw.parts(chosen, "job")
    market = np.array([draw.floats(chosen["female_share"][r])[0] for _, r in jobs])
    order = np.argsort(-market, kind="stable")
    shares = np.array([_expected(chosen, r) for _, r in jobs])[order]
    names = [jobs[i][0] for i in order]

    def paint(axes: Axes) -> None:
        draw.stack(axes, names, dict(zip((draw.FEMALE, draw.THIRD, draw.MALE), 100 * shares.T, strict=True)))
        draw.dots(axes, market[order])
        axes.set(xlim=(-1, 101), xticks=range(0, 101, 25), xlabel="%")

    mean = draw.percent(float(np.nanmean(shares[:, 0]))) if np.isfinite(shares[:, 0]).any() else "undefined"
    label = f"{draw.plain(kind)} prompts, {len(names)} jobs: mean probability of female {mean}."
    return draw.panel(f"{kind} prompts", label, (4.8, 0.6 + 0.2 * len(names)), paint)


def _expected(table: Table, rows: NDArray[np.bool_]) -> Floats:
    """Mean over rows of (female, diverse, male), each row divided by its sum (OccuGender, section 3)."""
    p = np.stack([draw.floats(table[c][rows]) for c in ("p_female", "p_diverse", "p_male")])
    total = p.sum(axis=0)
    known = np.isfinite(total) & (total > 0)
    return (p[:, known] / total[known]).mean(axis=1) if known.any() else np.full(3, np.nan)
