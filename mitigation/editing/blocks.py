"""Where the feed-forward part of each block of a transformer is, found by its structure.

A block's feed-forward part widens the hidden state by its first linear map and brings it back by its
last. No name is looked for: the blocks are the outermost list of modules that all have linear maps,
the last map is the last linear one of a block in the order in which it was built, and the first map
is the one that takes what the last one gives and gives what the last one takes (twice that where a
gate is in the same map).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import nn

from mitigation.adapters.adapter import MitigationError


class FeedForward(NamedTuple):
    """Names of the first and the last linear map of a block's feed-forward part, and the width between blocks."""

    first: str
    last: str
    width: int


def feed_forwards(network: nn.Module) -> list[FeedForward]:
    """The feed-forward part of every block, in order; names are those of ``network.named_modules()``.

    Raises
    ------
    MitigationError
        When there are no blocks, or a block has no feed-forward part of linear maps.
    """
    found = [_feed_forward(name, block) for name, block in _blocks(network)]
    if not found:
        raise MitigationError(
            f"{type(network).__name__} has no list of blocks with linear maps; give a transformer that has one."
        )
    return found


def _blocks(network: nn.Module) -> list[tuple[str, nn.Module]]:
    """The list of modules with the most parameters, of those that are in no other list."""
    lists: list[tuple[str, nn.ModuleList]] = []
    for name, module in network.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer, _ in lists)
        if isinstance(module, nn.ModuleList) and not inside and all(any(_linear(each)) for each in module):
            lists.append((name, module))
    name, blocks = max(lists, key=lambda each: _size(each[1]), default=("", nn.ModuleList()))
    return [(f"{name}.{number}", block) for number, block in enumerate(blocks)]


def _size(module: nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())


def _linear(module: nn.Module) -> Iterator[tuple[str, int, int]]:
    """Name, inputs and outputs of every linear map: of torch, of quantized kinds, and of GPT-2."""
    for name, each in module.named_modules():
        inputs, outputs = (_features(each, *names) for names in (("in_features", "nx"), ("out_features", "nf")))
        if inputs and outputs and not any(each.children()):
            yield name, inputs, outputs


def _features(module: Any, *names: str) -> int:
    return next((found for name in names if isinstance(found := getattr(module, name, None), int)), 0)


def _feed_forward(block: str, module: nn.Module) -> FeedForward:
    maps = list(_linear(module))
    last, inner, width = maps[-1]
    # Attention may have maps of these sizes too, and stands before: the nearest run of maps is taken.
    first = ""
    for name, inputs, outputs in reversed(maps[:-1]):
        if inputs != width or outputs not in (inner, 2 * inner):
            break
        first = name
    if not first:
        raise MitigationError(
            f"The block {block} has no linear map from {width} to {inner} before its last one, as feed-forward parts "
            "have; give a transformer without mixtures of experts."
        )
    return FeedForward(f"{block}.{first}", f"{block}.{last}", width)
