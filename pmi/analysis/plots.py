"""Pictures of a table: the PMI of two gendered words against each other, δ, and how far pairs agree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pmi.analysis.analyse import Agreement, Floats
from pmi.analysis.comparison import Comparison
from pmi.files import replacing
from pmi.types import Pair, PmiError
from pmi.vocabulary import WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

Format = Literal["svg", "png"]

_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "pmi",
    "text.parse_math": False,
}
# Fewer words than these say nothing of how two pairs agree.
_FEW = 30
# Colours that stay apart for colour-blind readers and in print.
_FIRST, _SECOND, _BOTH, _GREY = "#b2478a", "#2f7f8f", "#4a4a68", "#9a9a9a"


def write(folder: Path, found: pa.Table, pair: Pair, agreed: Agreement | None, form: Format = "svg") -> list[Path]:
    """Writes every picture that there are values for; returns the files.

    Parameters
    ----------
    found:
        As :func:`pmi.analysis.analyse.table` gives it, with the PMI of both words of ``pair``.
    agreed:
        Drawn when given.

    Raises
    ------
    PmiError
        When matplotlib is missing or the folder cannot be written.
    """
    first, second = (_values(found, f"pmi_{word}") for word in (pair.first, pair.second))
    both = np.isfinite(first) & np.isfinite(second)
    with _styled():
        figures = {}
        if both.any():
            figures["pmi"] = _joint(first[both], second[both], pair)
            figures["delta"] = _difference(first[both] - second[both], pair)
        if agreed and len(agreed.pairs) > 1:
            figures["agreement"] = _matrix(agreed)
        return [_saved(figure, folder / f"{name}.{form}", form) for name, figure in figures.items()]


def _values(found: pa.Table, name: str) -> Floats:
    values: Floats = pc.fill_null(found[name], float("nan")).to_numpy()
    return values


def _greys() -> Colormap:
    """Greys that are not white where there is one word."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["Greys"](np.linspace(0.25, 1, 256)))


