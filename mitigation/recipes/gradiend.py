"""GRADIEND: a learned direction of gradients that rewrites the weights.

Source: *GRADIEND: Feature Learning within Neural Networks Exemplified through Biases* (Drechsel and Herbold, 2025). A
gradient of the loss of a word says how weights would change to make it more probable. An encoder with one neuron reads
the gradient of the word that is not in the text, g⁻, and a decoder gives from it the difference g⁺ − g⁻ to the gradient
of the word that is: h = tanh(w·g⁻ + a), d(h) = v h + b, trained by the squared error. The neuron learns which of the
two groups the text is about. Weights become W + α d(h), with the h and α that leave the smallest preference on held-out
pairs, as long as the loss rises by no more than a limit. The result is a whole model.

Each pair of texts differs in listed words of a corpus, or in the choice of a text of the user's (``contrast``): the
first word of the choice is the one in the text for the first kind of texts, the second for the second kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from cards.common import progress, terminal, text
from mitigation.projections import stream
from mitigation.recipe import Adapter, Job, Memory, MitigationError, Model, declared, setting
from mitigation.recipes.steering import ContrastSettings, both_signs
from mitigation.training.settings import OPEN

if TYPE_CHECKING:
    import torch

PACKAGE = "package gradiend 0.2.3"


@dataclass(frozen=True)
class GradiendSettings(ContrastSettings):
    """How the encoder and the decoder are trained, and which changes of the weights are tried."""

    steps: int = setting(500, "Training steps of the encoder and the decoder.", OPEN, above=0)
    batch_size: int = setting(8, "Pairs of texts of a step, all about one group.", OPEN, above=0)
    learning_rate: float = setting(1e-5, "Learning rate of AdamW.", PACKAGE, above=0)
    weight_decay: float = setting(1e-2, "Its decay of weights.", PACKAGE, least=0)
    factors: str = setting("-1,0,1", "Values h of the neuron that are decoded, with commas.", OPEN)
    rates: str = setting(
        "0.001,0.003,0.01,0.03,0.1,0.3,1,3,10,30,100", "Values α that are tried, with both signs.", PACKAGE
    )


class Learner:
    """The encoder and the decoder for gradients of so many numbers, initialized as those of the package."""

    def __init__(self, size: int, rate: float, decay: float, device: Any) -> None:
        import torch

        self.encoder, self.decoder = torch.nn.Linear(size, 1, device=device), torch.nn.Linear(1, size, device=device)
        with torch.no_grad():
            most = float(self.encoder.weight.max())
            for weight in self.decoder.parameters():
                weight.uniform_(-most, most)
        weights = [*self.encoder.parameters(), *self.decoder.parameters()]
        # One weight after another: together, the intermediate results would need as much memory as all of them.
        self.optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=decay, foreach=False)

    def encode(self, gradient: torch.Tensor) -> torch.Tensor:
        """The value h of the neuron [1] of a gradient [size]."""
        return self.encoder(gradient).tanh()  # type: ignore[no-any-return]

    def step(self, source: torch.Tensor, target: torch.Tensor) -> float:
        """Learns to decode ``target`` from the gradient ``source``, both [size]; gives the loss."""
        import torch

        loss = torch.nn.functional.mse_loss(self.decoder(self.encode(source)), target)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return float(loss.detach())


def make(job: Job[GradiendSettings]) -> Adapter:
    """Learns the direction, chooses the change of the weights and writes the whole model."""
    import torch

    from mitigation.training.trainable import trainable

    model, settings = job.model, job.settings
    if settings.contrast:
        kinds, held = stream.contrast_pairs(settings.contrast)
        held = held[: settings.held]
    else:
        pairs, held = stream.text_pairs(model, settings)
        # Pairs are by turns about the first and the second group; the word of the text comes first.
        kinds = (pairs[::2], [(second, first) for first, second in pairs[1::2]])
    with trainable(model, SimpleNamespace(rank=0, seed=settings.seed), 0) as whole:
        network = whole.network.eval()
        weights = list(getattr(network, "base_model", network).parameters())
        learner = Learner(sum(map(torch.numel, weights)), settings.learning_rate, settings.weight_decay, model.device)
        draw = np.random.default_rng(settings.seed)
        codes: tuple[list[float], list[float]] = ([], [])
        for step in progress.track(range(settings.steps), "Learning", console=job.console):
            # Both kinds by turns, so that the neuron learns to distinguish them.
            side = step % 2
            chosen = draw.choice(len(kinds[side]), settings.batch_size)
            plus, minus = gradients(model, [kinds[side][n] for n in chosen], weights, settings.most_tokens)
            # The input is the gradient of the other word, the target the difference: what would change with the gender.
            learner.step(minus, plus - minus)
            codes[side].append(learner.encode(minus).item())
        before = best = stream.preference(model, held)
        # Every change begins at the same weights; they are not added up.
        start = torch.nn.utils.parameters_to_vector(weights).detach()
        factors = [float(h) for h in text.split_list(settings.factors)]
        chosen_change, change = start, (0.0, 0.0)
        for h, rate in product(factors, both_signs(settings.rates, "rates")):
            with torch.no_grad():
                changed = start + rate * learner.decoder(torch.full((1,), h, device=start.device))
                torch.nn.utils.vector_to_parameters(changed, weights)
            measured = stream.preference(model, held)
            # A change that lowers the preference by ruining the model is no choice.
            if measured.size < best.size and settings.kept(measured.loss, before.loss):
                best, chosen_change, change = measured, changed, (h, rate)
        if not change[1]:
            raise MitigationError(
                f"No change of the weights of {model.name} lowers the preference on held-out pairs, which is "
                f"{before.size:.3f} nats, at a loss that rises by at most {settings.loss_limit:g}; give other rates, "
                "more steps or a higher loss_limit."
            )
        torch.nn.utils.vector_to_parameters(chosen_change, weights)
        whole.save(job.out)
    terminal.show(
        job.console, [f"h {change[0]:g}, α {change[1]:g}; held-out preference {before.size:.3f} to {best.size:.3f}."]
    )
    measures = before.measures("before") | best.measures("after")
    # Of the last steps only, because the first ones are those of a neuron that has not learned yet.
    measures["h of first texts"] = float(np.mean(codes[0][-20:]))
    measures["h of second texts"] = float(np.mean(codes[1][-20:]))
    measures["h"], measures["alpha"] = change
    return job.done(len(start), measures)


def gradients(
    model: Model, pairs: Sequence[stream.Pair], weights: Sequence[torch.Tensor], most_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients [size] of the loss of the words in the first texts of pairs and in the second ones.

    Pairs whose texts have other numbers of tokens count as zero.
    """
    import torch

    from mitigation.projections.states import differing_words

    size = sum(weight.numel() for weight in weights)
    sums = (torch.zeros(size, device=model.device), torch.zeros(size, device=model.device))
    for texts in pairs:
        words = differing_words(model, texts, most_tokens)
        if words is None:
            continue
        for total, ids, inputs in zip(sums, words.ids, words.inputs, strict=True):
            logits = model.network(input_ids=inputs).logits[0, words.at]
            loss = torch.nn.functional.cross_entropy(logits, ids) / len(pairs)
            # A weight that the text does not use, such as a later position, has a gradient of zero.
            parts = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
            total += torch.cat([gradient.flatten() for gradient in parts])
    return sums


def memory(network: Any, settings: GradiendSettings) -> Memory:
    """What is in memory besides the network, in float32.

    With n changed weights, the encoder has n + 1 and the decoder 2 n numbers. Each of them has a gradient and two
    numbers of AdamW. While gradients of the network are computed there are four vectors of n numbers: the sums of both
    words, the gradients of one text, and these as one vector.
    """
    del settings  # the size does not depend on them
    weights = sum(weight.numel() for weight in getattr(network, "base_model", network).parameters())
    learner = 3 * weights + 1
    parts = {
        "encoder and decoder": 4 * learner,
        "gradients": 4 * learner,
        "optimizer": 8 * learner,
        "vectors of gradients": 4 * 4 * weights,
    }
    return Memory(parts, learner)


RECIPE = declared("gradiend", GradiendSettings, make, memory=memory)
