"""Directional ablation: no block and no word embedding writes along the direction of gender any more.

Source: *Refusal in Language Models Is Mediated by a Single Direction* (Arditi et al., 2024), section 2.4 and its weight
orthogonalization, with the direction of gender in place of refusal. For a unit vector d, each map W that writes
into the residual stream becomes (I - d dᵀ) W. That is a LoRA of rank one with A = dᵀ W and B = -d, so plain PEFT loads
it. Biases of maps and embeddings of positions stay: what they write along d is the same for every text.
"""

from cards.common.terminal import show
from mitigation.projections import stream
from mitigation.recipe import Adapter, Job, MitigationError, declared

#: What may remain of the differences between texts along the direction, as a share; more is no rounding.
REMAINS = 0.05


def make(job: Job[stream.StreamSettings]) -> Adapter:
    """Finds the direction, writes the LoRA and checks that no block writes along it."""
    import numpy as np
    import torch

    from mitigation.adapters.temporary import attached
    from mitigation.projections import states, subspaces

    model, settings = job.model, job.settings
    names, number = stream.block_names(model, settings.block)
    fitted, held = stream.text_pairs(model, settings)
    # The direction of one block is removed from the maps of all blocks.
    vector = states.difference(model, fitted, names[number], settings.most_tokens)
    direction = torch.from_numpy(vector / np.linalg.norm(vector))
    # Each map gets a LoRA of its own, but all remove the same direction.
    matrices = subspaces.without(states.writing_maps(model, names), direction)
    before, along = stream.preference(model, held), states.spread_along(model, names, direction)
    parameters = subspaces.write_lora(model, matrices, job.out)
    with attached(model, job.out) as ablated:
        # The check is of the written adapter, as a user will load it.
        share = states.spread_along(ablated, names, direction) / along
        if share > REMAINS:
            raise MitigationError(
                f"In {model.name} the blocks still write {share:.0%} of what they wrote along the direction, because "
                "a normalization or another map stands before the residual stream; use inlp, sentence_debias or leace."
            )
        after = stream.preference(ablated, held)
    sizes = f"{before.size:.3f} to {after.size:.3f}"
    show(job.console, [f"{len(matrices)} maps; held-out preference {sizes} nats in size."])
    measures = before.measures("before") | after.measures("after") | {"changed maps": len(matrices)}
    return job.done(parameters, measures)


RECIPE = declared("ablation", stream.StreamSettings, make)
