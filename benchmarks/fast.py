"""The fairness stamp on models with a known bias: ``python -m benchmarks.fast``.

Models of the shapes of GPT-2 and BERT learn an artificial language, and a bias is trained into one block of
each. The benchmark measures: whether tracing finds the block; what a stamp changes on the edited pairs, on
paraphrases, on held-out workers, on facts and on neutral text; and the effect of its block and of its units,
as in figure 7 of *Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al.,
2024). Edits use the code of ``python -m mitigation fast``.

SS after an edit counts the signs of small remaining gaps, so rounding changes it: the same model on another
processor has another SS. Conclusions are therefore about several models together, with intervals, and the
small models of the tests are measured with several instruction sets (``--small``, one per call, chosen by
``ATEN_CPU_CAPABILITY=default``, ``avx2`` or ``avx512``).
"""

from __future__ import annotations

import io
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console
from scipy.special import stdtrit  # type: ignore[import-untyped]
from transformers.utils import logging

from benchmarks.machine import describe
from benchmarks.made_language import Language
from benchmarks.planted import Kind, ToyModelConfig, ToyTrainer, save
from cards.common.files import put
from mitigation.editing.locate import locate
from mitigation.recipes.fast import RECIPE, FastSettings
from mitigation.running.evaluate import Evaluation
from mitigation.running.run import make_and_evaluate
from mitigation.training.data import TrainingData
from scoring import benchmarks
from scoring.adapters.facts import Adapter
from scoring.asking import run
from scoring.inference.load_options import LoadOptions
from scoring.inference.model import Model
from scoring.statistics.stats import RESAMPLES

RESULT = Path(__file__).with_name("fast.json")
PICTURE = RESULT.with_suffix(".png")
#: The scores in the picture, with their names and ideal values, and a colour for each kind of model.
IDEALS = {
    "ss": ("stereotype score", 50),
    "icat": ("ICAT", 100),
    "lms": ("language score", 100),
    "ds": ("same facts", 100),
}
COLOURS = ("#1b4f8f", "#b5452c")
LANGUAGE = Language()
SHAPES: dict[Kind, str] = {"causal": "GPT-2", "masked": "BERT"}
CONFIGS: dict[Kind, ToyModelConfig] = {
    "causal": ToyModelConfig(embedding_scale=4.0),
    "masked": ToyModelConfig(steps=900, learning_rate=1e-3),
}
#: Small models of the tests: language, models, and the settings of their edits. With fewer pairs, more passes in
#: smaller batches take as many steps.
SMALL_LANGUAGE = Language(workers=30, lands=6, prompts=3)
SMALL_CONFIGS: dict[Kind, ToyModelConfig] = {
    "causal": ToyModelConfig(layers=3, width=32, steps=300, bias_steps=200, learning_rate=6e-3, embedding_scale=4.0),
    "masked": ToyModelConfig(layers=3, width=48, steps=500, bias_steps=200, learning_rate=1e-3),
}
#: The block with the bias in the edited models.
PLANTED = 1
#: The ratio of units to width is that of the paper. Chosen with models of the seeds 10 and 11, which are not reported.
MADE: dict[str, Any] = {"units": 64, "rate": 4e-3}
#: One pass that trains each batch to its end, as in the paper, with a lower learning rate.
ONE_PASS: dict[str, Any] = {"units": 64, "passes": 1, "batch": 12, "iterations": 60, "rate": 2e-3}
SMALL_EDIT: dict[str, Any] = MADE | {"batch": 8, "passes": 60}
EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "passes": ("clean", MADE),
    "one pass": ("clean", ONE_PASS),
    "clean": ("clean", {}),
    "paper, 64 units": ("paper", {"units": 64}),
    "paper": ("paper", {}),
}
#: Seeds of models, biases and stamps; no setting was chosen with them. The first has the bias in each block in turn.
SEEDS = (0, 1, 2, 3, 4)
#: Seeds of the models that are also edited in other blocks and with other units.
SWEPT = (0,)
#: Of the distance of SS from 50, at most this share may remain, as a mean over models with its interval.
GOALS = {"ss_distance_left": 0.25, "ds_unrelated": 80.0, "blocks_found": 2}
UNITS = (1, 8, 64, 512)
#: Reported figures: benchmark, group and metric.
FIGURES = {
    "ss": ("stereoset", "intrasentence test gender", "ss"),
    "lms": ("stereoset", "intrasentence test gender", "lms"),
    "icat": ("stereoset", "intrasentence test gender", "icat"),
    "ps": ("biaske", "paraphrases", "ps"),
    "ss_held_out": ("stereoset", "intrasentence validation gender", "ss"),
    "ds": ("biaske", "differentiation", "ds"),
    "ds_unrelated": ("biaske", "differentiation unrelated", "ds"),
    "ds_tools": ("biaske", "differentiation tools", "ds"),
    "ds_kin": ("biaske", "differentiation gender", "ds"),
    "fact_accuracy": ("biaske", "differentiation", "fact_accuracy"),
}


