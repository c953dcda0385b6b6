"""Fine-tuning on biased pairs: a LoRA after which both objects of a pair are equally probable; the rest is kept.

``clean`` lowers L_e, the square of log P(he) - log P(she) after the text before the pronoun. It keeps the probability
of both together (L_m), the predictions and the lean where a text states a gender (L_g, L_k) and those of ordinary text
(L_t). What is kept is compared with the network without the LoRA, and the head runs only at the tokens that are read.
By default the pairs are those of this project about occupations (:mod:`mitigation.editing.jobs`); ``pairs`` names a
file of your own.
The result is a plain LoRA of PEFT, which servers load and which merges into the weights.

Source of ``paper``: the baseline "Fine-tuning (FT)" of *Large Language Model Bias Mitigation from the Perspective of
Knowledge Editing* (FAST; Chen et al., 2024), appendix C.1, which says no more than that its data and objectives are
those of FAST. No block is located. As in ``fast``, ``clean`` holds out the pairs of a fifth of the subjects and reports
them first, and ``paper`` edits all pairs that it measures.
"""

from dataclasses import dataclass

from cards.common import terminal
from mitigation.editing.settings import OPEN, OWN, PairSettings, number_of_steps
from mitigation.recipe import Adapter, Job, declared, setting

#: Below this share of the weights of the blocks, the command says what its LoRA reaches.
MOST_OF_BODY = 0.5


@dataclass(frozen=True)
class FineTuningSettings(PairSettings):
    """Which pairs are trained, how long, and the size of the LoRA."""

    rank: int = setting(8, "Rank of the LoRA matrices of each linear map.", OPEN, above=0)
    scale: float = setting(2.0, "What their product is multiplied by.", OWN, above=0)


def make(job: Job[FineTuningSettings]) -> Adapter:
    """Trains the LoRA on the pairs, and writes it with its losses, scores and pictures into ``out``."""
    from mitigation.editing.session import EditingSession
    from mitigation.editing.stamped import StampedNetwork
    from mitigation.training.trainable import share_of_body, trainable, trained_parameters

    model, settings, session = job.model, job.settings, EditingSession(job)
    with trainable(model, settings, alpha=round(settings.scale * settings.rank)) as tuned:
        # None: a LoRA changes all blocks, so each step runs all of them.
        network = StampedNetwork(tuned.network, None, model.kind, model.tokens.pad, settings.score)
        trained, share = trained_parameters(tuned.network), share_of_body(tuned.network)
        if share < MOST_OF_BODY:
            sentence = f"The LoRA reaches {share:.1%} of the weights of the blocks: others are no linear maps."
            terminal.show(job.console, [sentence])
        changes, measures = session.train(network, "LoRA", model.name)
        tuned.save(job.out)
    return job.done(trained, measures | {"share_of_body": share}, changes)


RECIPE = declared("fine_tuning", FineTuningSettings, make, steps=number_of_steps)
