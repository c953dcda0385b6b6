"""A training loop that resumes after an interruption and computes the same as without it.

Step n depends on n alone: its rows are a slice of a permutation drawn from the seed and the epoch, its
dropout is drawn from the seed and the step, its learning rate is a formula. Several processes
(``accelerate launch``) share the rows of a step.
"""

import gc
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import accelerate  # type: ignore[import-untyped]
import numpy as np
import torch
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cards.common import answer_key, files, progress, terminal
from mitigation.recipe import WITHOUT_EFFECT, Console, Job, MitigationError
from scoring.adapters.attach import quiet
from scoring.asking.answering import PACKAGE, package_version
from scoring.inference.batching import out_of_memory, padded

#: Token ids, one list per row.
TokenRows = Sequence[list[int]]
#: Terms of a loss by name, each a mean over rows; ``loss`` is their weighted sum.
LossTerms = dict[str, torch.Tensor]
#: How often the rate is halved at most, until the first step changes ordinary text little.
HALVINGS = 20
#: Gradients are clipped to this norm, the usual default of trainers.
MAX_GRADIENT_NORM = 1.0
#: The folder of the logs of TensorBoard, in the current one; the others have a place of their own.
LOGS = "logs"
#: Optimizers by the name in settings.
OPTIMIZERS: Mapping[str, Any] = {"adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}


@dataclass(frozen=True, slots=True)
class TrainingSchedule:
    """Length and speed of a training.

    The learning rate rises linearly during ``warmup`` (a share of the steps) and then falls linearly to
    zero. Every ``validate_every`` steps the held-out rows are measured. With a ``patience`` above 0,
    training ends after so many validations in a row without improvement, and the best weights are used. With
    ``at_once`` above 0, so many rows of a step are computed at the same time and their gradients added. ``optimizer``
    is a name of :data:`OPTIMIZERS`. With a ``loss_limit`` above 0, training also ends where language ability is lost,
    and ``most_change`` limits what the first step does to ordinary text: see :func:`fit`.
    """

    steps: int
    batch_size: int
    learning_rate: float
    warmup: float = 0.03
    seed: int = 42
    precision: str = "no"
    validate_every: int = 50
    checkpoint_every: int = 50
    patience: int = 0
    at_once: int = 0
    optimizer: str = "adamw"
    loss_limit: float = 0.0
    most_change: float = 0.0

    def rate_at(self, step: int) -> float:
        """The learning rate of a step.

        >>> schedule = TrainingSchedule(steps=100, batch_size=16, learning_rate=1.0, warmup=0.1)
        >>> [round(schedule.rate_at(step), 2) for step in (0, 9, 10, 55, 99)]
        [0.1, 1.0, 1.0, 0.5, 0.01]
        """
        rising = round(self.warmup * self.steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (self.steps - step) / max(1, self.steps - rising)

    def rows_at(self, step: int, count: int) -> list[int]:
        """The numbers of the rows of a step, below ``count``; an epoch may end within a batch.

        >>> schedule = TrainingSchedule(steps=9, batch_size=4, learning_rate=1.0)
        >>> sorted(schedule.rows_at(0, 6) + schedule.rows_at(1, 6)[:2])
        [0, 1, 2, 3, 4, 5]
        """
        # The rows of all epochs in one line: a batch may end one epoch and begin the next.
        positions = range(step * self.batch_size, (step + 1) * self.batch_size)
        epochs = {position // count for position in positions}
        orders = {}
        for epoch in epochs:
            orders[epoch] = np.random.default_rng([self.seed, epoch]).permutation(count)
        return [int(orders[position // count][position % count]) for position in positions]


@dataclass(slots=True)
class LossCurve:
    """Terms of the loss by name: ``train`` for each step, ``held`` for each validation, with its step."""

    train: list[dict[str, float]] = field(default_factory=list)
    held: list[dict[str, float]] = field(default_factory=list)


@dataclass(slots=True)
class TrainingState:
    """What later steps depend on, besides weights and optimizer."""

    curve: LossCurve = field(default_factory=LossCurve)
    best: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @property
    def step(self) -> int:
        """The number of finished steps."""
        return len(self.curve.train)

    def validations_since_best(self) -> int:
        """The number of validations after the one with the lowest ``gap``, or loss where no gap is measured."""
        values = [terms.get("gap", terms["loss"]) for terms in self.curve.held]
        if not values:
            return 0
        # Of equal values the first is the best, so that waiting for no improvement comes to an end.
        return len(values) - 1 - int(np.argmin(values))

    def lost(self) -> float:
        """By how much ``language``, if it is measured, is above its value before training, in nats a token."""
        return self.rise("language")

    def rise(self, name: str) -> float:
        """By how much a held-out term, if it is measured, is above its value before training."""
        first, last = self.curve.held[0], self.curve.held[-1]
        return last.get(name, 0.0) - first.get(name, 0.0)


def checkpoint_path(job: Job[Any], name: str = "") -> Path:
    """The file of a training's state, next to ``out``; its name depends on the recipe, model, settings and data.

    Training that goes on with more or less free memory reads the same file (:data:`mitigation.recipe.WITHOUT_EFFECT`).
    """
    deciding = {name: value for name, value in asdict(job.settings).items() if name not in WITHOUT_EFFECT}
    # Another model, setting or version of the data or of the package has another file, so no state is mixed up.
    key = answer_key.answer_key(
        job.model.name,
        weights=job.model.revision,
        files=job.model.files,
        adapter=job.model.adapter,
        dtype=job.model.dtype,
        settings=deciding,
        data=job.versions,
        **{PACKAGE: package_version()},
    )
    return job.out.parent / f"{name or job.recipe}-{answer_key.key_digest(key)[:16]}.pt"


def save(
    path: Path, trained: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer, state: TrainingState
) -> None:
    """Writes weights, optimizer and state to a file in one step."""
    content = {
        "weights": {name: weight.detach() for name, weight in trained.items()},
        "optimizer": optimizer.state_dict(),
        "curve": json.dumps(asdict(state.curve)),
        "best": dict(state.best),
    }
    with files.replacing(path) as file:
        torch.save(content, file)


def restore(path: Path, trained: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer) -> TrainingState:
    """Loads weights and optimizer from a checkpoint and returns its state; a new state if there is no file.

    Raises
    ------
    MitigationError
        If the file is not a checkpoint of this network.
    """
    if not path.exists():
        return TrainingState()
    try:
        # Mapped, not read: a checkpoint of all weights may be larger than the free memory.
        content = torch.load(path, weights_only=True, map_location="cpu", mmap=True)
        with torch.no_grad():
            for name, weight in content["weights"].items():
                trained[name].copy_(weight)
        optimizer.load_state_dict(content["optimizer"])
        best = {name: weight.to(trained[name].device) for name, weight in content["best"].items()}
        return TrainingState(LossCurve(**json.loads(content["curve"])), best)
    except Exception as error:  # a damaged file can raise anything
        raise MitigationError(
            f"{path} is no checkpoint of this training ({type(error).__name__}); delete it to begin again."
        ) from None


def network_inputs(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> dict[str, torch.Tensor]:
    """``input_ids`` [rows, tokens], padded on the right, and ``attention_mask`` [rows, tokens] (int64).

    >>> inputs = network_inputs([[5, 6], [7]], 0, torch.device("cpu"))
    >>> inputs["input_ids"].tolist(), inputs["attention_mask"].tolist()
    ([[5, 6], [7, 0]], [[1, 1], [1, 0]])
    """
    # Padded to the longest row of this batch only.
    width = max(map(len, rows))
    lengths = torch.tensor([[len(row)] for row in rows], device=device)
    ids = torch.from_numpy(padded(rows, pad, width)).to(device)
    return {"input_ids": ids, "attention_mask": (torch.arange(width, device=device) < lengths).long()}


def logits_at(
    network: Any, inputs: Mapping[str, torch.Tensor], rows: torch.Tensor, at: torch.Tensor, **options: Any
) -> torch.Tensor:
    """The logits [places, vocabulary] at some tokens, whose rows and positions are given [places].

    The head computes these tokens alone: for a vocabulary of 262,144 all tokens of a batch need more memory than the
    blocks. Where the class does not say which module is the head, all are computed.
    """
    wrapped = network.module if isinstance(network, torch.nn.parallel.DistributedDataParallel) else network
    base = wrapped.get_base_model() if hasattr(wrapped, "get_base_model") else wrapped
    head = base.get_output_embeddings() if hasattr(base, "get_output_embeddings") else None
    if head is None:
        logits: torch.Tensor = network(**inputs, **options).logits
        return logits[rows.to(logits.device), at.to(logits.device)]

    def read_only(_: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        states = arguments[0]
        return (states[rows.to(states.device), at.to(states.device)][None], *arguments[1:])

    handle = head.register_forward_pre_hook(read_only)
    try:
        return torch.as_tensor(network(**inputs, **options).logits[0])
    finally:
        handle.remove()


def accelerator_on(device: torch.device, report_to: str = "none") -> accelerate.Accelerator:
    """An accelerator for networks on a device, also after one for another device in the same Python process.

    ``report_to`` is one of :data:`mitigation.training.settings.TRACKERS`, to which its method ``log`` sends values.
    """
    on_processor = device.type == "cpu"
    state = accelerate.state.PartialState(cpu=on_processor)
    # Accelerate keeps the device of the first training for the whole process, and refuses another.
    if state.num_processes == 1 and (state.device.type == "cpu") != on_processor:
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    # It also sets mixed precision for the whole process; the next training may use another.
    if report_to == "none":
        return accelerate.Accelerator(mixed_precision="no", cpu=on_processor)
    return accelerate.Accelerator(mixed_precision="no", cpu=on_processor, log_with=report_to, project_dir=LOGS)


def fit(
    network: Any,
    loss: Callable[[Any, Any], LossTerms],
    rows: Sequence[Any],
    held: Sequence[Any],
    schedule: TrainingSchedule,
    checkpoint: Path,
    console: Console,
    watch: Callable[[], Mapping[str, float]] = dict,
    ordinary: Callable[[], Mapping[str, float]] | None = None,
    report_to: str = "none",
) -> LossCurve:
    """Trains the parameters of a network that require gradients, and returns the losses.

    Where ``watch`` measures bias (``gap``) and the loss of language (``language``, nats a token), training ends when
    the latter has risen by more than ``schedule.loss_limit``, and the weights with the lowest gap before are used.

    With ``ordinary`` and ``schedule.most_change``, the rate is halved until the first step at the full rate changes
    ordinary text by at most so many nats a token (:func:`share_of_rate`). Training ends where the loss of that text has
    risen by more than twice as much at a validation, with the weights of an earlier one.

    Parameters
    ----------
    loss:
        ``loss(network, rows)`` returns the terms of the loss, ``loss`` among them.
    held:
        Rows for validation.
    checkpoint:
        The file to resume from and to save to.
    watch:
        Called at each validation, also at the one before training; what it returns is added to the held-out losses.
    ordinary:
        Gives ``change`` and ``text``: the divergence from the network before training, and the loss, of ordinary text
        in nats a token (:func:`mitigation.training.trainable.ordinary_text`).
    report_to:
        Where each loss is also logged (:func:`accelerator_on`): ``train/loss`` at each step, ``held/loss`` at each
        validation. The name of the log is that of the checkpoint, so a training that goes on has the same.

    Raises
    ------
    MitigationError
        If a loss or a gradient is NaN or infinite, with the step and the terms; the last checkpoint stays.
    """
    accelerator = accelerator_on(network.device, report_to)
    if schedule.batch_size % accelerator.num_processes:
        raise MitigationError(
            f"A batch of {schedule.batch_size} rows cannot be shared by {accelerator.num_processes} processes; give a "
            "multiple of that."
        )
    trained = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
    optimizer = OPTIMIZERS[schedule.optimizer](trained.values(), lr=schedule.learning_rate, weight_decay=0.0)
    state = restore(checkpoint, trained, optimizer)
    # A network in 4 bits must not be moved, so accelerate prepares only what several processes share.
    parallel = accelerator.prepare_model(network) if accelerator.num_processes > 1 else network
    if report_to != "none":
        accelerator.init_trackers(checkpoint.stem, asdict(schedule))

    guarded = ordinary if schedule.most_change else None

    def text_is_lost() -> bool:
        return guarded is not None and state.rise("text") > 2 * schedule.most_change

    def over() -> bool:
        return 0 < schedule.loss_limit < state.lost() or text_is_lost()

    def validate() -> None:
        measured = {**mean_terms(network, loss, held, schedule.batch_size), **watch()}
        if guarded:
            measured["text"] = guarded()["text"]
        # Rounding may differ between processes. The first one decides for all: else one could end while others wait.
        measured = accelerate.utils.broadcast_object_list([measured])[0]
        state.curve.held.append({"step": state.step, **measured})
        accelerator.log({f"held/{name}": value for name, value in measured.items()}, step=state.step)
        if guarded and not (schedule.patience or schedule.loss_limit):
            # The latest weights with which ordinary text is not lost.
            if not over():
                state.best = {name: weight.detach().clone() for name, weight in trained.items()}
            return
        wanted = (schedule.patience or schedule.loss_limit) and not over()
        if wanted and not state.validations_since_best():
            state.best = {name: weight.detach().clone() for name, weight in trained.items()}

    shown = console if accelerator.is_main_process else None
    if shown and state.step:
        shown.print(f"Training goes on after step {state.step} of {schedule.steps}.")
    with progress_bar("training", schedule.steps, shown, state.step) as update:
        if not state.curve.held:
            if guarded:
                numbers = schedule.rows_at(0, len(rows))[accelerator.process_index :: accelerator.num_processes]
                first = [rows[number] for number in numbers]

                def take() -> None:
                    _step(accelerator, parallel, loss, first, optimizer, trained, replace(schedule, warmup=0), 0, shown)

                share_of_rate(take, lambda: guarded()["change"], optimizer, trained, schedule.most_change, shown)
            validate()
        while state.step < schedule.steps and not over():
            if 0 < schedule.patience <= state.validations_since_best():
                break
            step = state.step
            # Each process takes every n-th row of the same batch.
            numbers = schedule.rows_at(step, len(rows))[accelerator.process_index :: accelerator.num_processes]
            batch = [rows[number] for number in numbers]
            terms = _step(accelerator, parallel, loss, batch, optimizer, trained, schedule, step, shown)
            state.curve.train.append(terms)
            accelerator.log({f"train/{name}": value for name, value in terms.items()}, step=state.step)
            last = state.step == schedule.steps
            if last or state.step % schedule.validate_every == 0:
                validate()
            if (last or state.step % schedule.checkpoint_every == 0) and accelerator.is_main_process:
                save(checkpoint, trained, optimizer, state)
            update(completed=state.step, description=f"training, loss {state.curve.train[-1]['loss']:.4f}")
    accelerator.wait_for_everyone()
    # Not end_training, which also ends the group of the processes that a later training shares.
    for tracker in accelerator.trackers:
        tracker.finish()
    if text_is_lost() and shown:
        lost = f"The loss of ordinary text rose by {state.rise('text'):.2f} nats a token"
        sentence = f"{lost}, so training ended after step {state.step} with the weights of an earlier one."
        if len(state.curve.held) == 2:  # the one before training, and the one that found it
            sentence += " Nothing was learnt in time; give a smaller --validate-every or --learning-rate."
        terminal.show(shown, [sentence])
    with torch.no_grad():
        for name, best in state.best.items():
            trained[name].copy_(best)
    return state.curve


def share_of_rate(
    take: Callable[[], object],
    change: Callable[[], float],
    optimizer: torch.optim.Optimizer,
    trained: Mapping[str, torch.nn.Parameter],
    most: float,
    console: Console | None,
) -> None:
    """Finds the share of the rate with which a first step changes ordinary text by at most ``most`` nats a token.

    Adam's first step moves every weight by the rate, whatever its gradient, so in a wide network a rate that suits a
    small one moves all outputs. The step is taken on trial, with the rate halved until its change is small. Then the
    weights are as before, and the groups of the optimizer have the ``share``, which checkpoints keep. A group that has
    a share already keeps so much of it.
    """
    shares = [group.get("share", 1.0) for group in optimizer.param_groups]
    before = {name: weight.detach().clone() for name, weight in trained.items()}
    for halvings in range(HALVINGS):
        for group, share in zip(optimizer.param_groups, shares, strict=True):
            group["share"] = share * 0.5**halvings
        take()
        changed = accelerate.utils.broadcast_object_list([change()])[0]
        with torch.no_grad():
            for name, weight in trained.items():
                weight.copy_(before[name])
        optimizer.state.clear()
        if changed <= most:
            break
    if halvings and console:
        terminal.show(
            console, [f"The first step changed ordinary text too much; the rate is divided by {2**halvings}."]
        )


def compute_twice(network: Any) -> None:
    """Turns on gradient checkpointing: activations of the blocks are computed again in the backward pass."""
    base = network.get_base_model() if hasattr(network, "get_base_model") else network
    with quiet():
        # Without reentrance, since the inputs of the first block may need no gradient.
        base.gradient_checkpointing_enable({"use_reentrant": False})


def computes_twice(network: Any) -> bool:
    """Whether gradient checkpointing is on in a network."""
    return any(getattr(module, "gradient_checkpointing", False) for module in network.modules())


def _step(
    accelerator: accelerate.Accelerator,
    network: Any,
    loss: Callable[[Any, Any], LossTerms],
    rows: Sequence[Any],
    optimizer: torch.optim.Optimizer,
    trained: Mapping[str, torch.nn.Parameter],
    schedule: TrainingSchedule,
    step: int,
    console: Console | None,
) -> dict[str, float]:
    """Takes a step and returns the terms of the loss before it, as means over all processes.

    Where the memory does not suffice for the gradients, they are computed once more with gradient checkpointing.
    """
    for group in optimizer.param_groups:
        group["lr"] = schedule.rate_at(step) * group.get("share", 1.0)
    try:
        means = _gradients(accelerator, network, loss, rows, schedule, step)
    except (RuntimeError, MemoryError) as error:
        base = network.get_base_model() if hasattr(network, "get_base_model") else network
        possible = getattr(base, "supports_gradient_checkpointing", False) and not computes_twice(base)
        # Of several processes none repeats a step, because the others would wait for its gradients.
        if not out_of_memory(error) or not possible or accelerator.num_processes > 1:
            raise
        means = None
    if means is None:
        # Outside the handler, because the exception holds the activations.
        optimizer.zero_grad()
        gc.collect()
        if accelerator.device.type == "cuda":
            torch.cuda.empty_cache()
        compute_twice(network)
        if console is not None:
            sentence = f"The memory did not suffice for step {step + 1}, so activations are computed twice from now on"
            console.print(f"{sentence} (gradient checkpointing).")
        means = _gradients(accelerator, network, loss, rows, schedule, step)
    # Clipping after all parts, as if the step had been computed at once.
    norm = torch.nn.utils.clip_grad_norm_(trained.values(), MAX_GRADIENT_NORM)
    check_finite({**means, "gradient": float(norm)}, f"Step {step + 1}")
    optimizer.step()
    optimizer.zero_grad()
    return means


def _gradients(
    accelerator: accelerate.Accelerator,
    network: Any,
    loss: Callable[[Any, Any], LossTerms],
    rows: Sequence[Any],
    schedule: TrainingSchedule,
    step: int,
) -> dict[str, float]:
    """Adds the gradients of a step to the weights; returns the terms of the loss as means over all processes."""
    network.train()
    # Dropout of a step is drawn from its number, so a continued training has the same.
    torch.manual_seed(
        int(np.random.SeedSequence([schedule.seed, step, accelerator.process_index]).generate_state(1)[0])
    )
    sums: dict[str, torch.Tensor] = {}
    size = schedule.at_once or len(rows)
    # The gradients of the parts add up to that of the step; each part counts by its rows.
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        share = len(part) / len(rows)
        with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=schedule.precision == "bf16"):
            terms = {name: term * share for name, term in loss(network, part).items()}
        check_finite({name: float(term.detach()) for name, term in terms.items()}, f"Step {step + 1}")
        accelerator.backward(terms["loss"])
        for name, term in terms.items():
            sums[name] = sums.get(name, 0.0) + term.detach()
    means = accelerator.reduce(sums, "mean")
    return {name: float(mean) for name, mean in means.items()}


def check_finite(values: Mapping[str, float], where: str) -> None:
    """Refuses NaN and infinity among the values of a step.

    Raises
    ------
    MitigationError
        With all values.
    """
    if not all(map(math.isfinite, values.values())):
        shown = ", ".join(f"{name} {value:g}" for name, value in values.items())
        raise MitigationError(
            f"{where} produced NaN or infinity ({shown}); the last checkpoint is kept, so lower the learning rate, or "
            "load the model in float32."
        )


@torch.no_grad()
def mean_terms(
    network: Any, loss: Callable[[Any, Sequence[Any]], LossTerms], rows: Sequence[Any], batch_size: int
) -> dict[str, float]:
    """The terms of the loss as means over all rows, without dropout."""
    network.eval()
    sums: dict[str, float] = {}
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        for name, term in loss(network, batch).items():
            sums[name] = sums.get(name, 0.0) + len(batch) * float(term)
    return {name: total / len(rows) for name, total in sums.items()}


@contextmanager
def progress_bar(what: str, total: int, console: Console | None, done: int = 0) -> Iterator[Callable[..., None]]:
    """A function that updates a progress bar, as :meth:`rich.progress.Progress.update`; no bar without a console."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    hidden = console is None or not total
    with progress.Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden) as bar:
        yield partial(bar.update, bar.add_task(what, total=total, completed=done))
