"""A corpus and a model: the lean of the model by the lean of the corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cards.common.draw import DOTTED, PALETTE, canvas, image, styled, titled
from cards.common.sentences import say
from scoring.inputs.corpus_counts import Leans
from scoring.report.plots import draw
from scoring.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: More examples than this are summarised in parts of equal size.
_MOST, _PARTS = 100, 10


def follows(leans: Leans, axis: str) -> draw.Figure:
    """The model's lean by the corpus's lean: a dot an example, or medians and quartiles of ten parts, by group."""
    finite = np.isfinite(leans.corpus) & np.isfinite(leans.model)
    largest = 0
    panels = []
    for group in dict.fromkeys(leans.group.tolist()):
        rows = finite & (leans.group == group)
        if rows.any():
            largest = max(largest, int(rows.sum()))
            panels.append(_panel(str(group), leans.corpus[rows], leans.model[rows], axis))
    # One legend for all panels: that of parts, where any group has too many dots.
    if largest > _MOST:
        which = say("plot.corpus.parts", parts=_PARTS)
        keys = [draw.Key("median of a part", draw.LINE_1, "dot"), draw.Key("half of its examples", draw.LINE_1, "line")]
    else:
        which = say("plot.corpus.dots")
        keys = [draw.Key("example", draw.LINE_1, "dot")]
    caption = f"{say('plot.corpus')} {which}"
    return draw.Figure("The model's lean by the corpus's lean", caption, tuple(keys), tuple(panels))


def picture(panels: Sequence[tuple[str, Floats, Floats, str]]) -> bytes:
    """The same as one SVG file: panels from left to right, each with title, leans of both and axis."""
    with styled():
        figure = canvas(3.9 * len(panels), 3.6)
        every_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, corpus, model, axis) in zip(every_axes, panels, strict=True):
            titled(axes, title)
            _, paint = _painter(corpus, model, axis)
            paint(axes)
        drawn = image(figure).decode()
    # Inks stand for colours that a page changes with its theme; a file by itself has those of the palette.
    for ink, name in zip(draw.INKS, PALETTE, strict=True):
        drawn = drawn.replace(ink, PALETTE[name])
    return drawn.encode()


def _panel(name: str, corpus: Floats, model: Floats, axis: str) -> draw.Panel:
    (x, y), paint = _painter(corpus, model, axis)
    label = f"{draw.plain(name)}: {len(corpus):,} examples; the model's median lean is {y[0]:.2f} "
    label += f"where the corpus's is {x[0]:+.2f}, and {y[-1]:.2f} where it is {x[-1]:+.2f}."
    return draw.panel(f"{name}  (n = {len(corpus):,})", label, (3.2, 2.4), paint)


def _painter(corpus: Floats, model: Floats, axis: str) -> tuple[tuple[Floats, Floats], Callable[[Axes], None]]:
    """The medians of the corpus and of the model by part, and the function that draws them."""
    is_summarised = len(corpus) > _MOST
    count = len(corpus)
    if is_summarised:
        count = _PARTS
    # Parts of equal size, not of equal width: each median is of as many examples.
    parts = np.array_split(np.argsort(corpus, kind="stable"), count)
    x = np.array([np.median(corpus[part]) for part in parts])
    low, y, high = np.array([np.quantile(model[part], (0.25, 0.5, 0.75)) for part in parts]).T

    def paint(axes: Axes) -> None:
        axes.axvline(0, color=draw.SOFT, linewidth=0.8, linestyle=DOTTED)
        # A part of one example has no quartiles.
        if is_summarised:
            axes.vlines(x, low, high, color=draw.LINE_1, linewidth=1.6)
        axes.plot(x, y, "o", color=draw.LINE_1, markersize=4.2, markeredgecolor=draw.PAPER)
        axes.set(xlabel="corpus: mean δ", ylabel=axis)

    return (x, y), paint
