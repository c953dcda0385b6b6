"""An edit of the last map of feed-forward parts as one least-squares problem, without training.

Each text i has a value f_i: the lean log p(first word) - log p(second word) at a place, or the logarithm of the
probability of both words together. To first order a change ΔW of the maps gives f_i + Σ g_it · ΔW k_it: k_it is what
enters a map at token t, and g_it the gradient of f_i by what leaves it. The edit is the smallest change for which
these values come near to the wanted ones y_i:

    minimize  Σ_i w_i (f_i + Σ g_it · ΔW k_it - y_i)²  +  r Σ tr(ΔW M ΔWᵀ)

M is the identity and the mean of k kᵀ over tokens of ordinary text, which are to leave a map as before. The solution
is ΔW = Σ_i a_i Σ_t g_it k_itᵀ M⁻¹, where a solves a linear system of as many unknowns as there are values. That M
keeps other text is the idea of MEMIT (Meng et al., 2023), and that two kinds of gender are told apart in such maps is
that of DAMA (Limisiewicz et al., 2024); both find what should leave a map by gradient steps.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from mitigation.editing.settings import AT_ONCE
from mitigation.projections.subspaces import Matrices
from mitigation.recipe import Model
from mitigation.training.train import logits_at
from scoring.inference.tokens import Query
from scoring.types import Floats

#: Tokens of a text in each map that count, those with the largest gradients times inputs.
TOKENS = 4
#: The share of ordinary text in M; the rest is the identity, so that M can be inverted.
ORDINARY = 0.9
#: The most tokens of ordinary text that are kept of each map.
KEPT_TOKENS = 4096


class Place(NamedTuple):
    """A place where a network predicts a word: the tokens, the position that is read, and the tokens of two words."""

    ids: tuple[int, ...]
    at: int
    first: int
    second: int


class Tokens(NamedTuple):
    """Tokens that count in a map: the number of their value [tokens], gradients [tokens, outputs] and inputs."""

    owners: torch.Tensor
    gradients: torch.Tensor
    inputs: torch.Tensor


def place_of(first: Sequence[Query], second: Sequence[Query]) -> Place | None:
    """The place where two queries differ; None where their words are not one token each."""
    if len(first) != 1 or len(second) != 1 or len(first[0].at) != 1 or len(second[0].at) != 1:
        return None
    query = first[0]
    return Place(query.ids, query.at[0], query.want[0], second[0].want[0])


def values(model: Model, places: Sequence[Place]) -> Floats:
    """The lean and the logarithm of the probability of both words at each place [places, 2], in nats."""
    results = np.empty((len(places), 2))
    for numbers in _of_equal_length(places):
        with torch.no_grad():
            results[numbers] = _values(model, [places[number] for number in numbers]).double().cpu().numpy()
    return results


def derivatives(
    model: Model, places: Sequence[Place], maps: Sequence[str], together: int = 0
) -> tuple[Floats, dict[str, Tokens]]:
    """The value of each lean, then of the first ``together`` probabilities of both words, and by map their tokens.

    Values [places + together] have numbers from 0 in this order; the tokens of a map name their value by its number.
    """
    results = np.empty((len(places), 2))
    parts: dict[str, list[Tokens]] = {name: [] for name in maps}
    for numbers in _of_equal_length(places):
        batch = [places[number] for number in numbers]
        rows = torch.tensor(numbers)
        with _watched(model, maps) as seen, torch.enable_grad():
            both = _values(model, batch)
            outputs = [output for _, output in seen.values()]
            # Words of no group have no second value.
            kinds = [0, 1] if min(numbers) < together else [0]
            for kind in kinds:
                gradients = torch.autograd.grad(both[:, kind].sum(), outputs, retain_graph=kind != kinds[-1])
                counted = rows < together if kind else rows >= 0
                owners = rows + kind * len(places)
                for (name, (inputs, _)), gradient in zip(seen.items(), gradients, strict=True):
                    gradient = gradient.reshape(*inputs.shape[:2], -1)
                    parts[name].append(_largest(owners[counted], gradient[counted], inputs[counted]))
        results[numbers] = both.detach().double().cpu().numpy()
    joined = {}
    for name, of_map in parts.items():
        joined[name] = Tokens(*(torch.cat(column) for column in zip(*of_map, strict=True)))
    return np.concatenate([results[:, 0], results[:together, 1]]), joined


def inputs_of_text(model: Model, texts: Sequence[Sequence[int]], maps: Sequence[str]) -> dict[str, torch.Tensor]:
    """What enters each map at tokens of texts [tokens, inputs], of the first :data:`KEPT_TOKENS`."""
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in maps}
    count = 0
    for ids in texts:
        with _watched(model, maps) as seen, torch.no_grad():
            model.network(input_ids=torch.tensor([ids], device=model.device))
        for name, (inputs, _) in seen.items():
            parts[name].append(inputs[0].float().cpu())
        count += len(ids)
        if count >= KEPT_TOKENS:
            break
    return {name: torch.cat(of_map) for name, of_map in parts.items()}


class Edit:
    """The least-squares problem of some texts; it is solved for any wanted values.

    Parameters
    ----------
    tokens:
        By map, from :func:`derivatives`.
    ordinary:
        By map, from :func:`inputs_of_text`.
    weights:
        w_i of each value [values]; one of weight 0 is left out.
    ridge:
        r, in units of the mean diagonal of the system.
    """

    def __init__(
        self, tokens: Mapping[str, Tokens], ordinary: Mapping[str, torch.Tensor], weights: Floats, ridge: float
    ) -> None:
        self.tokens, self.ordinary = tokens, ordinary
        count = len(weights)
        self.used = np.flatnonzero(weights)
        system = torch.zeros(count, count, dtype=torch.float64)
        for name, (owners, gradients, inputs) in tokens.items():
            gradients, inputs = gradients.float(), inputs.float()
            products = gradients @ gradients.T
            products *= inputs @ torch.linalg.solve(_metric(ordinary[name]), inputs.T)
            # Sums over the tokens of a value, along both sides.
            rows = torch.zeros(count, len(owners)).index_add_(0, owners, products)
            system += torch.zeros(count, count).index_add_(1, owners, rows).double()
        chosen = system.numpy()[np.ix_(self.used, self.used)]
        self._system = chosen + np.diag(ridge * np.diag(chosen).mean() / weights[self.used])

    def coefficients(self, differences: Floats) -> Floats:
        """The coefficients a [values], for the differences y - f that are wanted [values]."""
        solution = np.zeros(len(differences))
        solution[self.used] = np.linalg.solve(self._system, differences[self.used])
        return solution

    def change(self, name: str, coefficients: Floats) -> torch.Tensor:
        """ΔW of a map [outputs, inputs]."""
        owners, gradients, inputs = self.tokens[name]
        # M is computed again: those of all maps at once would not fit the memory beside a large network.
        weights = torch.from_numpy(coefficients).float()[owners]
        product = (gradients.float() * weights[:, None]).T @ inputs.float()
        change: torch.Tensor = torch.linalg.solve(_metric(self.ordinary[name]), product.T).T
        return change


def of_rank(change: torch.Tensor, rank: int) -> Matrices:
    """The matrices of a LoRA whose product is nearest to a change [outputs, inputs]."""
    # Random directions begin the search, so the same ones each time.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        left, sizes, right = torch.svd_lowrank(change, q=min(rank + 8, *change.shape), niter=4)
    root = sizes[:rank].sqrt()
    return Matrices((right[:, :rank] * root).T.contiguous(), (left[:, :rank] * root).contiguous())


def _metric(inputs: torch.Tensor) -> torch.Tensor:
    """M [inputs, inputs] of a map, from its inputs at tokens of ordinary text."""
    covariance = inputs.T @ inputs / len(inputs)
    # In units of the mean square of an input, so that a ridge means the same in every map.
    covariance *= ORDINARY / covariance.diagonal().mean()
    covariance.diagonal().add_(1 - ORDINARY)
    return covariance


def _of_equal_length(places: Sequence[Place]) -> Iterator[list[int]]:
    """Numbers of places whose texts have the same number of tokens, so that no batch is padded."""
    by_length: dict[int, list[int]] = {}
    for number, place in enumerate(places):
        by_length.setdefault(len(place.ids), []).append(number)
    for numbers in by_length.values():
        for start in range(0, len(numbers), AT_ONCE):
            yield numbers[start : start + AT_ONCE]


def _values(model: Model, places: Sequence[Place]) -> torch.Tensor:
    """The two values of each place [places, 2], whose texts have the same length."""
    ids = torch.tensor([place.ids for place in places], device=model.device)
    rows = torch.arange(len(places), device=model.device)
    logits = logits_at(model.network, {"input_ids": ids}, rows, torch.tensor([place.at for place in places]))
    logits = logits.to(model.device)
    logs = logits.float().log_softmax(-1)
    first = logs[rows, torch.tensor([place.first for place in places], device=model.device)]
    second = logs[rows, torch.tensor([place.second for place in places], device=model.device)]
    return torch.stack([first - second, torch.logaddexp(first, second)], 1)


@contextmanager
def _watched(model: Model, maps: Sequence[str]) -> Iterator[dict[str, tuple[torch.Tensor, torch.Tensor]]]:
    """By map, what enters and what leaves it [rows, tokens, numbers], in a pass inside the block.

    No weight gets a gradient, and what leaves the first map begins the graph.
    """
    seen: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    weights = [weight for weight in model.network.parameters() if weight.requires_grad]
    rows = 0

    def count(_: Any, __: Any, named: Mapping[str, Any]) -> None:
        nonlocal rows
        rows = len(named["input_ids"])

    def see(name: str, _: Any, arguments: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and not output.requires_grad:
            output = output.detach().requires_grad_()
        # Some architectures join rows and tokens before a map.
        inputs = arguments[0].detach()
        seen[name] = inputs.reshape(rows, -1, inputs.shape[-1]), output
        return output

    with ExitStack() as hooks:
        hooks.callback(model.network.register_forward_pre_hook(count, with_kwargs=True).remove)
        for name in maps:
            module = model.network.get_submodule(name)
            hooks.callback(module.register_forward_hook(partial(see, name)).remove)
        for weight in weights:
            weight.requires_grad_(False)
        try:
            yield seen
        finally:
            for weight in weights:
                weight.requires_grad_(True)


def _largest(owners: torch.Tensor, gradients: torch.Tensor, inputs: torch.Tensor) -> Tokens:
    """The tokens of each row that count, from gradients and inputs [rows, tokens, numbers]."""
    sizes = gradients.float().norm(dim=-1) * inputs.float().norm(dim=-1)
    chosen = sizes.topk(min(TOKENS, inputs.shape[1]), dim=1).indices
    rows = torch.arange(len(owners), device=chosen.device)[:, None]
    of_gradients, of_inputs = gradients[rows, chosen].cpu(), inputs[rows, chosen].cpu()
    return Tokens(owners.repeat_interleave(chosen.shape[1]), of_gradients.flatten(0, 1), of_inputs.flatten(0, 1))
