"""Attaches an adapter to a model for the length of a ``with`` block."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scoring.adapters import attach, facts
from scoring.inference import checkpoint
from scoring.inference.model import Model


@contextmanager
def attached(model: Model, folder: Path, name: str = "") -> Iterator[Model]:
    """The model with an adapter inside the block; after it, also after an exception, the model is as before.

    If the folder has a whole model instead of an adapter, it is that model.

    Parameters
    ----------
    name:
        The name of the adapter in reports; that of its folder if empty.

    Raises
    ------
    AdapterError
        As :func:`scoring.adapters.attach.attach`.
    """

    def with_network(network: Any) -> Model:
        return Model(
            network,
            model.tokens.tokenizer,
            kind=model.kind,
            name=model.name,
            revision=model.revision,
            # By its files too, so that responses with an earlier adapter are not reused.
            adapter=f"{name or folder.name}@{checkpoint.identity(folder)}",
            exact=model.exact,
            files=model.files,
        )

    # All weights are others, so there is nothing to attach.
    if facts.is_whole_model(folder):
        yield with_network(whole_network(model, folder))
        return
    wrapped = attach.attach(model.network, folder, base=model.name, revision=model.revision, content=model.content)
    try:
        yield with_network(wrapped)
    finally:
        model.network = wrapped.unload()


def whole_network(model: Model, folder: Path) -> Any:
    """The network in a folder with a whole model that was trained from ``model``, on its device and in its dtype.

    Raises
    ------
    AdapterError
        If it was trained from another model.
    """
    # The tokenizer stays that of the base model, so the vocabularies must be the same.
    attach.check_base(facts.read(folder), str(folder), model.name, model.revision, model.content)
    with attach.without_remarks():
        network = type(model.network).from_pretrained(folder, dtype=model.network.dtype, use_safetensors=True)
    return network.to(model.device).eval()
