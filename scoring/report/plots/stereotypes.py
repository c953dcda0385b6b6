"""StereoSet, CrowS-Pairs and biased knowledge: how often, and how strongly, the stereotype is preferred."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from cards.common.draw import DOTTED, interval
from cards.common.sentences import say
from scoring.report.plots import draw
from scoring.types import Estimate, Floats, Table

#: How the metrics of a plot are told apart: a colour and a mark for each, in their order.
_MARKS = tuple((ink, shape) for shape in ("dot", "ring") for ink in (draw.LINE_1, draw.LINE_2, draw.LINE_3))
#: More groups than this make no picture.
_MOST = 40


def scores(estimates: Sequence[Estimate]) -> draw.Figure:
    """The scores of every group, with intervals: metrics that have a label, a panel for each range of values."""
    shown = [e for e in estimates if e.label and math.isfinite(e.value)]
    groups = list(dict.fromkeys(e.group for e in shown))[:_MOST]
    labels = list(dict.fromkeys(e.label for e in shown))[: len(_MARKS)]
    keys = {label: draw.Key(label, *mark) for label, mark in zip(labels, _MARKS, strict=False)}
    drawn_ones = [e for e in shown if e.group in groups and e.label in keys]
    ranges = list(dict.fromkeys((e.least, e.most) for e in drawn_ones))
    caption = say("plot.scores")
    if any(e.metric == "ss" for e in drawn_ones):
        caption = f"{caption} {say('plot.scores.ss')}"
    return draw.Figure(
        "Scores by domain",
        caption,
        tuple(keys.values()),
        tuple(_scores([e for e in drawn_ones if (e.least, e.most) == ends], groups, keys, ends) for ends in ranges),
    )


def _scores(
    shown: Sequence[Estimate], groups: Sequence[str], keys: Mapping[str, draw.Key], ends: tuple[float, float]
) -> draw.Panel:
    own = [label for label in keys if any(e.label == label for e in shown)]
    # Marks of one group stand one above the other around its line.
    offsets = {label: 0.24 * (place - (len(own) - 1) / 2) for place, label in enumerate(own)}
    percentages = ends == (0, 100)
    decimals = 1 if percentages else 3

    def paint(axes: Axes) -> None:
        for ideal in {e.ideal for e in shown if e.ideal is not None} if not percentages else {50.0}:
            axes.axvline(ideal, color=draw.SOFT, linewidth=0.9, linestyle=DOTTED)
        for e in shown:
            place, key = groups.index(e.group) + offsets[e.label], keys[e.label]
            interval(axes, e.numbers, place, key.ink, draw.PAPER if key.shape == "ring" else "")
        draw.labelled(axes, groups)
        if percentages:
            axes.set(xlim=(-2, 102), xticks=range(0, 101, 25), xlabel="%")
        elif all(map(math.isfinite, ends)):
            room = 0.02 * (ends[1] - ends[0])
            axes.set(xlim=(ends[0] - room, ends[1] + room))

    values = "; ".join(f"{draw.plain(e.group)} {e.short_name} {e.value:.{decimals}f}" for e in shown)
    step = 0.2 + 0.09 * len(own)
    return draw.panel("", f"Scores. {values}.", (draw.FULL, 0.75 + step * len(groups)), paint)


def strengths(table: Table) -> draw.Figure:
    """How the difference of the two scores of a pair is distributed, one panel a domain or set."""
    columns = ("config",) if "config" in table else ("task", "domain")
    differences = []
    for name, rows in sorted(draw.parts(table, *columns), key=lambda part: part[0]):
        difference = draw.floats(table["score_biased"][rows]) - draw.floats(table["score_unbiased"][rows])
        if np.isfinite(difference).any():
            differences.append((name, difference[np.isfinite(difference)]))
    reach = _reach(np.concatenate([values for _, values in differences])) if differences else 1.0
    return draw.Figure(
        "How strongly one sentence of a pair is preferred",
        say("plot.strengths"),
        (draw.Key("stereotype preferred", draw.LINE_1), draw.Key("the other preferred", draw.LINE_3)),
        tuple(_strength(name, values, reach) for name, values in differences),
    )


def _reach(difference: Floats) -> float:
    """A round number that nearly all differences stay below."""
    most = float(np.quantile(np.abs(difference), 0.98))
    step = 10.0 ** math.floor(math.log10(most)) if most > 0 else 1.0
    return max(step * math.ceil(most / step), step)


def _strength(name: str, difference: Floats, reach: float) -> draw.Panel:
    edges = np.linspace(-reach, reach, 33)
    # A few pairs lie far outside; they are counted in the outermost bars.
    counts, _ = np.histogram(np.clip(difference, -reach, reach), edges)
    middles, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]

    def paint(axes: Axes) -> None:
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
