"""The fairness stamp: locates the block that carries a bias, and trains two small matrices there on biased pairs.

Source: *Identifying and Editing Fine-Grained Fairness in LLMs* (FAST; Chen et al., 2024). The paper measures on
the same pairs that it edits; ``clean`` holds out the pairs of a fifth of the subjects. ``clean`` also compares
logarithms of probabilities, and whole sentences in a causal model, because a benchmark prefers one of two
sentences that are both very improbable. It uses a lower learning rate, and trains all pairs together in
several passes, so that the remaining differences have no common sign.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from cards.files import put
from cards.text import split_list
from mitigation.adapters.write import describe, save_peft
from mitigation.errors import MitigationError
from mitigation.recipe import Recipe, check_ranges, setting
from mitigation.training.data import TrainingData
from scoring.adapters.facts import CONFIG, WEIGHTS, Adapter, Numbers
from scoring.types import Request, Row

if TYPE_CHECKING:
    from mitigation.editing.edit import EditingSchedule
    from mitigation.editing.pairs import EditPair
    from mitigation.training.checkpoints import LossCurve
    from scoring.adapters.stamp import StampConfig
    from scoring.inference.model import Model

_PAPER = "Chen et al. 2024"
_OPEN = "not in the paper"
_NAN = float("nan")
#: Prefixes for a masked model, which cannot generate any.
OPENINGS = (
    "As far as is known,",
    "The other day it was said:",
    "This is what the letter says.",
    "It was a quiet morning.",
    "Here is the next sentence.",
    "We read the following.",
    "There is more to tell.",
    "In the end it was this.",
)


@dataclass(frozen=True, slots=True)
class FastSettings:
    """How to locate the block and how to edit."""

    sets: str = setting("stereoset", "Configs of biaske to edit, with commas.", _PAPER)
    split: str = setting("test", "Their split.", _PAPER)
    domain: str = setting("gender", "gender, race, religion, or all.", _PAPER)
    held_out: float = setting(0.2, "Share of the subjects whose pairs are measured but not edited.", "this project")
    layer: int = setting(-1, "Number of the block, from 0; -1 finds it.", _PAPER)
    traced: int = setting(200, "Maximum pairs that are traced to find it.", _OPEN)
    start: str = setting("", "Folder of an earlier stamp to continue.", "this project")
    units: int = setting(1024, "Rows of the two matrices.", _PAPER)
    passes: int = setting(40, "Passes over all pairs; with 1 each batch is trained to its end.", "this project")
    batch: int = setting(16, "Pairs per batch.", "this project")
    iterations: int = setting(1, "Optimizer steps per batch and pass.", "this project")
    rate: float = setting(1e-3, "Learning rate of Adam.", "this project")
    alpha: float = setting(40.0, "Weight of L_s1, which keeps all other tokens after a prompt.", _PAPER)
    beta: float = setting(0.1, "Weight of L_s2, which keeps the tokens after a subject alone.", _PAPER)
    compare: str = setting("log", "What L_e compares: probability, or log for its logarithm.", "this project")
    whole: bool = setting(True, "Compare whole sentences in a causal model, not the object alone.", "this project")
    prefixes: int = setting(5, "Texts put before each prompt, besides none.", _OPEN)
    prefix_tokens: int = setting(10, "Tokens of a prefix, which a causal model generates.", _OPEN)
    seed: int = setting(42, "Of the held-out subjects, prefixes, traces, order, and the start of the matrices.", _OPEN)

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("traced", "units", "passes", "batch", "iterations", "prefix_tokens", "rate"),
            not_negative=("alpha", "beta", "prefixes"),
            share=("held_out",),
        )
        if self.layer < -1:
            raise MitigationError(f"The setting layer is {self.layer}; give a value in its range.")
        if self.compare not in ("probability", "log"):
            raise MitigationError(f"The setting compare is {self.compare!r}; give probability or log.")


def run(model: Model, settings: FastSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Locates the block, edits, and writes the stamp, its losses and the pictures into ``out``."""
    from mitigation.cost import CostMeter, trained_parameters
    from mitigation.editing.edit import edit, mean_terms
    from mitigation.editing.pairs import edit_pair, pair_rows
    from mitigation.plots import write_losses
    from mitigation.training.checkpoints import checkpoint_path

    rows = pair_rows(data, split_list(settings.sets), settings.split, settings.domain)
    edited, held = split_subjects(rows, settings)
    meter = CostMeter(model)
    config, measures = choose_block(model, edited, settings, out)
    prefixes = generate_prefixes(model, settings)
    schedule, pad = editing_schedule(settings), model.tokens.pad
    pairs, held_pairs = (
        [edit_pair(model.tokens, row, whole=settings.whole) for row in side] for side in (edited, held)
    )

    @cache
    def prefixed(number: int) -> list[EditPair]:
        rest = [edit_pair(model.tokens, edited[number], prefix, whole=settings.whole) for prefix in prefixes]
        return [pairs[number], *rest]

    stamped = add_stamp(model.network, config, settings)
    try:
        trained = trained_parameters(stamped)
        before = mean_terms(stamped, pairs, schedule, pad)
        checkpoint = checkpoint_path("editing", model, settings, data, out)
        curve = edit(stamped, prefixed, len(edited), held_pairs, schedule, pad, checkpoint, console)
        after = mean_terms(stamped, pairs, schedule, pad)
        save_stamp(stamped, out, model.name)
    finally:
        model.network = stamped.unload().eval()
    write_losses(curve, out, f"fast on {model.name}, block {config.layer}", step="batch")
    measures |= gap_measures(before, after, curve)
    return describe(out, model, RECIPE.name, settings, data=data.versions, cost=meter.cost(trained), measures=measures)


