"""StereoSet, CrowS-Pairs and biased knowledge: how often, and how strongly, the stereotype is preferred."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from scoring.report.plots.draw import (
    INK,
    LINE_1,
    LINE_2,
    LINE_3,
    PAPER,
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

#: Scores in percent that are drawn side by side, each with its name for people, its ink and its mark.
SCORES = {
    "ss": Key("stereotype score", LINE_1, "dot"),
    "ps": Key("paraphrased stereotype score", LINE_1, "ring"),
    "metric_score": Key("metric score (all pairs)", LINE_1, "dot"),
    "stereotype_score": Key("stereotype score (stereo pairs)", LINE_2, "dot"),
    "antistereotype_score": Key("anti-stereotype score (antistereo pairs)", LINE_3, "dot"),
    "lms": Key("language-model score", LINE_2, "dot"),
    "icat": Key("ICAT", LINE_3, "dot"),
    "fact_accuracy": Key("facts got right", LINE_2, "ring"),
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
        "Marks are scores, lines their 95 % intervals. A stereotype score of 50 (dotted line) prefers the "
        "stereotype as often as not; the language-model score, ICAT and the share of facts are best at 100.",
        tuple(SCORES[name] for name in names),
        (_scores([e for e in shown if e.group in groups], groups, names),) if groups else (),
    )


def _scores(shown: Sequence[Estimate], groups: Sequence[str], names: Sequence[str]) -> Panel:
    beside = {name: 0.24 * (place - (len(names) - 1) / 2) for place, name in enumerate(names)}
    if len({SCORES[name].ink for name in names}) < len(names):
        # Scores of one ink are of different groups and share a place.
        beside = dict.fromkeys(names, 0.0)

    def paint(axes: Axes) -> None:
        axes.axvline(50, color=SOFT, linewidth=0.9, linestyle=(0, (1, 2)))
        for e in shown:
            place, key = groups.index(e.group) + beside[e.metric], SCORES[e.metric]
            if math.isfinite(e.low):
                axes.plot([e.low, e.high], [place, place], color=key.ink, linewidth=1.6, solid_capstyle="butt")
            inside = PAPER if key.shape == "ring" else key.ink
            axes.plot(e.value, place, "o", color=key.ink, markerfacecolor=inside, markersize=4.2)
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
