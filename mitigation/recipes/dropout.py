"""Dropout: further training on unchanged text with raised dropout rates.

Source: *Measuring and Reducing Gendered Correlations in Pre-trained Models* (Webster et al., 2020), with the settings
of bias-bench (Meade et al., 2022). Rates are raised while training only. Many causal models have no dropout but that
of attention; a model without any is refused.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from mitigation import corpora
from mitigation.recipe import Recipe, check_ranges, setting
from mitigation.training.data import TrainingData
from mitigation.training.language_settings import CODE, LanguageSettings
from scoring.adapters.facts import Adapter

if TYPE_CHECKING:
    from scoring.inference.model import Model


@dataclass(frozen=True, slots=True)
class DropoutSettings(LanguageSettings):
    """The rates, and how long is trained."""

    hidden: float = setting(0.2, "Share of the numbers of a hidden state that training drops.", CODE)
    attention: float = setting(0.15, "Share of the weights of attention that training drops.", CODE)

    def __post_init__(self) -> None:
        super(DropoutSettings, self).__post_init__()
        check_ranges(self, share=("hidden", "attention"))


def run(model: Model, settings: DropoutSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Trains with the raised rates and writes the adapter."""
    from mitigation.training.language import train_on

    data.versions.update(outside(settings))
    texts = list(islice(corpora.paragraphs(settings.corpus, settings.field), settings.lines or None))
    random.Random(settings.seed).shuffle(texts)
    rates = {"hidden": settings.hidden, "attention": settings.attention}
    return train_on(model, RECIPE.name, settings, texts, data, out, console, rates)


def outside(settings: DropoutSettings) -> dict[str, str]:
    """Name to fingerprint of the corpus."""
    return corpora.fingerprints(settings.corpus)


RECIPE = Recipe(
    name="dropout",
    summary="Further training with raised dropout rates (LoRA).",
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
        "clean": DropoutSettings(
            join=False,
            length=128,
            steps=500,
            batch_size=32,
            learning_rate=2e-4,
            rank=16,
            alpha=16,
            warmup=0.03,
            patience=3,
        ),
        "paper": DropoutSettings(),
    },
    run=run,
    benchmarks=("stereoset", "crows_pairs", "biaske"),
    kinds=("causal", "masked"),
    outside=outside,
)
