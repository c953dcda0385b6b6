"""Activation steering: a constant vector that is added to the residual stream after one block.

Source: *Steering Llama 2 via Contrastive Activation Addition* (Rimsky et al., 2024). The vector is the difference of
the mean states of sentences about two groups at that block. It is the bias of a LoRA on the block's last map, whose
matrices are zero, so plain PEFT loads it. A constant moves the preference for one group as a whole; it does not make
single stereotypes equal. Sign and size are chosen on held-out sentences of the corpus: the smallest preference for
either group, as long as the loss rises by no more than a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cards.text import split_list
from mitigation.adapters.write import describe
from mitigation.errors import MitigationError
from mitigation.projections import stream
from mitigation.recipe import Model, setting, stereotype_recipe
from mitigation.training.data import TrainingData
from mitigation.training.settings import OPEN, text_versions
from scoring.adapters.facts import Adapter
from scoring.terminal import tell


@dataclass(frozen=True)
class SteeringSettings(stream.StreamSettings):
    """Where the vector is added, and which strengths are tried."""

    strengths: str = setting("1", "Multiples of the vector that are tried, each with both signs; with commas.", OPEN)
    loss_limit: float = setting(
        0.0, "Nats per token by which the held-out loss may rise; 0 for any rise.", OPEN, least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.multiples()

    def multiples(self) -> list[float]:
        """The strengths with both signs, without zero.

        Raises
        ------
        MitigationError
            If one is no number above 0.
        """
        try:
            sizes = [float(size) for size in split_list(self.strengths)]
        except ValueError:
            sizes = []
        if not sizes or not all(0 < size < float("inf") for size in sizes):
            raise MitigationError(f"The setting strengths is {self.strengths!r}; give numbers above 0, with commas.")
        return [sign * size for size in sorted(sizes) for sign in (1, -1)]


def run(model: Model, settings: SteeringSettings, data: TrainingData, out: Path, console: Console) -> Adapter:
    """Finds the vector, chooses its strength and writes the LoRA."""
    import torch

    from mitigation.cost import CostMeter
    from mitigation.projections.lora import Matrices, write_lora
    from scoring.adapters.feed_forward import feed_forwards

    meter = CostMeter(model)
    names, number = stream.block_names(model, settings.block)
    last = feed_forwards(model.network)[number].last
    fitted, held = stream.text_pairs(model, settings, data)
    vector = torch.from_numpy(stream.difference(model, fitted, names[number], settings.most_tokens))
    module = model.network.get_submodule(last)
    before = stream.preference(model, held)
    best, strength = before, 0.0
    for multiple in settings.multiples():
        with stream.shifted(module, (multiple * vector).to(model.device)):
            measured = stream.preference(model, held)
        kept = not settings.loss_limit or measured.loss <= before.loss + settings.loss_limit
        if kept and abs(measured.gap) < abs(best.gap):
            best, strength = measured, multiple
    if not strength:
        raise MitigationError(
            f"No strength among {settings.strengths} lowers the preference of {model.name} on held-out sentences, "
            f"which is {before.gap:.3f} nats; give other strengths, a higher loss_limit or another block."
        )
    tell(console, [f"Strength {strength:g}; held-out preference {before.gap:.3f} to {best.gap:.3f} nats."])
    inputs = getattr(module, "in_features", None) or module.weight.shape[0]  # GPT-2's maps have inputs first
    zero = Matrices(torch.zeros(1, inputs), torch.zeros(len(vector), 1), strength * vector)
    parameters = write_lora(model, {last: zero}, out)
    measures = before.measures("before") | best.measures("after") | {"strength": strength}
    cost = meter.cost(parameters)
    return describe(out, model, RECIPE.name, settings, data=data.versions, cost=cost, measures=measures)


RECIPE = stereotype_recipe(
    name="steering",
    summary="Adds a constant vector after one block so that text prefers no gender as a whole; stereotypes stay.",
    source="Steering Llama 2 via Contrastive Activation Addition (Rimsky et al., 2024)",
    cite=("meade2022empirical", "rimsky2024steering"),
    profiles={
        "clean": SteeringSettings(sentences=2000, most_tokens=128, strengths="0.5,1,2,4,8,16", loss_limit=0.05),
        "paper": SteeringSettings(sentences=2000, most_tokens=128),
    },
    run=run,
    outside=text_versions,
)