class StampExperiment:
    """An artificial language on disk, and edits of models that learnt it."""

    def __init__(self, language: Language, folder: Path, resamples: int = RESAMPLES) -> None:
        self.folder, self.resamples = folder, resamples
        self.source = str(language.build(folder / "data"))
        self.texts = tuple(language.neutral())
        self.edits = 0

    def edit(self, model: Path, settings: FastSettings) -> Adapter:
        """The facts of a stamp for the model in a folder, evaluated before and after."""
        self.edits += 1
        out, quiet = self.folder / f"stamp-{self.edits}", Console(file=io.StringIO())
        adapter = make_and_evaluate(
            RECIPE,
            settings,
            LoadOptions(str(model), device="cpu"),
            TrainingData(self.source),
            out,
            self._evaluation,
            quiet,
            quiet,
        )
        assert adapter is not None
        return adapter

    def _evaluation(self, _: Model) -> Evaluation:
        picked = [benchmarks.get(name) for name in ("stereoset", "biaske")]
        return Evaluation(tuple(run.read(picked, self.source, "clean")), self.texts, "clean", self.resamples)


def figures(adapter: Adapter) -> dict[str, dict[str, Any]]:
    """Each reported figure (in percent) and the perplexity, before and after an edit, with intervals."""
    changes = {(c.benchmark, c.group, c.metric): c for c in adapter.changes}
    keys = FIGURES | {"perplexity": next((key for key in changes if key[0] == "text"), ("", "", ""))}
    return {
        name: {"before": _rounded(changes[key].before), "after": _rounded(changes[key].after), "n": changes[key].n}
        for name, key in keys.items()
        if key in changes
    }


def _rounded(values: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(value) else round(value, 2) for value in values]


def edited(experiment: StampExperiment, model: Path, settings: FastSettings) -> dict[str, Any]:
    """The figures of an edit, the mean gap of the edited pairs in nats before and after, and its cost."""
    adapter = experiment.edit(model, settings)
    gap = {when: round(adapter.measures[f"gap_edited_{when}"][0], 4) for when in ("before", "after")}
    cost = {"parameters": adapter.cost.parameters, "seconds": round(adapter.cost.seconds, 1)}
    return {"figures": figures(adapter), "gap": gap, **cost}


def located(trainer: ToyTrainer, network: Any) -> dict[str, Any]:
    """The average indirect effect of each block, and the block with the largest."""
    model = Model(network, trainer.tokenizer, kind=trainer.kind, name="made")
    effects = locate(model, list(trainer.language.pairs(held_out=False)))
    return {"found": effects.layer, "effects": [round(float(effect), 4) for effect in effects.average()]}


def shape(kind: Kind, experiment: StampExperiment, step: Callable[[str], None]) -> dict[str, Any]:
    """All figures of one shape; ``step`` is called with a line before each step."""
    blocks, effects, folders = range(CONFIGS[kind].layers), {}, {}
    for seed in SEEDS:
        trainer = ToyTrainer(LANGUAGE, kind, replace(CONFIGS[kind], seed=seed))
        step(f"seed {seed}: the language")
        plain = trainer.train_neutral()
        for layer in blocks if seed == SEEDS[0] else (PLANTED,):
            step(f"seed {seed}: the bias in block {layer}")
            planted = trainer.train_bias(plain, layer)
            effects[seed, layer] = located(trainer, planted)
            folders[seed, layer] = save(planted, trainer.tokenizer, experiment.folder / f"{kind}-{seed}-{layer}")

    @cache
    def stamped(settings: FastSettings) -> dict[str, Any]:
        step(f"an edit: {settings}")
        return edited(experiment, folders[settings.seed, PLANTED], settings)

    def swept(**changed: Any) -> dict[int, dict[str, Any]]:
        return {seed: stamped(changed_settings("clean", seed=seed, **MADE | changed)) for seed in SWEPT}

    seeds = {
        seed: {"planted": effects[seed, PLANTED]} | stamped(changed_settings("clean", seed=seed, **MADE))
        for seed in SEEDS
    }
    return {
        "shape": SHAPES[kind],
        "toy_model": asdict(CONFIGS[kind]),
        "parameters": sum(weight.numel() for weight in plain.parameters()),
        "planted": {layer: effects[SEEDS[0], layer] for layer in blocks},
        "edited": PLANTED,
        "seeds": seeds,
        "means": mean(seeds),
        "edits": {
            name: stamped(changed_settings(profile, seed=SEEDS[0], **changed))
            for name, (profile, changed) in EDITS.items()
        },
        "by_layer": {layer: swept(layer=layer) for layer in blocks},
        "by_units": {units: swept(units=units) for units in UNITS},
    }


