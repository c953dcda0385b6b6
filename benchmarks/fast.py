"""The fairness stamp where the truth is known: ``python -m benchmarks.fast``.

Models of the shapes of GPT-2 and BERT learn a made language, and a bias is put into one block of each. Is
the block found? What does a stamp change on the pairs that it edits, on paraphrases, on workers that it
has not seen, on facts and on neutral text? And what do its place and its width do, as in figure 7 of
*Identifying and Editing Fine-Grained Fairness in LLMs* (FAST; Chen et al., 2024)? All edits go the way of
``python -m mitigation fast``.
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

import torch
import typer
from rich.console import Console
from transformers.utils import logging

from benchmarks.machine import describe
from benchmarks.made_language import Language
from benchmarks.planted import Kind, School, Teacher, save
from mitigation.adapters.adapter import Adapter
from mitigation.editing.locate import locate
from mitigation.evaluate import Exam
from mitigation.mitigate import Wanted, mitigate
from mitigation.recipes.fast import RECIPE, Settings
from mitigation.training.data import Data
from scoring import benchmarks, run
from scoring.inference.model import Model
from scoring.statistics.stats import RESAMPLES

RESULT = Path(__file__).with_name("fast.json")
PICTURE = RESULT.with_suffix(".png")
LANGUAGE = Language()
SHAPES: dict[Kind, str] = {"causal": "GPT-2", "masked": "BERT"}
SCHOOLS: dict[Kind, School] = {"causal": School(loud=4.0), "masked": School(steps=900, rate=1e-3)}
#: The block that is edited, of those that the bias is put into in turn.
PLANTED = 1
#: As many units to the width of the model as in the paper. Chosen with models of seeds 10 and 11, which are not shown.
MADE: dict[str, Any] = {"units": 64, "rate": 4e-3}
#: Each batch trained to its end, in one pass: the way of the paper, at a gentler rate.
ONE_PASS: dict[str, Any] = {"units": 64, "passes": 1, "batch": 12, "iterations": 60, "rate": 2e-3}
EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "passes": ("clean", MADE),
    "one pass": ("clean", ONE_PASS),
    "clean": ("clean", {}),
    "paper, 64 units": ("paper", {"units": 64}),
    "paper": ("paper", {}),
}
#: Seeds of models, biases and stamps, which nothing was chosen with; of the first the bias is put into each block.
SEEDS = (0, 1, 2, 3, 4)
#: Those of them whose stamps are put into other blocks too, and made of other widths.
SWEPT = (0,)
GOALS = {"ss_from_50": 5.0, "ds_unrelated": 80.0, "blocks_found": 2}
UNITS = (1, 8, 64, 512)
#: What is shown, by benchmark, group and metric.
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


class Bench:
    """A made language on disk, and edits of models that speak it."""

    def __init__(self, language: Language, folder: Path, resamples: int = RESAMPLES) -> None:
        self.folder, self.resamples = folder, resamples
        self.source = str(language.build(folder / "data"))
        self.texts = tuple(language.neutral())
        self.made = 0

    def edit(self, model: Path, settings: Settings) -> Adapter:
        """The facts of a stamp beside the model of a folder, measured before and after."""
        self.made += 1
        out, quiet = self.folder / f"stamp-{self.made}", Console(file=io.StringIO())
        made = mitigate(
            RECIPE, settings, Wanted(str(model), device="cpu"), Data(self.source), out, self._exam, quiet, quiet
        )
        assert made is not None
        return made

    def _exam(self, _: Model) -> Exam:
        picked = [benchmarks.get(name) for name in ("stereoset", "biaske")]
        return Exam(tuple(run.read(picked, self.source, "clean")), self.texts, "clean", self.resamples)


def figures(adapter: Adapter) -> dict[str, dict[str, Any]]:
    """What an edit changed: each figure in percent before and after with its interval, and the perplexity."""
    found = {(c.benchmark, c.group, c.metric): c for c in adapter.changes}
    wanted = FIGURES | {"perplexity": next((k for k in found if k[0] == "text"), ("", "", ""))}
    return {
        name: {"before": _rounded(found[key].before), "after": _rounded(found[key].after), "n": found[key].n}
        for name, key in wanted.items()
        if key in found
    }


def _rounded(values: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(value) else round(value, 2) for value in values]


def edited(bench: Bench, model: Path, settings: Settings) -> dict[str, Any]:
    """The figures of an edit, how far apart the objects of a pair are before and after, and what it took."""
    made = bench.edit(model, settings)
    gap = {when: round(made.measures[f"gap_edited_{when}"][0], 4) for when in ("before", "after")}
    took = {"parameters": made.cost.parameters, "seconds": round(made.cost.seconds, 1)}
    return {"figures": figures(made), "gap": gap, **took}


def located(teacher: Teacher, network: Any) -> dict[str, Any]:
    """The average indirect effect of each block, and the block with the largest."""
    model = ready(network, teacher)
    found = locate(model, list(teacher.language.pairs(held_out=False)))
    return {"found": found.layer, "effects": [round(float(each), 4) for each in found.average]}


def ready(network: Any, teacher: Teacher) -> Model:
    """The network as a model that can be asked."""
    return Model(network, teacher.tokenizer, kind=teacher.kind, name="made")


def shape(kind: Kind, bench: Bench, step: Callable[[str], None]) -> dict[str, Any]:
    """All figures of one shape; ``step`` is told of each step before it is taken."""
    blocks, found, folders = range(SCHOOLS[kind].layers), {}, {}
    for seed in SEEDS:
        teacher = Teacher(LANGUAGE, kind, replace(SCHOOLS[kind], seed=seed))
        step(f"seed {seed}: the language")
        plain = teacher.teach()
        for layer in blocks if seed == SEEDS[0] else (PLANTED,):
            step(f"seed {seed}: the bias in block {layer}")
            planted = teacher.plant(plain, layer)
            found[seed, layer] = located(teacher, planted)
            folders[seed, layer] = save(planted, teacher.tokenizer, bench.folder / f"{kind}-{seed}-{layer}")

    @cache
    def stamped(settings: Settings) -> dict[str, Any]:
        step(f"an edit: {settings}")
        return edited(bench, folders[settings.seed, PLANTED], settings)

    def swept(**changed: Any) -> dict[int, dict[str, Any]]:
        return {seed: stamped(changed_settings("clean", seed=seed, **MADE | changed)) for seed in SWEPT}

    seeds = {
        seed: {"planted": found[seed, PLANTED]} | stamped(changed_settings("clean", seed=seed, **MADE))
        for seed in SEEDS
    }
    return {
        "shape": SHAPES[kind],
        "school": asdict(SCHOOLS[kind]),
        "parameters": sum(each.numel() for each in plain.parameters()),
        "planted": {layer: found[SEEDS[0], layer] for layer in blocks},
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
    found = [each["figures"] for each in edits.values()]
    return {name: _mean([each[name] for each in found]) for name in found[0]}


def _mean(found: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The mean of a figure over models, before and after."""
    values = {when: [each[when][0] for each in found] for when in ("before", "after")}
    return {when: None if None in some else round(statistics.fmean(some), 2) for when, some in values.items()}


