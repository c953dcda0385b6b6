"""Draws scores with their intervals as a forest plot for a card."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

from cards.results import Score, supported_digits


def forest(scores: list[Score], labels: list[str]) -> bytes:
    """An SVG with one line per score: its interval on the range of its metric, and the ideal as a tick.

    Each line is scaled to the range of its own metric. The same scores give the same bytes.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "gender-neutral-probes", "svg.fonttype": "path"}):
        figure = Figure(figsize=(7, 0.7 + 0.34 * len(scores)), layout="constrained")
        axes = figure.subplots()
        for row, score in enumerate(scores):
            place = _scale(score)
            axes.plot([0, 1], [row, row], color="#d9d9d9", linewidth=1, zorder=0)
            if score.has_interval:
                axes.plot([place(score.low), place(score.high)], [row, row], color="#2a6f97", linewidth=3)
            axes.plot(place(score.value), row, "o", color="#012a4a", markersize=5)
            if score.ideal is not None:
                axes.plot(place(score.ideal), row, "|", color="#b5651d", markersize=14, markeredgewidth=2)
            axes.text(1.03, row, supported_digits(score.value, score.low, score.high), va="center", fontsize=9)
        axes.set_yticks(range(len(scores)), [label.replace("$", r"\$") for label in labels], fontsize=9)
        axes.set_xticks([0, 1], ["least", "most"], fontsize=9)
        axes.set_xlim(-0.02, 1.16)
        axes.set_ylim(len(scores) - 0.5, -0.5)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title("value with 95 % interval; the vertical tick is the ideal", fontsize=9, loc="left")
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _scale(score: Score) -> Callable[[float], float]:
    """Maps a value to 0 … 1 on the range of its metric; on its interval when the range is infinite."""
    ends = (score.least, score.most) if math.isfinite(score.most - score.least) else (score.low, score.high)
    width = ends[1] - ends[0]
    return lambda value: (value - ends[0]) / width if width else 0.5
