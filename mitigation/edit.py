"""Edits pairs into a stamp, a few at a time: the losses of FAST and the loop over batches of pairs.

From *Identifying and Editing Fine-Grained Fairness in LLMs* (FAST; Chen et al., 2024), section 3: L_e
draws the biased and the unbiased object of a pair together, L_s1 keeps what else a prompt may be
followed by, and L_s2 keeps what is said of the subject alone. Each batch is trained to its end before
the next one begins, so the same loop makes one edit, thousands, or more on top of an earlier stamp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from rich.progress import track

from mitigation.adapter import MitigationError
from mitigation.pairs import Pair, read
from mitigation.train import Curve, restore, save
from scoring.tokens import Query

#: A pair behind no prefix and behind each prefix.
Framed = Sequence[Pair]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a batch is trained: Adam steps at a rate, the weights of L_s1 and L_s2, and what L_e compares."""

    batch: int
    iterations: int
    rate: float
    alpha: float
    beta: float
    compare: Literal["probability", "log"]


def gap(biased: torch.Tensor, unbiased: torch.Tensor, compare: Literal["probability", "log"]) -> torch.Tensor:
    """L_e [pairs] of log-probabilities [pairs]: the distance of the probabilities, or of their logarithms.

    The paper prints the first, which is next to nothing where both objects are unlikely.

    >>> logs = torch.tensor([[0.5], [0.25]]).log()
    >>> [round(gap(*logs, compare).item(), 4) for compare in ("probability", "log")]
    [0.25, 0.6931]
    """
    return (biased - unbiased).abs() if compare == "log" else (biased.exp() - unbiased.exp()).abs()


def kept(base: torch.Tensor, edited: torch.Tensor, apart: torch.Tensor | None = None) -> torch.Tensor:
    """KL(base ‖ edited) [prompts] of log-probabilities [prompts, vocabulary], without tokens ``apart`` [prompts, k].

    >>> base, edited = torch.tensor([[[0.5, 0.3, 0.2]], [[0.1, 0.54, 0.36]]]).log()
    >>> bool(kept(base, edited)[0] > 0.1), round(kept(base, edited, torch.tensor([[0]])).abs().item(), 6)
    (True, 0.0)
    """
    if apart is not None:
        # A finite floor: the divergence of what is left out is then 0 and not 0 times infinity.
        base, edited = (each.scatter(1, apart, -1e4).log_softmax(1) for each in (base, edited))
    return (base.exp() * (base - edited)).sum(1)


