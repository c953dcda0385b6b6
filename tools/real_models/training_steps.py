"""Scores of UnStereoEval by training step: ``python -m tools.real_models.training_steps OUT [--data output]``.

Gets the published scores of Pythia-6.9B-deduped at steps 0 to 143,000 and of the checkpoints of its intervention from
their pinned addresses (114 MB), and writes ``OUT/steps.parquet`` for ``python -m scoring.commands.rescore``. Then it
writes τ and preference disparity by step with their intervals: ``steps.csv`` and the figure ``steps.svg``. DATA is the
folder of the built data sets, which has MaxPMIDiff of every row.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from builders.sources.catalogue import catalogue
from builders.sources.fetch import Fetcher, default_cache, default_mirror
from cards.common.files import put
from scoring.commands.rescore import Answer, rescore
from scoring.responses import unstereo

PREFIX = "unstereo-steps/pythia-6.9b-deduped-step"
METRICS = ("tau@0.5", "pref_disparity@0.5")
_COLOURS = ("#0072b2", "#d55e00", "#1b1b3a", "#009e73", "#9a9a9a")


def steps() -> list[str]:
    """The names of the checkpoints, such as ``143000`` and ``143000-intervened``, in the order of training."""
    names = [name.removeprefix(PREFIX) for name in catalogue().sources if name.startswith(PREFIX)]
    return sorted(names, key=lambda name: (int(name.partition("-")[0]), name))


def curve(answers: Sequence[Answer]) -> Iterator[dict[str, Any]]:
    """The metrics of whole sets by step, from the answers of :func:`scoring.commands.rescore.rescore`."""
    for answer in answers:
        if answer.facts["max_pmi_diff"] is None and answer.estimate.metric in METRICS:
            names = ("metric", "value", "low", "high", "n", "clusters")
            point = {name: answer.facts[name] for name in ("dataset", "step")}
            for name in names:
                point[name] = getattr(answer.estimate, name)
            yield point


def draw(points: Sequence[dict[str, Any]], path: Path) -> None:
    """Writes the figure: a panel for each metric, a line for each set, a ring for each intervened checkpoint."""
    import matplotlib.style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    names = dict.fromkeys(point["dataset"] for point in points)
    colours = dict(zip(names, _COLOURS, strict=False))
    with matplotlib.style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "steps", "font.size": 9}]):
        figure = Figure(figsize=(8.6, 3.6), layout="constrained")
        FigureCanvasSVG(figure)
        for axes, metric, label in zip(figure.subplots(1, 2), METRICS, ("τ, %", "female − male, points"), strict=True):
            for dataset, colour in colours.items():
                for intervened in (False, True):
                    chosen = [p for p in points if (p["dataset"], p["metric"]) == (dataset, metric)]
                    chosen = [p for p in chosen if p["step"].endswith("-intervened") is intervened]
                    x = np.array([int(p["step"].partition("-")[0]) / 1000 for p in chosen])
                    y, low, high = (np.array([p[name] for p in chosen]) for name in ("value", "low", "high"))
                    style = (
                        {"fmt": "o", "mfc": "none", "ms": 5}
                        if intervened
                        else {"fmt": "o-", "ms": 2.5, "label": dataset}
                    )
                    axes.errorbar(x, y, np.array([y - low, high - y]), color=colour, lw=1, elinewidth=0.8, **style)
            axes.set(xlabel="training step, thousands", ylabel=label)
            axes.spines[["top", "right"]].set_visible(False)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
        figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> None:
    """Gets the scores, writes the score file, the table and the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path("output"))
    parser.add_argument("--mirror", type=Path, default=default_mirror())
    parser.add_argument("--resamples", type=int, default=2000)
    options = parser.parse_args()
    built = [
        split.whole.select(["id", "word", "natural", "max_pmi_diff"]).to_pandas()
        for split in unstereo.splits(options.data)
    ]
    fetcher = Fetcher(default_cache(), options.mirror)
    rows = pd.concat(
        part.assign(step=step)
        for step in steps()
        for part in unstereo.score_rows(fetcher.get(catalogue().sources[PREFIX + step]).paths, built)
    )
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "steps.parquet"
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), file)
    answers, _ = rescore("unstereo", file, options.data, options.resamples, 0)
    points = list(curve(answers))
    lines = [",".join(points[0]), *(",".join(str(value) for value in point.values()) for point in points)]
    put(options.out / "steps.csv", ("\n".join(lines) + "\n").encode())
    draw(points, options.out / "steps.svg")
    print(f"{len(rows):,} rows of {len(steps())} checkpoints are in {file}; the curve is {options.out / 'steps.svg'}.")


if __name__ == "__main__":
    main()
