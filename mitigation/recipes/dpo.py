"""DPO: preference tuning after which *she* and *he* are equally probable where nothing says who is meant.

Source: *Direct Preference Optimization* (Rafailov et al., 2023), through TRL. A row is a prompt of the gender-neutral
probes (training split) with one pronoun chosen and the other rejected. With as many rows for each gender, the optimum
of DPO would be the base model itself, because DPO adds the preference to the base model's. So *she* is chosen in a
share p of the rows with logit(p) = β log(P(he) / P(she)) of the base model: the optimum of DPO on these rows then
has both pronouns equally probable after each prompt, and the divergence from the base model is what DPO limits anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cards.text import split_list
from mitigation.adapters.write import describe, save_peft
from mitigation.errors import MitigationError
from mitigation.recipe import Adapter, Console, Model, Recipe, TrainingData, defaults, setting
from mitigation.recipes.debias_tuning import encode_prompts
from mitigation.training.data import load_prompts, training_prompts
from mitigation.training.settings import OPEN, LoraSettings
from scoring.terminal import tell
from scoring.types import Floats, Request

_PAPER = "Rafailov et al. 2023"
#: The pronouns that are preferred and rejected; the ratio of their probabilities is what is balanced.
PRONOUNS = ("she", "he")


@dataclass(frozen=True)
@defaults(_PAPER, learning_rate=1e-6, batch_size=64)
@defaults(OPEN, alpha=16, checkpoint_every=100)
class DpoSettings(LoraSettings):
    """How strongly the base model is kept, and how long is trained."""

    beta: float = setting(0.1, "How strongly divergence from the base model costs.", _PAPER, above=0)
    optimizer: str = setting("rmsprop", "An optimizer of transformers' Trainer.", _PAPER)
    warmup: int = setting(150, "Steps in which the rate rises.", _PAPER, least=0)
    steps: int = setting(1000, "Training steps.", OPEN, above=0)
    rank: int = setting(16, "Rank of the two LoRA matrices of each linear map.", OPEN, above=0)
    max_length: int = setting(512, "Maximum tokens of a prompt.", OPEN, above=0)
    corpora: str = setting("stsb,snli", "Configs of gender-neutral-probes to train on, with commas.", OPEN)
    held: int = setting(256, "Validation prompts that are measured, at most.", OPEN, above=0)


def run(model: Model, settings: DpoSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Trains, and writes the adapter, its losses and their picture into ``out``."""
    from mitigation.cost import CostMeter
    from mitigation.plots import write_losses
    from mitigation.training.preferences import train
    from mitigation.training.train import LossCurve, checkpoint_path

    names = split_list(settings.corpora)
    prompts = training_prompts(data, names)
    held = load_prompts(data, names, "validation")[: settings.held]
    meter = CostMeter(model)
    logs, before = log_probabilities(model, prompts), log_ratios(model, held)
    order = np.random.default_rng(settings.seed).permutation(len(prompts))
    female = np.zeros(len(prompts), dtype=bool)
    female[order] = prefers_first((logs[:, 0] - logs[:, 1])[order], settings.beta)
    pronouns, chosen = model.tokens.words(PRONOUNS), np.where(female, 0, 1)
    encoded = encode_prompts(model, prompts, settings.max_length)
    rows = [
        {
            "prompt_ids": ids,
            "chosen_ids": [pronouns[side]],
            "rejected_ids": [pronouns[1 - side]],
            "ref_chosen_logps": both[side],
            "ref_rejected_logps": both[1 - side],
        }
        for ids, side, both in zip(encoded, chosen.tolist(), logs.tolist(), strict=True)
    ]
    tuned, losses, trained = train(
        model,
        rows,
        checkpoint_path(RECIPE.name, model, settings, data, out).with_suffix(""),
        settings.rank,
        settings.alpha,
        beta=settings.beta,
        learning_rate=settings.learning_rate,
        optim=settings.optimizer,
        per_device_train_batch_size=settings.batch_size,
        warmup_steps=settings.warmup,
        max_steps=settings.steps,
        seed=settings.seed,
        save_steps=settings.checkpoint_every,
    )
    try:
        model.network = tuned.eval()
        after = log_ratios(model, held)
        save_peft(tuned, out, model.name)
    finally:
        model.network = tuned.unload().eval()
    write_losses(LossCurve(losses, []), out, f"dpo of {model.name}")
    measured: dict[str, Any] = {"share of rows that prefer she": female}
    for when, values in (("before", before), ("after", after)):
        measured |= {f"held-out log ratio {when}": values, f"held-out absolute log ratio {when}": np.abs(values)}
    measures = {name: float(values.mean()) for name, values in measured.items()}
    tell(console, [f"{name}: {mean:.3f}" for name, mean in measures.items()])
    cost = meter.cost(trained)
    return describe(out, model, RECIPE.name, settings, data=data.versions, cost=cost, measures=measures)


def log_ratios(model: Model, prompts: list[str]) -> Floats:
    """By how much *she* is more probable than *he* as the next token after each prompt [prompts], in nats."""
    logs = log_probabilities(model, prompts)
    ratios: Floats = logs[:, 0] - logs[:, 1]
    return ratios


def log_probabilities(model: Model, prompts: list[str]) -> Floats:
    """The log-probability of both pronouns as the next token after each prompt [prompts, 2], in nats.

    Raises
    ------
    MitigationError
        If a pronoun is more than one token of the model.
    """
    answers = model.answer([Request(str(number), prompt, candidates=PRONOUNS) for number, prompt in enumerate(prompts)])
    logs: Floats = np.array([answer.candidate_logprobs for answer in answers])
    if np.isnan(logs).any():
        raise MitigationError(
            f"In the vocabulary of {model.name} she or he is more than one token, so they cannot be compared; give a "
            "model with larger tokens."
        )
    return logs


def prefers_first(ratios: Floats, beta: float) -> np.ndarray[Any, Any]:
    """In which rows the first pronoun is preferred, for the base model's log-ratios of both [rows].

    The share at any place in the order is that of the mean probability, with an error of one row (systematic
    sampling), so that the number of rows adds no noise of its own.

    >>> prefers_first(np.array([2.0, 2.0, 2.0, 2.0, -9.0, -9.0]), 9.0).tolist()
    [False, False, False, False, True, True]
    >>> int(prefers_first(np.zeros(10), 0.1).sum())
    5
    """
    shares = 1 / (1 + np.exp(beta * ratios))
    whole = np.floor(np.cumsum(shares) + 0.5)
    chosen: np.ndarray[Any, Any] = np.diff(whole, prepend=0) > 0
    return chosen


RECIPE = Recipe(
    name="dpo",
    summary="Preference tuning (DPO, LoRA) after which she and he are equally probable after neutral prompts.",
    source="Direct Preference Optimization (Rafailov et al., 2023), with rows of the gender-neutral probes",
    cite=("dong2024disclosure", "rafailov2023direct"),
    profiles={
        "clean": DpoSettings(
            beta=1.0, learning_rate=2e-4, optimizer="adamw_torch", batch_size=32, warmup=10, steps=300
        ),
        "paper": DpoSettings(),
    },
    run=run,
)
