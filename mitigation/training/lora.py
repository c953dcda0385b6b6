"""A LoRA on all linear maps of a model, which plain PEFT loads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from scoring.inference.model import Model


@contextmanager
def lora(model: Model, rank: int, alpha: int, seed: int) -> Iterator[Any]:
    """The network of a model with a LoRA whose product is zero at first; after the block it is as before."""
    from peft import LoraConfig

    from scoring.adapters.attach import wrap

    torch.manual_seed(seed)
    task = "CAUSAL_LM" if model.kind == "causal" else None  # PEFT has no name for masked models
    tuned = wrap(model.network, LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type=task))
    try:
        yield tuned
    finally:
        model.network = tuned.unload().eval()
