"""A projection of the last hidden state as a LoRA on the map that reads it.

The map computes W h + b. After the projection h - L R (h - m) it has to compute W h + b - (W L) R h + W L R m. That
is a LoRA with A = R and B = -W L, and a bias W L R m of B. So plain PEFT loads it, and nothing else in the network
changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from mitigation.adapters.write import save_peft
from mitigation.errors import MitigationError

if TYPE_CHECKING:
    from mitigation.projections.subspaces import Projection
    from scoring.inference.model import Model


def write_projection(model: Model, projection: Projection, out: Path) -> int:
    """Writes the LoRA of a projection of the model's last hidden state, and returns its number of parameters.

    Raises
    ------
    MitigationError
        If the projection removes nothing, or the network has no single map that reads the last hidden state.
    """
    from mitigation.projections.states import reading_map

    if not projection.rank:
        raise MitigationError("The projection removes no direction, so there is nothing to write; give more text.")
    name, module = reading_map(model)
    left, right, mean = (torch.from_numpy(part) for part in (projection.left, projection.right, projection.mean))
    down = -(module.weight.double().cpu() @ left)
    bias = -(down @ (right @ mean)) if projection.mean.any() else None
    return write_lora(model, name, right, down, bias, out)


def write_lora(model: Model, name: str, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, out: Path) -> int:
    """Writes a LoRA with given matrices on one linear map, and returns its number of parameters.

    Parameters
    ----------
    name:
        The module.
    a, b, bias:
        The matrices [rank, inputs] and [outputs, rank], and the bias [outputs] of B or None.
    """
    from peft import LoraConfig

    from scoring.adapters.attach import wrap

    config = LoraConfig(
        r=len(a),
        lora_alpha=len(a),  # the scale of the product is 1
        target_modules=[name],
        lora_bias=bias is not None,
        task_type="CAUSAL_LM" if model.kind == "causal" else None,
    )
    network = wrap(model.network, config)
    try:
        layer = network.get_base_model().get_submodule(name)
        with torch.no_grad():
            layer.lora_A["default"].weight.copy_(a)
            layer.lora_B["default"].weight.copy_(b)
            if bias is not None:
                layer.lora_B["default"].bias.copy_(bias)
        save_peft(network, out, model.name)
    finally:
        model.network = network.unload().eval()
    return sum(part.numel() for part in (a, b, bias) if part is not None)
