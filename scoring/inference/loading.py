"""Loading: a name or a folder becomes a model that answers requests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from scoring.inference import checkpoint
from scoring.inference.model import Model
from scoring.types import ScoringError


def torch_device(device: str | None) -> torch.device:
    """The device of a name, by default the first GPU where there is one.

    Raises
    ------
    ScoringError
        When there is no such device.
    """
    has_gpu = torch.cuda.is_available()
    try:
        place = torch.device(device or ("cuda" if has_gpu else "cpu"))
    except RuntimeError:
        place = None
    if place is None or place.type not in ("cpu", "cuda", "mps", "xpu"):
        raise ScoringError(f"No device is called {device!r}; give cpu, cuda, cuda:1 …, or auto for all there are.")
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        found = f"{torch.cuda.device_count()} GPUs" if has_gpu else "no GPU"
        raise ScoringError(f"torch finds {found} here, so the device cannot be {device}; leave it out, or give cpu.")
    return place


def load(
    model: str | Path,
    *,
    revision: str | None = None,
    adapter: str | Path | None = None,
    adapter_revision: str | None = None,
    dtype: str = "auto",
    device: str | None = None,
    quantize: Literal["4bit", "8bit"] | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    device_map: str | Mapping[str, Any] | None = None,
    exact: bool = False,
) -> Model:
    """Loads a model of the Hub or of a folder, with its tokenizer and an adapter if one is given.

    Parameters
    ----------
    model, revision:
        A folder, or a name on the Hub and the branch, tag or commit of it.
    adapter, adapter_revision:
        A PEFT adapter, as a folder or a name on the Hub and the branch, tag or commit of it.
    dtype:
        A dtype of torch; ``auto`` is the checkpoint's own, but float32 for half precision on a CPU,
        where half precision is emulated. ``exact`` is float32 always.
    device:
        Where to run; the first GPU where there is one.
    quantize:
        Load weights in 4 (NF4) or 8 bits, with bitsandbytes.
    trust_remote_code:
        Run Python code that comes with the model, from a folder or a revision pinned to a commit.
    allow_pickle:
        Read weights from pickle files, which can run code as well, when there are no safetensors.
    device_map:
        How to spread the model over devices, as in accelerate (``auto``).
    exact:
        See :class:`Model`.

    Raises
    ------
    ScoringError
        For a model that is not there, is no causal or masked language model, lacks weights, or needs
        a permission that was not given.
    """
    started = time.perf_counter()
    place = torch_device(device)
    folder = checkpoint.fetched(str(model), revision, ["config.json", "adapter_config.json", "tokenizer_config.json"])
    config = checkpoint.config(folder, str(model))
    kind = checkpoint.kind(config, str(model))
    checkpoint.check_code(folder, config, str(model), revision, trusted=trust_remote_code)
    folder = checkpoint.fetched(str(model), revision, None)
    weights = checkpoint.weight_files(folder, config.get("transformers_weights"))
    checkpoint.check_pickle(weights, str(model), allowed=allow_pickle)
    numbers = checkpoint.dtype(dtype, config, place, exact=exact)
    code = {"trust_remote_code": trust_remote_code}
    network = checkpoint.network(
        folder,
        str(model),
        kind,
        use_safetensors=not allow_pickle or None,
        dtype=numbers,
        device_map=device_map or ({"": place} if quantize else None),
        quantization_config=checkpoint.quantized(quantize, numbers),
        **code,
    )
    if not (device_map or quantize):
        network = network.to(place)
    stamp, revision = "", checkpoint.identity(folder)
    if adapter is not None:
        network, stamp = checkpoint.adapted(
            network, str(adapter), adapter_revision, base=str(model), identity_of_base=revision, allowed=allow_pickle
        )
    loaded = Model(
        network,
        checkpoint.tokenizer(folder, str(model), code),
        kind=kind,
        name=str(model),
        revision=revision,
        adapter=stamp,
        exact=exact,
    )
    loaded.keep_measurements()
    loaded.stats.load_seconds = time.perf_counter() - started
    return loaded
