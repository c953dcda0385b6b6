"""StereoSet, CrowS-Pairs and biased knowledge: how often, and how strongly, the stereotype is preferred."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cards.common.draw import DOTTED, interval
from cards.common.sentences import say
from cards.common.text import grouped
from scoring.report.plots import draw
from scoring.types import Estimate, Floats, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: The colours and marks of the metrics of a plot, in their order.
_MARKS = (
    (draw.LINE_1, "dot"),
    (draw.LINE_2, "dot"),
    (draw.LINE_3, "dot"),
    (draw.LINE_1, "ring"),
    (draw.LINE_2, "ring"),
    (draw.LINE_3, "ring"),
)
#: More groups than this make no picture.
_MOST = 40


def scores(estimates: Sequence[Estimate]) -> draw.Figure:
    """The scores of every group, with intervals: metrics that have a label, a panel for each range of values."""
    groups: list[str] = []
    keys: dict[str, draw.Key] = {}
    labelled = [e for e in estimates if e.label and math.isfinite(e.value)]
    for estimate in labelled:
        if estimate.group not in groups and len(groups) < _MOST:
            groups.append(estimate.group)
        # Metrics after the last mark are left out: two metrics with one mark look alike.
        if estimate.label not in keys and len(keys) < len(_MARKS):
            ink, shape = _MARKS[len(keys)]
            keys[estimate.label] = draw.Key(estimate.label, ink, shape)
    drawn = [e for e in labelled if e.group in groups and e.label in keys]
    caption = say("plot.scores")
    if any(e.metric == "ss" for e in drawn):
        caption = f"{caption} {say('plot.scores.ss')}"
    panels = []
    # Percentages and, for example, ratios have no axis in common.
    for ends, of_range in grouped(drawn, lambda estimate: (estimate.least, estimate.most)).items():
        panels.append(_scores(of_range, groups, keys, ends))
    return draw.Figure("Scores by domain", caption, tuple(keys.values()), tuple(panels))


def _scores(
    shown: Sequence[Estimate], groups: Sequence[str], keys: Mapping[str, draw.Key], ends: tuple[float, float]
) -> draw.Panel:
    """The panel of the scores whose metrics have the range ``ends``, a line for each group."""
    shown_labels = {estimate.label for estimate in shown}
    labels = [label for label in keys if label in shown_labels]
    offsets = {}
    for place, label in enumerate(labels):
        # Marks of one group are one above the other around its line, so that intervals do not cover each other.
        offsets[label] = 0.24 * (place - (len(labels) - 1) / 2)
    percentages = ends == (0, 100)
    if percentages:
        decimals = 1
        # One line for all percentages: most have their ideal value at an end of the axis, or none.
        ideals = {50.0}
    else:
        decimals = 3
        ideals = {e.ideal for e in shown if e.ideal is not None}

    def paint(axes: Axes) -> None:
        for ideal in ideals:
            axes.axvline(ideal, color=draw.SOFT, linewidth=0.9, linestyle=DOTTED)
        for estimate in shown:
            key = keys[estimate.label]
            # A ring is a dot that is filled with the colour of the page.
            fill = ""
            if key.shape == "ring":
                fill = draw.PAPER
            interval(axes, estimate.numbers, groups.index(estimate.group) + offsets[estimate.label], key.ink, fill)
        draw.labelled(axes, groups)
        low, high = ends
        if percentages:
            axes.set(xlim=(-2, 102), xticks=range(0, 101, 25), xlabel="%")
        elif math.isfinite(low) and math.isfinite(high):
            # Marks at the ends of the range are drawn whole.
            room = 0.02 * (high - low)
            axes.set(xlim=(low - room, high + room))

    values = "; ".join(f"{draw.plain(e.group)} {e.short_name} {e.value:.{decimals}f}" for e in shown)
    step = 0.2 + 0.09 * len(labels)
    return draw.panel("", f"Scores. {values}.", (draw.FULL, 0.75 + step * len(groups)), paint)


def strengths(table: Table) -> draw.Figure:
    """How the difference of the two scores of a pair is distributed, one panel a domain or set."""
    # BiasKE has a config for each set of pairs, StereoSet a task and a domain, and CrowS-Pairs a domain.
    if "config" in table:
        parts = draw.parts(table, "config")
    else:
        parts = draw.parts(table, "task", "domain")
    differences = []
    for name, rows in sorted(parts, key=lambda part: part[0]):
        difference = draw.floats(table["score_biased"][rows]) - draw.floats(table["score_unbiased"][rows])
        finite = difference[np.isfinite(difference)]
        if len(finite):
            differences.append((name, finite))
    # All panels have one axis, so that their widths can be compared.
    reach = 1.0
    if differences:
        reach = _reach(np.concatenate([values for _, values in differences]))
    return draw.Figure(
        "How strongly one sentence of a pair is preferred",
        say("plot.strengths"),
        (draw.Key("stereotype preferred", draw.LINE_1), draw.Key("the other preferred", draw.LINE_3)),
        tuple(_strength(name, values, reach) for name, values in differences),
    )


def _reach(difference: Floats) -> float:
    """A round number that nearly all differences are below."""
    most = float(np.quantile(np.abs(difference), 0.98))
    # The next multiple of the power of ten below it: 0.37 gives 0.4, and 23 gives 30.
    step = 1.0
    if most > 0:
        step = 10.0 ** math.floor(math.log10(most))
    return max(step * math.ceil(most / step), step)


def _strength(name: str, difference: Floats, reach: float) -> draw.Panel:
    """The histogram of the differences of one part, in 32 bars from ``-reach`` to ``reach``."""
    edges = np.linspace(-reach, reach, 33)
    # A few pairs lie far outside; they are counted in the outermost bars.
    counts, _ = np.histogram(np.clip(difference, -reach, reach), edges)
    middles = (edges[1:] + edges[:-1]) / 2
    width = edges[1] - edges[0]

    def paint(axes: Axes) -> None:
        # The middle of no bar is 0, since their number is even.
        for side, ink in ((middles > 0, draw.LINE_1), (middles < 0, draw.LINE_3)):
            axes.bar(middles[side], 100 * counts[side] / len(difference), width=0.9 * width, color=ink)
        axes.axvline(0, color=draw.INK, linewidth=0.8)
        axes.set(xlim=(-reach - width, reach + width), xlabel="difference of scores", ylabel="% of pairs")
        axes.set_xticks([-reach, -reach / 2, 0, reach / 2, reach])
        axes.margins(y=0.08)

    name = name or "all pairs"
    share = draw.percent(float(np.mean(difference > 0)))
    label = f"{draw.plain(name)}: the stereotype is preferred in {share} of pairs."
    return draw.panel(f"{name}  (n = {len(difference):,})", label, (3.2, 2.1), paint)
