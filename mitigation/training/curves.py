"""Writes the losses of a training as JSON and as a picture."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cards.files import put
from mitigation.training.checkpoints import LossCurve


def write_losses(curve: LossCurve, out: Path, title: str, step: str = "step") -> None:
    """Writes ``losses.json`` and ``losses.png`` into a folder; ``step`` is the label of the horizontal axis."""
    put(out / "losses.json", json.dumps(asdict(curve), indent=1).encode() + b"\n")
    plot_losses(curve, out / "losses.png", title, step)


def plot_losses(curve: LossCurve, path: Path, title: str, step: str = "step") -> None:
    """Plots each term of the loss in a panel of its own: training batches, and held-out rows if there are any."""
    names = list(curve.train[0])
    figure = Figure(figsize=(3.2 * len(names), 2.8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10, parse_math=False)
    steps = range(1, len(curve.train) + 1)
    for name, axes in zip(names, figure.subplots(1, len(names), squeeze=False)[0], strict=True):
        axes.plot(steps, [terms[name] for terms in curve.train], linewidth=0.8, color="#9aa5b1", label="training batch")
        held = [(terms["step"], terms[name]) for terms in curve.held]
        if held:
            axes.plot(*zip(*held, strict=True), marker="o", markersize=3, color="#1b4f8f", label="held out")
        axes.set_title(name, fontsize=9)
        axes.set_xlabel(step, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=150, metadata={"Software": None})
