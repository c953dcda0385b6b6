"""Activation steering: a vector of a concept that is added to a hidden state, or projected out of it.

Source: *Steering Llama 2 via Contrastive Activation Addition* (Rimsky et al., 2024). The vector is the difference of
the mean states of sentences about two groups at that block. It is the bias of a LoRA on the block's last map, whose
matrices are zero, so plain PEFT loads it. A constant moves the preference for one group as a whole; it does not make
single stereotypes equal. Sign and size are chosen on held-out sentences of the corpus: the smallest preference for
either group, as long as the loss rises by no more than a limit.

With ``how`` project, the vector is projected out of the last hidden state, as *Unsupervised Concept Vector Extraction
for Bias Control in LLMs* (Cyberey et al., 2025) does after a block: the head can no longer distinguish its two ends.
That is a LoRA on the map that reads this state. With ``contrast`` the vector is the difference of the states that
predict a word in two kinds of texts of the user's, such as he or she after two groups of occupations. Then the
preference on held-out texts is measured in size, so that stereotypes of both directions count.
"""

from dataclasses import dataclass

import numpy as np

from cards.common import terminal, text
from mitigation.projections import stream
from mitigation.recipe import Adapter, Job, MitigationError, declared, setting
from mitigation.texts.corpora import fingerprints
from mitigation.training.settings import OPEN


@dataclass(frozen=True)
class ContrastSettings(stream.StreamSettings):
    """A corpus or a contrast, and how much worse the held-out loss may become."""

    contrast: str = setting(
        "",
        "A JSON file with two lists of texts, first and second, each with a choice such as [he|she], in place of "
        "the corpus.",
        OPEN,
    )
    loss_limit: float = setting(
        0.0, "Nats per token by which the held-out loss may rise; 0 for any rise.", OPEN, least=0
    )

    def kept(self, loss: float, before: float) -> bool:
        """Whether the limit allows a loss."""
        return not self.loss_limit or loss <= before + self.loss_limit

    def inputs(self) -> dict[str, str]:
        """The contrast, or the corpus and the list of words."""
        if self.contrast:
            return fingerprints(self.contrast)
        return super().inputs()


@dataclass(frozen=True)
class SteeringSettings(ContrastSettings):
    """Whether the vector is added or projected out, and which strengths are tried."""

    how: str = setting(
        "add",
        "add the vector after the block; or project it out of the last hidden state, in place of a strength.",
        OPEN,
        choices=("add", "project"),
    )
    strengths: str = setting("1", "Multiples of the vector that are tried, each with both signs; with commas.", OPEN)

    def __post_init__(self) -> None:
        super().__post_init__()
        both_signs(self.strengths, "strengths")


def both_signs(listed: str, name: str) -> list[float]:
    """The numbers of a setting, each with both signs, the smallest first.

    Raises
    ------
    MitigationError
        If one is no number above 0.
    """
    try:
        sizes = [float(size) for size in text.split_list(listed)]
    except ValueError:
        sizes = []
    if not sizes or not all(0 < size < float("inf") for size in sizes):
        raise MitigationError(f"The setting {name} is {listed!r}; give numbers above 0, with commas.")
    signed: list[float] = []
    for size in sorted(sizes):
        signed += [size, -size]
    return signed


def make(job: Job[SteeringSettings]) -> Adapter:
    """Finds the vector, and projects it out or chooses its strength; writes the LoRA."""
    import torch

    from mitigation.adapters.temporary import attached
    from mitigation.projections import states, subspaces
    from scoring.adapters.feed_forward import feed_forwards

    model, settings = job.model, job.settings
    names, number = stream.block_names(model, settings.block)
    # A projection acts on the last hidden state, so the vector is read there too.
    block = "" if settings.how == "project" else names[number]
    if settings.contrast:
        kinds, held = stream.contrast_pairs(settings.contrast)
        concept = states.predicting_difference(model, kinds, block, settings.most_tokens)
    else:
        fitted, held = stream.text_pairs(model, settings)
        concept = states.difference(model, fitted, block, settings.most_tokens)
    vector = torch.from_numpy(concept)
    before = stream.preference(model, held)
    if settings.how == "project":
        # A projection removes a direction, whatever the length of the vector.
        unit = concept / np.linalg.norm(concept)
        parameters = subspaces.write_projection(model, subspaces.Projection.orthogonal(unit[:, None]), job.out)
        with attached(model, job.out) as changed:
            after = stream.preference(changed, held)
        terminal.show(job.console, [f"Held-out preference {before.size:.3f} to {after.size:.3f} nats in size."])
        return job.done(parameters, before.measures("before") | after.measures("after"))
    last = feed_forwards(model.network)[number].last
    module = model.network.get_submodule(last)
    # A strength is chosen only if it is better than the unchanged model.
    best, strength = before, 0.0
    for multiple in both_signs(settings.strengths, "strengths"):
        # Tried with a hook, which costs less than writing an adapter for each strength.
        with stream.shifted(module, (multiple * vector).to(model.device)):
            measured = stream.preference(model, held)
        # Stereotypes of both directions cancel in the gap, but not in its size.
        if settings.contrast:
            nearer = measured.size < best.size
        else:
            nearer = abs(measured.gap) < abs(best.gap)
        if nearer and settings.kept(measured.loss, before.loss):
            best, strength = measured, multiple
    if not strength:
        preference = before.size if settings.contrast else before.gap
        raise MitigationError(
            f"No strength among {settings.strengths} lowers the preference of {model.name} on held-out sentences, "
            f"which is {preference:.3f} nats; give other strengths, a higher loss_limit or another block."
        )
    terminal.show(job.console, [f"Strength {strength:g}; held-out preference {before.gap:.3f} to {best.gap:.3f} nats."])
    inputs = getattr(module, "in_features", None) or module.weight.shape[0]  # GPT-2's maps have inputs first
    # PEFT adds the bias of B to the output, which the zero matrices leave as it is.
    zero = subspaces.Matrices(torch.zeros(1, inputs), torch.zeros(len(vector), 1), strength * vector)
    parameters = subspaces.write_lora(model, {last: zero}, job.out)
    return job.done(parameters, before.measures("before") | best.measures("after") | {"strength": strength})


RECIPE = declared("steering", SteeringSettings, make)
