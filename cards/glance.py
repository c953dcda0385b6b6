"""A result at a glance: one line for ``repr``, and sentences with small pictures for notebooks."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cards.verdict import Numbers

if TYPE_CHECKING:
    import pandas as pd

#: A sentence, the value with the ends of its interval, the ideal value, and the ends of the metric's range.
Line = tuple[str, Numbers, float | None, tuple[float, float]]
#: The range of a difference.
FREE = (-math.inf, math.inf)
#: How many headlines one line has.
SHOWN = 6


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
    least, most = ends if math.isfinite(ends[1] - ends[0]) else (min(finite), max(finite))
    places = [4 + 152 * (x - least) / ((most - least) or 1) for x in finite]
    tick = f"<path d='M{places.pop():.1f} 1V13' stroke='#b5651d'/>" if ideal in finite else ""
    interval = f"<path d='M{places[1]:.1f} 7H{places[2]:.1f}' stroke-width='3'/>" if len(places) == len(numbers) else ""
    return (
        "<svg width='160' height='14' role='img' stroke='#2a6f97'><path d='M4 7H156' stroke='#999' opacity='.5'/>"
        f"{interval}{tick}<circle cx='{places[0]:.1f}' cy='7' r='3' fill='#012a4a' stroke='none'/></svg>"
    )
