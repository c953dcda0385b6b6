"""Dropout: further training on unchanged text with raised dropout rates.

Source: *Measuring and Reducing Gendered Correlations in Pre-trained Models* (Webster et al., 2020), with the settings
of bias-bench (Meade et al., 2022). Rates are raised while training only. Many causal models have no dropout but that
of attention; a model without any is refused.
"""

from dataclasses import dataclass

from mitigation.recipe import Adapter, Job, MitigationError, declared, setting
from mitigation.training.settings import CODE, LanguageSettings


@dataclass(frozen=True)
class DropoutSettings(LanguageSettings):
    """The rates, and how long is trained."""

    hidden: float = setting(-1.0, "Share of a hidden state that training drops; -1: .2 if masked, .15 if causal.", CODE)
    attention: float = setting(0.15, "Share of the weights of attention that training drops.", CODE, least=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden != -1 and not 0 <= self.hidden < 1:
            raise MitigationError(f"The setting hidden is {self.hidden}; give -1, or at least 0 and below 1.")


def make(job: Job[DropoutSettings]) -> Adapter:
    """Trains with the raised rates and writes the adapter."""
    from mitigation.training.trainable import train_on

    settings = job.settings
    hidden = settings.hidden
    if hidden < 0:
        # bias-bench has another rate for each kind of model.
        hidden = 0.2 if job.model.kind == "masked" else 0.15
    return train_on(job, settings.shuffled_texts(), {"hidden": hidden, "attention": settings.attention})


RECIPE = declared("dropout", DropoutSettings, make)
