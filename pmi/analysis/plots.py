"""Figures: the PMI of two gendered words against each other, the distribution of δ, and the agreement of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cards.common.draw import PALETTE, canvas, image, styled, titled
from cards.common.files import put_all
from cards.common.packages import required
from pmi.analysis.table import Agreement, WordComparison
from pmi.files import FileError
from pmi.types import FloatArray, GenderedPair, PmiError
from pmi.vocabulary import NEUTRAL_DELTA

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

ImageFormat = Literal["svg", "png"]

# Kendall's τ over fewer words than this is not shown.
_MIN_WORDS = 30
_FIRST = PALETTE["female"]
_SECOND = PALETTE["male"]
_BOTH = PALETTE["line-1"]
_GREY = PALETTE["third"]


def write(
    folder: Path, rows: pa.Table, pair: GenderedPair, agreement: Agreement | None, image_format: ImageFormat = "svg"
) -> list[Path]:
    """Writes every figure for which there are values; returns the files.

    Parameters
    ----------
    rows:
        A table as :func:`pmi.analysis.table.table` gives it, with the PMI of both words of ``pair``.
    agreement:
        Agreement of pairs, for another figure.

    Raises
    ------
    PmiError
        When matplotlib is missing or the folder cannot be written.
    """
    # Words without a value are null in the table, and numpy has NaN for them.
    first = pc.fill_null(rows[f"pmi_{pair.first}"], float("nan")).to_numpy()
    second = pc.fill_null(rows[f"pmi_{pair.second}"], float("nan")).to_numpy()
    both = np.isfinite(first) & np.isfinite(second)
    with _styled():
        figures = {}
        if both.any():
            figures["pmi"] = _joint_distribution(first[both], second[both], pair)
            figures["delta"] = _delta_histogram(first[both] - second[both], pair)
        if agreement and len(agreement.pairs) > 1:
            figures["agreement"] = _agreement_matrix(agreement)
        files = []
        for name, figure in figures.items():
            files.append(_saved(figure, folder / f"{name}.{image_format}", image_format))
        return files


def _greys() -> Colormap:
    """Greys in which one word is not white."""
    from matplotlib import colormaps, colors

    return colors.ListedColormap(colormaps["Greys"](np.linspace(0.25, 1, 256)))


def _saved(figure: Figure, path: Path, image_format: ImageFormat) -> Path:
    put_all(path.parent, {path.name: image(figure, image_format)}, FileError)
    return path


def _joint_distribution(first: FloatArray, second: FloatArray, pair: GenderedPair) -> Figure:
    """PMI with one word against PMI with the other, with the histogram of each at the sides (Figure 4)."""
    figure = canvas(5.6, 5.2)
    grid = figure.add_gridspec(2, 2, width_ratios=(5, 1), height_ratios=(1, 5))
    middle = figure.add_subplot(grid[1, 0])
    low, high = float(min(first.min(), second.min())), float(max(first.max(), second.max()))
    pad = 0.03 * (high - low) or 1.0
    limits = low - pad, high + pad
    cells = middle.hexbin(second, first, gridsize=60, bins="log", cmap=_greys(), mincnt=1, extent=limits * 2)
    middle.axline((low, low), slope=1, color=_GREY, lw=0.8)
    for shift, colour in ((NEUTRAL_DELTA, _FIRST), (-NEUTRAL_DELTA, _SECOND)):
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
    titled(top, f"{len(first):,} words near both {pair.first} and {pair.second}")
    return figure


def _delta_histogram(delta: FloatArray, pair: GenderedPair) -> Figure:
    """The distribution of δ (Figure 5), with the band of gender-neutral words."""
    figure = canvas(5.6, 3.4)
    axes = figure.subplots()
    largest = max(float(np.abs(delta).max()), NEUTRAL_DELTA)
    # The ends of the band are ends of bars.
    # Three bars on each side of 0 are within the band.
    n_bars = int(np.ceil(3 * largest / NEUTRAL_DELTA))
    edges = (np.arange(-n_bars, n_bars + 1) * NEUTRAL_DELTA / 3).tolist()
    below = delta[delta < -NEUTRAL_DELTA]
    neutral = delta[np.abs(delta) <= NEUTRAL_DELTA]
    above = delta[delta > NEUTRAL_DELTA]
    axes.hist(
        [below, neutral, above],
        bins=edges,
        color=[_SECOND, _BOTH, _FIRST],
        histtype="barstacked",
    )
    inside = f"|δ| ≤ {NEUTRAL_DELTA}: {len(neutral) / len(delta):.1%} of words"
    axes.axvspan(-NEUTRAL_DELTA, NEUTRAL_DELTA, color=_GREY, alpha=0.25, lw=0, label=inside)
    median = float(np.median(delta))
    axes.axvline(median, color="black", lw=0.9, label=f"median {median:+.2f}")
    axes.set(xlabel=f"δ(w) = PMI(w, {pair.first}) − PMI(w, {pair.second})", ylabel="words", xlim=(-largest, largest))
    axes.legend(frameon=False, fontsize=8)
    return figure


def write_comparison(
    path: Path, comparison: WordComparison, names: tuple[str, str], image_format: ImageFormat = "svg"
) -> Path:
    """Writes a figure of the δ in one table against the δ in another.

    Raises
    ------
    PmiError
        When matplotlib is missing or the file cannot be written.
    """
    with _styled():
        figure = canvas(5.0, 4.6)
        axes = figure.subplots()
        cells = axes.hexbin(comparison.first, comparison.second, gridsize=60, bins="log", cmap=_greys(), mincnt=1)
        axes.axline((0, 0), slope=1, color=_GREY, lw=0.8)
        axes.axhline(0, color=_GREY, lw=0.5, ls=(0, (4, 2)))
        axes.axvline(0, color=_GREY, lw=0.5, ls=(0, (4, 2)))
        title = f"{len(comparison.words):,} words of both, Kendall's τ {comparison.tau:.2f}"
        titled(axes, title, f"δ in {names[0]}", f"δ in {names[1]}")
        figure.colorbar(cells, ax=axes, label="words", format="{x:,.0f}")
        return _saved(figure, path, image_format)


@contextmanager
def _styled() -> Iterator[None]:
    with required("A figure", "pmi", PmiError), styled():
        yield


def _agreement_matrix(agreement: Agreement) -> Figure:
    """Kendall's τ of every two pairs (Figure 6), the lower half; blank where few words have both δ."""
    n = len(agreement.pairs)
    side = 1.8 + 0.19 * n
    figure = canvas(side + 0.6, side)
    axes = figure.subplots()
    hidden = np.triu(np.ones((n, n), bool)) | ~np.isfinite(agreement.tau) | (agreement.n_words < _MIN_WORDS)
    shown = np.ma.masked_where(hidden, agreement.tau)
    image = axes.imshow(shown, vmin=-1, vmax=1, cmap="PuOr_r")
    names = [f"{pair.first}, {pair.second}" for pair in agreement.pairs]
    axes.set_xticks(range(n), names, rotation=90, fontsize=6.5)
    axes.set_yticks(range(n), names, fontsize=6.5)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, shrink=0.6, label="Kendall's τ")
    return figure
