"""Trains a stamp on biased pairs: the losses of FAST, and the loop over batches of pairs.

Source: *Identifying and Editing Fine-Grained Fairness in LLMs* (FAST; Chen et al., 2024), section 3. L_e
makes the biased and the unbiased object of a pair equally probable, L_s1 keeps the distribution of all other
tokens after a prompt, L_s2 keeps the distribution after the subject alone. The same loop makes one edit,
thousands, or more on top of an earlier stamp.

The paper makes one pass over the pairs and trains each batch to its end. Then the gaps of earlier pairs drift
while later ones are trained, and all may end on one side of zero. Several passes train all pairs together,
with the penalty method: at the minimum of the mean absolute gap, as many gaps are above zero as below,
unless L_s1 and L_s2 pull to one side. Their weights therefore fall from pass to pass.
Example with 2 passes: rate 0.1, alpha 40 in the first pass; rate 0.05, alpha 10 in the second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from mitigation.editing.pairs import EditPair, query_logprobs
from mitigation.training import train
from mitigation.training.checkpoints import LossCurve, restore, save
from scoring.inference.tokens import Query

#: Seconds between checkpoints within one of several passes.
CHECKPOINT_SECONDS = 30
#: A pair after no prefix, and after each prefix.
PrefixedPair = Sequence[EditPair]
Compare = Literal["probability", "log"]


@dataclass(frozen=True, slots=True)
class EditingSchedule:
    """How pairs are trained: Adam steps per batch, the learning rate, the weights of L_s1 (alpha) and L_s2 (beta).

    In one pass, as in the paper, each batch has an Adam of its own and ends with the weights of its best
    step, in the order of the pairs. Several passes share one Adam and draw a new order each; the rate falls
    linearly by pass, the weights with its square.
    """

    batch: int
    iterations: int
    rate: float
    alpha: float
    beta: float
    compare: Compare
    passes: int = 1
    seed: int = 0

    def batches_per_pass(self, count: int) -> int:
        """The number of batches in a pass over ``count`` pairs."""
        return math.ceil(count / self.batch)

    def pair_numbers(self, step: int, count: int) -> list[int]:
        """The numbers of the pairs in the batch of a step.

        >>> schedule = EditingSchedule(2, 1, 0.1, 40.0, 0.1, "log", passes=3)
        >>> sorted(schedule.pair_numbers(0, 3) + schedule.pair_numbers(1, 3))
        [0, 1, 2]
        >>> replace(schedule, passes=1).pair_numbers(1, 3)
        [2]
        """
        passed, batch = divmod(step, self.batches_per_pass(count))
        order = range(count) if self.passes == 1 else np.random.default_rng([self.seed, passed]).permutation(count)
        return [int(n) for n in order[batch * self.batch : (batch + 1) * self.batch]]

    def at_step(self, step: int, count: int) -> EditingSchedule:
        """The schedule with the rate and the weights of a step.

        >>> schedule = EditingSchedule(2, 1, 0.1, 40.0, 0.4, "log", passes=4).at_step(5, 3)
        >>> schedule.rate, schedule.alpha, schedule.beta
        (0.05, 10.0, 0.1)
        """
        left = 1 - step // self.batches_per_pass(count) / self.passes
        return replace(self, rate=self.rate * left, alpha=self.alpha * left**2, beta=self.beta * left**2)


def pair_gap(biased: torch.Tensor, unbiased: torch.Tensor, compare: Compare) -> torch.Tensor:
    """L_e [pairs] of log-probabilities [pairs]: the absolute difference of probabilities, or of their logarithms.

    The paper prints the first, which is nearly zero where both objects are improbable.

    >>> logs = torch.tensor([[0.5], [0.25]]).log()
    >>> [round(pair_gap(*logs, compare).item(), 4) for compare in ("probability", "log")]
    [0.25, 0.6931]
    """
    return (biased - unbiased).abs() if compare == "log" else (biased.exp() - unbiased.exp()).abs()


def kl_divergence(base: torch.Tensor, edited: torch.Tensor, without: torch.Tensor | None = None) -> torch.Tensor:
    """KL(base ‖ edited) [prompts] of log-probabilities [prompts, vocabulary].

    The tokens ``without`` [prompts, k] are left out, and the other probabilities scaled to sum to one.

    >>> base, edited = torch.tensor([[[0.5, 0.3, 0.2]], [[0.1, 0.54, 0.36]]]).log()
    >>> bool(kl_divergence(base, edited)[0] > 0.1)
    True
    >>> round(kl_divergence(base, edited, torch.tensor([[0]])).abs().item(), 6)
    0.0
    """
    if without is not None:
        # A finite floor: with -inf, the term of a token left out would be 0 times infinity.
        base, edited = (logs.scatter(1, without, -1e4).log_softmax(1) for logs in (base, edited))
    return (base.exp() * (base - edited)).sum(1)


class Outputs(NamedTuple):
    """Log-probabilities for a batch: of both objects [2, pairs], and of all tokens after prompts and subjects."""

    objects: torch.Tensor
    after_prompt: torch.Tensor
    after_subject: torch.Tensor


class PairBatch:
    """Prefixed pairs as one batch of queries, which is run once per step."""

    def __init__(self, prefixed: Sequence[PrefixedPair], pad: int) -> None:
        pairs = [pair for versions in prefixed for pair in versions]
        groups = [pair.biased for pair in pairs] + [pair.unbiased for pair in pairs]
        self.count = len(pairs)
        self.queries: list[Query] = [query for group in groups for query in group]
        self.group = torch.tensor([n for n, group in enumerate(groups) for _ in group])
        self.first = torch.tensor([0, *(len(group) for group in groups[:-1])]).cumsum(0)[: self.count]
        self.objects = torch.tensor([[pair.biased[0].want[0], pair.unbiased[0].want[0]] for pair in pairs])
        self.alone = [versions[0].alone for versions in prefixed]
        self.pad = pad

    def outputs(self, network: Any) -> Outputs:
        """The outputs of a network, with gradients."""
        logs, distributions = query_logprobs(network, self.queries + self.alone, self.pad)
        count, device = len(self.queries), logs.device
        objects = torch.zeros(2 * self.count, device=device).index_add(0, self.group.to(device), logs[:count])
        return Outputs(objects.view(2, -1), distributions[self.first.to(device)], distributions[count:])

    @torch.no_grad()
    def base_outputs(self, network: Any) -> Outputs:
        """The outputs of a network without its stamp."""
        with network.disable_adapter():
            return self.outputs(network)

    def loss_terms(self, network: Any, base: Outputs, schedule: EditingSchedule) -> dict[str, Any]:
        """L_e, L_s1 and L_s2 as means, and their weighted sum ``loss``."""
        edited = self.outputs(network)
        objects = self.objects.to(edited.after_prompt.device)
        terms = {
            "l_e": pair_gap(edited.objects[0], edited.objects[1], schedule.compare).mean(),
            "l_s1": kl_divergence(base.after_prompt, edited.after_prompt, objects).mean(),
            "l_s2": kl_divergence(base.after_subject, edited.after_subject).mean(),
        }
        return {"loss": terms["l_e"] + schedule.alpha * terms["l_s1"] + schedule.beta * terms["l_s2"], **terms}


def mean_terms(network: Any, pairs: Sequence[EditPair], schedule: EditingSchedule, pad: int) -> dict[str, float]:
    """The terms of the loss over pairs without prefixes, as means."""

    def loss_terms(network: Any, pairs: Sequence[EditPair]) -> dict[str, Any]:
        batch = PairBatch([[pair] for pair in pairs], pad)
        return batch.loss_terms(network, batch.base_outputs(network), schedule)

    return train.mean_terms(network, loss_terms, pairs, 16)


def edit(
    network: Any,
    prefixed: Callable[[int], PrefixedPair],
    count: int,
    held: Sequence[EditPair],
    schedule: EditingSchedule,
    pad: int,
    checkpoint: Path,
    console: Console,
) -> LossCurve:
    """Trains the stamp of a network on pairs 0 to ``count``.

    An interrupted run resumes from its checkpoint: after each batch in one pass; else after each pass, and
    within a pass every :data:`CHECKPOINT_SECONDS`.

    Parameters
    ----------
    prefixed:
        A function from the number of a pair to that pair after its prefixes.
    held:
        Pairs that are measured before training and after each pass, but not trained; may be empty.

    Returns
    -------
    LossCurve
        The terms of each step, with the weights of that step, and those of the held-out pairs.

    Raises
    ------
    MitigationError
        If a loss is NaN or infinite, with the step.
    """
    trained = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
    network.eval()  # with dropout, the two outputs of a pair would differ by chance
    single_pass, per_pass = schedule.passes == 1, schedule.batches_per_pass(count)
    optimizer = _adam(trained, schedule)
    state = restore(checkpoint, trained, optimizer)
    if held and not state.curve.held:
        state.curve.held.append({"step": 0, **mean_terms(network, held, schedule, pad)})
    steps, saved = range(state.step, schedule.passes * per_pass), time.monotonic()
    for step in track(steps, "editing", console=console, transient=True, disable=not steps):
        batch = PairBatch([prefixed(n) for n in schedule.pair_numbers(step, count)], pad)
        optimizer = _adam(trained, schedule) if single_pass else optimizer
        train_batch = _train_to_best if single_pass else _train
        state.curve.train.append(train_batch(network, batch, schedule.at_step(step, count), optimizer, step))
        end_of_pass = state.step % per_pass == 0
        if held and end_of_pass:
            state.curve.held.append({"step": state.step, **mean_terms(network, held, schedule, pad)})
        if single_pass or end_of_pass or time.monotonic() - saved >= CHECKPOINT_SECONDS:
            save(checkpoint, trained, optimizer, state)
            saved = time.monotonic()
    return state.curve


def _adam(trained: Mapping[str, torch.nn.Parameter], schedule: EditingSchedule) -> torch.optim.Optimizer:
    return torch.optim.Adam(trained.values(), lr=schedule.rate)


def _train_to_best(
    network: Any, batch: PairBatch, schedule: EditingSchedule, optimizer: torch.optim.Optimizer, step: int
) -> dict[str, float]:
    """Trains a batch, restores the weights of its lowest loss, and returns the terms of that loss."""
    base, weights = batch.base_outputs(network), optimizer.param_groups[0]["params"]
    best: tuple[dict[str, float], list[torch.Tensor]] = ({"loss": math.inf}, [])
    for _ in range(schedule.iterations + 1):  # the last iteration only measures the result of the one before
        before = [weight.detach().clone() for weight in weights]
        terms = _iterate(network, batch, base, schedule, optimizer, step)
        best = min(best, (terms, before), key=lambda candidate: candidate[0]["loss"])
    with torch.no_grad():
        for weight, best_weight in zip(weights, best[1], strict=True):
            weight.copy_(best_weight)
    return best[0]


def _train(
    network: Any, batch: PairBatch, schedule: EditingSchedule, optimizer: torch.optim.Optimizer, step: int
) -> dict[str, float]:
    """Trains a batch and returns the terms of its loss before the last iteration."""
    base = batch.base_outputs(network)
    return [_iterate(network, batch, base, schedule, optimizer, step) for _ in range(schedule.iterations)][-1]


def _iterate(
    network: Any,
    batch: PairBatch,
    base: Outputs,
    schedule: EditingSchedule,
    optimizer: torch.optim.Optimizer,
    step: int,
) -> dict[str, float]:
    """Takes one step of the optimizer, and returns the terms of the loss before it."""
    terms = batch.loss_terms(network, base, schedule)
    values = {name: float(term.detach()) for name, term in terms.items()}
    train.check_finite(values, f"Batch {step + 1}")
    for group in optimizer.param_groups:
        group["lr"] = schedule.rate
    optimizer.zero_grad()
    terms["loss"].backward()
    optimizer.step()
    return values
