"""Loading: a name or a folder becomes a model that answers requests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from scoring.inference import checkpoint
from scoring.inference.load_options import LoadOptions
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


def load(model: str | Path, **options: Any) -> Model:
    """Loads a model of the Hub or of a folder, with its tokenizer and an adapter if one is given.

    Parameters
    ----------
    model:
        A folder, or a name on the Hub.
    options:
        As :class:`scoring.inference.load_options.LoadOptions` has them: ``revision``, ``adapter`` and so on. Without
        a ``dtype`` it is the checkpoint's own, but float32 for half precision on a CPU, where half precision is
        emulated, and float32 with ``exact``.

    Raises
    ------
    ScoringError
        For a model that is not there, is no causal or masked language model, lacks weights, or needs
        a permission that was not given.
    """
    of = LoadOptions(str(model), **options)
    started = time.perf_counter()
    place = torch_device(of.device)
    folder = checkpoint.fetched(of.model, of.revision, ["config.json", "adapter_config.json", "tokenizer_config.json"])
    config = checkpoint.config(folder, of.model)
    kind = checkpoint.kind(config, of.model)
    checkpoint.check_code(folder, config, of.model, of.revision, trusted=of.trust_remote_code)
    folder = checkpoint.fetched(of.model, of.revision, None)
    weights = checkpoint.weight_files(folder, config.get("transformers_weights"))
    checkpoint.check_pickle(weights, of.model, allowed=of.allow_pickle)
    numbers = checkpoint.dtype(of.dtype, config, place, exact=of.exact)
    code = {"trust_remote_code": of.trust_remote_code}
    network = checkpoint.network(
        folder,
        of.model,
        kind,
        use_safetensors=not of.allow_pickle or None,
        dtype=numbers,
        device_map=of.device_map or ({"": place} if of.quantize else None),
        quantization_config=checkpoint.quantized(of.quantize, numbers),
        **code,
    )
    if not (of.device_map or of.quantize):
        network = network.to(place)
    stamp, revision = "", checkpoint.identity(folder)
    if of.adapter is not None:
        network, stamp = checkpoint.adapted(network, of, revision)
    tokenizer = checkpoint.tokenizer(folder, of.model, code)
    loaded = Model(network, tokenizer, kind, of.model, revision, stamp, exact=of.exact)
    loaded.keep_measurements()
    loaded.stats.load_seconds = time.perf_counter() - started
    return loaded
