"""Scores with their intervals as one plot that a card can show."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

from cards.results import Score, shown


def forest(scores: list[Score], labels: list[str]) -> bytes:
    """An SVG with one line a score: its interval on the range of its metric, and its ideal as a tick.

    Metrics have ranges of their own, so each line is from the least to the greatest value of its own.
    The same scores give the same bytes.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "gender-neutral-probes", "svg.fonttype": "path"}):
        figure = Figure(figsize=(7, 0.7 + 0.34 * len(scores)), layout="constrained")
        axes = figure.subplots()
        for row, score in enumerate(scores):
            place = _places(score)
            axes.plot([0, 1], [row, row], color="#d9d9d9", linewidth=1, zorder=0)
            if score.bounded:
                axes.plot([place(score.low), place(score.high)], [row, row], color="#2a6f97", linewidth=3)
            axes.plot(place(score.value), row, "o", color="#012a4a", markersize=5)
            if score.ideal is not None:
                axes.plot(place(score.ideal), row, "|", color="#b5651d", markersize=14, markeredgewidth=2)
            axes.text(1.03, row, shown(score.value), va="center", fontsize=9)
        axes.set_yticks(range(len(scores)), [label.replace("$", r"\$") for label in labels], fontsize=9)
        axes.set_xticks([0, 1], ["least", "most"], fontsize=9)
        axes.set_xlim(-0.02, 1.16)
        axes.set_ylim(len(scores) - 0.5, -0.5)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title("value with 95 % interval; the upright tick is the ideal", fontsize=9, loc="left")
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _places(score: Score) -> Callable[[float], float]:
    """Where a value stands between the ends of its metric; of a metric without ends, between those of the interval."""
    ends = (score.least, score.most) if math.isfinite(score.most - score.least) else (score.low, score.high)
    width = ends[1] - ends[0]
    return lambda value: (value - ends[0]) / width if width else 0.5
