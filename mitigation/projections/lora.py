"""A projection of the last hidden state as a LoRA on the map that reads it.

The map computes W h + b. After the projection h - L R (h - m) it has to compute W h + b - (W L) R h + W L R m. That
is a LoRA with A = R and B = -W L, and a bias W L R m of B. So plain PEFT loads it, and nothing else in the network
changes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from peft import LoraConfig

from mitigation.adapters.write import save_peft
from mitigation.projections.states import reading_map
from mitigation.projections.subspaces import Projection
from mitigation.recipe import MitigationError, Model
from scoring.adapters.attach import wrap


def write_projection(model: Model, projection: Projection, out: Path) -> int:
    """Writes the LoRA of a projection of the model's last hidden state, and returns its number of parameters.

    Raises
    ------
    MitigationError
        If the projection removes nothing, or the network has no single map that reads the last hidden state.
    """
    if not projection.rank:
        raise MitigationError("The projection removes no direction, so there is nothing to write; give more text.")
    name, module = reading_map(model)
    left, right = torch.from_numpy(projection.left), torch.from_numpy(projection.right)
    down = -(module.weight.double().cpu() @ left)
    bias = None
    if projection.mean.any():
        # B = -W L, so W L R m is -(B (R m)).
        bias = -(down @ (right @ torch.from_numpy(projection.mean)))
    return write_lora(model, {name: Matrices(right, down, bias)}, out)


class Matrices(NamedTuple):
    """The matrices A [rank, inputs] and B [outputs, rank] of a LoRA, and the bias [outputs] of B or None.

    The inputs of an embedding are the tokens of its vocabulary.
    """

    a: torch.Tensor
    b: torch.Tensor
    bias: torch.Tensor | None = None


def write_lora(model: Model, matrices: Mapping[str, Matrices], out: Path) -> int:
    """Writes a LoRA with given matrices by the names of their modules, and returns its number of parameters.

    All modules have the same rank, and either all of them a bias or none.
    """
    first = next(iter(matrices.values()))
    rank, with_bias = len(first.a), first.bias is not None
    config = LoraConfig(
        r=rank,
        lora_alpha=rank,  # the scale of the product is 1
        target_modules=list(matrices),
        lora_bias=with_bias,
        # GPT-2 stores the weights of its maps with inputs first.
        fan_in_fan_out=any(hasattr(model.network.get_submodule(name), "nf") for name in matrices),
        task_type="CAUSAL_LM" if model.kind == "causal" else None,
    )
    network = wrap(model.network, config)
    try:
        with torch.no_grad():
            for name, parts in matrices.items():
                layer = network.get_base_model().get_submodule(name)
                if "default" in layer.lora_embedding_A:
                    layer.lora_embedding_A["default"].copy_(parts.a)
                    layer.lora_embedding_B["default"].copy_(parts.b)
                    continue
                layer.lora_A["default"].weight.copy_(parts.a)
                layer.lora_B["default"].weight.copy_(parts.b)
                if parts.bias is not None:
                    layer.lora_B["default"].bias.copy_(parts.bias)
        save_peft(network, out, model.name)
    finally:
        model.network = network.unload().eval()
    parameters = 0
    for parts in matrices.values():
        parameters += parts.a.numel() + parts.b.numel()
        if parts.bias is not None:
            parameters += parts.bias.numel()
    return parameters
