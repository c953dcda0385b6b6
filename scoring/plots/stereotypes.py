"""StereoSet, CrowS-Pairs and biased knowledge: how often, and how strongly, the stereotype is preferred."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from scoring.plots.draw import (
    INK,
    LINE_1,
    LINE_2,
    LINE_3,
    SOFT,
    THIRD,
    Figure,
    Key,
    Panel,
    drawn,
    floats,
    labelled,
    parts,
    percent,
    plain,
)
from scoring.types import Estimate, Floats, Table

#: Scores in percent that are drawn side by side, each with its name for people and its ink.
SCORES = {
    "ss": ("stereotype score", LINE_1),
    "ps": ("paraphrased stereotype score", LINE_1),
    "metric_score": ("metric score (all pairs)", LINE_1),
    "stereotype_score": ("stereotype score (stereo pairs)", LINE_2),
    "antistereotype_score": ("anti-stereotype score (antistereo pairs)", LINE_3),
    "lms": ("language-model score", LINE_2),
    "icat": ("ICAT", LINE_3),
    "fact_accuracy": ("facts got right", LINE_2),
}
#: More groups than this make no picture.
_MOST = 40


def scores(estimates: Sequence[Estimate]) -> Figure:
    """The scores of every group that has one, with intervals, on one axis."""
    shown = [e for e in estimates if e.metric in SCORES and math.isfinite(e.value)]
    groups = list(dict.fromkeys(e.group for e in shown))[:_MOST]
    names = list(dict.fromkeys(e.metric for e in shown))
    return Figure(
        "Scores by domain",
        "Dots are scores, lines their 95 % bootstrap intervals. A stereotype score of 50 (dotted line) prefers the "
        "stereotype as often as not; the language-model score, ICAT and the share of facts are best at 100.",
        tuple(Key(SCORES[name][0], SCORES[name][1], "dot") for name in names),
        (_scores([e for e in shown if e.group in groups], groups, names),) if groups else (),
    )


def _scores(shown: Sequence[Estimate], groups: Sequence[str], names: Sequence[str]) -> Panel:
    beside = {name: 0.24 * (place - (len(names) - 1) / 2) for place, name in enumerate(names)}
    if len({SCORES[name][1] for name in names}) < len(names):
        # Scores of one ink are of different groups and share a place.
        beside = dict.fromkeys(names, 0.0)

    def paint(axes: Axes) -> None:
        axes.axvline(50, color=SOFT, linewidth=0.9, linestyle=(0, (1, 2)))
        for e in shown:
            place, ink = groups.index(e.group) + beside[e.metric], SCORES[e.metric][1]
            if math.isfinite(e.low):
                axes.plot([e.low, e.high], [place, place], color=ink, linewidth=1.6, solid_capstyle="butt")
            axes.plot(e.value, place, "o", color=ink, markersize=4.2)
        labelled(axes, groups)
        axes.set(xlim=(-2, 102), xticks=range(0, 101, 25), xlabel="%")

    said = "; ".join(f"{plain(e.group)} {e.metric} {e.value:.1f}" for e in shown)
    step = 0.2 + 0.09 * len(set(beside.values()))
    return drawn("", f"Scores. {said}.", (4.7, 0.75 + step * len(groups)), paint)


def strengths(table: Table) -> Figure:
    """How the difference of the two scores of a pair is distributed, one panel a domain or set."""
    found = sorted(parts(table, "config") if "config" in table else parts(table, "task", "domain"), key=lambda p: p[0])
    differences = [
        (name, floats(table["score_biased"][rows]) - floats(table["score_unbiased"][rows])) for name, rows in found
    ]
    differences = [(name, each[np.isfinite(each)]) for name, each in differences]
    differences = [(name, each) for name, each in differences if len(each)]
    reach = _reach(np.concatenate([each for _, each in differences])) if differences else 1.0
    return Figure(
        "How strongly one sentence of a pair is preferred",
        "Pairs by the difference of the scores of their two sentences (natural logarithm): right of 0 the stereotype "
        "is preferred, left of it the other sentence. The outermost bars hold everything beyond. The stereotype score "
        "counts sides alone; a model without a preference has a narrow heap around 0.",
        (Key("stereotype preferred", LINE_1), Key("the other preferred", THIRD)),
        tuple(_strength(name, each, reach) for name, each in differences),
    )


def _reach(difference: Floats) -> float:
    """A round number that nearly all differences stay below."""
    most = float(np.quantile(np.abs(difference), 0.98))
    step = 10.0 ** math.floor(math.log10(most)) if most > 0 else 1.0
    return max(step * math.ceil(most / step), step)


def _strength(name: str, difference: Floats, reach: float) -> Panel:
    edges = np.linspace(-reach, reach, 33)
    counts, _ = np.histogram(np.clip(difference, -reach, reach), edges)
    middles, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]

    def paint(axes: Axes) -> None:
        for side, ink in ((middles > 0, LINE_1), (middles < 0, THIRD)):
            axes.bar(middles[side], 100 * counts[side] / len(difference), width=0.9 * width, color=ink)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set(xlim=(-reach - width, reach + width), xlabel="difference of scores", ylabel="% of pairs")
        axes.set_xticks([-reach, -reach / 2, 0, reach / 2, reach])
        axes.margins(y=0.08)

    share = percent(float(np.mean(difference > 0)))
    title = f"{name or 'all pairs'}  (n = {len(difference):,})"
    return drawn(
        title, f"{plain(name or 'all pairs')}: the stereotype is preferred in {share} of pairs.", (3.2, 2.1), paint
    )
