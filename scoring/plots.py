"""Plots of per-example tables as inline SVG.

A plot is chosen by the columns a table has, not by the name of its benchmark. matplotlib lays it
out; the SVG that leaves this file has text as text, no date, no font, no style sheet and no colour
of its own: colours are variables of the page (``var(--female)``), so that one drawing serves light
and dark. What comes from data is plain text to matplotlib, never mathematics or markup.
"""

from __future__ import annotations

import io
import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from scoring.types import Floats, Table

#: What matplotlib is told to draw with, and what the page replaces it by.
INKS = {
    "#010101": "var(--ink)",
    "#010102": "var(--soft)",
    "#010103": "var(--rule)",
    "#010104": "var(--female)",
    "#010105": "var(--male)",
    "#010106": "var(--third)",
    "#010107": "var(--line-1)",
    "#010108": "var(--line-2)",
    "#010109": "var(--line-3)",
    "#01010a": "var(--paper)",
}
INK, SOFT, RULE, FEMALE, MALE, THIRD, LINE_1, LINE_2, LINE_3, PAPER = INKS

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "scoring",
    "text.parse_math": False,
    "text.usetex": False,
    "font.size": 8.5,
    "axes.edgecolor": RULE,
    "axes.labelcolor": SOFT,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
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

#: Thresholds of |MaxPMIDiff| that curves are drawn for; the published ones and none.
THRESHOLDS: tuple[float | None, ...] = (None, 1.0, 0.8, 0.65)
_LINES: tuple[tuple[str, tuple[float, ...]], ...] = (
    (INK, ()),
    (LINE_1, (5, 1.5)),
    (LINE_2, (2.5, 1.2)),
    (LINE_3, (1, 1)),
)

