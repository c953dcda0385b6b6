"""The curves of Figure 7 of UnStereoEval, read from the drawing that its authors released (a PDF with lines).

The scores of four of its six models are in files that few mirrors have; the drawing has a point each 0.06 units. Its
axis is the decimal logarithm, and the paper gives ε in nats: at 0.5 nats the curves are within one point of what
Tables 5 and 6 print (a test).
"""

import math
import re
import zlib
from collections.abc import Mapping
from itertools import product
from pathlib import Path

from scoring.types import ScoringError

#: The sets from left to right, and the models in the order in which each panel draws them: solid, then dashed.
SETS = ("ours-5", "winobias", "winogender", "ours-10", "ours-20")
MODELS = tuple(f"EleutherAI/pythia-{size}{kind}" for size, kind in product(("12b", "6.9b", "70m"), ("", "-deduped")))
#: A line inside a panel: the left, lower edge and the height of the panel, then the line.
_LINE = re.compile(r"q ([\d.]+) ([\d.]+) [\d.]+ ([\d.]+) re W n(.*?)(?=\nQ)", re.DOTALL)
_POINT = re.compile(r"(-?[\d.]+) (-?[\d.]+) [ml]\n")
#: Each line goes from 0 to here, in units of the axis; those of WinoBias and Winogender go on outside of the panel.
_LAST = 6 * math.log(10)
#: The grid has lines of two points.
_LEAST = 10


def curves(path: Path) -> Mapping[tuple[str, str], Mapping[float, float]]:
    """τ in percent by the threshold in nats, for each set and model.

    Raises
    ------
    ScoringError
        When the file does not have the lines of five panels.
    """
    found = []
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", path.read_bytes(), re.DOTALL):
        try:
            text = zlib.decompress(stream).decode("latin-1")
        except zlib.error:  # fonts are in other forms
            continue
        for left, lower, height, line in _LINE.findall(text):
            points = _POINT.findall(line)
            if len(points) < _LEAST:
                continue
            curve = {}
            width = float(points[-1][0]) - float(left)
            for x, y in points:
                threshold = _LAST * (float(x) - float(left)) / width
                curve[threshold] = 100 * (float(y) - float(lower)) / float(height)
            found.append(curve)
    keys = list(product(SETS, MODELS))
    if len(found) != len(keys):
        raise ScoringError(f"{path.name} has {len(found)} lines; expected {len(keys)}: it is no Figure 7.")
    return dict(zip(keys, found, strict=True))


def at(curve: Mapping[float, float], threshold: float) -> float:
    """τ at a threshold between two points of a curve.

    >>> at({0.0: 10.0, 2.0: 30.0}, 0.5)
    15.0
    """
    before = max(x for x in curve if x <= threshold)
    after = min(x for x in curve if x >= threshold)
    if before == after:
        return curve[before]
    part = (threshold - before) / (after - before)
    return (1 - part) * curve[before] + part * curve[after]
