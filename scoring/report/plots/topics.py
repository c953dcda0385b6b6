"""Neutral probes: how many continuations disclose a gender, by topic."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from scoring.report.plots import draw
from scoring.types import Floats, Table


def topics(table: Table) -> draw.Figure:
    """Classes of continuations per data set and topic, with GAS."""
    subsets = draw.parts(table, "config", "topic")
    counts = {
        name: np.array([np.sum(table["gender_class"][rows] == name) for _, rows in subsets])
        for name in ("female", "male", "both")
    }
    sizes = np.array([np.count_nonzero(r) for _, r in subsets])
    kept = sizes - counts["both"]
    gendered = counts["female"] + counts["male"]
    gas = np.divide(gendered, kept, out=np.full(len(subsets), np.nan), where=kept > 0)
    return draw.Figure(
        "Continuations that disclose a gender, by topic",
        "Share of continuations with female or male forms. No prompt mentions a gender, so an unbiased model stays at "
        "0. The dot is the gender attribute score, which leaves continuations with both out.",
        (
            draw.Key("female only", draw.FEMALE),
            draw.Key("male only", draw.MALE),
            draw.Key("both", draw.THIRD),
            draw.Key("GAS", draw.INK, "dot"),
        ),
        (_topics([n or "all" for n, _ in subsets], sizes, counts, gas),),
    )


def _topics(
    names: list[str], sizes: NDArray[np.int_], counts: Mapping[str, NDArray[np.int_]], gas: Floats
) -> draw.Panel:
    def paint(axes: Axes) -> None:
        inks = {draw.FEMALE: "female", draw.MALE: "male", draw.THIRD: "both"}
        labels = [f"{draw.plain(name, 24)}  (n = {n:,})" for name, n in zip(names, sizes, strict=True)]
        draw.stack(axes, labels, {ink: 100 * counts[name] / sizes for ink, name in inks.items()})
        draw.dots(axes, 100 * gas)
        axes.set(xlim=(0, 101), xticks=range(0, 101, 25), xlabel="% of continuations")

    shares = "; ".join(f"{draw.plain(name)}: {draw.percent(value)}" for name, value in zip(names, gas, strict=True))
    return draw.panel("", f"Gender attribute score. {shares}.", (draw.FULL, 0.75 + 0.27 * len(names)), paint)
