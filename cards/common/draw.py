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

    # Not pyplot, which keeps every figure until it is closed.
    return Figure(figsize=(width, height))


def image(figure: Figure, image_format: Literal["svg", "png"] = "svg") -> bytes:
    """The file of a figure; the same figure gives the same bytes."""
    file = io.BytesIO()
    # Metadata with a date or a version would make other bytes of the same figure.
    names = ["Software"]
    if image_format == "svg":
        names = ["Date", "Creator", "Format", "Type"]
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
    # Letters as paths: the Hub shows the file where the fonts are not known.
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


def models(scores: Sequence[tuple[str, Numbers]], title: str, ideal: float) -> bytes:
    """An SVG with a line for each model, in the given order: its score with its interval, and the ideal value.

    It is written without matplotlib, so that the bytes are the same with every version of it.
    """
    least = min(ideal, *(numbers[1] for _, numbers in scores))
    most = max(ideal, *(numbers[2] for _, numbers in scores))
    left, width, step = 300, 460, 18
    bottom = 40 + step * len(scores)

    def place(value: float) -> str:
        return f"{left + width * (value - least) / ((most - least) or 1):.1f}"

    ink, soft = PALETTE["ink"], PALETTE["soft"]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {bottom + 30}" font-family="sans-serif" '
        f'font-size="12" fill="{ink}">',
        f'<rect width="800" height="{bottom + 30}" fill="{PALETTE["paper"]}"/>',
        f'<text x="20" y="18">{html.escape(title)}, 95 % intervals; the dotted line is the ideal value</text>',
        f'<path d="M{place(ideal)} 28V{bottom}" stroke="{PALETTE["male"]}" stroke-dasharray="2 3"/>',
    ]
    for row, (name, (value, low, high)) in enumerate(scores):
        y = 38 + step * row
        lines.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{html.escape(name[:44])}</text>')
        lines.append(f'<path d="M{place(low)} {y}H{place(high)}" stroke="{ink}" stroke-width="2"/>')
        lines.append(f'<circle cx="{place(value)}" cy="{y}" r="4"/>')
    for value in sorted({least, ideal, most}):
        label = f'<text x="{place(value)}" y="{bottom + 16}" text-anchor="middle" fill="{soft}">{value:.3g}</text>'
        lines.append(label)
    return "\n".join([*lines, "</svg>", ""]).encode()


def _scale(score: Estimate) -> Callable[[float], float]:
    """Maps a value to 0 … 1 on the range of its metric; on its interval when the range is infinite."""
    least, most = score.least, score.most
    if not math.isfinite(most - least):
        least, most = score.low, score.high
    width = most - least

    def place(value: float) -> float:
        # A range of one value has no ends, so its score is in the middle.
        if not width:
            return 0.5
        return (value - least) / width

    return place


def one_line(heading: str, parts: Sequence[str]) -> str:
    """What ``repr`` says of a result: its heading and the first few of its scores.

    >>> one_line("RunResult of gpt2", ["a 1", "b 2"])
    '<RunResult of gpt2: a 1; b 2>'
    """
    shown = list(parts[:SHOWN])
    if len(parts) > SHOWN:
        shown.append(f"and {len(parts) - SHOWN} more")
    return f"<{heading[:160]}: {'; '.join(shown) or 'no scores'}>"


def glance_html(heading: str, lines: Iterable[Line], frame: pd.DataFrame) -> str:
    """A heading, a sentence with a small picture for each line, and all numbers folded, for notebooks."""
    rows = ""
    for sentence, numbers, mark, ends in lines:
        picture = _picture(numbers, mark, ends)
        rows += f"<tr><td>{picture}</td><td style='text-align:left'>{html.escape(sentence)}</td></tr>"
    # A notebook keeps what it shows, so a long table is cut in the middle.
    table = frame.to_html(index=False, float_format="{:.4g}".format, na_rep="–", border=0, max_rows=60)
    return (
        f"<p><b>{html.escape(heading)}</b></p><table>{rows}</table>"
        f"<details><summary>All {len(frame)} rows</summary>{table}</details>"
    )


def _picture(numbers: Numbers, ideal: float | None, ends: tuple[float, float]) -> str:
    """A value with its interval on the range of its metric, and a tick where it is ideal, as SVG."""
    value, low, high = numbers
    if math.isnan(value):
        return ""
    # An infinite ideal value has no place in the picture.
    if ideal is not None and not math.isfinite(ideal):
        ideal = None
    least, most = ends
    if not math.isfinite(most - least):
        # A metric without a range is drawn between the numbers that there are.
        finite = [number for number in numbers if math.isfinite(number)]
        if ideal is not None:
            finite.append(ideal)
        least, most = min(finite), max(finite)

    def place(number: float) -> str:
        # The line is from 4 to 156, so that a dot at its end is whole.
        return f"{4 + 152 * (number - least) / ((most - least) or 1):.1f}"

    interval = tick = ""
    if math.isfinite(high - low):
        interval = f"<path d='M{place(low)} 7H{place(high)}' stroke-width='3'/>"
    if ideal is not None:
        tick = f"<path d='M{place(ideal)} 1V13' stroke='#b5651d'/>"
    return (
        "<svg width='160' height='14' role='img' stroke='#2a6f97'><path d='M4 7H156' stroke='#999' opacity='.5'/>"
        f"{interval}{tick}<circle cx='{place(value)}' cy='7' r='3' fill='#012a4a' stroke='none'/></svg>"
    )
