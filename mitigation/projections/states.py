"""The last hidden state of a network: the map that reads it, and its mean over the tokens of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mitigation.errors import MitigationError
from scoring.types import Floats

if TYPE_CHECKING:
    from scoring.inference.model import Model


@torch.inference_mode()
def reading_map(model: Model) -> tuple[str, torch.nn.Linear]:
    """Name and module of the linear map that reads the last hidden state at every position.

    That is the vocabulary head of a causal model, and the first map of the prediction head of a masked one. It
    is found by running the network: its input equals the last hidden state.

    Raises
    ------
    MitigationError
        If there is not exactly one such map, or its weights are not plain numbers (4 or 8 bits).
    """
    network = model.network
    readers: dict[str, Any] = {}
    inputs: dict[str, torch.Tensor] = {}
    handles = [
        module.register_forward_pre_hook(
            lambda _, arguments, name=name: inputs.__setitem__(name, arguments[0].detach()) if arguments else None
        )
        for name, module in network.named_modules()
        if isinstance(module, torch.nn.Linear)
    ]
    ids = torch.arange(5, 11, device=model.device)[None] % network.config.get_text_config().vocab_size
    try:
        network(input_ids=ids)
        last = last_hidden_state(network, {"input_ids": ids})
    finally:
        for handle in handles:
            handle.remove()
    for name, states in inputs.items():
        if states.shape == last.shape and torch.equal(states, last):
            readers[name] = network.get_submodule(name)
    if len(readers) != 1:
        found = ", ".join(readers) or "none"
        raise MitigationError(
            f"In {model.name} the last hidden state is read by {found} of its linear maps, and a projection needs "
            "exactly one; use a recipe that changes no hidden state."
        )
    ((name, module),) = readers.items()
    if type(module) is not torch.nn.Linear or not module.weight.is_floating_point():
        raise MitigationError(
            f"The weights of {name} in {model.name} are of type {type(module).__name__}; load the model without "
            "quantization (--quantize none)."
        )
    return name, module


def last_hidden_state(network: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The output [rows, tokens, width] of a network without its prediction head.

    Raises
    ------
    MitigationError
        If the network has no such part.
    """
    base = getattr(network, "base_model", network)
    states = None if base is network else getattr(base(**inputs), "last_hidden_state", None)
    if states is None:
        raise MitigationError(
            f"{type(network).__name__} has no part that gives the last hidden state; use a recipe that changes none."
        )
    return states  # type: ignore[no-any-return]


@torch.inference_mode()
def mean_states(model: Model, texts: Sequence[str], most_tokens: int, batch: int = 32) -> Floats:
    """The mean of the last hidden state over all tokens, special ones too, of each text [texts, width], in float64.

    Texts are cut after ``most_tokens`` tokens.
    """
    from mitigation.training.train import network_inputs

    tokenizer = model.tokens.tokenizer
    rows = [ids[:most_tokens] or [model.tokens.pad] for ids in tokenizer(list(texts))["input_ids"]]
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    states: list[Any] = [None] * len(rows)
    for start in range(0, len(order), batch):
        numbers = order[start : start + batch]
        inputs = network_inputs([rows[number] for number in numbers], model.tokens.pad, model.device)
        last = last_hidden_state(model.network, inputs).double()
        mask = inputs["attention_mask"].to(last.device)[..., None]
        means = ((last * mask).sum(1) / mask.sum(1)).cpu().numpy()
        for number, mean in zip(numbers, means, strict=True):
            states[number] = mean
    return np.array(states)
