"""INLP: removes from the last hidden state what linear classifiers of gender, race or religion read there.

Source: *Null It Out* (Ravfogel et al., 2020), with the settings of bias-bench (Meade et al., 2022). Sentences with
male, female or no listed words are encoded as the mean of their last hidden states. A linear classifier is fitted, its
directions are removed, and the next one is fitted on what is left. ``clean`` classifies male and female
sentences, without neutral ones, and ends when a new classifier is no better than chance; the published 80
classifiers of three classes remove up to 240 directions, and language ability with them.
"""

from dataclasses import dataclass

from cards.common.terminal import show
from mitigation.projections.sentences import ProjectionSettings
from mitigation.recipe import Adapter, Job, MitigationError, declared, setting
from mitigation.training.settings import CODE, OPEN


@dataclass(frozen=True)
class InlpSettings(ProjectionSettings):
    """Which text, and how many classifiers."""

    sentences: int = setting(10_000, "Sentences of a class.", CODE, above=0)
    classifiers: int = setting(80, "Linear classifiers that are fitted one after another, at most.", CODE, above=0)
    margin: float = setting(
        0.0, "End at a classifier within so many standard errors of chance; 0 never ends.", OPEN, least=0
    )


def make(job: Job[InlpSettings]) -> Adapter:
    """Fits the classifiers and writes the projection."""
    from mitigation.projections import subspaces

    states = subspaces.class_states(job.model, job.settings)
    # The classifiers are fitted on one part and judged on another.
    nullspace = subspaces.inlp(*states.fit, *states.choose, job.settings.classifiers, job.settings.margin)
    projection = subspaces.Projection.orthogonal(nullspace.basis)
    # The basis has a row for each number of the state.
    if projection.rank >= len(nullspace.basis):
        raise MitigationError(
            f"The projection removes all {projection.rank} directions of the hidden state, so nothing of the model "
            "would be left; give fewer classifiers."
        )
    first, last = nullspace.accuracies[0], nullspace.accuracies[-1]
    show(job.console, [f"{len(nullspace.accuracies)} classifiers; accuracy {first:.3f} to {last:.3f}."])
    measures = subspaces.probe_measures(states, projection) | {"first classifier": first, "last classifier": last}
    return subspaces.finish(job, projection, measures)


RECIPE = declared("inlp", InlpSettings, make)
