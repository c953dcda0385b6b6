"""The settings that all recipes with biased pairs share, which are listed without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mitigation.errors import MitigationError
from mitigation.recipe import check_ranges, setting

PAPER = "Chen et al. 2024"
OPEN = "not in the paper"
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
class PairSettings:
    """Which pairs are trained, how long, and what must not change."""

    sets: str = setting("stereoset", "Configs of biaske to edit, with commas.", PAPER)
    split: str = setting("test", "Their split.", PAPER)
    domain: str = setting("gender", "gender, race, religion, or all.", PAPER)
    held_out: float = setting(0.2, "Share of the subjects whose pairs are measured but not edited.", "this project")
    passes: int = setting(40, "Passes over all pairs; with 1 each batch is trained to its end.", "this project")
    batch: int = setting(16, "Pairs per batch.", "this project")
    iterations: int = setting(1, "Optimizer steps per batch and pass.", "this project")
    rate: float = setting(1e-3, "Learning rate of Adam.", "this project")
    alpha: float = setting(40.0, "Weight of L_s1, which keeps all other tokens after a prompt.", PAPER)
    beta: float = setting(0.1, "Weight of L_s2, which keeps the tokens after a subject alone.", PAPER)
    compare: str = setting("log", "What L_e compares: probability, or log for its logarithm.", "this project")
    score: str = setting("clean", "The benchmark's profile whose score of a sentence is compared.", "this project")
    keep: str = setting("best", "Of one pass, the step of a batch whose weights are kept: best, or last.", OPEN)
    divergence: str = setting(
        "sum", "L_s1 and L_s2: sum over the vocabulary, or mean, PyTorch's division by its size.", OPEN
    )
    value_rate: float = setting(
        1.0, "Multiple of the rate for a stamp's second matrix; 1 / units divides the stamp's output by them.", OPEN
    )
    prefixes: int = setting(
        5, "Texts put before each prompt, besides none; with several passes, one each in the first half.", OPEN
    )
    prefix_tokens: int = setting(10, "Tokens of a prefix, which a causal model generates.", OPEN)
    seed: int = setting(42, "Of the held-out subjects, prefixes, traces, order, and the start of the matrices.", OPEN)

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("passes", "batch", "iterations", "prefix_tokens", "rate", "value_rate"),
            not_negative=("alpha", "beta", "prefixes"),
            share=("held_out",),
        )
        check_choices(self, compare=("probability", "log"), score=("clean", "paper"))
        check_choices(self, keep=("best", "last"), divergence=("sum", "mean"))


def check_choices(settings: Any, **choices: tuple[str, ...]) -> None:
    """Checks that settings have one of the given values.

    Raises
    ------
    MitigationError
        With the first setting that has another value.
    """
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            *some, last = allowed
            raise MitigationError(
                f"The setting {name} is {getattr(settings, name)!r}; give {', '.join(some)} or {last}."
            )
