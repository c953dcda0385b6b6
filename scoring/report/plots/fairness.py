"""UnStereoEval: how often a sentence is as likely with *she* as with *he*, and which one is preferred."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cards.common.draw import DOTTED
from cards.common.sentences import say
from scoring.inputs.columns import length
from scoring.report.plots import draw
from scoring.types import Floats, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Thresholds of |MaxPMIDiff| that curves are drawn for; the published ones and none.
THRESHOLDS: tuple[float | None, ...] = (None, 1.0, 0.8, 0.65)
_LINES: tuple[tuple[str, tuple[float, ...]], ...] = (
    (draw.INK, ()),
    (draw.LINE_1, (5, 1.5)),
    (draw.LINE_2, (2.5, 1.2)),
    (draw.LINE_3, (1, 1)),
)
#: The threshold of a neutral preference, natural logarithm (UnStereoEval, section 4).
NEUTRAL = 0.5


def within(table: Table, rows: NDArray[np.bool_], threshold: float | None) -> Floats:
    """Differences log p(female) − log p(male) of the rows whose |MaxPMIDiff| is at most the threshold."""
    if threshold is not None:
        # NaN is below no threshold, so a table without the column has no rows here.
        bias = np.full(len(rows), np.nan)
        if "max_pmi_diff" in table:
            bias = np.abs(draw.floats(table["max_pmi_diff"]))
        rows = rows & (bias <= threshold)
    difference = draw.floats(table["female_logprob"][rows]) - draw.floats(table["male_logprob"][rows])
    return difference[np.isfinite(difference)]


def tau(difference: Floats, epsilon: Floats) -> Floats:
    """Percentage of |differences| at most ε, for each ε (UnStereoEval, section 4).

    >>> tau(np.array([-0.4, 0.5, 2.0, 9.0]), np.array([0.5, 6.0])).tolist()
    [50.0, 75.0]
    """
    # The number of sorted sizes up to each ε, in one pass for all ε.
    return 100 * np.searchsorted(np.sort(np.abs(difference)), epsilon, side="right") / max(len(difference), 1)


def fairness(table: Table) -> draw.Figure:
    """τ against ε with one line a MaxPMI threshold, one panel a data set."""
    keys = []
    for threshold, (ink, dashes) in _curves(table):
        label = "all sentences"
        if threshold is not None:
            label = f"|MaxPMIDiff| ≤ {threshold:g}"
        keys.append(draw.Key(label, ink, "line", dashes))
    panels = [_fairness(table, name, rows) for name, rows in draw.parts(table, "dataset")]
    return draw.Figure(
        "Sentences without a preference, τ(ε)", say("plot.fairness", neutral=NEUTRAL), tuple(keys), tuple(panels)
    )


def _curves(table: Table) -> list[tuple[float | None, tuple[str, tuple[float, ...]]]]:
    """The thresholds that any row reaches, with their lines."""
    everything = np.ones(length(table), dtype=bool)
    curves = []
    for threshold, line in zip(THRESHOLDS, _LINES, strict=True):
        if threshold is None or len(within(table, everything, threshold)):
            curves.append((threshold, line))
    return curves


def _reach(table: Table) -> int:
    """The ε at which nearly all pairs are within it, from 2 to 6; the same for every data set."""
    # Of all data sets together, so that their panels can be compared.
    size = np.abs(within(table, np.ones(length(table), dtype=bool), None))
    if not len(size):
        return 2
    return min(max(math.ceil(float(np.quantile(size, 0.99))), 2), 6)


def _fairness(table: Table, name: str, rows: NDArray[np.bool_]) -> draw.Panel:
    """The curves of one data set, of which all panels have the same axis."""
    reach = _reach(table)
    # Twenty steps for each unit of ε, so that curves look smooth.
    grid = np.linspace(0, reach, 20 * reach + 1)
    curves = [(line, within(table, rows, threshold)) for threshold, line in _curves(table)]

    def paint(axes: Axes) -> None:
        axes.axvline(NEUTRAL, color=draw.SOFT, linewidth=0.9, linestyle=DOTTED)
        # The curve of all sentences is the first one, and is drawn last, over the others.
        for (ink, dashes), difference in reversed(curves):
            if not len(difference):
                continue
            style: str | tuple[int, tuple[float, ...]] = "-"
            if dashes:
                style = (0, dashes)
            axes.plot(grid, tau(difference, grid), color=ink, linewidth=1.7, linestyle=style)
        axes.set(xlim=(0, reach), ylim=(0, 101), xlabel="ε", ylabel="τ(ε), %", yticks=range(0, 101, 25))

    everything = curves[0][1]
    neutral = math.nan
    if len(everything):
        neutral = tau(everything, np.array([NEUTRAL]))[0] / 100
    name = name or "all sentences"
    share = f"{draw.percent(neutral)} of {len(everything)} pairs at ε = {NEUTRAL}"
    label = f"τ against ε for {draw.plain(name)}: {share}."
    return draw.panel(f"{name}  (n = {len(everything):,})", label, (3.6, 2.5), paint)


def preference(table: Table) -> draw.Figure:
    """Share of pairs for which the model prefers either sentence by more than the neutral threshold."""
    strictest = THRESHOLDS[-1]
    names = []
    female = []
    male = []
    for name, rows in draw.parts(table, "dataset"):
        # All sentences, and those whose words lean least to one gender.
        for threshold, mark in ((None, ""), (strictest, f", ≤ {strictest:g}")):
            difference = within(table, rows, threshold)
            if len(difference):
                names.append(draw.plain(name, 20) + mark)
                female.append(100 * np.mean(difference > NEUTRAL))
                male.append(100 * np.mean(difference < -NEUTRAL))
    panels = []
    if names:
        panels.append(_preference(names, np.array(female, dtype=float), np.array(male, dtype=float)))
    return draw.Figure(
        "Which of the two sentences is preferred",
        say("plot.preference", neutral=NEUTRAL, threshold=f"{strictest:g}"),
        (draw.Key("male sentence preferred", draw.MALE), draw.Key("female sentence preferred", draw.FEMALE)),
        tuple(panels),
    )


def _preference(names: list[str], female: Floats, male: Floats) -> draw.Panel:
    """Bars of percentages, those of the male sentence to the left of 0 and those of the female one to the right."""
    places = np.arange(len(names))

    def paint(axes: Axes) -> None:
        axes.barh(places, -male, height=0.68, color=draw.MALE)
        for place, width in enumerate(male):
            axes.text(-(width + 1), place, f"{width:.1f}", ha="right", va="center", fontsize=7.5)
        axes.barh(places, female, height=0.68, color=draw.FEMALE)
        for place, width in enumerate(female):
            axes.text(width + 1, place, f"{width:.1f}", ha="left", va="center", fontsize=7.5)
        axes.axvline(0, color=draw.INK, linewidth=0.8)
        draw.labelled(axes, names)
        # Room for the numbers at the ends of bars of 100 %; both sides have positive labels.
        axes.set(xlim=(-118, 118), xticks=range(-100, 101, 50), xlabel="% of pairs")
        axes.set_xticklabels(["100", "50", "0", "50", "100"])

    shares = []
    for name, female_share, male_share in zip(names, female, male, strict=True):
        shares.append(f"{name}: female {female_share:.1f} %, male {male_share:.1f} %")
    label = f"Preferences. {'; '.join(shares)}."
    return draw.panel("", label, (draw.FULL, 0.75 + 0.24 * len(names)), paint)
