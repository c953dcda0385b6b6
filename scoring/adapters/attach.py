"""Attaches the adapter of a folder to a network after it was checked."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from scoring.adapters.facts import CONFIG, WEIGHTS, Adapter, AdapterError, is_own, json_of, read

#: A safetensors header of this many bytes would describe about 100,000 tensors; no adapter has so many.
LONGEST_HEADER = 2**24


def attach(network: Any, folder: Path, *, base: str, revision: str) -> Any:
    """The network with the adapter of a folder, after all checks.

    An adapter without ``mitigation.json`` was made elsewhere: its base model is unknown, and only its
    configuration, its weights and their shapes are checked.

    Parameters
    ----------
    network:
        A network of transformers without an adapter.
    base, revision:
        The name of the network's model, and :func:`scoring.inference.checkpoint.identity` of its folder.

    Raises
    ------
    AdapterError
        If something does not fit; the network is then as it was.
    """
    if is_own(folder):
        check_base(read(folder), str(folder), base, revision)
    from peft import get_peft_model_state_dict

    config, shapes = peft_config(folder), tensor_shapes(folder / WEIGHTS)
    try:
        wrapped = wrap(network, config)
    except (ValueError, RuntimeError, KeyError, TypeError, MemoryError) as error:
        _unwrap(network)
        first_sentence = " ".join(str(error).split()).split(". ")[0]
        raise AdapterError(f"The adapter {folder} does not fit {base}: {first_sentence}.") from None
    expected = {name: tuple(tensor.shape) for name, tensor in get_peft_model_state_dict(wrapped).items()}
    if expected != shapes:
        wrapped.unload()
        name = min(n for n in expected.keys() | shapes.keys() if expected.get(n) != shapes.get(n))
        raise AdapterError(
            f"The adapter {folder} does not fit {base}: {name} has the shape {shapes.get(name, 'of nothing')} in the "
            f"adapter and {expected.get(name, 'of nothing')} in the model; load the model that it was made for."
        )
    wrapped.load_adapter(str(folder), "default", is_trainable=False)
    return wrapped.eval()


def check_base(adapter: Adapter, folder: str, base: str, revision: str) -> None:
    """Refuses a base model with another revision (a commit or a digest), whatever its name is.

    Raises
    ------
    AdapterError
        With both names and revisions.
    """
    if adapter.revision != revision:
        raise AdapterError(
            f"The adapter {folder} belongs to {adapter.base} at revision {adapter.revision}, and the model is {base} "
            f"at {revision}; load the model that it was made for."
        )


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Name to shape of the tensors in a safetensors file, read from its header alone.

    Raises
    ------
    AdapterError
        If the header is longer than the file or than :data:`LONGEST_HEADER`, is not JSON, or if its
        tensors do not fill the file exactly.
    """
    refusal = f"{path} is no whole safetensors file"
    try:
        with path.open("rb") as file:
            size, length = path.stat().st_size, int.from_bytes(file.read(8).ljust(8, b"\xff"), "little")
            if length > min(size - 8, LONGEST_HEADER):
                raise AdapterError(
                    f"{refusal}: its header claims {length} bytes and the file has {size}; fetch it again."
                )
            header = json.loads(file.read(length))
    except (OSError, ValueError, RecursionError) as error:
        raise AdapterError(f"{refusal} ({type(error).__name__}); fetch it again.") from None
    try:
        header.pop("__metadata__", None)
        spans = sorted(tuple(tensor["data_offsets"]) for tensor in header.values())
        shapes = {name: tuple(map(int, tensor["shape"])) for name, tensor in header.items()}
        # Each tensor must begin where the one before it ends, and the last must end with the file.
        ends = [0, *(end for _, end in spans)]
        whole = [start for start, _ in spans] == ends[:-1] and ends[-1] == size - 8 - length
    except (AttributeError, KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise AdapterError(f"{refusal}: its header describes other bytes than there are; fetch it again.")
    return shapes


def peft_config(folder: Path) -> Any:
    """The configuration of PEFT in a folder, ready for inference.

    Raises
    ------
    AdapterError
        For a method that is not registered with PEFT, and for a field that the method does not have.
    """
    from peft import PeftConfig
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    path = folder / CONFIG
    content = json_of(path)
    classes = {str(getattr(name, "value", name)): cls for name, cls in PEFT_TYPE_TO_CONFIG_MAPPING.items()}
    method = content.get("peft_type")
    if method not in classes:
        raise AdapterError(f"{path} has the method {method!r}; the ones known here are {', '.join(sorted(classes))}.")
    if unknown := sorted(content.keys() - {field.name for field in fields(classes[method])}):
        raise AdapterError(
            f"{path} has the unknown field {unknown[0]!r}; take it out, or use the version that wrote it."
        )
    if content.get("auto_mapping"):  # names of a module and of a class in it, which PEFT would import
        raise AdapterError(f"{path} asks for code of its own in auto_mapping; take the field out.")
    config = PeftConfig.from_pretrained(str(folder))
    config.inference_mode = True
    config.base_model_name_or_path = None  # PEFT warns if the name differs; the revision was checked instead
    return config


def wrap(network: Any, config: Any) -> Any:
    """:func:`peft.get_peft_model` without its warnings about renamed methods of transformers."""
    from peft import get_peft_model

    with quiet():
        return get_peft_model(network, config)


def _unwrap(network: Any) -> None:
    """Removes the layers that PEFT inserted before it failed."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, BaseTunerLayer):
                setattr(parent, name, child.get_base_layer())


@contextmanager
def quiet() -> Iterator[None]:
    """Hides the warning of transformers 5 that PEFT calls methods by their former names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*gradient_checkpointing.* is deprecated", FutureWarning)
        yield
