"""Losses of a training as a picture."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mitigation.training.train import Curve


def picture(curve: Curve, path: Path, title: str, step: str = "step") -> None:
    """Draws every part of the loss by step, one panel each: the training batches, and the held-out rows if any."""
    names = list(curve.train[0])
    figure = Figure(figsize=(3.2 * len(names), 2.8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10, parse_math=False)
    steps = range(1, len(curve.train) + 1)
    for name, axes in zip(names, figure.subplots(1, len(names), squeeze=False)[0], strict=True):
        axes.plot(steps, [each[name] for each in curve.train], linewidth=0.8, color="#9aa5b1", label="training batch")
        held = [(each["step"], each[name]) for each in curve.held]
        if held:
            axes.plot(*zip(*held, strict=True), marker="o", markersize=3, color="#1b4f8f", label="held out")
        axes.set_title(name, fontsize=9)
        axes.set_xlabel(step, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.axes[0].legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=150, metadata={"Software": None})
