"""The fairness stamp: locates the block that carries a bias, and trains two small matrices there on biased pairs.

Source: *Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024). The
paper measures on the same pairs that it edits; ``clean`` holds out the pairs of a fifth of the subjects, and reports
them first. Both profiles make equal the score that the benchmark of the profile compares. ``clean`` compares the
logarithms, because a benchmark prefers one of two sentences that are both very improbable. It uses a lower learning
rate, and trains all pairs together in several passes, so that the remaining differences have no common sign.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from cards.files import put
from cards.text import split_list
from mitigation.adapters.write import describe, save_peft
from mitigation.editing import POSITIONS
from mitigation.errors import MitigationError
from mitigation.recipe import Recipe, check_ranges, setting
from mitigation.training.data import TrainingData
from scoring.adapters.facts import CONFIG, WEIGHTS, Adapter, Numbers
from scoring.report.terminal import tell
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
    restored: str = setting("all", "Positions that are restored to find it: subject, answer, or all.", _OPEN)
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
    score: str = setting("clean", "The benchmark's profile whose score of a sentence is compared.", "this project")
    prefixes: int = setting(
        5, "Texts put before each prompt, besides none; with several passes, one each in the first half.", _OPEN
    )
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
        choices = {"compare": ("probability", "log"), "score": ("clean", "paper"), "restored": POSITIONS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                *some, last = allowed
                raise MitigationError(
                    f"The setting {name} is {getattr(self, name)!r}; give {', '.join(some)} or {last}."
                )


def run(model: Model, settings: FastSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Locates the block, edits, and writes the stamp, its losses, scores and pictures into ``out``."""
    from mitigation.cost import CostMeter, trained_parameters
    from mitigation.editing import measure
    from mitigation.editing.edit import edit, mean_terms
    from mitigation.editing.pairs import each_possible, edit_pair, pair_rows
    from mitigation.editing.stamped import StampedNetwork
    from mitigation.plots import plot_changes, write_losses
    from mitigation.training.checkpoints import checkpoint_path

    def pair(row: Row, prefix: str = "") -> EditPair:
        return edit_pair(model.tokens, row, prefix, profile=settings.score, family=model.family)

    rows = pair_rows(data, split_list(settings.sets), settings.split, settings.domain)
    meter = CostMeter(model)
    possible, left_out = each_possible(rows, pair)
    if not possible:
        raise MitigationError(f"None of the {len(rows)} pairs can be edited: {next(iter(left_out.values()))}")
    tell_left_out(left_out, len(rows), "edited", console)
    made = {str(row["id"]): edited_pair for row, edited_pair in possible}
    edited, held = split_subjects([row for row, _ in possible], settings)
    config, measures = choose_block(model, edited, settings, out, console)
    located = meter.seconds
    prefixes = generate_prefixes(model, settings)
    schedule = editing_schedule(settings)
    held_pairs = [made[row["id"]] for row in held]
    sides = {measure.HELD_OUT: held, measure.EDITED: edited}
    measured = measure.measured_pairs(
        model.tokens,
        {side: [(row, made[row["id"]]) for row in some] for side, some in sides.items()},
        settings.score,
        model.family,
    )

    @cache
    def after_prefix(number: int, prefix: str) -> EditPair | None:
        possible_after, _ = each_possible([edited[number]], lambda row: pair(row, prefix))
        return possible_after[0][1] if possible_after else None

    def versions(number: int, passed: int) -> list[EditPair]:
        """A pair alone, and after all prefixes; in the first half of several passes, after another prefix in each.

        The mean per token of a whole sentence depends on how well its first tokens are predicted, so gaps after
        prefixes differ from those of the benchmark. The later passes train what the benchmark compares.
        """
        some = prefixes
        if settings.passes > 1:
            some = prefixes[(number + passed) % max(1, len(prefixes)) :][:1] if 2 * passed < settings.passes else []
        after = [after_prefix(number, prefix) for prefix in some]
        return [made[edited[number]["id"]], *(each for each in after if each)]

    stamped = add_stamp(model.network, config, settings)
    try:
        network = StampedNetwork(stamped, config.layer, model.kind, model.tokens.pad, settings.score)
        trained = trained_parameters(stamped)
        start = {name: weight.detach().clone() for name, weight in network.trained.items()}
        pairs = [made[row["id"]] for row in edited]
        before, scored_before = mean_terms(network, pairs, schedule), measured.scores(network)
        begun = meter.seconds
        checkpoint = checkpoint_path("editing", model, settings, data, out)
        curve = edit(network, versions, len(edited), held_pairs, schedule, checkpoint, console)
        took = meter.seconds - begun
        after, scored_after = mean_terms(network, pairs, schedule), measured.scores(network)
        if all(bool((start[name] == weight).all()) for name, weight in network.trained.items()):
            tell(console, [f"No batch improved its loss, so the stamp changes nothing; lower --rate {settings.rate}."])
        save_stamp(stamped, out, model.name)
    finally:
        model.network = stamped.unload().eval()
    write_losses(curve, out, f"fast on {model.name}, block {config.layer}", step="batch")
    changes = measure.pair_changes(scored_before, scored_after, settings.score)
    measure.write_pairs(out / "pairs.json", measured, scored_before[0], scored_after[0], left_out)
    plot_changes(changes, out / "pairs.png", f"fast on {model.name}, block {config.layer}")
    measures |= gap_measures(before, after, curve) | numbers(
        pairs_edited=len(edited),
        pairs_held_out=len(held),
        pairs_left_out=len(left_out),
        seconds_locating=located,
        seconds_editing=took,
        seconds_editing_per_pair=took / len(edited),
    )
    versions_read = earlier_data(settings) | data.versions
    cost = meter.cost(trained)
    adapter = describe(out, model, RECIPE.name, settings, data=versions_read, cost=cost, measures=measures)
    return replace(adapter, changes=changes)