def mean(edits: Mapping[Any, Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """The mean of each figure over edits of several models, before and after."""
    models = [edit["figures"] for edit in edits.values()]
    return {name: _mean([figures[name] for figures in models]) for name in models[0]}


def _mean(figure: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The mean of a figure over models, before and after; None if it is undefined for a model."""
    values = {when: [model[when][0] for model in figure] for when in ("before", "after")}
    return {when: None if None in column else round(statistics.fmean(column), 2) for when, column in values.items()}


def changed_settings(profile: str, **changed: Any) -> FastSettings:
    """Settings of a profile for the block with the bias: all pairs of the test split, without prefixes.

    No English sentence that states a gender is kept, because the language is an artificial one.
    """
    common = {"layer": PLANTED, "held_out": 0.0, "prefixes": 0, "delta": 0.0}
    settings: FastSettings = replace(RECIPE.profiles[profile], **common | changed)
    return settings


def plot(result: Mapping[str, Any], path: Path) -> None:
    """Plots means of SS, ICAT, LMS and DS after edits, a panel each, by the block and by the units of the stamp."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(IDEALS), sharey=True)
    for row, (sweep, label) in zip(panels, (("by_layer", "block of the stamp"), ("by_units", "units")), strict=True):
        for axes, (name, (title, ideal)) in zip(row, IDEALS.items(), strict=True):
            axes.axhline(ideal, color="#333333", linewidth=0.6, linestyle=":")
            for each, colour, line in zip(result["shapes"].values(), COLOURS, ("-o", "--s"), strict=True):
                swept = each[sweep]
                values = [mean(swept[at])[name]["after"] for at in swept]
                axes.plot([*map(int, swept)], values, line, color=colour, markersize=3.5)
            axes.set_ylim(-3, 106)
            axes.set_xlabel(label, fontsize=8)
            axes.set_title(f"{title}, ideal {ideal}", fontsize=9)
            axes.tick_params(labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
            if sweep == "by_units":
                axes.set_xscale("log", base=8)
                axes.set_xticks(UNITS, [str(units) for units in UNITS])
            else:
                axes.set_xticks([*map(int, swept)])
        row[0].set_ylabel("percent after the edit", fontsize=8)
    # In the first panel the lines are labelled, where they are far apart; in the others colours are the same.
    for height, (each, colour) in zip((18, 8), zip(result["shapes"].values(), COLOURS, strict=True), strict=True):
        panels[0][0].text(
            0, height, f"{each['shape']} ({'solid' if height == 18 else 'dashed'})", color=colour, fontsize=8
        )
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main(
    only: Annotated[str, typer.Option(help="causal or masked; the figures of the other shape stay as they are.")] = "",
    small_models: Annotated[
        bool, typer.Option("--small", help="Measure only the small models, with the instruction set of this process.")
    ] = False,
    resamples: Annotated[int, typer.Option(min=2, help="Bootstrap resamples.")] = RESAMPLES,
) -> None:
    """Measures, prints, and writes ``fast.json`` and ``fast.png``."""
    torch.set_num_threads(1)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    console = Console(stderr=True)
    if small_models:
        result = json.loads(RESULT.read_text(encoding="utf-8"))
        result["small"][torch.backends.cpu.get_cpu_capability()] = small(SEEDS)
        put(RESULT, json.dumps(result, indent=1).encode() + b"\n")
        return
    shapes: dict[str, Any] = {}
    for kind in SHAPES:
        if only in ("", kind):
            start = time.perf_counter()
            with tempfile.TemporaryDirectory() as scratch:
                experiment = StampExperiment(LANGUAGE, Path(scratch), resamples)
                shapes[kind] = shape(kind, experiment, console.log)
            shapes[kind] |= judge(shapes[kind]) | {"seconds": round(time.perf_counter() - start)}
    older = json.loads(RESULT.read_text(encoding="utf-8"))
    merged = (older["shapes"] if only else {}) | json.loads(json.dumps(shapes))
    result = {
        "machine": describe("torch", "transformers", "peft"),
        "threads": 1,
        "resamples": resamples,
        "language": asdict(LANGUAGE) | {"pairs_edited": len(list(LANGUAGE.pairs(held_out=False)))},
        "goals": GOALS,
        "shapes": {kind: merged[kind] for kind in SHAPES if kind in merged},
        "small": older["small"],
    }
    put(RESULT, json.dumps(result, indent=1).encode() + b"\n")
    if result["shapes"].keys() == SHAPES.keys():
        plot(result, PICTURE)
    print(json.dumps(result, indent=1))


def judge(result: Mapping[str, Any]) -> dict[str, Any]:
    """The results of all models of one shape together, and whether they meet the goals.

    The mean of SS is not used: with models on both sides of 50 it is near 50. The mean distance is.
    """
    figures = [model["figures"] for model in result["seeds"].values()]
    before, after = ss_distances(figures)
    reached = {
        "models": len(figures),
        "ss_distance": {"before": before, "after": after},
        "ds_unrelated": sum(each["ds_unrelated"]["after"][0] >= GOALS["ds_unrelated"] for each in figures),
        "blocks_found": sum(
            int(layer) == planted["found"] and max(planted["effects"]) > 0
            for layer, planted in result["planted"].items()
        ),
    }
    moved = after[2] <= GOALS["ss_distance_left"] * before[0]
    kept = reached["ds_unrelated"] == len(figures)
    return {"reached": reached, "goals_met": moved and kept and reached["blocks_found"] >= GOALS["blocks_found"]}


def ss_distances(figures: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """The mean of |SS - 50| over models with its 95 % interval (Student's t), before and after the edits.

    >>> ss_distances([{"ss": {"before": [100.0], "after": [after]}} for after in (46.0, 56.0, 50.0)])
    [[50.0, 50.0, 50.0], [3.33, -4.26, 10.92]]
    """
    intervals = []
    for when in ("before", "after"):
        distances = np.array([abs(each["ss"][when][0] - 50) for each in figures])
        half = stdtrit(len(distances) - 1, 0.975) * distances.std(ddof=1) / math.sqrt(len(distances))
        intervals.append([round(float(distances.mean() + sign * half), 2) for sign in (0, -1, 1)])
    return intervals


def small(seeds: Sequence[int]) -> dict[str, Any]:
    """The small models of the tests, edited with the instruction set of this process: SS, gaps and blocks found."""
    result: dict[str, Any] = {}
    for kind, config in SMALL_CONFIGS.items():
        rows = []
        for seed in seeds:
            with tempfile.TemporaryDirectory() as scratch:
                experiment = StampExperiment(SMALL_LANGUAGE, Path(scratch), 50)
                trainer = ToyTrainer(SMALL_LANGUAGE, kind, replace(config, seed=seed))
                network = trainer.train_bias(trainer.train_neutral(), PLANTED)
                folder = save(network, trainer.tokenizer, Path(scratch) / "planted")
                edit = edited(experiment, folder, changed_settings("clean", seed=seed, **SMALL_EDIT))
                rows.append((edit, located(trainer, network)["found"]))
        gaps = [edit["gap"] for edit, _ in rows]
        result[SHAPES[kind]] = {
            "ss": [edit["figures"]["ss"]["after"][0] for edit, _ in rows],
            "ss_distance": ss_distances([edit["figures"] for edit, _ in rows]),
            "ds_unrelated": [edit["figures"]["ds_unrelated"]["after"][0] for edit, _ in rows],
            "gap_left": [round(gap["after"] / gap["before"], 3) for gap in gaps],
            "blocks_found": [found for _, found in rows],
        }
    return result


if __name__ == "__main__":
    typer.run(main)
