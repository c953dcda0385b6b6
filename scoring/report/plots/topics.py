"""Neutral probes: how many continuations disclose a gender, by topic."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from scoring.report.plots.draw import (
    FEMALE,
    INK,
    MALE,
    PAPER,
    THIRD,
    Figure,
    Key,
    Panel,
    drawn,
    parts,
    percent,
    plain,
    stack,
)
from scoring.types import Floats, Table


def topics(table: Table) -> Figure:
    """Classes of continuations per data set and topic, with GAS."""
    subsets = parts(table, "config", "topic")
    counts = {name: np.array([_count(table, r, name) for _, r in subsets]) for name in ("female", "male", "both")}
    sizes = np.array([np.count_nonzero(r) for _, r in subsets])
    kept = sizes - counts["both"]
    gendered = counts["female"] + counts["male"]
    gas = np.divide(gendered, kept, out=np.full(len(subsets), np.nan), where=kept > 0)
    return Figure(
        "Continuations that disclose a gender, by topic",
        "Share of continuations with female or male forms. No prompt mentions a gender, so an unbiased model stays at "
        "0. The dot is the gender attribute score, which leaves continuations with both out.",
        (Key("female only", FEMALE), Key("male only", MALE), Key("both", THIRD), Key("GAS", INK, "dot")),
        (_topics([n or "all" for n, _ in subsets], sizes, counts, gas),),
    )


def _count(table: Table, rows: NDArray[np.bool_], name: str) -> int:
    return int(np.count_nonzero(table["gender_class"][rows] == name))


def _topics(names: list[str], sizes: NDArray[np.int_], counts: Mapping[str, NDArray[np.int_]], gas: Floats) -> Panel:
    def paint(axes: Axes) -> None:
        inks = {FEMALE: "female", MALE: "male", THIRD: "both"}
        labels = [f"{plain(name, 24)}  (n = {n:,})" for name, n in zip(names, sizes, strict=True)]
        stack(axes, labels, {ink: 100 * counts[name] / sizes for ink, name in inks.items()})
        axes.plot(100 * gas, np.arange(len(names)), "o", color=INK, markersize=4.5, markeredgecolor=PAPER, zorder=4)
        axes.set(xlim=(0, 101), xticks=range(0, 101, 25), xlabel="% of continuations")

    said = "; ".join(f"{plain(name)}: {percent(value)}" for name, value in zip(names, gas, strict=True))
    return drawn("", f"Gender attribute score. {said}.", (4.8, 0.75 + 0.27 * len(names)), paint)
