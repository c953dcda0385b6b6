"""Fine-tuning on biased pairs: the data and the losses of FAST, trained on a LoRA instead of a stamp in one block.

Source: the baseline "Fine-tuning (FT)" of *Large Language Model Bias Mitigation from the Perspective of Knowledge
Editing* (FAST; Chen et al., 2024), appendix C.1, which says no more than that its data and objectives are those of
FAST. No block is located. As in ``fast``, ``clean`` holds out the pairs of a fifth of the subjects and reports them
first, and ``paper`` edits all pairs that it measures.
"""

from dataclasses import dataclass

from mitigation.editing.settings import OPEN, PairSettings, number_of_steps
from mitigation.recipe import Adapter, Job, declared, setting


@dataclass(frozen=True)
class FineTuningSettings(PairSettings):
    """Which pairs are trained, how long, and the size of the LoRA."""

    rank: int = setting(16, "Rank of the LoRA matrices of each linear map; their product is not scaled.", OPEN, above=0)


def make(job: Job[FineTuningSettings]) -> Adapter:
    """Trains the LoRA on the pairs, and writes it with its losses, scores and pictures into ``out``."""
    from mitigation.editing.session import EditingSession
    from mitigation.editing.stamped import StampedNetwork
    from mitigation.training.trainable import trainable, trained_parameters

    model, settings, session = job.model, job.settings, EditingSession(job)
    with trainable(model, settings, alpha=settings.rank) as tuned:
        # None: a LoRA changes all blocks, so each step runs the whole network.
        network = StampedNetwork(tuned.network, None, model.kind, model.tokens.pad, settings.score)
        trained = trained_parameters(tuned.network)
        changes, measures = session.train(network, "LoRA", model.name)
        tuned.save(job.out)
    return job.done(trained, measures, changes)


RECIPE = declared("fine_tuning", FineTuningSettings, make, steps=number_of_steps)
