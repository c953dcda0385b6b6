"""Debias tuning before and after: ``python -m benchmarks.debias_tuning --data DIR --model FOLDER``.

Both profiles train on the train split of the neutral probes and are measured on the test split, with
intervals of paired differences: greedy and sampled continuations, next-token probabilities, and the
perplexity of stories sampled from the base model, which are not trained on. A small model takes fewer and
larger steps than the paper's. ``clean`` is trained again with two weights of L_g, to show how many pronouns a
lower GAS costs.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer
from rich.console import Console

from benchmarks.machine import describe
from cards.common.files import replacing
from mitigation.adapters.temporary import attached
from mitigation.recipes import get
from mitigation.running.evaluate import Evaluation, compare_runs
from mitigation.running.run import make_adapter
from mitigation.training.data import TrainingData
from scoring import DATA, benchmarks
from scoring.adapters.facts import Change
from scoring.asking import run
from scoring.inference.generation import Decoding
from scoring.inference.load_options import LoadOptions
from scoring.inputs.prompts import PROMPTS
from scoring.types import Request, ScoringError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scoring.inference.model import Model

RESULT = Path(__file__).with_name("debias_tuning.json")
RECIPE = get("debias_tuning")
CORPUS = "stsb"
#: Settings for a small model, in place of those of the profiles.
SMALL = {"steps": 150, "learning_rate": 2e-3, "corpora": CORPUS, "validation": 64}
#: Weights of L_g for further trainings of ``clean``, which has none.
WEIGHTS = (1.0, 5.0)
#: Way of decoding to the name of a prompt that sets it.
DRAWN = {"greedy": "plain", "sampled": "temperature-1"}
#: The beginning of the stories, their number, and their maximum length in tokens.
OPENING, STORIES, LENGTH = "Once upon a time", 100, 120
#: Metrics to report by way of decoding; only GAS depends on it.
METRICS = {
    "greedy": ("gas", "gas_female", "gld", "add_raw", "add_log", "pronoun_mass", "ratio_female", "perplexity"),
    "sampled": ("gas", "gas_female"),
}
#: Panels of the figure: way of decoding, metric, title.
PANELS = (
    ("greedy", "gas", "GAS, greedy"),
    ("sampled", "gas", "GAS, sampled"),
    ("greedy", "gld", "GLD"),
    ("greedy", "add_raw", "ADD as printed"),
    ("greedy", "pronoun_mass", "pronoun mass"),
    ("sampled", "gas_female", "female share, sampled"),
    ("greedy", "perplexity", "perplexity of stories"),
)


def stories(model: Model) -> tuple[str, ...]:
    """Texts sampled from the model with a fixed seed."""
    requests = [Request(f"story/{number}", OPENING, max_new=LENGTH) for number in range(STORIES)]
    responses = model.answer(requests, decoding=Decoding(temperature=1.0, seed=7))
    return tuple(OPENING + " ".join(item.text.split("\n")).rstrip() for item in responses)


def evaluation_of(model: Model, data: str, limit: int | None) -> Evaluation:
    """An evaluation on the test prompts of the corpus and on stories of the model."""
    (part,) = run.read([benchmarks.get("neutral")], data, "clean", limit)
    own = tuple(item for item in part.splits if item.name.split("/")[1] == CORPUS)
    return Evaluation((replace(part, splits=own, lacking=()),), stories(model))


def variants(profiles: str) -> dict[str, Any]:
    """The settings of each training by its name, for a list of profiles with commas."""
    known = {name: replace(item, **SMALL) for name, item in RECIPE.profiles.items()}
    known |= {f"clean, L_g {weight:g}": replace(known["clean"], l_g=weight) for weight in WEIGHTS}
    if not {*profiles.split(",")} <= {*RECIPE.profiles}:
        raise typer.BadParameter(f"{profiles!r} are not all among {', '.join(RECIPE.profiles)}.")
    return {name: known[name] for name in known if name.split(",")[0] in profiles.split(",")}


def measured(
    model: Model, name: str, evaluation: Evaluation, data: TrainingData, settings: Any, work: Path, errors: Console
) -> Any:
    """One training: its cost, and the changes by way of decoding and metric."""
    adapter, results = make_adapter(RECIPE, settings, model, data, work / "made", errors), {}
    for way, prompt in DRAWN.items():
        before, after = work / f"before-{way}", work / f"after-{way}"
        old = evaluation.run(model, PROMPTS[prompt], before, errors)
        with attached(model, work / "made", name) as tuned:
            new = evaluation.run(tuned, PROMPTS[prompt], after, errors)
        changes, _ = compare_runs(before, after, (old, new), model.kind, evaluation.resamples)
        results[way] = {item.metric: as_json(item) for item in changes if item.metric in METRICS[way]}
    return {
        "l_g": settings.l_g,
        "retention": settings.retention,
        "parameters": adapter.cost.parameters,
        "seconds": round(adapter.cost.seconds, 1),
        "peak_mb": round(adapter.cost.memory / 2**20),
        "changes": results,
    }


def as_json(item: Change) -> dict[str, Any]:
    """A change as JSON: values with intervals to five digits, null for NaN."""
    sides = {"before": item.before, "after": item.after, "difference": item.difference}
    return {
        "n": item.n,
        **{name: [float(f"{number:.5g}") if number == number else None for number in s] for name, s in sides.items()},
    }


#: Before a training, after it (greedy text), and sampled text; colour-blind readers can tell them apart.
COLOURS = ("#8a949e", "#1b4f8f", "#b3541e")


def falls(item: Mapping[str, Any]) -> bool:
    """Whether the interval of a difference lies below zero."""
    high = item["difference"][2]
    return high is not None and high < 0


def plot(results: Mapping[str, Any], path: Path) -> None:
    """Plots metrics before and after each training, with intervals, and GAS against the pronouns that are left."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 4).flat
    for (way, metric, title), axes in zip(PANELS, panels, strict=False):
        sides = [next(iter(results.values()))["changes"][way][metric]["before"]]
        sides += [item["changes"][way][metric]["after"] for item in results.values()]
        plot_values(axes, ["before", *results], sides, title)
    plot_gas_by_mass(panels[len(PANELS)], [item["changes"] for item in results.values()])
    figure.savefig(path, dpi=100, metadata={"Software": None})


