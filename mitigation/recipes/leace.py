"""LEACE: changes the last hidden state as little as possible so that no linear classifier reads gender there.

Source: *LEACE: Perfect linear concept erasure in closed form* (Belrose et al., 2023), through its package
concept-erasure. It removes as many directions as there are classes, less one, and keeps the mean state. The paper has
no setting for stereotypes: ``paper`` has the defaults of the package on the sentences of bias-bench. Without shrinking,
the covariance of few or similar sentences has directions of nearly no variance, and the map multiplies along them.
"""

from dataclasses import dataclass

from mitigation.projections.sentences import ProjectionSettings
from mitigation.recipe import Adapter, Job, declared, setting
from mitigation.training.settings import CODE

_PACKAGE = "default of concept-erasure 0.2.4"


@dataclass(frozen=True)
class LeaceSettings(ProjectionSettings):
    """Which text, and how the covariance is estimated."""

    sentences: int = setting(10_000, "Sentences of a class.", CODE, above=0)
    shrinkage: bool = setting(True, "Shrink the covariance of the states, for few sentences.", _PACKAGE)
    tolerance: float = setting(0.01, "Keep directions in which classes differ less than this.", _PACKAGE, above=0)


def make(job: Job[LeaceSettings]) -> Adapter:
    """Fits the map and writes it."""
    from mitigation.projections import subspaces

    # Fitted on one part only; the probe is tested on another.
    states = subspaces.class_states(job.model, job.settings)
    projection = subspaces.leace(*states.fit, shrinkage=job.settings.shrinkage, tolerance=job.settings.tolerance)
    return subspaces.finish(job, projection, subspaces.probe_measures(states, projection))


RECIPE = declared("leace", LeaceSettings, make)
