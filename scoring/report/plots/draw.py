"""How a plot becomes inline SVG, and the pieces that plots share."""

import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from cards.common.draw import PALETTE, canvas, image, styled
from scoring.inputs.columns import length
from scoring.types import Floats, Table

#: What matplotlib is told to draw with, and what the page replaces it by.
INKS = {f"#0101{number:02x}": f"var(--{name})" for number, name in enumerate(PALETTE, 1)}
INK, SOFT, RULE, FEMALE, MALE, THIRD, LINE_1, LINE_2, LINE_3, PAPER = INKS

#: The width in inches of a panel that has the whole width of the page.
FULL = 9.0

_STYLE: dict[str, Any] = {
    "font.size": 8.5,
    "axes.edgecolor": RULE,
    "axes.labelcolor": SOFT,
    "axes.spines.left": False,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.bottom": False,
    "ytick.left": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_DROPPED = {_SVG + tag for tag in ("defs", "metadata", "style")}


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend: a filled box, a line with its dashes, a dot, or a ring."""

    label: str
    ink: str
    shape: str = "box"
    dashes: tuple[float, ...] = ()

    @property
    def colour(self) -> str:
        """The page's variable for the ink."""
        return INKS[self.ink]


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing; ``label`` says in words what it shows, ``width`` is in CSS pixels."""

    title: str
    label: str
    svg: str
    width: int


@dataclass(frozen=True, slots=True)
class Figure:
    """Drawings that share a legend and a caption."""

    title: str
    caption: str
    keys: tuple[Key, ...]
    panels: tuple[Panel, ...]


def plain(text: object, limit: int = 60) -> str:
    r"""One line of visible text: white space joined, control characters and lone surrogates gone.

    >>> plain("a\x00b\n c"), plain("x" * 99, 5)
    ('a�b c', 'xxxx…')
    """
    joined = " ".join(str(text).split())
    shown = "".join("\ufffd" if unicodedata.category(c) in {"Cc", "Cs"} else c for c in joined)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def panel(title: str, label: str, size: tuple[float, float], paint: Callable[[Axes], None]) -> Panel:
    """A panel of ``size`` inches that ``paint`` has drawn into."""
    with styled(**_STYLE), warnings.catch_warnings():
        # Widths of letters the measuring font lacks are guessed; the reader's font draws them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = canvas(*size)
        paint(figure.subplots())
        text = image(figure).decode()
    return Panel(plain(title), label, inline(text), round(size[0] * 96))


def inline(text: str) -> str:
    """An SVG document as an element of a page: no namespaces, identifiers or style sheet, inks as variables.

    Without identifiers, any number of drawings stand in one page: a marker is drawn where it is
    used, and clipping, which nothing here needs, is left out.
    """
    root = ElementTree.fromstring(text)
    marks = {e.get("id"): e.get("d", "") for e in root.iter(f"{_SVG}path")}
    for parent in root.iter():
        parent[:] = [child for child in parent if child.tag not in _DROPPED]
    for element in root.iter():
        if element.tag == f"{_SVG}use":
            element.tag = "path"
            place = f"translate({element.attrib.pop('x')} {element.attrib.pop('y')})"
            element.attrib.update(d=marks[element.attrib.pop(_HREF)[1:]], transform=place)
        element.tag = element.tag.removeprefix(_SVG)
        element.attrib = dict(_attributes(element.attrib))
        element.text, element.tail = element.text if element.tag == "text" else None, None
    root.attrib = {"viewBox": root.attrib["viewBox"], "aria-hidden": "true", "focusable": "false"}
    return ElementTree.tostring(root, encoding="unicode")


def _attributes(attributes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in attributes.items():
        if name == "style":
            yield name, _style(value)
        elif name not in {"id", "clip-path"} and not value.startswith("rotate(-0 "):
            yield name, " ".join(value.split())


def _style(style: str) -> str:
    """Declarations without fonts, with the page's variables for inks."""
    declarations = [d for d in style.split("; ") if not d.startswith("font-family")]
    return "; ".join(re.sub(r"#0101\w\w", lambda ink: INKS[ink[0]], d) for d in declarations)


def parts(table: Table, *columns: str) -> list[tuple[str, NDArray[np.bool_]]]:
    """The rows of each value of the columns, in order of appearance, under a name for people.

    Columns the table lacks are left out; without any, all rows are one part with an empty name.
    """
    present = [table[c] for c in columns if c in table]
    known: dict[tuple[Any, ...], str] = {}
    names = []
    for row in zip(*present, strict=True):
        if row not in known:
            known[row] = " · ".join(dict.fromkeys(str(value) for value in row if value != ""))
        names.append(known[row])
    if not names:
        return [("", np.ones(length(table), dtype=bool))]
    array = np.array(names, dtype=object)
    return [(name, np.asarray(array == name, dtype=bool)) for name in dict.fromkeys(names)]


def floats(column: NDArray[Any]) -> Floats:
    """A column as numbers, None as NaN."""
    return np.asarray(column, dtype=np.float64)


def stack(axes: Axes, labels: Sequence[str], shares: Mapping[str, Floats]) -> None:
    """Horizontal bars, first label on top, each ink after the one before it."""
    places = np.arange(len(labels))
    left = np.zeros(len(labels))
    for ink, width in shares.items():
        axes.barh(places, width, left=left, height=0.68, color=ink, edgecolor=PAPER, linewidth=0.7)
        left = left + width
    labelled(axes, labels)


def dots(axes: Axes, values: Floats) -> None:
    """A dot on each row of bars."""
    axes.plot(values, np.arange(len(values)), "o", color=INK, markersize=4.2, markeredgecolor=PAPER, zorder=4)


def labelled(axes: Axes, labels: Sequence[str]) -> None:
    """A row for each label, the first on top."""
    axes.set_yticks(np.arange(len(labels)), [plain(label, 40) for label in labels], color=INK)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def percent(share: float) -> str:
    """A share in [0, 1] in words.

    >>> percent(0.3977)
    '40 %'
    """
    return "undefined" if math.isnan(share) else f"{100 * share:.0f} %"
