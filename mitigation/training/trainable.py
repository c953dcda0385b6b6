"""What is trained of a model: a LoRA on its linear maps, which plain PEFT loads, or all weights; and the training."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from cards.text import split_list
from mitigation.adapters.write import save_peft, save_whole
from mitigation.cost import trained_parameters
from mitigation.errors import MitigationError
from mitigation.plots import write_losses
from mitigation.recipe import Job
from mitigation.training import train
from mitigation.training.train import LossCurve, LossTerms, TrainingSchedule, checkpoint_path
from scoring.inference.model import Model


@dataclass(frozen=True, slots=True)
class Trainable:
    """A network whose parameters that require gradients are trained.

    Parameters
    ----------
    network:
        The network with a LoRA, or with all its weights.
    model:
        The model that it belongs to.
    original:
        All weights before training, by name, in the memory of the processor; empty with a LoRA.
    """

    network: Any
    model: Model
    original: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def multiply(self, factor: float) -> None:
        """Multiplies what training adds to the weights; -1 does the opposite of what was learnt."""
        if self.original:
            for name, weight in self.network.named_parameters():
                weight.copy_(torch.lerp(self.original[name].to(weight.device), weight, factor))
            return
        for name, weight in self.network.named_parameters():
            if "lora_B" in name:
                weight.mul_(factor)

    def save(self, folder: Path) -> None:
        """Writes an adapter of PEFT, or the whole model with its tokenizer, which loads by the folder's name."""
        if self.original:
            save_whole(self.network, self.model.tokens.tokenizer, folder)
        else:
            save_peft(self.network, folder, self.model.name)


@contextmanager
def trainable(model: Model, settings: Any, alpha: int) -> Iterator[Trainable]:
    """The network of a model for training; after the block, also after an exception, it is as before.

    Parameters
    ----------
    settings:
        ``rank`` and ``seed`` of a LoRA whose product is zero at first; a rank of 0 trains all weights. If they have
        them, also its ``dropout`` and ``target_modules``, and ``gradient_checkpointing``: compute activations twice,
        to need less memory.
    alpha:
        The scale of the product, divided by the rank.

    Raises
    ------
    MitigationError
        If all weights are to be trained and are not in float32, or the modules cannot be adapted.
    """
    torch.manual_seed(settings.seed)
    network = model.network
    if not settings.rank:
        if model.dtype != "float32":
            raise MitigationError(
                f"All weights are trained in float32, and those of {model.name} are in {model.dtype}; give --dtype "
                "float32 --quantize none, or train a LoRA with --rank 64."
            )
        # In the memory of the processor, because a GPU has no room for a second copy of all weights.
        original = {name: tensor.detach().to("cpu", copy=True) for name, tensor in network.state_dict().items()}
        # Weights that the class of the network freezes are frozen again afterwards.
        frozen = [weight for weight in network.parameters() if not weight.requires_grad]
        try:
            yield Trainable(network.requires_grad_(True), model, original)
        finally:
            network.load_state_dict(original)
            for weight in frozen:
                weight.requires_grad_(False)
            network.zero_grad()
            network.eval()
        return
    from peft import LoraConfig

    from scoring.adapters.attach import quiet, wrap

    modules = getattr(settings, "target_modules", "all-linear")
    checkpointing = getattr(settings, "gradient_checkpointing", False)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=alpha,
        lora_dropout=getattr(settings, "dropout", 0.0),
        target_modules=modules if modules == "all-linear" else split_list(modules),
        task_type="CAUSAL_LM" if model.kind == "causal" else None,  # PEFT has no name for masked models
    )
    try:
        tuned = wrap(network, config)
    except ValueError as error:
        raise MitigationError(f"The modules {modules!r} cannot be adapted ({error}).") from None
    if checkpointing:
        with quiet():
            # Without reentrance, since the inputs of the first block need no gradient here.
            tuned.get_base_model().gradient_checkpointing_enable({"use_reentrant": False})
    try:
        yield Trainable(tuned, model)
    finally:
        model.network = tuned.unload()
        if checkpointing:
            with quiet():
                model.network.gradient_checkpointing_disable()
        model.network.eval()


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a training found: the losses, those of held-out rows at the end, and the number of trained parameters."""

    curve: LossCurve
    after: Mapping[str, float]
    parameters: int


def tune(
    job: Job[Any],
    loss: Callable[[Any, Any], LossTerms],
    rows: Sequence[Any],
    held: Sequence[Any],
    schedule: TrainingSchedule,
    within: Callable[[Any], AbstractContextManager[Any]] = nullcontext,
    factor: float = 1.0,
    measured: bool = True,
) -> Tuned:
    """Trains a LoRA or all weights on rows; writes the result, the losses and their picture into ``job.out``.

    Parameters
    ----------
    job:
        Its settings are :class:`mitigation.training.settings.TrainingSettings`.
    loss:
        As :func:`mitigation.training.train.fit` takes it.
    within:
        A function from the network to a context in which it is trained.
    factor:
        What training adds to the weights is multiplied by this; -1 does the opposite of what was learnt.
    measured:
        Whether the held-out rows are measured at the end.
    """
    with trainable(job.model, job.settings, job.settings.alpha) as tuned:
        parameters = trained_parameters(tuned.network)
        with within(tuned.network):
            curve = train.fit(tuned.network, loss, rows, held, schedule, checkpoint_path(job), job.console)
            after = train.mean_terms(tuned.network, loss, held, job.settings.batch_size) if measured else {}
        tuned.multiply(factor)
        tuned.save(job.out)
    write_losses(curve, job.out, f"{job.recipe} of {job.model.name}")
    return Tuned(curve, after, parameters)
