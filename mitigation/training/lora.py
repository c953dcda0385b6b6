"""A LoRA on all linear maps of a model, which plain PEFT loads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mitigation.adapters.write import save_peft

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


def save_lora(tuned: Any, out: Path, base: str) -> None:
    """Writes the files of PEFT for the network of :func:`lora` into ``out``; ``base`` names the base model."""
    written = tuned.peft_config["default"]
    written.target_modules = sorted(written.target_modules)  # PEFT keeps a set, whose order differs between runs
    save_peft(tuned, out, base)
