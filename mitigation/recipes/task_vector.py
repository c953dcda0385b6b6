"""Task-vector negation: learns to write biased text, and then does the opposite.

Source: *Editing Models with Task Arithmetic* (Ilharco et al., 2023). A model is trained further on biased text of
the user's, and what this adds to the weights is subtracted instead. What the text has in common with other text is
lost too, so language ability falls with the strength: read the perplexity beside the bias.
"""

from dataclasses import dataclass

from mitigation.recipe import Adapter, Job, declared, setting
from mitigation.training.settings import LanguageSettings


@dataclass(frozen=True)
class TaskVectorSettings(LanguageSettings):
    """How strongly the opposite of the biased text is done, and how long is trained on it."""

    corpus: str = setting("", "Biased text: files, folders, globs or addresses, with commas.", "", required=True)
    strength: float = setting(1.0, "Factor of what is subtracted.", "chosen on held-out data in the paper", above=0)


def make(job: Job[TaskVectorSettings]) -> Adapter:
    """Trains on the biased text and writes the negated adapter."""
    from mitigation.training.trainable import train_on

    # A negative factor subtracts from the weights what the text has added to them.
    return train_on(job, job.settings.shuffled_texts(), factor=-job.settings.strength)


RECIPE = declared("task_vector", TaskVectorSettings, make)