def tell_left_out(left_out: Mapping[str, str], count: int, what: str, console: Console) -> None:
    """Says how many of ``count`` pairs are left out, with the names of the first."""
    if left_out:
        names = ", ".join([*left_out][:5]) + ", …" * (len(left_out) > 5)
        reason = next(iter(left_out.values()))
        tell(
            console, [f"{len(left_out)} of {count} pairs cannot be {what} and are left out ({names}); first: {reason}"]
        )


def earlier_data(settings: FastSettings) -> dict[str, str]:
    """The versions of the data that the earlier stamp has seen; none without one that a recipe made."""
    from scoring.adapters.facts import is_own, read

    folder = Path(settings.start)
    return dict(read(folder).data) if settings.start and is_own(folder) else {}


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
    model: Model, rows: Sequence[Row], settings: FastSettings, out: Path, console: Console
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
    options: dict[str, Any] = {"units": settings.units, "kind": model.kind, "task_type": task}
    if settings.layer >= 0:
        return StampConfig(layer=settings.layer, **options), {}
    step = max(1, len(rows) // settings.traced)
    chosen = rows[::step][: settings.traced]
    effects = locate(model, chosen, settings.seed, settings.restored, console)
    tell_left_out(effects.left_out, len(chosen), "traced", console)
    plot_effects(effects, out / "located.png", f"{model.name}: {len(effects.total)} pairs")
    located = {
        "average_indirect_effect": {name: effects.average(name).tolist() for name in effects.by_position},
        "total_effect": float(effects.total.mean()),
        "restored": effects.position,
        "traces": len(effects.total),
        "left_out": effects.left_out,
    }
    put(out / "located.json", json.dumps(located, indent=1).encode() + b"\n")
    measures = numbers(
        located_block=effects.layer,
        located_effect=float(effects.average()[effects.layer]),
        traces=len(effects.total),
        traces_left_out=len(effects.left_out),
    )
    return StampConfig(layer=effects.layer, **options), measures


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
    return numbers(**gaps)


def numbers(**values: float) -> dict[str, Numbers]:
    """Values without intervals, by name."""
    return {name: (float(value), _NAN, _NAN) for name, value in values.items()}


RECIPE = Recipe(
    name="fast",
    summary="Fairness stamp: two small matrices in one block, trained on biased pairs.",
    source="Large Language Model Bias Mitigation from the Perspective of Knowledge Editing (FAST; Chen et al., 2024; "
    "published in Findings of NAACL 2025)",
    cite=("chen2024fast",),
    profiles={
        "clean": FastSettings(),
        "paper": FastSettings(
            held_out=0.0, passes=1, batch=4, iterations=20, rate=0.1, compare="probability", score="paper"
        ),
    },
    run=run,
    benchmarks=("stereoset", "crows_pairs", "biaske"),
    kinds=("causal", "masked"),
)