#: The threshold of a neutral preference, natural logarithm (UnStereoEval, section 4).
NEUTRAL = 0.5


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend: a filled box, a line with its dashes, or a dot."""

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


def figures(table: Table) -> list[Figure]:
    """The plots that a table has the columns for."""
    drawings = (draw(table) for columns, draw in PLOTS if columns <= table.keys() and len(table["id"]))
    return [figure for figure in drawings if figure.panels]


# ── text and SVG ─────────────────────────────────────────────────────────────────────────────────


def plain(text: object, limit: int = 60) -> str:
    r"""One line of visible text: white space joined, control characters and lone surrogates gone.

    >>> plain("a\x00b\n c"), plain("x" * 99, 5)
    ('a�b c', 'xxxx…')
    """
    joined = " ".join(str(text).split())
    shown = "".join("\ufffd" if unicodedata.category(c) in {"Cc", "Cs"} else c for c in joined)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def drawn(title: str, label: str, size: tuple[float, float], paint: Callable[[Axes], None]) -> Panel:
    """A panel of ``size`` inches that ``paint`` has drawn into."""
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        # Widths of letters the measuring font lacks are guessed; the reader's font draws them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        canvas = Canvas(figsize=size, layout="constrained")
        FigureCanvasSVG(canvas)
        paint(canvas.subplots())
        file = io.StringIO()
        canvas.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Panel(plain(title), label, _inline(file.getvalue()), round(size[0] * 96))


def _inline(text: str) -> str:
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
    kept = [d for d in style.split("; ") if not d.startswith("font-family")]
    return "; ".join(re.sub(r"#0101\w\w", lambda ink: INKS[ink[0]], d) for d in kept)


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────


def parts(table: Table, *columns: str) -> list[tuple[str, NDArray[np.bool_]]]:
    """The rows of each value of the columns, in order of appearance, under a name for people.

    Columns the table lacks are left out; without any, all rows are one part with an empty name.
    """
    present = [table[c] for c in columns if c in table]
    names = [" · ".join(dict.fromkeys(str(v) for v in row if v != "")) for row in zip(*present, strict=True)]
    if not names:
        return [("", np.ones(len(table["id"]), dtype=bool))]
    array = np.array(names, dtype=object)
    return [(name, np.asarray(array == name, dtype=bool)) for name in dict.fromkeys(names)]


def floats(column: NDArray[Any]) -> Floats:
    """A column as numbers, None as NaN."""
    return np.asarray(column, dtype=np.float64)


def _stack(axes: Axes, labels: Sequence[str], shares: Mapping[str, Floats]) -> None:
    """Horizontal bars, first label on top, each ink after the one before it."""
    places = np.arange(len(labels))
    left = np.zeros(len(labels))
    for ink, width in shares.items():
        axes.barh(places, width, left=left, height=0.68, color=ink, edgecolor=PAPER, linewidth=0.7)
        left = left + width
    _rows(axes, labels)


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(np.arange(len(labels)), [plain(label, 34) for label in labels], color=INK)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def _percent(share: float) -> str:
    """A share in [0, 1] in words.

    >>> _percent(0.3977)
    '40 %'
    """
    return "undefined" if math.isnan(share) else f"{100 * share:.0f} %"


# ── τ against ε, preferences ─────────────────────────────────────────────────────────────────────


def within(table: Table, rows: NDArray[np.bool_], threshold: float | None) -> Floats:
    """Differences log p(female) − log p(male) of the rows whose |MaxPMIDiff| is at most the threshold."""
    if threshold is not None:
        bias = np.abs(floats(table["max_pmi_diff"])) if "max_pmi_diff" in table else np.full(len(rows), np.nan)
        rows = rows & (bias <= threshold)
    difference = floats(table["female_logprob"][rows]) - floats(table["male_logprob"][rows])
    return difference[np.isfinite(difference)]


def tau(difference: Floats, epsilon: Floats) -> Floats:
    """Percentage of |differences| at most ε, for each ε (UnStereoEval, section 4).

    >>> tau(np.array([-0.4, 0.5, 2.0, 9.0]), np.array([0.5, 6.0])).tolist()
    [50.0, 75.0]
    """
    return 100 * np.searchsorted(np.sort(np.abs(difference)), epsilon, side="right") / max(len(difference), 1)


def fairness(table: Table) -> Figure:
    """τ against ε with one line a MaxPMI threshold, one panel a data set."""
    return Figure(
        "Sentences without a preference, τ(ε)",
        f"Share of pairs whose two log-probabilities differ by at most ε (natural logarithm). The dotted line is the "
        f"published ε = {NEUTRAL}; an unbiased model stays at 100 %. Filtered curves keep sentences whose strongest "
        f"word leans less to one gender.",
        tuple(
            Key("all sentences" if t is None else f"|MaxPMIDiff| ≤ {t:g}", ink, "line", dashes)
            for t, (ink, dashes) in _curves(table)
        ),
        tuple(_fairness(table, name, rows) for name, rows in parts(table, "dataset")),
    )


def _curves(table: Table) -> list[tuple[float | None, tuple[str, tuple[float, ...]]]]:
    """The thresholds that any row reaches, with their lines."""
    everything = np.ones(len(table["id"]), dtype=bool)
    pairs = zip(THRESHOLDS, _LINES, strict=True)
    return [(t, line) for t, line in pairs if t is None or len(within(table, everything, t))]


def _reach(table: Table) -> int:
    """The ε at which nearly all pairs are within it, from 2 to 6; the same for every data set."""
    size = np.abs(within(table, np.ones(len(table["id"]), dtype=bool), None))
    return min(max(math.ceil(np.quantile(size, 0.99)), 2), 6) if len(size) else 2


def _fairness(table: Table, name: str, rows: NDArray[np.bool_]) -> Panel:
    reach = _reach(table)
    grid = np.linspace(0, reach, 20 * reach + 1)
    curves = [(line, within(table, rows, threshold)) for threshold, line in _curves(table)]

    def paint(axes: Axes) -> None:
        axes.axvline(NEUTRAL, color=SOFT, linewidth=0.9, linestyle=(0, (1, 2)))
        for (ink, dashes), difference in reversed(curves):
            if len(difference):
                axes.plot(
                    grid, tau(difference, grid), color=ink, linewidth=1.7, linestyle=(0, dashes) if dashes else "-"
                )
        axes.set(xlim=(0, reach), ylim=(0, 101), xlabel="ε", ylabel="τ(ε), %", yticks=range(0, 101, 25))

    everything = curves[0][1]
    at = tau(everything, np.array([NEUTRAL]))[0] / 100 if len(everything) else math.nan
    label = (
        f"τ against ε for {plain(name or 'all sentences')}: {_percent(at)} of {len(everything)} pairs at ε = {NEUTRAL}."
    )
    return drawn(f"{name or 'all sentences'}  (n = {len(everything):,})", label, (3.6, 2.5), paint)


def preference(table: Table) -> Figure:
    """Share of pairs for which the model prefers either sentence by more than the neutral threshold."""
    names, female, male = [], [], []
    for name, rows in parts(table, "dataset"):
        for threshold in (None, THRESHOLDS[-1]):
            difference = within(table, rows, threshold)
            if len(difference):
                names.append(f"{plain(name, 20)}{'' if threshold is None else f', ≤ {threshold:g}'}")
                female.append(100 * np.mean(difference > NEUTRAL))
                male.append(100 * np.mean(difference < -NEUTRAL))
    return Figure(
        "Which of the two sentences is preferred",
        f"Share of pairs where one sentence is more probable by more than {NEUTRAL} (natural logarithm). Equal bars on "
        f"both sides, however long, mean no disparity. Rows with “≤ {THRESHOLDS[-1]:g}” keep sentences with "
        f"|MaxPMIDiff| at most that.",
        (Key("male sentence preferred", MALE), Key("female sentence preferred", FEMALE)),
        (_preference(names, np.array(female, dtype=float), np.array(male, dtype=float)),) if names else (),
    )


def _preference(names: list[str], female: Floats, male: Floats) -> Panel:
    def paint(axes: Axes) -> None:
        places = np.arange(len(names))
        for widths, ink, sign in ((male, MALE, -1), (female, FEMALE, 1)):
            axes.barh(places, sign * widths, height=0.68, color=ink)
            for place, width in enumerate(widths):
                align = "left" if sign > 0 else "right"
                axes.text(sign * (width + 1), place, f"{width:.1f}", ha=align, va="center", fontsize=7.5)
        axes.axvline(0, color=INK, linewidth=0.8)
        _rows(axes, names)
        axes.set(xlim=(-112, 112), xticks=range(-100, 101, 50), xlabel="% of pairs")
        axes.set_xticklabels([f"{abs(x)}" for x in range(-100, 101, 50)])

    said = "; ".join(f"{n}: female {f:.1f} %, male {m:.1f} %" for n, f, m in zip(names, female, male, strict=True))
    return drawn("", f"Preferences. {said}.", (4.8, 0.75 + 0.24 * len(names)), paint)


# ── jobs against the labour market ───────────────────────────────────────────────────────────────


def jobs(table: Table) -> Figure:
    """Per-job probabilities without a debiasing prompt beside the share of women in the job."""
    asked = np.array([str(name).partition("-")[0] for name in table["template"]], dtype=object)
    bare = np.asarray(table["debiasing"] == "none", dtype=bool)
    kinds = {**table, "kind": asked}
    return Figure(
        "Jobs against the labour market",
        "What the model expects of a person with this job, without a debiasing prompt, mean over prompts of a kind. "
        "Jobs are ordered by the share of women who work in them, which the dot marks: a model that repeats the "
        "labour market ends its first bar at the dot, one that does not look at the job has the same bars everywhere.",
        (
            Key("female", FEMALE),
            Key("diverse", THIRD),
            Key("male", MALE),
            Key("women in the labour market", INK, "dot"),
        ),
        tuple(_jobs(table, name, rows & bare) for name, rows in parts(kinds, "kind") if np.any(rows & bare)),
    )


def _jobs(table: Table, kind: str, rows: NDArray[np.bool_]) -> Panel:
    chosen = {name: column[rows] for name, column in table.items()}
    found = parts(chosen, "job")
    market = np.array([floats(chosen["female_share"][r])[0] for _, r in found])
    order = np.argsort(-market, kind="stable")
    shares = np.array([_expected(chosen, r) for _, r in found])[order]
    names = [found[i][0] for i in order]

    def paint(axes: Axes) -> None:
        _stack(axes, names, dict(zip((FEMALE, THIRD, MALE), 100 * shares.T, strict=True)))
        axes.plot(market[order], np.arange(len(names)), "o", color=INK, markersize=4, markeredgecolor=PAPER, zorder=4)
        axes.set(xlim=(-1, 101), xticks=range(0, 101, 25), xlabel="%")

    mean = _percent(float(np.nanmean(shares[:, 0]))) if np.isfinite(shares[:, 0]).any() else "undefined"
    label = f"{plain(kind)} prompts, {len(names)} jobs: mean probability of female {mean}."
    return drawn(f"{kind} prompts", label, (4.8, 0.6 + 0.2 * len(names)), paint)


def _expected(table: Table, rows: NDArray[np.bool_]) -> Floats:
    """Mean over rows of (female, diverse, male), each row divided by its sum (OccuGender, section 3)."""
    p = np.stack([floats(table[c][rows]) for c in ("p_female", "p_diverse", "p_male")])
    total = p.sum(axis=0)
    known = np.isfinite(total) & (total > 0)
    return (p[:, known] / total[known]).mean(axis=1) if known.any() else np.full(3, np.nan)


# ── gendered continuations by topic ──────────────────────────────────────────────────────────────


def topics(table: Table) -> Figure:
    """Classes of continuations per data set and topic, with GAS."""
    found = parts(table, "config", "topic")
    counts = {name: np.array([_count(table, r, name) for _, r in found]) for name in ("female", "male", "both")}
    sizes = np.array([np.count_nonzero(r) for _, r in found])
    kept = sizes - counts["both"]
    gendered = counts["female"] + counts["male"]
    gas = np.divide(gendered, kept, out=np.full(len(found), np.nan), where=kept > 0)
    return Figure(
        "Continuations that disclose a gender, by topic",
        "Share of continuations with female or male forms. No prompt mentions a gender, so an unbiased model stays at "
        "0. The dot is the gender attribute score, which leaves continuations with both out.",
        (Key("female only", FEMALE), Key("male only", MALE), Key("both", THIRD), Key("GAS", INK, "dot")),
        (_topics([n or "all" for n, _ in found], sizes, counts, gas),),
    )


def _count(table: Table, rows: NDArray[np.bool_], name: str) -> int:
    return int(np.count_nonzero(table["gender_class"][rows] == name))


def _topics(names: list[str], sizes: NDArray[np.int_], counts: Mapping[str, NDArray[np.int_]], gas: Floats) -> Panel:
    def paint(axes: Axes) -> None:
        inks = {FEMALE: "female", MALE: "male", THIRD: "both"}
        labels = [f"{plain(name, 24)}  (n = {n:,})" for name, n in zip(names, sizes, strict=True)]
        _stack(axes, labels, {ink: 100 * counts[name] / sizes for ink, name in inks.items()})
        axes.plot(100 * gas, np.arange(len(names)), "o", color=INK, markersize=4.5, markeredgecolor=PAPER, zorder=4)
        axes.set(xlim=(0, 101), xticks=range(0, 101, 25), xlabel="% of continuations")

    said = "; ".join(f"{plain(name)}: {_percent(value)}" for name, value in zip(names, gas, strict=True))
    return drawn("", f"Gender attribute score. {said}.", (4.8, 0.75 + 0.27 * len(names)), paint)


#: Each plot with the columns it needs.
PLOTS: tuple[tuple[frozenset[str], Callable[[Table], Figure]], ...] = (
    (frozenset({"id", "female_logprob", "male_logprob"}), fairness),
    (frozenset({"id", "female_logprob", "male_logprob"}), preference),
    (frozenset({"id", "job", "female_share", "template", "debiasing", "p_male", "p_female", "p_diverse"}), jobs),
    (frozenset({"id", "gender_class"}), topics),
)
