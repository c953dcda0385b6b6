"""Attaches an adapter to a model for the length of a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scoring.adapters.attach import attach

if TYPE_CHECKING:
    from scoring.inference.model import Model


@contextmanager
def attached(model: Model, folder: Path, name: str = "") -> Iterator[Model]:
    """The model with an adapter inside the block; after it, also after an exception, the model is as before.

    Parameters
    ----------
    name:
        The name of the adapter in reports; that of its folder if empty.

    Raises
    ------
    AdapterError
        As :func:`scoring.adapters.attach.attach`.
    """
    from scoring.inference import checkpoint
    from scoring.inference.model import Model

    wrapped = attach(model.network, folder, base=model.name, revision=model.revision)
    try:
        yield Model(
            wrapped,
            model.tokens.tokenizer,
            kind=model.kind,
            name=model.name,
            revision=model.revision,
            adapter=f"{name or folder.name}@{checkpoint.identity(folder)}",
            exact=model.exact,
        )
    finally:
        model.network = wrapped.unload()
