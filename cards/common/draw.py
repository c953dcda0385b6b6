"""How every figure is drawn: one palette, one style of axes, one interval, one way to save.

A plot is a module of its own that says what it draws; this one has what they share, the plot of a card, and a result
at a glance: one line for ``repr``, and sentences with small pictures for notebooks. matplotlib is loaded with the first
figure.
"""

from __future__ import annotations

import html
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from cards.common.numbers import supported_digits
from cards.common.verdict import Numbers
from cards.results import Estimate

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: The colours of figures and, with a dark theme, of pages; readers with colour-deficient sight can tell them apart.
PALETTE = {
    "ink": "#1d2125",
    "soft": "#595f66",
    "rule": "#d9dad5",
    "female": "#00664f",
    "male": "#cc7a00",
    "third": "#8a9099",
    "line-1": "#6a35b8",
    "line-2": "#2f9499",
    "line-3": "#a85a12",
    "paper": "#fcfcfa",
}
#: Lines that mark a value, such as an unbiased model's.
DOTTED = (0, (1, 2))
#: A sentence, the value with the ends of its interval, the ideal value, and the ends of the metric's range.
Line = tuple[str, Numbers, float | None, tuple[float, float]]
#: The range of a difference.
FREE = (-math.inf, math.inf)
#: How many headlines one line has.
SHOWN = 6
_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "gender-neutral-probes",
    "text.parse_math": False,  # names come from data
    "text.usetex": False,
}


@contextmanager
def styled(**more: Any) -> Iterator[None]:
    """A block in which figures have the style of this project; ``more`` are settings of matplotlib by name."""
    import matplotlib.style

    with matplotlib.style.context(["default", {**_STYLE, **more}]):
        yield


def canvas(width: float, height: float) -> Figure:
    """An empty figure of a size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def image(figure: Figure, image_format: Literal["svg", "png"] = "svg") -> bytes:
    """The file of a figure; the same figure gives the same bytes."""
    file = io.BytesIO()
    # Metadata with a date or a version would make other bytes of the same figure.
    names = ("Date", "Creator", "Format", "Type") if image_format == "svg" else ("Software",)
    figure.savefig(file, format=image_format, dpi=150, metadata=dict.fromkeys(names))
    return file.getvalue()


def interval(
    axes: Axes, numbers: tuple[float, float, float], row: float, colour: str, inside: str = "", label: str | None = None
) -> None:
    """A score as a dot (filled with ``inside``) on its 95 % interval; ``numbers`` are the value and both ends."""
    value, low, high = numbers
    axes.plot([low, high], [row, row], color=colour, linewidth=1.6, solid_capstyle="butt")
    axes.plot(value, row, "o", color=colour, markerfacecolor=inside or colour, markersize=4.2, label=label)


def titled(axes: Axes, title: str, horizontal: str = "", vertical: str = "") -> None:
    """The title of a panel and the labels of its axes."""
    axes.set_title(title, fontsize=9, loc="left")
    axes.set(xlabel=horizontal, ylabel=vertical)


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


def one_line(heading: str, parts: Sequence[str]) -> str:
    """What ``repr`` says of a result: its heading and the first few of its scores.

    >>> one_line("RunResult of gpt2", ["a 1", "b 2"])
    '<RunResult of gpt2: a 1; b 2>'
    """
    more = [f"and {len(parts) - SHOWN} more"] if len(parts) > SHOWN else []
    return f"<{heading[:160]}: {'; '.join([*parts[:SHOWN], *more]) or 'no scores'}>"


def glance_html(heading: str, lines: Iterable[Line], frame: pd.DataFrame) -> str:
    """A heading, a sentence with a small picture for each line, and all numbers folded, for notebooks."""
    shown = "".join(
        f"<tr><td>{_picture(numbers, mark, ends)}</td><td style='text-align:left'>{html.escape(sentence)}</td></tr>"
        for sentence, numbers, mark, ends in lines
    )
    numbers = frame.to_html(index=False, float_format="{:.4g}".format, na_rep="–", border=0, max_rows=60)
    return (
        f"<p><b>{html.escape(heading)}</b></p><table>{shown}</table>"
        f"<details><summary>All {len(frame)} rows</summary>{numbers}</details>"
    )


def _picture(numbers: Numbers, ideal: float | None, ends: tuple[float, float]) -> str:
    """A value with its interval on the range of its metric, and a tick where it is ideal, as SVG."""
    finite = [x for x in (*numbers, ideal) if x is not None and math.isfinite(x)]
    if math.isnan(numbers[0]):
        return ""
    # A metric without a range is drawn between the numbers that there are.
    least, most = ends if math.isfinite(ends[1] - ends[0]) else (min(finite), max(finite))
    places = [4 + 152 * (x - least) / ((most - least) or 1) for x in finite]
    tick = f"<path d='M{places.pop():.1f} 1V13' stroke='#b5651d'/>" if ideal in finite else ""
    interval = f"<path d='M{places[1]:.1f} 7H{places[2]:.1f}' stroke-width='3'/>" if len(places) == len(numbers) else ""
    return (
        "<svg width='160' height='14' role='img' stroke='#2a6f97'><path d='M4 7H156' stroke='#999' opacity='.5'/>"
        f"{interval}{tick}<circle cx='{places[0]:.1f}' cy='7' r='3' fill='#012a4a' stroke='none'/></svg>"
    )
