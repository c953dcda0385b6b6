"""A training loop that can be killed: the same batches and the same draws at the same step, whoever gets there.

What a step does depends on its number alone: its rows are a part of a permutation drawn from the seed
and the epoch, its dropout is drawn from the seed and the step, its learning rate is a formula. So a
run that goes on from a checkpoint computes what an uninterrupted one would have. Several processes
(``accelerate launch``) share the rows of a step.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cards.files import replacing
from mitigation.adapters.adapter import MitigationError

Rows = Sequence[list[int]]
#: Parts of a loss by name, each a mean over rows; their sum, weighted, is what is minimised.
Parts = dict[str, torch.Tensor]
#: The largest norm of a gradient; the default of the field's trainers.
LONGEST_GRADIENT = 1.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast to train.

    The learning rate rises over ``warmup`` (a share of the steps) and falls linearly to zero. Every
    ``validate_every`` steps the held-out rows are measured; with a ``patience`` above 0 training ends
    when so many measurements in a row have not improved, and the best weights are taken.
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

    def rate_at(self, step: int) -> float:
        """The learning rate of a step.

        >>> schedule = Schedule(steps=100, batch_size=16, learning_rate=1.0, warmup=0.1)
        >>> [round(schedule.rate_at(step), 2) for step in (0, 9, 10, 55, 99)]
        [0.1, 1.0, 1.0, 0.5, 0.01]
        """
        rising = round(self.warmup * self.steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (self.steps - step) / max(1, self.steps - rising)

    def rows_at(self, step: int, count: int) -> list[int]:
        """The numbers of the rows of a step, of so many; an epoch ends within a batch where it must.

        >>> schedule = Schedule(steps=9, batch_size=4, learning_rate=1.0)
        >>> sorted(schedule.rows_at(0, 6) + schedule.rows_at(1, 6)[:2])
        [0, 1, 2, 3, 4, 5]
        """
        places = range(step * self.batch_size, (step + 1) * self.batch_size)
        epochs = {p // count for p in places}
        orders = {epoch: np.random.default_rng([self.seed, epoch]).permutation(count) for epoch in epochs}
        return [int(orders[p // count][p % count]) for p in places]


@dataclass(slots=True)
class Curve:
    """Losses by step: ``train`` of each step, ``held`` at each measurement with its step."""

    train: list[dict[str, float]] = field(default_factory=list)
    held: list[dict[str, float]] = field(default_factory=list)


@dataclass(slots=True)
class State:
    """All that a later step depends on."""

    curve: Curve = field(default_factory=Curve)
    best: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @property
    def step(self) -> int:
        """How many steps are done."""
        return len(self.curve.train)

    def stale(self) -> int:
        """How many measurements have passed since the best."""
        losses = [each["loss"] for each in self.curve.held]
        return len(losses) - 1 - int(np.argmin(losses)) if losses else 0


def fit(
    network: Any,
    loss: Callable[[Any, Rows], Parts],
    rows: Rows,
    held: Rows,
    schedule: Schedule,
    checkpoint: Path,
    console: Console,
) -> Curve:
    """Trains the parameters of a network that want gradients, and returns the losses.

    Parameters
    ----------
    loss:
        ``loss(network, rows)`` gives the parts of the loss, ``loss`` among them.
    checkpoint:
        The file to go on from and to keep whole checkpoints in.

    Raises
    ------
    MitigationError
        When a loss or a gradient is not a number, with the step and the parts; the last checkpoint stays.
    """
    # Its own mixed precision is that of the whole process, and the next training may have another.
    accelerator = Accelerator(mixed_precision="no", cpu=network.device.type == "cpu")
    if schedule.batch_size % accelerator.num_processes:
        raise MitigationError(
            f"A batch of {schedule.batch_size} rows cannot be shared by {accelerator.num_processes} processes; give a "
            "multiple of that."
        )
    trained = {name: each for name, each in network.named_parameters() if each.requires_grad}
    optimizer = torch.optim.AdamW(trained.values(), lr=schedule.learning_rate, weight_decay=0.0)
    state = restore(checkpoint, trained, optimizer)
    # A network in 4 bits is where it has to be; accelerate has something to do only for several processes.
    parallel = accelerator.prepare_model(network) if accelerator.num_processes > 1 else network

    def measure() -> None:
        state.curve.held.append({"step": state.step, **measured(network, loss, held, schedule.batch_size)})
        if schedule.patience and not state.stale():
            state.best = {name: each.detach().clone() for name, each in trained.items()}

    with _progress(schedule, state.step, console if accelerator.is_main_process else None) as advance:
        if not state.curve.held:
            measure()
        while state.step < schedule.steps and not 0 < schedule.patience <= state.stale():
            step = state.step
            own = schedule.rows_at(step, len(rows))[accelerator.process_index :: accelerator.num_processes]
            some = [rows[n] for n in own]
            state.curve.train.append(_step(accelerator, parallel, loss, some, optimizer, trained, schedule, step))
            if state.step % schedule.validate_every == 0 or state.step == schedule.steps:
                measure()
            due = state.step % schedule.checkpoint_every == 0 or state.step == schedule.steps
            if due and accelerator.is_main_process:
                save(checkpoint, trained, optimizer, state)
            advance(state)
    accelerator.wait_for_everyone()
    with torch.no_grad():
        for name, best in state.best.items():
            trained[name].copy_(best)
    return state.curve


def _step(
    accelerator: Accelerator,
    network: Any,
    loss: Callable[[Any, Rows], Parts],
    rows: Rows,
    optimizer: torch.optim.Optimizer,
    trained: Mapping[str, torch.nn.Parameter],
    schedule: Schedule,
    step: int,
) -> dict[str, float]:
    network.train()
    torch.manual_seed(
        int(np.random.SeedSequence([schedule.seed, step, accelerator.process_index]).generate_state(1)[0])
    )
    for group in optimizer.param_groups:
        group["lr"] = schedule.rate_at(step)
    with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=schedule.precision == "bf16"):
        parts = loss(network, rows)
    found = {
        name: float(each)
        for name, each in accelerator.reduce({n: p.detach() for n, p in parts.items()}, "mean").items()
    }
    _check(found, step)
    accelerator.backward(parts["loss"])
    norm = torch.nn.utils.clip_grad_norm_(trained.values(), LONGEST_GRADIENT)
    _check({**found, "gradient": float(norm)}, step)
    optimizer.step()
    optimizer.zero_grad()
    return found


def _check(parts: Mapping[str, float], step: int) -> None:
    if not all(map(math.isfinite, parts.values())):
        told = ", ".join(f"{name} {value:g}" for name, value in parts.items())
        raise MitigationError(
            f"Step {step + 1} gives numbers that are none ({told}); the last checkpoint is kept, so lower the learning "
            "rate, or load the model in float32."
        )


@torch.no_grad()
def measured(network: Any, loss: Callable[[Any, Rows], Parts], rows: Rows, batch: int) -> dict[str, float]:
    """The parts of the loss as means over all rows, without dropout."""
    network.eval()
    sums: dict[str, float] = {}
    for start in range(0, len(rows), batch):
        some = rows[start : start + batch]
        for name, part in loss(network, some).items():
            sums[name] = sums.get(name, 0.0) + len(some) * float(part)
    return {name: total / len(rows) for name, total in sums.items()}


@contextmanager
def _progress(schedule: Schedule, done: int, console: Console | None) -> Iterator[Callable[[State], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    silent = console is None
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=silent) as progress:
        bar = progress.add_task("training", total=schedule.steps, completed=done)

        def advance(state: State) -> None:
            last = state.curve.train[-1]["loss"]
            progress.update(bar, completed=state.step, description=f"training, loss {last:.4f}")

        yield advance


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────


def save(path: Path, trained: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer, state: State) -> None:
    """Keeps a state of training in one file, which is whole at every moment."""
    curve = json.dumps(asdict(state.curve))
    weights = {name: each.detach() for name, each in trained.items()}
    found = {"weights": weights, "optimizer": optimizer.state_dict(), "curve": curve, "best": dict(state.best)}
    with replacing(path) as file:
        torch.save(found, file)


def restore(path: Path, trained: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer) -> State:
    """The state in a checkpoint, whose weights are put into the network; a fresh one where there is no checkpoint.

    Raises
    ------
    MitigationError
        When the file is no checkpoint of this network.
    """
    if not path.exists():
        return State()
    try:
        found = torch.load(path, weights_only=True, map_location="cpu")
        with torch.no_grad():
            for name, weight in found["weights"].items():
                trained[name].copy_(weight)
        optimizer.load_state_dict(found["optimizer"])
        curve = json.loads(found["curve"])
        best = {name: each.to(trained[name].device) for name, each in found["best"].items()}
    except Exception as error:  # whatever a damaged file makes of the reader
        raise MitigationError(
            f"{path} is no checkpoint of this training ({type(error).__name__}); delete it to begin again."
        ) from None
    return State(Curve(curve["train"], curve["held"]), best)
