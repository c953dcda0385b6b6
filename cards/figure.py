"""Draws scores with their intervals as a forest plot for a card."""

from __future__ import annotations

import math
from collections.abc import Callable

from cards.draw import PALETTE, canvas, image, interval, styled, titled
from cards.results import Estimate, supported_digits


def forest(scores: list[Estimate], labels: list[str]) -> bytes:
    """An SVG with one line per score: its interval on the range of its metric, and the ideal as a tick.

    Each line is scaled to the range of its own metric. The same scores give the same bytes.
    """
    with styled(**{"svg.fonttype": "path"}):
        figure = canvas(7, 0.7 + 0.34 * len(scores))
        axes = figure.subplots()
        for row, score in enumerate(scores):
            place = _scale(score)
            axes.plot([0, 1], [row, row], color=PALETTE["rule"], linewidth=1, zorder=0)
            interval(axes, (place(score.value), place(score.low), place(score.high)), row, PALETTE["ink"])
            if score.ideal is not None:
                axes.plot(place(score.ideal), row, "|", color=PALETTE["male"], markersize=14, markeredgewidth=2)
            axes.text(1.03, row, supported_digits(score.value, score.low, score.high), va="center")
        axes.set_yticks(range(len(scores)), labels)
        axes.set_xticks([0, 1], ["least", "most"])
        axes.set(xlim=(-0.02, 1.16), ylim=(len(scores) - 0.5, -0.5))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        titled(axes, "value with 95 % interval; the vertical tick is the ideal")
        return image(figure)


def _scale(score: Estimate) -> Callable[[float], float]:
    """Maps a value to 0 … 1 on the range of its metric; on its interval when the range is infinite."""
    ends = (score.least, score.most) if math.isfinite(score.most - score.least) else (score.low, score.high)
    width = ends[1] - ends[0]
    return lambda value: (value - ends[0]) / width if width else 0.5