def _canvas(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _saved(figure: Figure, path: Path, form: Format) -> Path:
    metadata = {"Date": None} if form == "svg" else {"Software": None}
    with replacing(path) as file:
        figure.savefig(file, format=form, dpi=160, metadata=metadata)
    return path


def _joint(first: Floats, second: Floats, pair: Pair) -> Figure:
    """PMI with one word against PMI with the other, with the spread of each at the sides (Figure 4)."""
    figure = _canvas(5.6, 5.2)
    grid = figure.add_gridspec(2, 2, width_ratios=(5, 1), height_ratios=(1, 5))
    middle = figure.add_subplot(grid[1, 0])
    low, high = float(min(first.min(), second.min())), float(max(first.max(), second.max()))
    pad = 0.03 * (high - low) or 1.0
    limits = low - pad, high + pad
    cells = middle.hexbin(second, first, gridsize=60, bins="log", cmap=_greys(), mincnt=1, extent=limits * 2)
    middle.axline((low, low), slope=1, color=_GREY, lw=0.8)
    for shift, colour in ((WIDTH, _FIRST), (-WIDTH, _SECOND)):
        middle.axline((low, low + shift), slope=1, color=colour, lw=0.8, ls=(0, (4, 2)))
    middle.set(xlim=limits, ylim=limits, xlabel=f"PMI(w, {pair.second})", ylabel=f"PMI(w, {pair.first})")
    bins = np.linspace(*limits, 61).tolist()
    top, side = figure.add_subplot(grid[0, 0], sharex=middle), figure.add_subplot(grid[1, 1], sharey=middle)
    top.hist(second, bins=bins, color=_SECOND)
    side.hist(first, bins=bins, color=_FIRST, orientation="horizontal")
    for axes, ticks in ((top, top.yaxis), (side, side.xaxis)):
        axes.tick_params(labelbottom=False, labelleft=False, left=False, bottom=False)
        ticks.set_visible(False)
        axes.spines[["left", "bottom"]].set_visible(False)
    figure.colorbar(cells, ax=side, label="words", fraction=0.6, aspect=30, format="{x:,.0f}")
    top.set_title(f"{len(first):,} words near both {pair.first} and {pair.second}", fontsize=9, loc="left")
    return figure


def _difference(delta: Floats, pair: Pair) -> Figure:
    """The spread of δ (Figure 5), with the middle band that neutral words are drawn from."""
    figure = _canvas(5.6, 3.4)
    axes = figure.subplots()
    far = max(float(np.abs(delta).max()), WIDTH)
    # The ends of the band are ends of bars.
    reach = int(np.ceil(3 * far / WIDTH))
    edges = (np.arange(-reach, reach + 1) * WIDTH / 3).tolist()
    axes.hist(
        [delta[delta < -WIDTH], delta[np.abs(delta) <= WIDTH], delta[delta > WIDTH]],
        bins=edges,
        color=[_SECOND, _BOTH, _FIRST],
        histtype="barstacked",
    )
    inside = float((np.abs(delta) <= WIDTH).mean())
    axes.axvspan(-WIDTH, WIDTH, color=_GREY, alpha=0.25, lw=0, label=f"|δ| ≤ {WIDTH}: {inside:.1%} of words")
    median = float(np.median(delta))
    axes.axvline(median, color="black", lw=0.9, label=f"median {median:+.2f}")
    axes.set(xlabel=f"δ(w) = PMI(w, {pair.first}) − PMI(w, {pair.second})", ylabel="words", xlim=(-far, far))
    axes.legend(frameon=False, fontsize=8)
    return figure


def comparison(path: Path, compared: Comparison, names: tuple[str, str], form: Format = "svg") -> Path:
    """Writes a picture of the δ of one table against that of another.

    Raises
    ------
    PmiError
        When matplotlib is missing or the file cannot be written.
    """
    with _styled():
        figure = _canvas(5.0, 4.6)
        axes = figure.subplots()
        cells = axes.hexbin(compared.one, compared.other, gridsize=60, bins="log", cmap=_greys(), mincnt=1)
        axes.axline((0, 0), slope=1, color=_GREY, lw=0.8)
        axes.axhline(0, color=_GREY, lw=0.5, ls=(0, (4, 2)))
        axes.axvline(0, color=_GREY, lw=0.5, ls=(0, (4, 2)))
        axes.set(xlabel=f"δ in {names[0]}", ylabel=f"δ in {names[1]}")
        axes.set_title(f"{len(compared.words):,} words of both, Kendall's τ {compared.tau:.2f}", fontsize=9, loc="left")
        figure.colorbar(cells, ax=axes, label="words", format="{x:,.0f}")
        return _saved(figure, path, form)


@contextmanager
def _styled() -> Iterator[None]:
    try:
        import matplotlib.style
    except ModuleNotFoundError:
        raise PmiError("Pictures need the package matplotlib; install it with pip install matplotlib.") from None
    with matplotlib.style.context(["default", _STYLE]):
        yield


def _matrix(agreed: Agreement) -> Figure:
    """Kendall's τ of every two pairs (Figure 6), the lower half; blank where it rests on few words."""
    n = len(agreed.pairs)
    side = 1.8 + 0.19 * n
    figure = _canvas(side + 0.6, side)
    axes: Axes = figure.subplots()
    hidden = np.triu(np.ones((n, n), bool)) | ~np.isfinite(agreed.tau) | (agreed.words < _FEW)
    shown = np.ma.masked_where(hidden, agreed.tau)
    image = axes.imshow(shown, vmin=-1, vmax=1, cmap="PuOr_r")
    names = [f"{pair.first}, {pair.second}" for pair in agreed.pairs]
    axes.set_xticks(range(n), names, rotation=90, fontsize=6.5)
    axes.set_yticks(range(n), names, fontsize=6.5)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, shrink=0.6, label="Kendall's τ")
    return figure
