"""Fine-tuning on biased pairs: the data and the losses of FAST, trained on a LoRA instead of a stamp in one block.

Source: the baseline "Fine-tuning (FT)" of *Large Language Model Bias Mitigation from the Perspective of Knowledge
Editing* (FAST; Chen et al., 2024), appendix C.1, which says no more than that its data and objectives are those of
FAST. No block is located. As in ``fast``, ``clean`` holds out the pairs of a fifth of the subjects and reports them
first, and ``paper`` edits all pairs that it measures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from mitigation.adapters.write import describe
from mitigation.editing.settings import OPEN, PUBLISHED, PairSettings
from mitigation.recipe import Adapter, Console, Model, TrainingData, setting, stereotype_recipe


@dataclass(frozen=True)
class FineTuningSettings(PairSettings):
    """Which pairs are trained, how long, and the size of the LoRA."""

    rank: int = setting(16, "Rank of the LoRA matrices of each linear map; their product is not scaled.", OPEN, above=0)


def run(model: Model, settings: FineTuningSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Trains the LoRA on the pairs, and writes it with its losses, scores and pictures into ``out``."""
    from mitigation.cost import trained_parameters
    from mitigation.editing.session import EditingSession
    from mitigation.editing.stamped import StampedNetwork
    from mitigation.training.trainable import trainable

    session = EditingSession(model, settings, data, console)
    with trainable(model, settings, alpha=settings.rank) as tuned:
        network = StampedNetwork(tuned.network, None, model.kind, model.tokens.pad, settings.score)
        trained = trained_parameters(tuned.network)
        changes, measures = session.train(network, RECIPE.name, "LoRA", model.name, out)
        tuned.save(out)
    cost = session.meter.cost(trained)
    adapter = describe(out, model, RECIPE.name, settings, data=data.versions, cost=cost, measures=measures)
    return replace(adapter, changes=changes)


RECIPE = stereotype_recipe(
    name="fine_tuning",
    summary="The biased pairs and losses of FAST, trained on all linear maps (LoRA).",
    source="The baseline FT of FAST (Chen et al., 2024; published in Findings of NAACL 2025)",
    cite=("chen2024fast",),
    profiles={
        "clean": FineTuningSettings(passes=10),
        "paper": FineTuningSettings(**PUBLISHED, rate=1e-4, rank=64),
    },
    run=run,
)
