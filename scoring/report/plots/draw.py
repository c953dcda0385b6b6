"""How a plot becomes inline SVG, and the pieces that plots share."""

from __future__ import annotations

import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from cards.common.draw import PALETTE, canvas, image, styled
from scoring.inputs.columns import length
from scoring.types import Floats, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# matplotlib needs real colours. Each ink is one that no drawing has otherwise, so that it can be found in the SVG.
#: The colours that matplotlib draws with, and the variables of the page that replace them.
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
# Definitions of clip paths and markers, the date of the drawing, and a style sheet that would hold for the whole page.
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
    letters = []
    for letter in " ".join(str(text).split()):
        # XML has no form for control characters (Cc) and lone surrogates (Cs).
        if unicodedata.category(letter) in {"Cc", "Cs"}:
            letters.append("\ufffd")
        else:
            letters.append(letter)
    if len(letters) > limit:
        letters[limit - 1 :] = ["…"]
    return "".join(letters)


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

    Without identifiers, one page may have any number of drawings: a marker is drawn where it is
    used, and clipping, which nothing here needs, is left out.
    """
    root = ElementTree.fromstring(text)
    marks = {path.get("id"): path.get("d", "") for path in root.iter(f"{_SVG}path")}
    for parent in root.iter():
        parent[:] = [child for child in parent if child.tag not in _DROPPED]
    for element in root.iter():
        # matplotlib defines the path of a marker once and names it wherever the marker is; the path takes its place.
        if element.tag == f"{_SVG}use":
            element.tag = "path"
            x = element.attrib.pop("x")
            y = element.attrib.pop("y")
            path = marks[element.attrib.pop(_HREF).removeprefix("#")]
            element.attrib.update(d=path, transform=f"translate({x} {y})")
        element.tag = element.tag.removeprefix(_SVG)
        element.attrib = dict(_attributes(element.attrib))
        # Texts between elements are line breaks and indentation.
        if element.tag != "text":
            element.text = None
        element.tail = None
    root.attrib = {"viewBox": root.attrib["viewBox"], "aria-hidden": "true", "focusable": "false"}
    return ElementTree.tostring(root, encoding="unicode")


def _attributes(attributes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The attributes of an element that a page needs, with inks as variables."""
    for name, value in attributes.items():
        if name == "style":
            yield name, _style(value)
        # A rotation by no angle is what matplotlib gives every horizontal text.
        elif name not in {"id", "clip-path"} and not value.startswith("rotate(-0 "):
            yield name, " ".join(value.split())


def _style(style: str) -> str:
    """Declarations without fonts, with the page's variables for inks."""
    kept = []
    for declaration in style.split("; "):
        if not declaration.startswith("font-family"):
            kept.append(re.sub(r"#0101\w\w", lambda ink: INKS[ink[0]], declaration))
    return "; ".join(kept)


def parts(table: Table, *columns: str) -> list[tuple[str, NDArray[np.bool_]]]:
    """The rows of each value of the columns, in order of appearance, under a name for people.

    Columns the table lacks are left out; without any, all rows are one part with an empty name.
    """
    present = [table[column] for column in columns if column in table]
    known: dict[tuple[Any, ...], str] = {}
    names = []
    for row in zip(*present, strict=True):
        # A name is made once for the rows that share it: tables have many rows and few names.
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
    if math.isnan(share):
        return "undefined"
    return f"{100 * share:.0f} %"
