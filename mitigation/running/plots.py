"""Pictures of a training's losses and of the effects of blocks; the losses also as JSON."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from cards.common import draw, files, stored
from mitigation.editing.locate import IndirectEffects
from mitigation.training.train import LossCurve
from scoring.adapters.facts import Change

_LINE, _GREY, _SOFT = draw.PALETTE["line-1"], draw.PALETTE["third"], draw.PALETTE["soft"]


def write_losses(curve: LossCurve, out: Path, title: str, step: str = "step") -> None:
    """Writes ``losses.json`` and ``losses.png`` into a folder; ``step`` is the label of the horizontal axis."""
    files.put(out / "losses.json", stored.document(asdict(curve)))
    plot_losses(curve, out / "losses.png", title, step)


def plot_losses(curve: LossCurve, path: Path, title: str, step: str = "step") -> None:
    """Plots each term of the loss in a panel of its own: training batches, and held-out rows if there are any.

    What is measured at validations alone (``gap`` and ``language``) has a panel as well.
    """
    # Held-out rows are measured before the first step too, at 0.
    steps = range(1, len(curve.train) + 1)

    def paint(axes: Axes, name: str) -> None:
        if name in curve.train[0]:
            values = [terms[name] for terms in curve.train]
            axes.plot(steps, values, linewidth=0.8, color=_GREY, label="training batch")
        # A term of training alone, such as that of ordinary text, is measured on no held-out rows.
        measured = [terms for terms in curve.held if name in terms]
        if measured:
            held_steps = [terms["step"] for terms in measured]
            held_values = [terms[name] for terms in measured]
            axes.plot(held_steps, held_values, marker="o", markersize=3, color=_LINE, label="held out")
        draw.titled(axes, name, step)
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)

    names = list(curve.train[0])
    if curve.held:
        names += [name for name in curve.held[0] if name not in names and name != "step"]
    _panels(names, paint, path, title, legend=True)


def plot_effects(effects: IndirectEffects, path: Path, title: str) -> None:
    """Plots the average indirect effect of each block, a panel for each position that is restored."""

    def paint(axes: Axes, position: str) -> None:
        average = effects.average(position)
        colours = [_GREY] * len(average)
        label = f"restored: {position}"
        if position == effects.position:
            colours[effects.layer] = _LINE
            label += " (chosen)"
        axes.bar(range(len(average)), average, color=colours)
        draw.titled(axes, label, "block")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.axhline(0, color=_SOFT, linewidth=0.6)
        if position == next(iter(effects.by_position)):
            axes.set_ylabel("average indirect effect")

    _panels(list(effects.by_position), paint, path, title, sharey=True)


def plot_changes(changes: Sequence[Change], path: Path, title: str) -> None:
    """Plots metrics of groups before and after with their intervals, a panel each, groups in the given order."""

    def paint(axes: Axes, name: str) -> None:
        shown = [change for change in changes if change.metric == name]
        for when, colour, up in (("before", _GREY, 0.12), ("after", _LINE, -0.12)):
            for row, change in enumerate(shown):
                # The legend has each colour once.
                label = when if row == 0 else None
                draw.interval(axes, getattr(change, when), up - row, colour, label=label)
        # SS and PS of 50 are no preference.
        if name != "gap":
            axes.axvline(50, color=_SOFT, linewidth=0.6, linestyle=draw.DOTTED)
        axes.set_yticks([-row for row in range(len(shown))], [change.group for change in shown])
        # The first group is at the top.
        axes.set_ylim(0.5 - len(shown), 0.5)
        # SS and PS are abbreviations; the gap is a word.
        if name == "gap":
            draw.titled(axes, name, "nats")
        else:
            draw.titled(axes, name.upper(), "percent")

    _panels(list(dict.fromkeys(change.metric for change in changes)), paint, path, title, legend=True)


def _panels(
    names: Sequence[str],
    paint: Callable[[Axes, str], None],
    path: Path,
    title: str,
    *,
    legend: bool = False,
    sharey: bool = False,
) -> None:
    """Writes a PNG with a panel for each name."""
    with draw.styled(**{"font.size": 8, "xtick.labelsize": 7, "ytick.labelsize": 7}):
        figure = draw.canvas(3.4 * len(names), 2.8)
        figure.suptitle(title, fontsize=10)
        for axes, name in zip(figure.subplots(1, len(names), sharey=sharey, squeeze=False)[0], names, strict=True):
            paint(axes, name)
        if legend:
            figure.axes[0].legend(fontsize=7, frameon=False)
        files.put(path, draw.image(figure, "png"))
