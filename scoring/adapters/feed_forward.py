"""Finds the feed-forward part of each block of a transformer by its structure, without any module names.

A block's feed-forward part widens the hidden state with its first linear map and narrows it with its last.
The blocks are the outermost ``ModuleList`` with the most parameters whose members all have linear maps.
The last map is the last linear one of a block, in the order of construction. The first map has the
reverse shape of the last one, or twice its width where a gate is in the same map.

Example: in Llama-2 7B the maps of a block are q, k, v, o (4096 to 4096), gate, up (4096 to 11008) and down
(11008 to 4096). The last map is down; going back from it, up and gate fit and o does not, so gate is first.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torch import nn

from scoring.adapters.facts import AdapterError

#: What linear maps call the numbers of their inputs and outputs, those of GPT-2 (Conv1D) last.
INPUTS, OUTPUTS = ("in_features", "nx"), ("out_features", "nf")


class FeedForward(NamedTuple):
    """Names of the first and the last linear map of a feed-forward part, and the width of the hidden state."""

    first: str
    last: str
    width: int


def feed_forwards(network: nn.Module) -> list[FeedForward]:
    """The feed-forward part of every block, in order; names are those of ``network.named_modules()``.

    Raises
    ------
    AdapterError
        If there are no blocks, or a block has no feed-forward part of linear maps.
    """
    parts = [_feed_forward(name, block) for name, block in blocks(network)]
    if not parts:
        raise AdapterError(
            f"{type(network).__name__} has no list of blocks with linear maps; give a transformer that has one."
        )
    return parts


def blocks(network: nn.Module) -> list[tuple[str, nn.Module]]:
    """Names and modules of a network's blocks, in order: the list with the most parameters that is in no other list."""
    lists: list[tuple[str, nn.ModuleList]] = []
    largest = -1
    name = ""
    members = nn.ModuleList()
    for candidate, module in network.named_modules():
        nested = any(candidate.startswith(f"{outer}.") for outer, _ in lists)
        if not isinstance(module, nn.ModuleList) or nested or not all(any(_linear_maps(block)) for block in module):
            continue
        lists.append((candidate, module))
        size = sum(parameter.numel() for parameter in module.parameters())
        # Of two lists of one size the first is taken.
        if size > largest:
            largest = size
            name = candidate
            members = module
    return [(f"{name}.{number}", block) for number, block in enumerate(members)]


def _linear_maps(module: nn.Module) -> Iterator[tuple[str, int, int]]:
    """Name, inputs and outputs of every linear map: of torch, of quantized kinds, and of GPT-2 (Conv1D)."""
    for name, child in module.named_modules():
        inputs = features(child, INPUTS)
        outputs = features(child, OUTPUTS)
        # A module with others inside is a wrapper, such as a layer of PEFT, which has these fields too.
        if inputs and outputs and not any(child.children()):
            yield name, inputs, outputs


def features(module: Any, names: Sequence[str]) -> int:
    """The first of some fields that is a whole number; 0 without one."""
    for name in names:
        size = getattr(module, name, None)
        if isinstance(size, int):
            return size
    return 0


def _feed_forward(block: str, module: nn.Module) -> FeedForward:
    maps = list(_linear_maps(module))
    # The last map of a block brings the inner width back to that of the hidden state in all that are tested.
    last, inner, width = maps[-1]
    # Attention may have maps of these shapes too, and is built before: only the run of maps next to the last counts.
    first = ""
    for name, inputs, outputs in reversed(maps[:-1]):
        # Gated parts (SwiGLU) compute gate and value in one map of twice the width.
        if inputs != width or outputs not in (inner, 2 * inner):
            break
        first = name
    if not first:
        raise AdapterError(
            f"The block {block} has no linear map from {width} to {inner} before its last one, as feed-forward parts "
            "have; give a transformer without mixtures of experts."
        )
    return FeedForward(f"{block}.{first}", f"{block}.{last}", width)
