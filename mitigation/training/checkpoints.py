"""The state of a training in one file, from which an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from cards.files import replacing
from mitigation.errors import MitigationError
from mitigation.training.data import TrainingData
from scoring.inference.model import Model

#: A zip archive ends in the length of its comment and the comment; torch writes none.
_NO_COMMENT = b"\0\0"


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
        """The number of validations after the one with the lowest loss."""
        losses = [terms["loss"] for terms in self.curve.held]
        return len(losses) - 1 - int(np.argmin(losses)) if losses else 0


def checkpoint_path(name: str, model: Model, settings: Any, data: TrainingData, out: Path) -> Path:
    """The file of a training's state, next to ``out``; its name depends on model, settings and data."""
    key = [model.revision, model.dtype, asdict(settings), data.versions]
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return out.parent / f"{name}-{digest}.pt"


class _Hashed:
    """A file that is hashed as it is written: a second copy of what a large model trains would not fit in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest, self.flush = file, hashlib.sha256(), file.flush

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self.file.write(data)


def save(
    path: Path, trained: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer, state: TrainingState
) -> None:
    """Writes weights, optimizer and state to a file in one step; the comment of the zip archive is its checksum."""
    content = {
        "weights": {name: weight.detach() for name, weight in trained.items()},
        "optimizer": optimizer.state_dict(),
        "curve": json.dumps(asdict(state.curve)),
        "best": dict(state.best),
    }
    with replacing(path) as file:
        hashed: Any = _Hashed(file)
        torch.save(content, hashed)
        checksum = hashed.digest.hexdigest().encode()
        file.seek(-len(_NO_COMMENT), os.SEEK_END)
        file.write(len(checksum).to_bytes(2, "little") + checksum)


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
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            with memoryview(mapped)[:-66] as archive:
                digest = hashlib.sha256(archive)
            digest.update(_NO_COMMENT)
            if digest.hexdigest().encode() != mapped[-64:]:
                raise ValueError("its checksum is not that of its content")
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