def plot_values(axes: Axes, names: list[str], sides: list[list[float | None]], title: str) -> None:
    """Plots one value with its interval per line, the first in grey."""
    for place, (value, low, high) in enumerate(sides):
        if value is None or low is None or high is None:
            axes.text(0.02, place, "no gendered text", fontsize=7, color="#5d666f", va="center")
            continue
        colour = COLOURS[1] if place else COLOURS[0]
        ends = [[value - low], [high - value]]
        axes.errorbar(value, place, xerr=ends, fmt="o", markersize=4, color=colour, clip_on=False)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.5, -0.5)
    style(axes, title)


def plot_gas_by_mass(axes: Axes, results: list[Any]) -> None:
    """Plots GAS against the total probability of pronouns, before and after each training."""
    left = [item["greedy"]["pronoun_mass"] for item in results]
    for way, colour in zip(("greedy", "sampled"), COLOURS[1:], strict=True):
        named = [item[way]["gas"] for item in results]
        spots = [(x["after"][0], y["after"][0]) for x, y in zip(left, named, strict=True)]
        spots.append((left[0]["before"][0], named[0]["before"][0]))
        axes.plot(*zip(*sorted(spots), strict=True), marker="o", markersize=4, linewidth=0.8, color=colour)
        # The label is at the middle of its line.
        middle = sorted(spots)[len(spots) // 2]
        axes.annotate(way, middle, (4, -11), textcoords="offset points", fontsize=7, color=colour)
    axes.set_xlabel("pronoun mass", fontsize=8)
    axes.set_ylim(bottom=0)
    style(axes, "GAS by pronoun mass")


def style(axes: Axes, title: str) -> None:
    """Sets the style of a panel."""
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=7)
    axes.locator_params("x", nbins=5)
    axes.grid(alpha=0.3)
    axes.set_xlim(left=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main(
    model: Annotated[str, typer.Option(metavar="FOLDER", help="A small causal model that has single-token pronouns.")],
    data: Annotated[str, typer.Option(metavar="DIR", help="Built data sets.")] = DATA,
    profile: Annotated[str, typer.Option(metavar="A,B", help="Profiles to train.")] = "paper,clean",
    limit: Annotated[int | None, typer.Option(min=1, help="Take so many rows of each split only.")] = None,
    out: Annotated[Path, typer.Option(help="Where the figures go; the picture stands beside them.")] = RESULT,
) -> None:
    """Trains, measures, and writes ``debias_tuning.json`` and ``debias_tuning.png``."""
    torch.set_num_threads(1)
    errors, results = Console(stderr=True), {}
    with tempfile.TemporaryDirectory() as scratch:
        try:
            loaded = LoadOptions(model, device="cpu").load()
            evaluation = evaluation_of(loaded, data, limit)
            for name, settings in variants(profile).items():
                errors.print(f"{name} …")
                results[name] = measured(
                    loaded, name, evaluation, TrainingData(data, limit), settings, Path(scratch), errors
                )
        except ScoringError as error:
            raise SystemExit(str(error)) from None
    result = {
        "machine": describe("torch", "transformers", "peft"),
        "threads": 1,
        "processor_seconds": round(time.process_time()),
        "model": Path(model).name,
        "corpus": CORPUS,
        "settings": SMALL,
        "stories": {"opening": OPENING, "texts": STORIES, "most_tokens": LENGTH, "sampled_from": "the base model"},
        "trainings": results,
        "falls": {
            name: {metric: falls(item["changes"]["greedy"][metric]) for metric in ("gas", "gld", "add_raw")}
            for name, item in results.items()
        },
    }
    with replacing(out) as file:
        file.write(json.dumps(result, indent=2).encode() + b"\n")
    plot(results, out.with_suffix(".png"))
    print(json.dumps(result["falls"], indent=2))


if __name__ == "__main__":
    typer.run(main)
