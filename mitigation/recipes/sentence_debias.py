"""SentenceDebias: removes from the last hidden state the direction in which sentences of two genders differ.

Source: *Towards Debiasing Sentence Representations* (Liang et al., 2020), with the settings of bias-bench (Meade et
al., 2022). Each sentence with a listed word is encoded with that word and with its partner; the first principal
component of the differences is removed. ``clean`` replaces all listed words of a sentence at the same time, also those
with capitals or beside punctuation.

A mean state says what a sentence tells of gender, which in a masked model is not what it predicts at a mask. With
``reads`` of predictions, the direction is that along which the model's answer changes between a listed word and its
partner, where it predicts one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from mitigation.errors import MitigationError
from mitigation.projections.fit import ProjectionSettings, finish, tuple_states
from mitigation.recipe import Model, setting, stereotype_recipe
from mitigation.training.data import TrainingData
from mitigation.training.settings import CODE, OPEN, text_versions
from scoring.adapters.facts import Adapter


@dataclass(frozen=True)
class SentenceDebiasSettings(ProjectionSettings):
    """Which text, and how many directions."""

    components: int = setting(1, "Principal components that are removed.", CODE, above=0)
    reads: str = setting(
        "sentences",
        "What gives the direction: sentences, their mean states; or predictions, of a listed word or its partner.",
        OPEN,
        choices=("sentences", "predictions"),
    )


def run(model: Model, settings: SentenceDebiasSettings, data: TrainingData, out: Path, _: Console) -> Adapter:
    """Finds the components and writes the projection."""
    import numpy as np

    from mitigation.cost import CostMeter
    from mitigation.projections.subspaces import Projection, principal_directions

    meter = CostMeter(model)
    states = tuple_states(model, settings, data, mean=settings.reads == "sentences")
    width = states[0].shape[1]
    if settings.components >= width:
        raise MitigationError(
            f"The setting components is {settings.components}, and the hidden state has {width} numbers; give fewer."
        )
    projection = Projection.orthogonal(principal_directions(states, settings.components))
    # How far sentences are apart that differ in the listed words only, as a share of the length of their states.
    apart, length = states[0] - states[1], np.linalg.norm(states[0], axis=1).mean()
    left = projection(states[0]) - projection(states[1])
    measures = {
        f"difference {when}": float(np.linalg.norm(difference, axis=1).mean() / length)
        for when, difference in (("before", apart), ("after", left))
    }
    return finish(model, RECIPE.name, settings, data, out, meter, projection, measures)


RECIPE = stereotype_recipe(
    name="sentence_debias",
    summary="Removes from the last hidden state the direction in which sentences with swapped gender differ.",
    source="Towards Debiasing Sentence Representations (Liang et al., 2020), with the settings of bias-bench",
    cite=("meade2022empirical", "liang2020towards"),
    profiles={
        "clean": SentenceDebiasSettings(published=False, most_tokens=128),
        "paper": SentenceDebiasSettings(sentences=0, most_tokens=128),
    },
    run=run,
    outside=text_versions,
)
