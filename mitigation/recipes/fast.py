"""The fairness stamp: locates the block that carries a bias, and trains two small matrices there on biased pairs.

Source: *Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024). The
paper measures on the same pairs that it edits; ``clean`` holds out the pairs of a fifth of the subjects, and reports
them first. ``paper`` makes equal the score that the benchmark compares, ``clean`` the logarithms of the objects'
probabilities after their prompt, and it keeps the predictions of ordinary text and the pronoun where a text states a
gender. It uses a lower learning rate, for V' by what the block writes, and trains all pairs together in several passes,
so that the remaining differences have no common sign. A trial chooses among the block that tracing finds, the first and
the last.

The paper leaves open how its settings (rate .1, 20 steps a batch, α = 40) go together: the first step of Adam moves
all of the second matrix by .1. ``paper`` takes the reading that reproduces its direction best: L_s1 and L_s2 as
PyTorch's ``kl_div(reduction="mean")``, divided by the vocabulary, and the last step kept (inferred). The settings
``keep``, ``divergence`` and ``value_rate`` have the others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cards.common.files import put
from mitigation.adapters.write import save_peft
from mitigation.editing import POSITIONS
from mitigation.editing.settings import OPEN, OWN, PAPER, PairSettings, number_of_steps
from mitigation.recipe import Adapter, Job, MitigationError, TrainingData, declared, setting
from scoring.adapters.facts import CONFIG, WEIGHTS

if TYPE_CHECKING:
    from mitigation.editing.locate import IndirectEffects
    from mitigation.editing.session import EditingSession
    from scoring.adapters.stamp import StampConfig


@dataclass(frozen=True)
class FastSettings(PairSettings):
    """How to locate the block and how to edit."""

    layer: int = setting(-1, "Number of the block, from 0; -1 finds it.", PAPER, least=-1)
    restored: str = setting(
        "all", "Positions that are restored to find it: subject, answer, or all.", OWN, choices=POSITIONS
    )
    traced: int = setting(200, "Maximum pairs that are traced to find it.", OPEN, above=0)
    trial: int = setting(
        6,
        "Passes of a trial that chooses among the first, the located and the last block; 0 takes the located one.",
        OWN,
        least=0,
    )
    start: str = setting("", "Folder of an earlier stamp to continue.", OWN)
    units: int = setting(0, "Rows of the two matrices; 0 for 4/3 of the width, the paper's 1024 for 768.", OWN, least=0)

    def units_for(self, width: int) -> int:
        """The rows of the matrices in a network whose hidden state has this width.

        >>> FastSettings().units_for(768), FastSettings().units_for(128), FastSettings(units=64).units_for(128)
        (1024, 171, 64)
        """
        return self.units or round(4 * width / 3)


def make(job: Job[FastSettings]) -> Adapter:
    """Locates the block, edits, and writes the stamp, its losses, scores and pictures into ``out``."""
    from mitigation.editing.session import EditingSession
    from mitigation.editing.stamped import StampedNetwork
    from mitigation.training.trainable import trained_parameters

    model, settings = job.model, job.settings
    # Before the stamp is added, because the unchanged model writes the prefixes.
    session = EditingSession(job)
    config, measures = choose_block(session)
    stamped = add_stamp(model.network, config, settings)
    try:
        network = StampedNetwork(stamped, config.layer, model.kind, model.tokens.pad, settings.score)
        session.set_rate(network)
        trained = trained_parameters(stamped)
        changes, more = session.train(network, "stamp", f"{model.name}, block {config.layer}")
        save_stamp(stamped, job.out, model.name)
    finally:
        model.network = stamped.unload().eval()
    adapter = job.done(trained, measures | more, changes)
    return replace(adapter, data=earlier_data(settings) | dict(adapter.data))


def earlier_data(settings: FastSettings) -> dict[str, str]:
    """The versions of the data that the earlier stamp has seen; none without one that a recipe made."""
    from scoring.adapters.facts import is_own, read

    folder = Path(settings.start)
    return dict(read(folder).data) if settings.start and is_own(folder) else {}


def choose_block(session: EditingSession) -> tuple[StampConfig, dict[str, float]]:
    """The configuration of the stamp, and measures of the block that was located and of the one that is chosen.

    Located effects are written to ``located.json`` and ``located.png`` in the folder of the job, with the trials.

    Raises
    ------
    MitigationError
        If the folder of an earlier stamp has another adapter.
    """
    from scoring.adapters import attach, feed_forward
    from scoring.adapters.stamp import StampConfig

    job = session.job
    model, settings = job.model, job.settings
    if settings.start:
        config = attach.peft_config(Path(settings.start))
        if not isinstance(config, StampConfig):
            raise MitigationError(f"{settings.start} is no stamp but {config.peft_type}; give the folder of a stamp.")
        return config, {}
    task = "CAUSAL_LM" if model.kind == "causal" else None  # PEFT has no name for masked models
    width = feed_forward.feed_forwards(model.network)[0].width
    options: dict[str, Any] = {"units": settings.units_for(width), "kind": model.kind, "task_type": task}
    if settings.layer >= 0:
        return StampConfig(layer=settings.layer, **options), {}
    effects = trace_blocks(session)
    seconds = job.meter.seconds
    block = effects.layer
    trials: list[dict[str, float]] = []
    last = len(feed_forward.feed_forwards(model.network)) - 1
    candidates = sorted({0, effects.layer, last})
    if settings.trial and session.held and len(candidates) > 1:
        for candidate in candidates:
            trials.append(try_block(session, StampConfig(layer=candidate, **options)))
        # The first of equal values, so that a repeated command chooses the same block.
        best = min(trials, key=itemgetter("value"))
        block = int(best["block"])
    located = {
        "located": effects.layer,
        "chosen": block,
        "trials": trials,
        "average_indirect_effect": {name: effects.average(name).tolist() for name in effects.by_position},
        "total_effect": float(effects.total.mean()),
        "restored": effects.position,
        "traces": len(effects.total),
        "left_out": effects.left_out,
    }
    put(job.out / "located.json", json.dumps(located, indent=1).encode() + b"\n")
    measures = {
        "located_block": effects.layer,
        "located_effect": float(effects.average()[effects.layer]),
        "chosen_block": block,
        "seconds_locating": seconds,
        "seconds_in_trials": job.meter.seconds - seconds,
        "traces": len(effects.total),
        "traces_left_out": len(effects.left_out),
    }
    return StampConfig(layer=block, **options), measures


def trace_blocks(session: EditingSession) -> IndirectEffects:
    """The effects of all blocks on the pairs that are edited; draws ``located.png`` in the folder of the job."""
    from mitigation.editing.locate import locate
    from mitigation.editing.session import tell_left_out
    from mitigation.running.plots import plot_effects

    job, rows = session.job, session.edited
    model, settings = job.model, job.settings
    # Evenly over the rows, because neighbouring ones are often about the same subject.
    step = max(1, len(rows) // settings.traced)
    chosen = rows[::step][: settings.traced]
    effects = locate(model, chosen, settings.seed, settings.restored, job.console)
    tell_left_out(effects.left_out, len(chosen), "traced", job.console)
    plot_effects(effects, job.out / "located.png", f"{model.name}: {len(effects.total)} pairs")
    return effects


def try_block(session: EditingSession, config: StampConfig) -> dict[str, float]:
    """The number of a block, and what a short training of a stamp there gives on held-out pairs and texts."""
    from mitigation.editing.stamped import StampedNetwork

    model, settings = session.model, session.settings
    stamped = add_stamp(model.network, config, settings)
    try:
        network = StampedNetwork(stamped, config.layer, model.kind, model.tokens.pad, settings.score)
        session.set_rate(network)
        terms = session.trial(network, settings.trial, f"trial-{config.layer}")
    finally:
        model.network = stamped.unload().eval()
    return {"block": config.layer, **terms}


def add_stamp(network: Any, config: StampConfig, settings: FastSettings) -> Any:
    """The network with a new stamp, or with the earlier one to continue."""
    import torch
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    from scoring.adapters.attach import tensor_shapes, wrap

    # The first matrices are drawn when the network is wrapped.
    torch.manual_seed(settings.seed)
    # The configuration of an earlier stamp is that of a finished one.
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


def steps_with_trials(settings: FastSettings, data: TrainingData) -> int:
    """The steps of the edit, and those of the trials in at most three blocks where the block is not given."""
    steps = number_of_steps(settings, data)
    if settings.layer >= 0 or settings.start or not settings.held_out:
        return steps
    return steps + 3 * settings.trial * steps // settings.passes


RECIPE = declared("fast", FastSettings, make, steps=steps_with_trials)
