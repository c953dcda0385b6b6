"""Trains a stamp on biased pairs: the losses of FAST, and the loop over batches of pairs.

Source: *Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024),
section 3. L_e makes the scores of the biased and the unbiased sentence of a pair equal, L_s1 keeps the distribution of
all other tokens after a prompt, L_s2 keeps the distribution after the subject alone. The same loop makes one edit,
thousands, or more on top of an earlier stamp.

L_s1 and L_s2 see edited prompts and subjects only, so nothing in them keeps other text. This project adds two terms
(:mod:`mitigation.editing.kept`): L_t, the divergence KL(unchanged || edited) at every token of some ordinary texts, in
nats a token, and L_g and L_k, which keep the pronoun and its lean where a text states a gender.

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
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import torch

from cards.common import terminal
from cards.common.progress import track
from mitigation.editing.kept import NO_TEXT, NOTHING, Kept, KeptText, OrdinaryText, StatedBatch
from mitigation.editing.pairs import EditPair, Place
from mitigation.editing.settings import EditingSchedule
from mitigation.editing.stamped import StampedNetwork
from mitigation.recipe import Console
from mitigation.training import train
from scoring.inference.tokens import Query

#: Seconds between checkpoints within one of several passes.
CHECKPOINT_SECONDS = 30
#: The most nats a token by which the first step may change ordinary text.
FIRST = 0.05
#: What a rate is multiplied by, so that a rate of .001 moves an output of a block by a tenth of what the block writes.
STEP = 100
#: The most nats a token by which training may change ordinary text, as the median of so many steps.
LOST, WINDOW = 0.1, 10
#: A pair after no prefix, and after each prefix.
PrefixedPair = Sequence[EditPair]
#: Pairs that are measured together.
MEASURED = 64


def pair_gap(biased: torch.Tensor, unbiased: torch.Tensor, compare: str) -> torch.Tensor:
    """L_e [pairs] of scores [pairs], which are logarithms: the difference of these, or of what they are of.

    The paper prints that of probabilities, which is nearly zero where both objects are improbable. A square has a
    gradient that falls with the difference, so that equal pairs are left alone and large differences come first.

    >>> logs = torch.tensor([[0.5], [0.25]]).log()
    >>> [round(pair_gap(*logs, compare).item(), 4) for compare in ("probability", "log", "square")]
    [0.25, 0.6931, 0.4805]
    """
    if compare == "log":
        return (biased - unbiased).abs()
    if compare == "square":
        return (biased - unbiased).square()
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
    alone (only where L_s2 has a weight), for ordinary text, and for pronouns whose gender is stated.
    """

    def __init__(self, prefixed: Sequence[PrefixedPair], kept: Kept = NOTHING, *, subjects: bool = True) -> None:
        self.pairs: list[EditPair] = []
        alone: list[Query] = []
        for versions in prefixed:
            self.pairs += versions
            if subjects:
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
        self.forms = torch.tensor(kept.stated.forms)
        self.objects = torch.tensor([pair.objects for pair in self.pairs])

    def loss_terms(self, network: StampedNetwork, schedule: EditingSchedule) -> dict[str, Any]:
        """L_e, L_s1, L_s2, L_m, (of ordinary text) L_t and (of stated gender) L_g and L_k as means, and their sum.

        The weighted sum is ``loss``. L_s2, L_t and L_g are among the terms where the batch has such queries, and
        L_m and L_k where they have a weight.
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
        }
        if self.alone:
            terms["l_s2"] = kl_divergence(base[count:others], edited[count:others]).mean() / size
        if schedule.mass:
            both = edited[:count].gather(1, objects).logsumexp(1)
            terms["l_m"] = (both - base[:count].gather(1, objects).logsumexp(1)).square().mean()
        if self.ordinary:
            terms["l_t"] = kl_divergence(base[others:stated], edited[others:stated]).mean()
        if self.stated:
            before, after = base[stated:], edited[stated:]
            terms["l_g"] = kl_divergence(before, after).mean()
            if schedule.kappa:
                forms = self.forms.to(edited.device)
                # The forms of a sentence are the right one and the other.
                lean_before = -before.gather(1, forms).diff(dim=1)
                lean_after = -after.gather(1, forms).diff(dim=1)
                wanted = lean_before + schedule.margin * lean_before.clamp(min=0)
                terms["l_k"] = (wanted - lean_after).clamp(min=0).square().mean()
        return {"loss": weighted_sum(terms, schedule), **terms}

    def shares(self, parts: Sequence[PairBatch]) -> dict[str, float]:
        """By term, the share of its places among those of all parts of a step; this batch is one of them."""
        counts = []
        for part in parts:
            of_pairs = dict.fromkeys(("l_e", "l_s1", "l_m"), len(part.pairs))
            stated = len(part.stated)
            of_texts = {"l_s2": len(part.alone), "l_t": len(part.ordinary), "l_g": stated, "l_k": stated}
            counts.append(of_pairs | of_texts)
        own = counts[list(parts).index(self)]
        return {name: number / max(sum(count[name] for count in counts), 1) for name, number in own.items()}


def weighted_sum(terms: Mapping[str, Any], schedule: EditingSchedule) -> Any:
    """The loss of terms, by the weights of a schedule."""
    weights = {
        "l_e": 1.0,
        "l_m": schedule.mass,
        "l_s1": schedule.alpha,
        "l_s2": schedule.beta,
        "l_t": schedule.gamma,
        "l_g": schedule.delta,
        "l_k": schedule.kappa,
    }
    return sum(weights[name] * term for name, term in terms.items())


def batches_of_step(prefixed: Sequence[PrefixedPair], kept: Kept, schedule: EditingSchedule) -> list[PairBatch]:
    """A step in parts of at most ``at_once`` pairs with their share of what is kept, whose gradients are added."""
    count = math.ceil(len(prefixed) / schedule.at_once)
    parts = []
    for start in range(count):
        # Both sentences of a pair that states a gender stay together.
        stated = [number for number in range(len(kept.stated.queries)) if (number // 2) % count == start]
        queries = [kept.stated.queries[number] for number in stated]
        forms = [kept.stated.forms[number] for number in stated]
        part = Kept(kept.ordinary[start::count], StatedBatch(queries, forms))
        parts.append(PairBatch(prefixed[start::count], part, subjects=schedule.beta > 0))
    return parts


def mean_terms(network: StampedNetwork, pairs: Sequence[EditPair], schedule: EditingSchedule) -> dict[str, float]:
    """The terms of the loss over pairs without prefixes, as means."""

    def loss(_: Any, part: Sequence[EditPair]) -> train.LossTerms:
        batch = PairBatch([[pair] for pair in part], subjects=schedule.beta > 0)
        return batch.loss_terms(network, schedule)

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
    together, per_pass = schedule.several_passes, schedule.batches_per_pass(count)
    optimizer = _adam(network, schedule)
    state = train.restore(checkpoint, trained, optimizer)
    if held and not state.curve.held:
        state.curve.held.append({"step": 0, **mean_terms(network, held, schedule)})
    steps = range(state.step, schedule.batches(count))
    saved = time.monotonic()
    for step in track(steps, "editing", console=console, disable=not steps):
        # A step depends on its number alone, so a continued training takes the same batches.
        prefixed_pairs = [prefixed(number, step // per_pass) for number in schedule.pair_numbers(step, count)]
        parts = batches_of_step(prefixed_pairs, kept.batch(step, schedule.batch), schedule)
        now = schedule.at_step(step, count)
        if not together:
            # In the paper each batch is an edit of its own, which begins without the moments of the one before.
            optimizer = _adam(network, schedule)
            terms = _train(network, parts, now, optimizer, step)
        elif step == 0 and kept.ordinary:
            terms = _first_step(network, parts, now, optimizer, kept.ordinary, console)
        else:
            terms = _train(network, parts, now, optimizer, step)
        state.curve.train.append(terms)
        last = state.step == schedule.batches(count)
        end_of_pass = state.step % per_pass == 0
        # Without passes of a fixed number, held-out pairs are measured four times.
        measured = state.step % math.ceil(schedule.steps / 4) == 0 if schedule.steps else end_of_pass
        if held and (measured or last):
            state.curve.held.append({"step": state.step, **mean_terms(network, held, schedule)})
        # Writing one can take longer than a step, so within a pass time decides and not the number of steps.
        if (
            not together
            or (end_of_pass and not schedule.steps)
            or last
            or time.monotonic() - saved >= CHECKPOINT_SECONDS
        ):
            train.save(checkpoint, trained, optimizer, state)
            saved = time.monotonic()
        if together and _text_is_lost(state, trained):
            terminal.show(
                console,
                [
                    f"Ordinary text changes by more than {LOST} nats a token, so training ends after step "
                    f"{state.step} with the weights of an earlier one; give a lower --rate."
                ],
            )
            break
    return state.curve


def _text_is_lost(state: train.TrainingState, trained: Mapping[str, torch.nn.Parameter]) -> bool:
    """Whether L_t rose above :data:`LOST`; then the weights are those of the last window in which it had not.

    The medians of :data:`WINDOW` steps are compared: the texts of a step are few, and a single one may change much
    where all others stay.
    """
    recent = [terms["l_t"] for terms in state.curve.train[-WINDOW:] if "l_t" in terms]
    if state.step % WINDOW or len(recent) < WINDOW:
        return False
    if median(recent) <= LOST:
        state.best = {name: weight.detach().clone() for name, weight in trained.items()}
        return False
    with torch.no_grad():
        for name, weight in trained.items():
            # Without a window before, nothing was learnt at a bearable price: the matrices that begin with zero do so.
            if name in state.best:
                weight.copy_(state.best[name])
            elif "fast_values" in name or "lora_B" in name:
                weight.zero_()
    return True


def _first_step(
    network: StampedNetwork,
    parts: Sequence[PairBatch],
    schedule: EditingSchedule,
    optimizer: torch.optim.Optimizer,
    ordinary: OrdinaryText,
    console: Console,
) -> dict[str, float]:
    """Takes the first step with a rate that moves ordinary text by at most :data:`FIRST` nats a token.

    The rate is found by :func:`mitigation.training.train.share_of_rate`.
    """
    texts = ordinary.batch(0, schedule.batch)

    def take() -> dict[str, float]:
        return _train(network, parts, schedule, optimizer, 0)

    train.share_of_rate(take, lambda: text_divergence(network, texts), optimizer, network.trained, FIRST, console)
    return take()


@torch.no_grad()
def set_rate_of_values(network: StampedNetwork, queries: Sequence[Query]) -> None:
    """Sets the multiple of the rate for a stamp's second matrix, so that the first step does not depend on the width.

    That matrix is zero at first, and Adam's first step moves all its weights by the rate. So an output of the block
    moves by rate × S, where S is the sum of the activations of all units. With the multiple it moves by rate ×
    :data:`STEP` × rms(output of the feed-forward part), of which the median token of some texts is taken.
    """
    units: list[torch.Tensor] = []
    written: list[torch.Tensor] = []
    rows = list(dict.fromkeys(query.ids for query in queries))
    inputs = train.network_inputs(rows, network.pad, network.device)
    read = inputs["attention_mask"].bool()

    def see_units(_: Any, arguments: tuple[torch.Tensor, ...]) -> None:
        units.append(arguments[0].float().view(*read.shape, -1)[read].sum(-1))

    def see_output(_: Any, __: Any, output: torch.Tensor) -> None:
        written.append(output.float().view(*read.shape, -1)[read].square().mean(-1).sqrt())

    with ExitStack() as hooks:
        for module in network.network.modules():
            for values in getattr(module, "fast_values", {}).values():
                hooks.callback(values.register_forward_pre_hook(see_units).remove)
                hooks.callback(module.base_layer.register_forward_hook(see_output).remove)
        network.network(**inputs)
    network.rate_of_values = STEP * float(written[0].median() / units[0].median().clamp(min=1e-6))


@torch.no_grad()
def text_divergence(network: StampedNetwork, queries: Sequence[Query]) -> float:
    """L_t of queries of ordinary text, in nats a token."""
    places = [Place(number, answer) for number, query in enumerate(queries) for answer in range(len(query.at))]
    _, edited, base = network.answers(queries, places)
    return float(kl_divergence(base, edited).mean())


def _adam(network: StampedNetwork, schedule: EditingSchedule) -> torch.optim.Optimizer:
    # The second matrix of a stamp may have a rate of its own, and the order of groups is that of checkpoints.
    others, values = [], []
    for name, weight in network.trained.items():
        if "fast_values" in name:
            values.append(weight)
        else:
            others.append(weight)
    groups: list[dict[str, Any]] = []
    if others:
        groups.append({"params": others, "share": 1.0})
    if values:
        groups.append({"params": values, "share": schedule.value_rate * network.rate_of_values})
    return torch.optim.Adam(groups, lr=schedule.rate)


def _train(
    network: StampedNetwork,
    parts: Sequence[PairBatch],
    schedule: EditingSchedule,
    optimizer: torch.optim.Optimizer,
    step: int,
) -> dict[str, float]:
    """Trains the parts of a batch and returns the terms of its loss before the last iteration.

    Of one pass that keeps the best step, the weights of the lowest loss are restored, and its terms are returned.
    """
    shares_of_parts = [part.shares(parts) for part in parts]

    def iterate() -> dict[str, float]:
        """Takes one step of the optimizer, and returns the terms of the loss before it."""
        optimizer.zero_grad()
        values: dict[str, float] = {}
        for part, shares in zip(parts, shares_of_parts, strict=True):
            terms = part.loss_terms(network, schedule)
            del terms["loss"]
            # A mean over a step is the sum over its parts, each by its share.
            terms = {name: shares[name] * term for name, term in terms.items()}
            terms = {"loss": weighted_sum(terms, schedule), **terms}
            of_part = {name: float(term.detach()) for name, term in terms.items()}
            train.check_finite(of_part, f"Batch {step + 1}")
            terms["loss"].backward()
            for name, value in of_part.items():
                values[name] = values.get(name, 0.0) + value
        for group in optimizer.param_groups:
            # The rate changes with the step, and a restored optimizer would bring the rate of its checkpoint.
            group["lr"] = schedule.rate * group["share"]
        optimizer.step()
        return values

    if schedule.several_passes or schedule.keep != "best":
        last_terms: dict[str, float] = {}
        for _ in range(schedule.iterations):
            last_terms = iterate()
        return last_terms
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
