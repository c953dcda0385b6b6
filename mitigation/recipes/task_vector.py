"""Task-vector negation: learns to write biased text, and then does the opposite.

Source: *Editing Models with Task Arithmetic* (Ilharco et al., 2023). A model is trained further on biased text of
the user's, and what this adds to the weights is subtracted instead. What the text has in common with other text is
lost too, so language ability falls with the strength: read the perplexity beside the bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from mitigation.recipe import Recipe, check_ranges, setting
from mitigation.training.data import TrainingData
from mitigation.training.language_settings import CLEAN, OPEN, LanguageSettings, corpus_versions, shuffled_texts
from scoring.adapters.facts import Adapter

if TYPE_CHECKING:
    from scoring.inference.model import Model


@dataclass(frozen=True, slots=True)
class TaskVectorSettings(LanguageSettings):
    """How strongly the opposite of the biased text is done, and how long is trained on it."""

    strength: float = setting(1.0, "Factor of what is subtracted.", "chosen on held-out data in the paper")
    seed: int = setting(0, "Of the order of rows, masks and the start of the matrices.", OPEN)

    def __post_init__(self) -> None:
        super(TaskVectorSettings, self).__post_init__()
        check_ranges(self, positive=("strength",))


def run(model: Model, settings: TaskVectorSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Trains on the biased text and writes the negated adapter."""
    from mitigation.training.language import train_on

    data.versions.update(corpus_versions(settings))
    texts = shuffled_texts(settings)
    return train_on(model, RECIPE.name, settings, texts, data, out, console, factor=-settings.strength)


_CLEAN = TaskVectorSettings(**{**CLEAN, "steps": 200})
RECIPE = Recipe(
    name="task_vector",
    summary="Subtracts what further training on biased text (--corpus) adds to the weights (LoRA).",
    source="Editing Models with Task Arithmetic (Ilharco et al., 2023)",
    cite=(),
    citations={
        "ilharco2023editing": """
@inproceedings{ilharco2023editing,
  title = {Editing Models with Task Arithmetic},
  author = {Ilharco, Gabriel and Ribeiro, Marco Tulio and Wortsman, Mitchell and Schmidt, Ludwig
    and Hajishirzi, Hannaneh and Farhadi, Ali},
  booktitle = {International Conference on Learning Representations},
  year = {2023}
}"""
    },
    profiles={
        "clean": _CLEAN,
        "paper": replace(_CLEAN, learning_rate=1e-5, rank=0),
    },
    run=run,
    benchmarks=("stereoset", "crows_pairs", "biaske"),
    kinds=("causal", "masked"),
    outside=corpus_versions,
)