def changed_settings(profile: str, **changed: Any) -> Settings:
    """Settings of a profile for the planted block, which edit all pairs of the test split, behind no prefix."""
    found: Settings = replace(RECIPE.profiles[profile], **{"layer": PLANTED, "held_out": 0.0, "prefixes": 0} | changed)
    return found


def picture(result: Mapping[str, Any], path: Path) -> None:
    """Means of SS, LMS, ICAT and DS after edits, by the block and by the width of the stamp."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    colours = {"ss": "#b5452c", "lms": "#9aa5b1", "icat": "#1b4f8f", "ds": "#3f8f4f"}
    for axes, (panel, label) in zip(
        figure.subplots(1, 2, sharey=True), (("by_layer", "block of the stamp"), ("by_units", "units")), strict=True
    ):
        for each, line in zip(result["shapes"].values(), ("-o", "--s"), strict=True):
            swept = each[panel]
            for name, colour in colours.items():
                values = [mean(swept[at])[name]["after"] for at in swept]
                axes.plot(
                    [*map(int, swept)],
                    values,
                    line,
                    color=colour,
                    markersize=3.5,
                    label=f"{name.upper()}, {each['shape']}",
                )
        axes.axhline(50, color="#333333", linewidth=0.6, linestyle=":")
        axes.set_xlabel(label, fontsize=8)
        axes.set_ylim(-3, 103)
        axes.tick_params(labelsize=7)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        if panel == "by_units":
            axes.set_xscale("log", base=8)
            axes.set_xticks(UNITS, [str(units) for units in UNITS])
        else:
            axes.set_xticks([*map(int, swept)])
    figure.axes[0].set_ylabel("percent after the edit", fontsize=8)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, loc="outside right center", frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main(
    only: Annotated[str, typer.Option(help="causal or masked; the figures of the other shape stay as they are.")] = "",
    resamples: Annotated[int, typer.Option(min=2, help="Bootstrap resamples.")] = RESAMPLES,
) -> None:
    """Measures, prints, and writes ``fast.json`` and ``fast.png``."""
    torch.set_num_threads(1)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    console = Console(stderr=True)
    shapes: dict[str, Any] = {}
    for kind in SHAPES:
        if only in ("", kind):
            start = time.perf_counter()
            with tempfile.TemporaryDirectory() as scratch:
                bench = Bench(LANGUAGE, Path(scratch), resamples)
                shapes[kind] = shape(kind, bench, console.log)
            shapes[kind] |= judged(shapes[kind]) | {"seconds": round(time.perf_counter() - start)}
    older = json.loads(RESULT.read_text(encoding="utf-8"))["shapes"] if only and RESULT.is_file() else {}
    merged = older | json.loads(json.dumps(shapes))
    result: dict[str, Any] = {
        "machine": describe("torch", "transformers", "peft"),
        "threads": 1,
        "resamples": resamples,
        "language": asdict(LANGUAGE) | {"pairs_edited": len(list(LANGUAGE.pairs(held_out=False)))},
        "goals": GOALS,
        "shapes": {kind: merged[kind] for kind in SHAPES if kind in merged},
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if result["shapes"].keys() == SHAPES.keys():
        picture(result, PICTURE)
    print(json.dumps(result, indent=1))


def judged(each: Mapping[str, Any]) -> dict[str, Any]:
    """How many models reach each goal by themselves, and whether all do.

    The means over models do not count: models that miss on both sides of 50 have a mean near it.
    """
    after = {name: [m["figures"][name]["after"][0] for m in each["seeds"].values()] for name in ("ss", "ds_unrelated")}
    reached = {
        "models": len(each["seeds"]),
        "ss_from_50": sum(abs(value - 50) <= GOALS["ss_from_50"] for value in after["ss"]),
        "ds_unrelated": sum(value >= GOALS["ds_unrelated"] for value in after["ds_unrelated"]),
        "blocks_found": sum(
            int(layer) == found["found"] and max(found["effects"]) > 0 for layer, found in each["planted"].items()
        ),
    }
    all_do = reached["ss_from_50"] == reached["ds_unrelated"] == reached["models"]
    return {"reached": reached, "goals_met": all_do and reached["blocks_found"] >= GOALS["blocks_found"]}


if __name__ == "__main__":
    typer.run(main)
