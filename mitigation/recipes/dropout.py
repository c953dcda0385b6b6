"""Dropout: further training on unchanged text with raised dropout rates.

Source: *Measuring and Reducing Gendered Correlations in Pre-trained Models* (Webster et al., 2020), with the settings
of bias-bench (Meade et al., 2022). Rates are raised while training only. Many causal models have no dropout but that
of attention; a model without any is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from mitigation.recipe import Recipe, check_ranges, setting
from mitigation.training.data import TrainingData
from mitigation.training.language_settings import CLEAN, CODE, LanguageSettings, corpus_versions, shuffled_texts
from scoring.adapters.facts import Adapter

if TYPE_CHECKING:
    from scoring.inference.model import Model


@dataclass(frozen=True, slots=True)
class DropoutSettings(LanguageSettings):
    """The rates, and how long is trained."""

    hidden: float = setting(-1.0, "Share of a hidden state that training drops; -1: .2 if masked, .15 if causal.", CODE)
    attention: float = setting(0.15, "Share of the weights of attention that training drops.", CODE)

    def __post_init__(self) -> None:
        super(DropoutSettings, self).__post_init__()
        check_ranges(self, share=("attention",) if self.hidden == -1 else ("hidden", "attention"))


def run(model: Model, settings: DropoutSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Trains with the raised rates and writes the adapter."""
    from mitigation.training.language import train_on

    data.versions.update(corpus_versions(settings))
    hidden = settings.hidden if settings.hidden >= 0 else {"masked": 0.2, "causal": 0.15}[model.kind]
    rates = {"hidden": hidden, "attention": settings.attention}
    return train_on(model, RECIPE.name, settings, shuffled_texts(settings), data, out, console, rates)


RECIPE = Recipe(
    name="dropout",
    summary="Further training with raised dropout rates (LoRA; all weights in paper).",
    source="Measuring and Reducing Gendered Correlations (Webster et al., 2020), with the settings of bias-bench",
    cite=("meade2022empirical",),
    citations={
        "webster2020measuring": """
@article{webster2020measuring,
  title = {Measuring and Reducing Gendered Correlations in Pre-trained Models},
  author = {Webster, Kellie and Wang, Xuezhi and Tenney, Ian and Beutel, Alex and Pitler, Emily and Pavlick, Ellie
    and Chen, Jilin and Chi, Ed and Petrov, Slav},
  journal = {arXiv preprint arXiv:2010.06032},
  year = {2020}
}"""
    },
    profiles={
        "clean": DropoutSettings(**CLEAN, patience=3, hidden=0.2),
        "paper": DropoutSettings(),
    },
    run=run,
    benchmarks=("stereoset", "crows_pairs", "biaske"),
    kinds=("causal", "masked"),
    outside=corpus_versions,
)