def split_subjects(rows: Sequence[Row], settings: FastSettings) -> tuple[list[Row], list[Row]]:
    """Rows to edit, and rows of the held-out subjects; all rows of a subject are on the same side.

    Raises
    ------
    MitigationError
        If there are too few subjects for the share to hold out.
    """
    from mitigation.editing.pairs import subject_of

    names = sorted({subject_of(row).lower() for row in rows})
    count = round(settings.held_out * len(names))
    if settings.held_out and not 0 < count < len(names):
        raise MitigationError(
            f"A share of {settings.held_out} of {len(names)} subjects cannot be held out; give more pairs, or 0."
        )
    order = np.random.default_rng(settings.seed).permutation(len(names))
    held_out = {names[n] for n in order[:count]}
    sides: tuple[list[Row], list[Row]] = [], []
    for row in rows:
        sides[subject_of(row).lower() in held_out].append(row)
    return sides


def choose_block(
    model: Model, rows: Sequence[Row], settings: FastSettings, out: Path
) -> tuple[StampConfig, dict[str, Numbers]]:
    """The configuration of the stamp, and the average indirect effect of its block if that was located.

    Located effects are written to ``located.json`` and ``located.png`` in ``out``.

    Raises
    ------
    MitigationError
        If the folder of an earlier stamp has another adapter.
    """
    from mitigation.editing.locate import locate
    from mitigation.plots import plot_effects
    from scoring.adapters.attach import peft_config
    from scoring.adapters.stamp import StampConfig

    if settings.start:
        config = peft_config(Path(settings.start))
        if not isinstance(config, StampConfig):
            raise MitigationError(f"{settings.start} is no stamp but {config.peft_type}; give the folder of a stamp.")
        return config, {}
    task = "CAUSAL_LM" if model.kind == "causal" else None  # PEFT has no name for masked models
    if settings.layer >= 0:
        return StampConfig(layer=settings.layer, units=settings.units, task_type=task), {}
    step = max(1, len(rows) // settings.traced)
    effects = locate(model, rows[::step][: settings.traced], settings.seed)
    plot_effects(effects, out / "located.png", f"{model.name}: {len(effects.total)} pairs")
    located = {"average_indirect_effect": effects.average.tolist(), "total_effect": float(effects.total.mean())}
    put(out / "located.json", json.dumps(located, indent=1).encode() + b"\n")
    measures: dict[str, Numbers] = {"located_effect": (float(effects.average[effects.layer]), _NAN, _NAN)}
    return StampConfig(layer=effects.layer, units=settings.units, task_type=task), measures


def generate_prefixes(model: Model, settings: FastSettings) -> list[str]:
    """Texts to put before prompts: sampled from a causal model, fixed openings for a masked one."""
    if model.kind == "masked":
        return [OPENINGS[n % len(OPENINGS)] for n in range(settings.prefixes)]
    from scoring.inference.decoding import Decoding

    requests = [Request(f"prefix/{n}", max_new=settings.prefix_tokens) for n in range(settings.prefixes)]
    responses = model.answer(requests, decoding=Decoding(temperature=1.0, seed=settings.seed))
    return [" ".join(response.text.split()) for response in responses]


def editing_schedule(settings: FastSettings) -> EditingSchedule:
    """The settings that belong to the editing loop."""
    from mitigation.editing.edit import EditingSchedule

    return EditingSchedule(**{field.name: getattr(settings, field.name) for field in fields(EditingSchedule)})


def add_stamp(network: Any, config: StampConfig, settings: FastSettings) -> Any:
    """The network with a new stamp, or with the earlier one to continue."""
    import torch
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    from scoring.adapters.attach import tensor_shapes, wrap

    torch.manual_seed(settings.seed)
    config.inference_mode = False
    stamped = wrap(network, config)
    if settings.start:
        path = Path(settings.start) / WEIGHTS
        tensor_shapes(path)  # refuses a damaged file
        set_peft_model_state_dict(stamped, load_file(path))
    return stamped


def save_stamp(stamped: Any, out: Path, base: str) -> None:
    """Writes the files of PEFT into ``out``."""
    save_peft(stamped, out, base)
    # Without a task type, PEFT writes the class of the base model to be imported; nothing needs it.
    config = json.loads((out / CONFIG).read_text(encoding="utf-8")) | {"auto_mapping": None}
    put(out / CONFIG, json.dumps(config, indent=2, sort_keys=True).encode() + b"\n")


def gap_measures(before: Mapping[str, float], after: Mapping[str, float], curve: LossCurve) -> dict[str, Numbers]:
    """L_e over the edited and over the held-out pairs, before and after, without intervals."""
    gaps = {"gap_edited_before": before["l_e"], "gap_edited_after": after["l_e"]}
    if curve.held:
        gaps |= {"gap_held_out_before": curve.held[0]["l_e"], "gap_held_out_after": curve.held[-1]["l_e"]}
    return {name: (value, _NAN, _NAN) for name, value in gaps.items()}


RECIPE = Recipe(
    name="fast",
    summary="Fairness stamp: two small matrices in one block, trained on biased pairs.",
    source="Identifying and Editing Fine-Grained Fairness in LLMs (FAST; Chen et al., 2024)",
    cite=("chen2024fast",),
    profiles={
        "clean": FastSettings(),
        "paper": FastSettings(
            held_out=0.0, passes=1, batch=4, iterations=20, rate=0.1, compare="probability", whole=False
        ),
    },
    run=run,
    benchmarks=("stereoset", "crows_pairs", "biaske"),
    kinds=("causal", "masked"),
)
