"""What is trained of a model: a LoRA on all linear maps, which plain PEFT loads, or all weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mitigation.adapters.write import save_peft, save_whole
from mitigation.errors import MitigationError

if TYPE_CHECKING:
    from scoring.inference.model import Model


@dataclass(frozen=True, slots=True)
class Trainable:
    """A network whose parameters that require gradients are trained.

    Parameters
    ----------
    network:
        The network with a LoRA, or with all its weights.
    model:
        The model that it belongs to.
    original:
        All weights before training, by name; empty with a LoRA.
    """

    network: Any
    model: Model
    original: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def multiply(self, factor: float) -> None:
        """Multiplies what training adds to the weights; -1 does the opposite of what was learnt."""
        if self.original:
            for name, weight in self.network.named_parameters():
                weight.copy_(torch.lerp(self.original[name], weight, factor))
            return
        for name, weight in self.network.named_parameters():
            if "lora_B" in name:
                weight.mul_(factor)

    def save(self, folder: Path) -> None:
        """Writes an adapter of PEFT, or the whole model with its tokenizer, which loads by the folder's name."""
        if self.original:
            save_whole(self.network, self.model.tokens.tokenizer, folder)
        else:
            save_peft(self.network, folder, self.model.name)


@contextmanager
def trainable(model: Model, rank: int, alpha: int, seed: int) -> Iterator[Trainable]:
    """The network of a model for training; after the block, also after an exception, it is as before.

    Parameters
    ----------
    rank, alpha:
        Of a LoRA whose product is zero at first; a rank of 0 trains all weights.
    seed:
        Of the start of the LoRA.

    Raises
    ------
    MitigationError
        If all weights are to be trained and are not in float32.
    """
    torch.manual_seed(seed)
    network = model.network
    if not rank:
        if model.dtype != "float32":
            raise MitigationError(
                f"All weights are trained in float32, and those of {model.name} are in {model.dtype}; give --dtype "
                "float32 --quantize none, or train a LoRA with --rank 64."
            )
        original = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
        frozen = [weight for weight in network.parameters() if not weight.requires_grad]
        try:
            yield Trainable(network.requires_grad_(True), model, original)
        finally:
            network.load_state_dict(original)
            for weight in frozen:
                weight.requires_grad_(False)
            network.zero_grad()
            network.eval()
        return
    from peft import LoraConfig

    from scoring.adapters.attach import wrap

    task = "CAUSAL_LM" if model.kind == "causal" else None  # PEFT has no name for masked models
    tuned = wrap(network, LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type=task))
    try:
        yield Trainable(tuned, model)
    finally:
        model.network = tuned.unload().eval()
