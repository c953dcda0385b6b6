"""Dropout: further training on unchanged text with raised dropout rates.

Source: *Measuring and Reducing Gendered Correlations in Pre-trained Models* (Webster et al., 2020), with the settings
of bias-bench (Meade et al., 2022). Rates are raised while training only. Many causal models have no dropout but that
of attention; a model without any is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mitigation.errors import MitigationError
from mitigation.recipe import Adapter, Console, Model, TrainingData, setting, stereotype_recipe
from mitigation.training.settings import CLEAN, CODE, LanguageSettings, corpus_versions


@dataclass(frozen=True)
class DropoutSettings(LanguageSettings):
    """The rates, and how long is trained."""

    hidden: float = setting(-1.0, "Share of a hidden state that training drops; -1: .2 if masked, .15 if causal.", CODE)
    attention: float = setting(0.15, "Share of the weights of attention that training drops.", CODE, least=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden != -1 and not 0 <= self.hidden < 1:
            raise MitigationError(f"The setting hidden is {self.hidden}; give a value in its range.")


def run(model: Model, settings: DropoutSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Trains with the raised rates and writes the adapter."""
    from mitigation.training.language import train_on

    data.versions.update(corpus_versions(settings))
    hidden = settings.hidden if settings.hidden >= 0 else {"masked": 0.2, "causal": 0.15}[model.kind]
    rates = {"hidden": hidden, "attention": settings.attention}
    return train_on(model, RECIPE.name, settings, settings.shuffled_texts(), data, out, console, rates)


RECIPE = stereotype_recipe(
    name="dropout",
    summary="Further training with raised dropout rates (LoRA; all weights in paper).",
    source="Measuring and Reducing Gendered Correlations (Webster et al., 2020), with the settings of bias-bench",
    cite=("meade2022empirical", "webster2020measuring"),
    profiles={
        "clean": DropoutSettings(**CLEAN, patience=3, hidden=0.2),
        "paper": DropoutSettings(),
    },
    run=run,
    outside=corpus_versions,
)
