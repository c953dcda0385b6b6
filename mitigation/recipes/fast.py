"""The fairness stamp: finds the block that decides, and edits biased pairs into two small matrices beside it.

From *Identifying and Editing Fine-Grained Fairness in LLMs* (FAST; Chen et al., 2024). The paper measures
on the very pairs that it edits; ``clean`` holds the pairs of a fifth of the subjects out, and compares
logarithms of probabilities, of whole sentences in a causal model, since a model prefers one of two
sentences that are both very unlikely. It steps more gently, too, and trains all pairs together in
several passes, so that what is left of their differences has no side.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from mitigation.adapters.adapter import CONFIG, Adapter, MitigationError, Numbers, describe
from mitigation.recipe import Recipe, setting
from mitigation.training.data import Data
from scoring.types import Request, Row

if TYPE_CHECKING:
    from mitigation.editing.edit import Plan
    from mitigation.editing.pairs import Pair
    from mitigation.editing.stamp import StampConfig
    from mitigation.training.train import Curve
    from scoring.inference.model import Model

_PAPER = "Chen et al. 2024"
_OPEN = "not in the paper"
#: What a masked model, which cannot write prefixes itself, has before its prompts.
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
class Settings:
    """How to find the block and how to edit."""

    sets: str = setting("stereoset", "Configs of biaske to edit, with commas.", _PAPER)
    split: str = setting("test", "Their split.", _PAPER)
    domain: str = setting("gender", "gender, race, religion, or all.", _PAPER)
    held_out: float = setting(0.2, "Share of the subjects whose pairs are measured and not edited.", "this project")
    layer: int = setting(-1, "Number of the block, from 0; -1 finds it.", _PAPER)
    traced: int = setting(200, "The most pairs that are traced to find it.", _OPEN)
    start: str = setting("", "Folder of an earlier stamp to go on from.", "this project")
    units: int = setting(1024, "Rows of the two matrices.", _PAPER)
    passes: int = setting(40, "Times over all pairs; in 1 each batch is trained to its end.", "this project")
    batch: int = setting(16, "Pairs a batch.", "this project")
    iterations: int = setting(1, "Steps each time that a batch is trained.", "this project")
    rate: float = setting(1e-3, "Learning rate of Adam.", "this project")
    alpha: float = setting(40.0, "Weight of L_s1, what else a prompt may be followed by.", _PAPER)
    beta: float = setting(0.1, "Weight of L_s2, what is said of a subject alone.", _PAPER)
    compare: str = setting("log", "What L_e compares: probability, or log for its logarithm.", "this project")
    whole: bool = setting(True, "Request a causal model for all that follows the blank too.", "this project")
    prefixes: int = setting(5, "Texts put before each prompt in turn, besides none.", _OPEN)
    prefix_tokens: int = setting(10, "Tokens of a prefix, which a causal model writes itself.", _OPEN)
    seed: int = setting(42, "Of the held-out subjects, prefixes, traces, order, and the start of the matrices.", _OPEN)

    def __post_init__(self) -> None:
        low = [
            name
            for name in ("traced", "units", "passes", "batch", "iterations", "prefix_tokens")
            if getattr(self, name) < 1
        ]
        low += [name for name in ("alpha", "beta", "prefixes") if getattr(self, name) < 0]
        low += ["rate"] * (not self.rate > 0) + ["held_out"] * (not 0 <= self.held_out < 1)
        low += ["layer"] * (self.layer < -1)
        if low:
            raise MitigationError(f"The setting {low[0]} is {getattr(self, low[0])}; give a value in its range.")
        if self.compare not in ("probability", "log"):
            raise MitigationError(f"The setting compare is {self.compare!r}; give probability or log.")


def run(model: Model, settings: Settings, data: Data, out: Path, console: Console) -> Adapter:
    """Finds the block, edits, and puts the stamp, its losses and the pictures into ``out``."""
    from mitigation.cost import Meter
    from mitigation.editing import pairs
    from mitigation.editing.edit import edit, measured
    from mitigation.training.curves import picture

    configs = [name.strip() for name in settings.sets.split(",")]
    edited, held = divided(pairs.rows(data, configs, settings.split, settings.domain), settings)
    meter = Meter(model)
    config, found = chosen(model, edited, settings, out)
    before = prefixes(model, settings)
    plan, pad = planned(settings), model.tokens.pad
    plain = [[pairs.pair(model.tokens, row, whole=settings.whole) for row in some] for some in (edited, held)]

    @cache
    def frame(number: int) -> list[Pair]:
        rest = [pairs.pair(model.tokens, edited[number], prefix, whole=settings.whole) for prefix in before]
        return [plain[0][number], *rest]

    stamped = put(model.network, config, settings)
    try:
        trained = sum(each.numel() for each in stamped.parameters() if each.requires_grad)
        starting = measured(stamped, plain[0], plan, pad)
        curve = edit(stamped, frame, len(edited), plain[1], plan, pad, checkpoint(model, settings, data, out), console)
        ending = measured(stamped, plain[0], plan, pad)
        saved(stamped, out, model.name)
    finally:
        model.network = stamped.unload().eval()
    (out / "losses.json").write_text(json.dumps(asdict(curve), indent=1) + "\n", encoding="utf-8")
    picture(curve, out / "losses.png", f"fast on {model.name}, block {config.layer}", step="batch")
    measures = found | gaps(starting, ending, curve)
    return describe(out, model, RECIPE.name, settings, data=data.versions, cost=meter.cost(trained), measures=measures)


def divided(rows: Sequence[Row], settings: Settings) -> tuple[list[Row], list[Row]]:
    """Rows to edit, and those of the held-out subjects; a subject is on one side only.

    Raises
    ------
    MitigationError
        When too few subjects are there to hold some out.
    """
    from mitigation.editing.pairs import subject

    names = sorted({subject(row).lower() for row in rows})
    count = round(settings.held_out * len(names))
    if settings.held_out and not 0 < count < len(names):
        raise MitigationError(
            f"A share of {settings.held_out} of {len(names)} subjects cannot be held out; give more pairs, or 0."
        )
    order = np.random.default_rng(settings.seed).permutation(len(names))
    apart = {names[n] for n in order[:count]}
    sides: tuple[list[Row], list[Row]] = [], []
    for row in rows:
        sides[subject(row).lower() in apart].append(row)
    return sides


def chosen(model: Model, rows: Sequence[Row], settings: Settings, out: Path) -> tuple[StampConfig, dict[str, Numbers]]:
    """What the stamp is, and the average indirect effect of its block where it was looked for."""
    from mitigation.adapters.attach import peft_config
    from mitigation.editing.locate import locate, picture
    from mitigation.editing.stamp import StampConfig

    if settings.start:
        config = peft_config(Path(settings.start))
        if not isinstance(config, StampConfig):
            raise MitigationError(f"{settings.start} is no stamp but {config.peft_type}; give the folder of a stamp.")
        return config, {}
    task = "CAUSAL_LM" if model.kind == "causal" else None  # PEFT has no name for the other
    if settings.layer >= 0:
        return StampConfig(layer=settings.layer, units=settings.units, task_type=task), {}
    step = max(1, len(rows) // settings.traced)
    effects = locate(model, rows[::step][: settings.traced], settings.seed)
    picture(effects, out / "located.png", f"{model.name}: {len(effects.total)} pairs")
    told = {"average_indirect_effect": effects.average.tolist(), "total_effect": float(effects.total.mean())}
    (out / "located.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    nan = float("nan")
    found = {"located_effect": (float(effects.average[effects.layer]), nan, nan)}
    return StampConfig(layer=effects.layer, units=settings.units, task_type=task), found


def prefixes(model: Model, settings: Settings) -> list[str]:
    """Texts to put before prompts: the beginnings of texts that a causal model draws itself."""
    if model.kind == "masked":
        return [OPENINGS[n % len(OPENINGS)] for n in range(settings.prefixes)]
    from scoring.inference.decoding import Decoding

    requests = [Request(f"prefix/{n}", max_new=settings.prefix_tokens) for n in range(settings.prefixes)]
    drawn = model.answer(requests, decoding=Decoding(temperature=1.0, seed=settings.seed))
    return [" ".join(response.text.split()) for response in drawn]


def planned(settings: Settings) -> Plan:
    """The settings that are the editing loop's."""
    from mitigation.editing.edit import Plan

    return Plan(*(getattr(settings, name) for name in Plan.__slots__))


