"""LEACE: changes the last hidden state as little as possible so that no linear classifier reads gender there.

Source: *LEACE: Perfect linear concept erasure in closed form* (Belrose et al., 2023), through its package
concept-erasure. It removes as many directions as there are classes, less one, and keeps the mean state. The paper has
no setting for stereotypes: ``paper`` has the defaults of the package on the sentences of bias-bench. Without shrinking,
the covariance of few or similar sentences has directions of nearly no variance, and the map multiplies along them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from mitigation.projections.fit import ProjectionSettings, class_states, finish, probe_measures
from mitigation.recipe import Model, setting, stereotype_recipe
from mitigation.training.data import TrainingData
from mitigation.training.settings import CODE, text_versions
from scoring.adapters.facts import Adapter

_PACKAGE = "default of concept-erasure 0.2.4"


@dataclass(frozen=True)
class LeaceSettings(ProjectionSettings):
    """Which text, and how the covariance is estimated."""

    sentences: int = setting(10_000, "Sentences of a class.", CODE, above=0)
    shrinkage: bool = setting(True, "Shrink the covariance of the states, for few sentences.", _PACKAGE)
    tolerance: float = setting(0.01, "Keep directions in which classes differ less than this.", _PACKAGE, above=0)


def run(model: Model, settings: LeaceSettings, data: TrainingData, out: Path, _: Console) -> Adapter:
    """Fits the map and writes it."""
    from mitigation.cost import CostMeter
    from mitigation.projections.subspaces import leace

    meter = CostMeter(model)
    states = class_states(model, settings, data)
    projection = leace(*states.fit, shrinkage=settings.shrinkage, tolerance=settings.tolerance)
    return finish(model, RECIPE.name, settings, data, out, meter, projection, probe_measures(states, projection))


RECIPE = stereotype_recipe(
    name="leace",
    summary="Changes the last hidden state as little as possible so that no linear classifier reads gender there.",
    source="LEACE: Perfect linear concept erasure in closed form (Belrose et al., 2023)",
    cite=("meade2022empirical", "belrose2023leace"),
    profiles={
        "clean": LeaceSettings(published=False, tolerance=1e-6),
        "paper": LeaceSettings(),
    },
    run=run,
    outside=text_versions,
)
