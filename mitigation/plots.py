"""Pictures of a training's losses and of the effects of blocks; the losses also as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cards.files import put
from mitigation.training.checkpoints import LossCurve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from mitigation.editing.locate import IndirectEffects
    from scoring.adapters.facts import Change

_BLUE, _GREY = "#1b4f8f", "#9aa5b1"


def write_losses(curve: LossCurve, out: Path, title: str, step: str = "step") -> None:
    """Writes ``losses.json`` and ``losses.png`` into a folder; ``step`` is the label of the horizontal axis."""
    put(out / "losses.json", json.dumps(asdict(curve), indent=1).encode() + b"\n")
    plot_losses(curve, out / "losses.png", title, step)


def plot_losses(curve: LossCurve, path: Path, title: str, step: str = "step") -> None:
    """Plots each term of the loss in a panel of its own: training batches, and held-out rows if there are any."""
    names = list(curve.train[0])
    figure = _figure(3.2 * len(names))
    figure.suptitle(title, fontsize=10, parse_math=False)
    steps = range(1, len(curve.train) + 1)
    for name, axes in zip(names, figure.subplots(1, len(names), squeeze=False)[0], strict=True):
        axes.plot(steps, [terms[name] for terms in curve.train], linewidth=0.8, color=_GREY, label="training batch")
        held_out = [(terms["step"], terms[name]) for terms in curve.held]
        if held_out:
            axes.plot(*zip(*held_out, strict=True), marker="o", markersize=3, color=_BLUE, label="held out")
        _label(axes, name, step)
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)
    figure.axes[0].legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def plot_effects(effects: IndirectEffects, path: Path, title: str) -> None:
    """Plots the average indirect effect of each block, a panel for each position that is restored."""
    figure = _figure(3.4 * len(effects.by_position))
    figure.suptitle(title, fontsize=10, parse_math=False)
    panels = figure.subplots(1, len(effects.by_position), sharey=True, squeeze=False)[0]
    for axes, position in zip(panels, effects.by_position, strict=True):
        average = effects.average(position)
        chosen = effects.layer if position == effects.position else -1
        axes.bar(range(len(average)), average, color=[_BLUE if n == chosen else _GREY for n in range(len(average))])
        _label(axes, f"restored: {position}" + " (chosen)" * (position == effects.position), "block")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.axhline(0, color="#333333", linewidth=0.6)
    panels[0].set_ylabel("average indirect effect", fontsize=8)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def plot_changes(changes: Sequence[Change], path: Path, title: str) -> None:
    """Plots metrics of groups before and after with their intervals, a panel each, groups in the given order."""
    names = list(dict.fromkeys(change.metric for change in changes))
    figure = _figure(3.4 * len(names))
    figure.suptitle(title, fontsize=10, parse_math=False)
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        shown = [change for change in changes if change.metric == name]
        for when, colour, up in (("before", _GREY, 0.12), ("after", _BLUE, -0.12)):
            for row, change in enumerate(shown):
                value, low, high = getattr(change, when)
                heights = [up - row] * 2
                axes.plot([low, high], heights, color=colour, linewidth=1.2)
                axes.plot([value], heights[:1], "o", color=colour, markersize=4, label=when if not row else None)
        if name != "gap":
            axes.axvline(50, color="#333333", linewidth=0.6, linestyle=":")
        axes.set_yticks([-row for row in range(len(shown))], [change.group for change in shown])
        axes.set_ylim(0.5 - len(shown), 0.5)
        _label(axes, name.upper() if len(name) == 2 else name, "nats" if name == "gap" else "percent")
    figure.axes[0].legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def _figure(width: float) -> Figure:
    figure = Figure(figsize=(width, 2.8), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _label(axes: Axes, title: str, horizontal: str) -> None:
    axes.set_title(title, fontsize=9, parse_math=False)
    axes.set_xlabel(horizontal, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