def put(network: Any, config: StampConfig, settings: Settings) -> Any:
    """The network with a new stamp, or with the earlier one to go on from."""
    import torch
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    from mitigation.adapters.adapter import WEIGHTS
    from mitigation.adapters.attach import beside, tensors

    torch.manual_seed(settings.seed)
    config.inference_mode = False
    stamped = beside(network, config)
    if settings.start:
        path = Path(settings.start) / WEIGHTS
        tensors(path)
        set_peft_model_state_dict(stamped, load_file(path))
    return stamped


def saved(stamped: Any, out: Path, base: str) -> None:
    """Writes the files of PEFT."""
    stamped.peft_config["default"].base_model_name_or_path = base
    stamped.save_pretrained(out, safe_serialization=True, save_embedding_layers=False)
    (out / "README.md").unlink(missing_ok=True)  # PEFT's, which says nothing of all this
    # For a task that it has no name for, PEFT names code to load the base model with; nobody needs it.
    config = json.loads((out / CONFIG).read_text(encoding="utf-8")) | {"auto_mapping": None}
    (out / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def checkpoint(model: Model, settings: Settings, data: Data, out: Path) -> Path:
    """Where an edit keeps its state: another model, other settings or other data have another file."""
    key = [model.revision, model.dtype, asdict(settings), data.versions]
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return out.parent / f"editing-{digest}.pt"


def gaps(starting: dict[str, float], ending: dict[str, float], curve: Curve) -> dict[str, Numbers]:
    """L_e over the edited and the held-out pairs, before and after."""
    nan = float("nan")
    found = {"gap_edited_before": starting["l_e"], "gap_edited_after": ending["l_e"]}
    if curve.held:
        found |= {"gap_held_out_before": curve.held[0]["l_e"], "gap_held_out_after": curve.held[-1]["l_e"]}
    return {name: (value, nan, nan) for name, value in found.items()}


RECIPE = Recipe(
    name="fast",
    summary="Fairness stamp: edits biased pairs into two small matrices beside the block that decides.",
    source="Identifying and Editing Fine-Grained Fairness in LLMs (FAST; Chen et al., 2024)",
    cite=("chen2024fast",),
    profiles={
        "clean": Settings(),
        "paper": Settings(held_out=0.0, passes=1, batch=4, iterations=20, rate=0.1, compare="probability", whole=False),
    },
    run=run,
    benchmarks=("stereoset", "crows_pairs", "biaske"),
    kinds=("causal", "masked"),
)
