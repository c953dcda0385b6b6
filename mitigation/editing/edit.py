"""Trains a stamp on biased pairs: the losses of FAST, and the loop over batches of pairs.

Source: *Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024),
section 3. L_e makes the scores of the biased and the unbiased sentence of a pair equal, L_s1 keeps the distribution of
all other tokens after a prompt, L_s2 keeps the distribution after the subject alone. The same loop makes one edit,
thousands, or more on top of an earlier stamp.

L_s1 and L_s2 see edited prompts and subjects only, so nothing in them keeps other text. This project adds two terms
(:mod:`mitigation.editing.kept`): L_t, the divergence KL(unchanged || edited) at every token of some ordinary texts, in
nats a token, and L_g, which keeps the pronoun where a text states a gender.

The paper makes one pass over the pairs and trains each batch to its end. Then the gaps of earlier pairs drift
while later ones are trained, and all may end on one side of zero. Several passes train all pairs together,
with the penalty method: at the minimum of the mean absolute gap, as many gaps are above zero as below,
unless L_s1 and L_s2 pull to one side. Their weights therefore fall from pass to pass.
Example with 2 passes: rate 0.1, alpha 40 in the first pass; rate 0.05, alpha 10 in the second.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from cards.common.progress import track
from mitigation.editing.kept import NO_TEXT, NOTHING, Kept, KeptText
from mitigation.editing.pairs import EditPair, Place
from mitigation.editing.settings import EditingSchedule
from mitigation.editing.stamped import StampedNetwork
from mitigation.recipe import Console
from mitigation.training import train
from scoring.inference.tokens import Query

#: Seconds between checkpoints within one of several passes.
CHECKPOINT_SECONDS = 30
#: A pair after no prefix, and after each prefix.
PrefixedPair = Sequence[EditPair]
#: Pairs that are measured together.
MEASURED = 64


def pair_gap(biased: torch.Tensor, unbiased: torch.Tensor, compare: str) -> torch.Tensor:
    """L_e [pairs] of scores [pairs], which are logarithms: the absolute difference of these, or of what they are of.

    The paper prints the first, which is nearly zero where both objects are improbable.

    >>> logs = torch.tensor([[0.5], [0.25]]).log()
    >>> [round(pair_gap(*logs, compare).item(), 4) for compare in ("probability", "log")]
    [0.25, 0.6931]
    """
    if compare == "log":
        return (biased - unbiased).abs()
    return (biased.exp() - unbiased.exp()).abs()


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
        base = base.scatter(1, without, -1e4).log_softmax(1)
        edited = edited.scatter(1, without, -1e4).log_softmax(1)
    return (base.exp() * (base - edited)).sum(1)


class PairBatch:
    """Prefixed pairs as one batch of queries, which is run once per step.

    The queries for the biased sentences come first, then those for the unbiased ones, then those for the subjects
    alone, for ordinary text, and for pronouns whose gender is stated.
    """

    def __init__(self, prefixed: Sequence[PrefixedPair], kept: Kept = NOTHING) -> None:
        self.pairs: list[EditPair] = []
        alone: list[Query] = []
        for versions in prefixed:
            self.pairs += versions
            alone.append(versions[0].alone)
        # All sentences of a step are one list of queries, so equal prefixes and sentences are computed once.
        sentences: list[Query] = []
        starts: list[int] = []
        for side in StampedNetwork.sides(self.pairs):
            starts.append(len(sentences))
            sentences += side
        self.scored = sum(len(query.at) for query in sentences)
        self.queries = sentences + alone + list(kept.ordinary) + list(kept.stated.queries)
        self.prompts: list[Place] = []
        for number, pair in enumerate(self.pairs):
            # The sides begin with the biased sentences, and only these are needed: up to the object both are the same.
            self.prompts.append(Place(starts[number] + pair.prompt.query, pair.prompt.answer))
        self.alone = [Place(len(sentences) + number, 0) for number in range(len(alone))]
        first = len(sentences) + len(alone)
        self.ordinary: list[Place] = []
        for number, query in enumerate(kept.ordinary):
            self.ordinary += [Place(first + number, answer) for answer in range(len(query.at))]
        first += len(kept.ordinary)
        self.stated = [Place(first + number, 0) for number in range(len(kept.stated.queries))]
        self.objects = torch.tensor([pair.objects for pair in self.pairs])

    def loss_terms(self, network: StampedNetwork, schedule: EditingSchedule) -> dict[str, Any]:
        """L_e, L_s1, L_s2, (of ordinary text) L_t and (of stated gender) L_g as means, and their weighted sum.

        The sum is ``loss``. L_t and L_g are among the terms where the batch has such queries.
        """
        places = self.prompts + self.alone + self.ordinary + self.stated
        logprobs, edited, base = network.answers(self.queries, places)
        biased, unbiased = network.pair_scores(self.pairs, logprobs[: self.scored])
        count, objects = len(self.pairs), self.objects.to(edited.device)
        others = count + len(self.alone)
        stated = others + len(self.ordinary)
        # kl_div(reduction="mean") of PyTorch divides by all elements, the vocabulary too.
        size = edited.shape[1] if schedule.divergence == "mean" else 1
        terms = {
            "l_e": pair_gap(biased, unbiased, schedule.compare).mean(),
            "l_s1": kl_divergence(base[:count], edited[:count], objects).mean() / size,
            "l_s2": kl_divergence(base[count:others], edited[count:others]).mean() / size,
        }
        loss = terms["l_e"] + schedule.alpha * terms["l_s1"] + schedule.beta * terms["l_s2"]
        if self.ordinary:
            terms["l_t"] = kl_divergence(base[others:stated], edited[others:stated]).mean()
            loss = loss + schedule.gamma * terms["l_t"]
        if self.stated:
            terms["l_g"] = kl_divergence(base[stated:], edited[stated:]).mean()
            loss = loss + schedule.delta * terms["l_g"]
        return {"loss": loss, **terms}


def mean_terms(network: StampedNetwork, pairs: Sequence[EditPair], schedule: EditingSchedule) -> dict[str, float]:
    """The terms of the loss over pairs without prefixes, as means."""

    def loss(_: Any, part: Sequence[EditPair]) -> train.LossTerms:
        return PairBatch([[pair] for pair in part]).loss_terms(network, schedule)

    return train.mean_terms(network.network, loss, pairs, MEASURED)


def edit(
    network: StampedNetwork,
    prefixed: Callable[[int, int], PrefixedPair],
    count: int,
    held: Sequence[EditPair],
    schedule: EditingSchedule,
    checkpoint: Path,
    console: Console,
    kept: KeptText = NO_TEXT,
) -> train.LossCurve:
    """Trains the stamp of a network on pairs 0 to ``count``.

    An interrupted run resumes from its checkpoint: after each batch in one pass; else after each pass, and
    within a pass every :data:`CHECKPOINT_SECONDS`.

    Parameters
    ----------
    prefixed:
        A function from the number of a pair and that of the pass to that pair, alone and after prefixes.
    held:
        Pairs that are measured before training and after each pass, but not trained; may be empty.
    kept:
        What L_t and L_g keep, as many texts of each in a step as pairs; nothing by default.

    Returns
    -------
    LossCurve
        The terms of each step, with the weights of that step, and those of the held-out pairs.

    Raises
    ------
    MitigationError
        If a loss is NaN or infinite, with the step.
    """
    trained = network.trained
    single_pass, per_pass = schedule.passes == 1, schedule.batches_per_pass(count)
    optimizer = _adam(trained, schedule)
    state = train.restore(checkpoint, trained, optimizer)
    if held and not state.curve.held:
        state.curve.held.append({"step": 0, **mean_terms(network, held, schedule)})
    steps = range(state.step, schedule.passes * per_pass)
    saved = time.monotonic()
    for step in track(steps, "editing", console=console, disable=not steps):
        # A step depends on its number alone, so a continued training takes the same batches.
        prefixed_pairs = [prefixed(number, step // per_pass) for number in schedule.pair_numbers(step, count)]
        batch = PairBatch(prefixed_pairs, kept.batch(step, schedule.batch))
        if single_pass:
            # In the paper each batch is an edit of its own, which begins without the moments of the one before.
            optimizer = _adam(trained, schedule)
        state.curve.train.append(_train(network, batch, schedule.at_step(step, count), optimizer, step))
        end_of_pass = state.step % per_pass == 0
        if held and end_of_pass:
            state.curve.held.append({"step": state.step, **mean_terms(network, held, schedule)})
        # Writing one can take longer than a step, so within a pass time decides and not the number of steps.
        if single_pass or end_of_pass or time.monotonic() - saved >= CHECKPOINT_SECONDS:
            train.save(checkpoint, trained, optimizer, state)
            saved = time.monotonic()
    return state.curve


def _adam(trained: Mapping[str, torch.nn.Parameter], schedule: EditingSchedule) -> torch.optim.Optimizer:
    # The second matrix of a stamp may have a rate of its own, and the order of groups is that of checkpoints.
    others, values = [], []
    for name, weight in trained.items():
        if "fast_values" in name:
            values.append(weight)
        else:
            others.append(weight)
    groups: list[dict[str, Any]] = []
    if others:
        groups.append({"params": others, "share": 1.0})
    if values:
        groups.append({"params": values, "share": schedule.value_rate})
    return torch.optim.Adam(groups, lr=schedule.rate)


def _train(
    network: StampedNetwork, batch: PairBatch, schedule: EditingSchedule, optimizer: torch.optim.Optimizer, step: int
) -> dict[str, float]:
    """Trains a batch and returns the terms of its loss before the last iteration.

    Of one pass that keeps the best step, the weights of the lowest loss are restored, and its terms are returned.
    """

    def iterate() -> dict[str, float]:
        """Takes one step of the optimizer, and returns the terms of the loss before it."""
        terms = batch.loss_terms(network, schedule)
        values = {name: float(term.detach()) for name, term in terms.items()}
        train.check_finite(values, f"Batch {step + 1}")
        for group in optimizer.param_groups:
            # The rate changes with the step, and a restored optimizer would bring the rate of its checkpoint.
            group["lr"] = schedule.rate * group["share"]
        optimizer.zero_grad()
        terms["loss"].backward()
        optimizer.step()
        return values

    if schedule.passes > 1 or schedule.keep != "best":
        terms: dict[str, float] = {}
        for _ in range(schedule.iterations):
            terms = iterate()
        return terms
    weights: list[torch.Tensor] = []
    for group in optimizer.param_groups:
        weights += group["params"]
    best_terms: dict[str, float] = {"loss": math.inf}
    best_weights: list[torch.Tensor] = []
    for _ in range(schedule.iterations + 1):  # the last iteration only measures the result of the one before
        before = [weight.detach().clone() for weight in weights]
        terms = iterate()
        # Ties go to the earlier step, so a batch that cannot improve leaves the weights as they were.
        if terms["loss"] < best_terms["loss"]:
            best_terms, best_weights = terms, before
    with torch.no_grad():
        for weight, best_weight in zip(weights, best_weights, strict=True):
            weight.copy_(best_weight)
    return best_terms
