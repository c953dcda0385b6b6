"""Task-vector negation: learns to write biased text, and then does the opposite.

Source: *Editing Models with Task Arithmetic* (Ilharco et al., 2023). A model is trained further on biased text of
the user's, and what this adds to the weights is subtracted instead. What the text has in common with other text is
lost too, so language ability falls with the strength: read the perplexity beside the bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from mitigation.recipe import Adapter, Console, Model, TrainingData, setting, stereotype_recipe
from mitigation.training.settings import CLEAN, LanguageSettings, corpus_versions


@dataclass(frozen=True)
class TaskVectorSettings(LanguageSettings):
    """How strongly the opposite of the biased text is done, and how long is trained on it."""

    corpus: str = setting("", "Biased text: files, folders, globs or addresses, with commas.", "", required=True)
    strength: float = setting(1.0, "Factor of what is subtracted.", "chosen on held-out data in the paper", above=0)


def run(model: Model, settings: TaskVectorSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Trains on the biased text and writes the negated adapter."""
    from mitigation.training.language import train_on

    data.versions.update(corpus_versions(settings))
    texts = settings.shuffled_texts()
    return train_on(model, RECIPE.name, settings, texts, data, out, console, factor=-settings.strength)


_CLEAN = TaskVectorSettings(**{**CLEAN, "steps": 200})
RECIPE = stereotype_recipe(
    name="task_vector",
    summary="Subtracts what further training on biased text (--corpus) adds to the weights (LoRA).",
    source="Editing Models with Task Arithmetic (Ilharco et al., 2023)",
    cite=("ilharco2023editing",),
    profiles={
        "clean": _CLEAN,
        "paper": replace(_CLEAN, learning_rate=1e-5, rank=0),
    },
    run=run,
    outside=corpus_versions,
)
