"""Edits pairs into a stamp, a few at a time: the losses of FAST and the loop over batches of pairs.

From *Identifying and Editing Fine-Grained Fairness in LLMs* (FAST; Chen et al., 2024), section 3: L_e
draws the biased and the unbiased object of a pair together, L_s1 keeps what else a prompt may be
followed by, and L_s2 keeps what is said of the subject alone. The same loop makes one edit, thousands,
or more on top of an earlier stamp.

The paper goes over the pairs in one pass and trains each batch to its end. Then earlier pairs drift while
later ones are trained, and nothing makes as many of them err to one side as to the other. Several passes
train all pairs together instead, by the penalty method: where the mean of absolute gaps is least, as many
gaps are above zero as below, unless the other losses pull one way, so these weigh less with each pass.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from mitigation.adapters.adapter import MitigationError
from mitigation.editing.pairs import Pair, read
from mitigation.training.train import Curve, restore, save
from scoring.inference.tokens import Query

#: Seconds between savings within one of several passes.
SAVED = 30
#: A pair behind no prefix and behind each prefix.
Framed = Sequence[Pair]


@dataclass(frozen=True, slots=True)
class Plan:
    """How pairs are trained: Adam steps of a batch at a rate, the weights of L_s1 and L_s2, and what L_e compares.

    In one pass, as in the paper, each batch has an Adam of its own and ends at the best of its steps, in
    the order of the pairs. Several passes share one Adam and draw a new order each; the rate falls by
    pass towards zero, and the weights with its square.
    """

    batch: int
    iterations: int
    rate: float
    alpha: float
    beta: float
    compare: Literal["probability", "log"]
    passes: int = 1
    seed: int = 0

    def visits(self, count: int) -> int:
        """Batches in a pass over so many pairs."""
        return math.ceil(count / self.batch)

    def chosen(self, visit: int, count: int) -> list[int]:
        """The numbers of the pairs of a visit.

        >>> plan = Plan(2, 1, 0.1, 40.0, 0.1, "log", passes=3)
        >>> sorted(plan.chosen(0, 3) + plan.chosen(1, 3)), replace(plan, passes=1).chosen(1, 3)
        ([0, 1, 2], [2])
        """
        part, start = divmod(visit, self.visits(count))
        order = range(count) if self.passes == 1 else np.random.default_rng([self.seed, part]).permutation(count)
        return [int(n) for n in order[start * self.batch : (start + 1) * self.batch]]

    def at(self, visit: int, count: int) -> Plan:
        """The plan with the rate and the weights of a visit.

        >>> plan = Plan(2, 1, 0.1, 40.0, 0.4, "log", passes=4).at(5, 3)
        >>> plan.rate, plan.alpha, plan.beta
        (0.05, 10.0, 0.1)
        """
        left = 1 - visit // self.visits(count) / self.passes
        return replace(self, rate=self.rate * left, alpha=self.alpha * left**2, beta=self.beta * left**2)


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

    def request(self, network: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probabilities [2, pairs] of both objects, and of all tokens after each prompt and each subject alone."""
        logs, after = read(network, self.queries + self.alone, self.pad)
        count, device = len(self.queries), logs.device
        both = torch.zeros(2 * self.count, device=device).index_add(0, self.of.to(device), logs[:count])
        return both.view(2, -1), after[self.first.to(device)], after[count:]

    def parts(self, network: Any, base: tuple[torch.Tensor, torch.Tensor, torch.Tensor], plan: Plan) -> dict[str, Any]:
        """L_e, L_s1 and L_s2 as means, and their weighted sum ``loss``."""
        both, after, alone = self.request(network)
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
        return batch.request(network)


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
    """Edits pairs 0 to ``count`` into the stamp of a network.

    A killed run goes on where it was saved last: behind a batch where there is one pass only, else behind a pass
    or at most ``SAVED`` seconds and a batch ago.

    Parameters
    ----------
    frame:
        Pair number n behind its prefixes.
    held:
        Pairs that are measured before and after each pass, and not edited; perhaps none.

    Returns
    -------
    Curve
        The losses of each visit to a batch, weighted as they were then, and those over the held-out pairs.

    Raises
    ------
    MitigationError
        When a loss is not a number, with the batch.
    """
    trained = {name: each for name, each in network.named_parameters() if each.requires_grad}
    network.eval()  # dropout would make a pair's answers differ for no reason
    once, visits = plan.passes == 1, plan.visits(count)
    optimizer = _adam(trained, plan)
    state = restore(checkpoint, trained, optimizer)
    if held and not state.curve.held:
        state.curve.held.append({"step": 0, **measured(network, held, plan, pad)})
    left, saved = range(state.step, plan.passes * visits), time.monotonic()
    for visit in track(left, "editing", console=console, transient=True, disable=not left):
        batch = Batch([frame(n) for n in plan.chosen(visit, count)], pad)
        optimizer = _adam(trained, plan) if once else optimizer
        train = _to_its_best if once else _along
        state.curve.train.append(train(network, batch, plan.at(visit, count), optimizer, visit))
        ended = state.step % visits == 0
        if held and ended:
            state.curve.held.append({"step": state.step, **measured(network, held, plan, pad)})
        if once or ended or time.monotonic() - saved >= SAVED:
            save(checkpoint, trained, optimizer, state)
            saved = time.monotonic()
    return state.curve


def _adam(trained: Mapping[str, torch.nn.Parameter], plan: Plan) -> torch.optim.Optimizer:
    return torch.optim.Adam(trained.values(), lr=plan.rate)


def _to_its_best(
    network: Any, batch: Batch, plan: Plan, optimizer: torch.optim.Optimizer, visit: int
) -> dict[str, float]:
    """Trains a batch, puts the weights back to where its loss was least, and gives the parts of that loss."""
    base, weights = unstamped(network, batch), optimizer.param_groups[0]["params"]
    best: tuple[dict[str, float], list[torch.Tensor]] = ({"loss": math.inf}, [])
    for _ in range(plan.iterations + 1):  # the last step only tells what the one before it led to
        state = [each.detach().clone() for each in weights]
        found = _step(network, batch, base, plan, optimizer, visit)
        best = min(best, (found, state), key=lambda each: each[0]["loss"])
    with torch.no_grad():
        for each, kept_ in zip(weights, best[1], strict=True):
            each.copy_(kept_)
    return best[0]


def _along(network: Any, batch: Batch, plan: Plan, optimizer: torch.optim.Optimizer, visit: int) -> dict[str, float]:
    """Trains a batch that others are trained along with, and gives the parts of its loss before the last step."""
    base = unstamped(network, batch)
    return [_step(network, batch, base, plan, optimizer, visit) for _ in range(plan.iterations)][-1]


def _step(
    network: Any,
    batch: Batch,
    base: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    plan: Plan,
    optimizer: torch.optim.Optimizer,
    visit: int,
) -> dict[str, float]:
    """Takes a step, and gives the parts of the loss before it."""
    parts = batch.parts(network, base, plan)
    found = {name: float(part.detach()) for name, part in parts.items()}
    if not all(map(math.isfinite, found.values())):
        told = ", ".join(f"{name} {value:g}" for name, value in found.items())
        raise MitigationError(
            f"Batch {visit + 1} gives numbers that are none ({told}); what was saved before it is kept, so lower the "
            "rate, or load the model in float32."
        )
    for group in optimizer.param_groups:
        group["lr"] = plan.rate
    optimizer.zero_grad()
    parts["loss"].backward()
    optimizer.step()
    return found
