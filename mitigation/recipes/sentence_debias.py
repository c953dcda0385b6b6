"""SentenceDebias: removes from the last hidden state the direction in which sentences of two genders differ.

Source: *Towards Debiasing Sentence Representations* (Liang et al., 2020), with the settings of bias-bench (Meade et
al., 2022). Each sentence with a listed word is encoded with that word and with its partner; the first principal
component of the differences is removed. ``clean`` replaces all listed words of a sentence at the same time, also those
with capitals or next to punctuation. It removes gender that a text states together with stereotypes, and in a masked
model the direction of mean states is not what it predicts at a mask.
"""

from dataclasses import dataclass

from mitigation.projections.sentences import ProjectionSettings
from mitigation.recipe import Adapter, Job, MitigationError, declared, setting
from mitigation.training.settings import CODE


@dataclass(frozen=True)
class SentenceDebiasSettings(ProjectionSettings):
    """Which text, and how many directions."""

    components: int = setting(1, "Principal components that are removed.", CODE, above=0)


def make(job: Job[SentenceDebiasSettings]) -> Adapter:
    """Finds the components and writes the projection."""
    import numpy as np

    from mitigation.projections import subspaces

    settings = job.settings
    states = subspaces.tuple_states(job.model, settings)
    # At least one direction of the hidden state has to stay, so there are fewer components than its width.
    width = states[0].shape[1]
    if settings.components >= width:
        raise MitigationError(
            f"The setting components is {settings.components}, and the hidden state has {width} numbers; give fewer."
        )
    projection = subspaces.Projection.orthogonal(subspaces.principal_directions(states, settings.components))
    # How far sentences are apart that differ in the listed words only, as a share of the length of their states.
    apart, length = states[0] - states[1], np.linalg.norm(states[0], axis=1).mean()
    left = projection(states[0]) - projection(states[1])
    measures = {
        f"difference {when}": float(np.linalg.norm(difference, axis=1).mean() / length)
        for when, difference in (("before", apart), ("after", left))
    }
    return subspaces.finish(job, projection, measures)


RECIPE = declared("sentence_debias", SentenceDebiasSettings, make)