class Batch:
    """Pairs behind their prefixes, ready to be asked again and again."""

    def __init__(self, framed: Sequence[Framed], pad: int) -> None:
        pairs = [pair for each in framed for pair in each]
        groups = [pair.biased for pair in pairs] + [pair.unbiased for pair in pairs]
        self.count = len(pairs)
        self.queries: list[Query] = [query for group in groups for query in group]
        self.of = torch.tensor([n for n, group in enumerate(groups) for _ in group])
        self.first = torch.tensor([0, *(len(group) for group in groups[:-1])]).cumsum(0)[: self.count]
        self.objects = torch.tensor([[p.biased[0].want[0], p.unbiased[0].want[0]] for p in pairs])
        self.alone = [each[0].alone for each in framed]
        self.pad = pad

    def ask(self, network: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probabilities [2, pairs] of both objects, and of all tokens after each prompt and each subject alone."""
        logs, after = read(network, self.queries + self.alone, self.pad)
        count, device = len(self.queries), logs.device
        both = torch.zeros(2 * self.count, device=device).index_add(0, self.of.to(device), logs[:count])
        return both.view(2, -1), after[self.first.to(device)], after[count:]

    def parts(self, network: Any, base: tuple[torch.Tensor, torch.Tensor, torch.Tensor], plan: Plan) -> dict[str, Any]:
        """L_e, L_s1 and L_s2 as means, and their weighted sum ``loss``."""
        both, after, alone = self.ask(network)
        parts = {
            "l_e": gap(both[0], both[1], plan.compare).mean(),
            "l_s1": kept(base[1], after, self.objects.to(after.device)).mean(),
            "l_s2": kept(base[2], alone).mean(),
        }
        return {"loss": parts["l_e"] + plan.alpha * parts["l_s1"] + plan.beta * parts["l_s2"], **parts}


@torch.no_grad()
def unstamped(network: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the model itself answers."""
    with network.disable_adapter():
        return batch.ask(network)


@torch.no_grad()
def measured(network: Any, pairs: Sequence[Pair], plan: Plan, pad: int) -> dict[str, float]:
    """The parts of the loss over pairs without prefixes, as means."""
    sums: dict[str, float] = {}
    for start in range(0, len(pairs), 16):
        batch = Batch([[pair] for pair in pairs[start : start + 16]], pad)
        for name, part in batch.parts(network, unstamped(network, batch), plan).items():
            sums[name] = sums.get(name, 0.0) + batch.count * float(part)
    return {name: total / len(pairs) for name, total in sums.items()}


def edit(
    network: Any,
    frame: Callable[[int], Framed],
    count: int,
    held: Sequence[Pair],
    plan: Plan,
    pad: int,
    checkpoint: Path,
    console: Console,
) -> Curve:
    """Edits pairs 0 to ``count`` into the stamp of a network; a killed run goes on behind its last batch.

    Parameters
    ----------
    frame:
        Pair number n behind its prefixes.
    held:
        Pairs that are measured before and after, and not edited; perhaps none.

    Returns
    -------
    Curve
        The losses at the end of each batch, and over the held-out pairs.

    Raises
    ------
    MitigationError
        When a loss is not a number, with the batch.
    """
    trained = {name: each for name, each in network.named_parameters() if each.requires_grad}
    network.eval()  # dropout would make a pair's answers differ for no reason
    state = restore(checkpoint, trained, _adam(trained, plan))
    if held and not state.curve.held:
        state.curve.held.append({"step": 0, **measured(network, held, plan, pad)})
    starts = range(state.step * plan.batch, count, plan.batch)
    for start in track(starts, "editing", console=console, transient=True, disable=not starts):
        batch = Batch([frame(n) for n in range(start, min(start + plan.batch, count))], pad)
        optimizer = _adam(trained, plan)
        state.curve.train.append(_edited(network, batch, plan, optimizer, trained, state.step))
        save(checkpoint, trained, optimizer, state)
    if held and state.curve.held[-1]["step"] < state.step:
        state.curve.held.append({"step": state.step, **measured(network, held, plan, pad)})
    return state.curve


def _adam(trained: Mapping[str, torch.nn.Parameter], plan: Plan) -> torch.optim.Optimizer:
    return torch.optim.Adam(trained.values(), lr=plan.rate)


def _edited(
    network: Any,
    batch: Batch,
    plan: Plan,
    optimizer: torch.optim.Optimizer,
    trained: Mapping[str, torch.nn.Parameter],
    number: int,
) -> dict[str, float]:
    """Trains a batch to its end, and gives the parts of its loss there."""
    base = unstamped(network, batch)
    best: tuple[float, dict[str, torch.Tensor], dict[str, float]] = (math.inf, {}, {})
    for step in range(plan.iterations + 1):
        parts = batch.parts(network, base, plan)
        found = {name: float(part.detach()) for name, part in parts.items()}
        if not all(map(math.isfinite, found.values())):
            told = ", ".join(f"{name} {value:g}" for name, value in found.items())
            raise MitigationError(
                f"Batch {number + 1} gives numbers that are none ({told}); the edits before it are kept, so lower the "
                "rate, or load the model in float32."
            )
        if found["loss"] < best[0]:
            best = (found["loss"], {name: each.detach().clone() for name, each in trained.items()}, found)
        if step < plan.iterations:
            optimizer.zero_grad()
            parts["loss"].backward()
            optimizer.step()
    with torch.no_grad():
        for name, each in trained.items():
            each.copy_(best[1][name])
    return best[2]
