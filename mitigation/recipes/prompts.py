"""Words that go with each question: an instruction that requests a model, base or chat, for less bias.

The instruction against gender mentions is that of *Disclosure and Mitigation of Gender Bias in LLMs*
(Dong et al., 2024), in the wording of its code and in that of the paper; the six debiasing prompts are
those of *Causally Testing Gender Bias in LLMs* (OccuGender; Chen et al., 2024), after the ``Q:`` of its
questions and before the context elsewhere. A prompt of one's own is a JSON file. Nothing is trained;
what is published is the file, for ``python -m scoring MODEL --prompt FILE``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from mitigation.adapters.adapter import PROMPT, Adapter, Cost, MitigationError, describe
from mitigation.recipe import Recipe, setting
from mitigation.training.data import Data
from scoring.prompts import get
from scoring.report.terminal import tell

if TYPE_CHECKING:
    from scoring.inference.model import Model


@dataclass(frozen=True, slots=True)
class Settings:
    """Which words."""

    prompt: str = setting(
        "debias-6", "A prompt by name (python -m scoring --list) or a JSON file.", "Chen et al. 2024, Table 4"
    )

    def __post_init__(self) -> None:
        chosen = get(self.prompt)
        if not (chosen.instruction or chosen.system):
            raise MitigationError(
                f"The prompt {chosen.name!r} says nothing to the model; give one with an instruction or a system text."
            )


def run(model: Model, settings: Settings, _: Data, out: Path, console: Console) -> Adapter:
    """Puts the prompt into ``out``."""
    chosen = get(settings.prompt)
    (out / PROMPT).write_text(chosen.json(), encoding="utf-8")
    tell(console, [f"{chosen.name}: {chosen.instruction or chosen.system}"])
    cost = Cost(0, 0.0, 0, str(model.environment["device"]))
    return describe(out, model, RECIPE.name, settings, data={}, cost=cost)


RECIPE = Recipe(
    name="prompts",
    summary="An instruction that goes with each question: by name, or a file of one's own.",
    source="Causally Testing Gender Bias in LLMs (Chen et al., 2024); Disclosure and Mitigation (Dong et al., 2024)",
    cite=("chen2024occugender", "dong2024disclosure"),
    profiles={"clean": Settings(), "paper": Settings("instruction")},
    run=run,
    kinds=("causal", "masked"),
)
