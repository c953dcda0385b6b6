"""An adapter's folder becomes a part of a model, after everything about it has been checked, and leaves no trace."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mitigation.adapters.adapter import CONFIG, FACTS, WEIGHTS, Adapter, MitigationError, check_fields, json_of, read

if TYPE_CHECKING:
    from scoring.inference.model import Model

#: A header this long would describe a hundred thousand tensors; no adapter needs one.
LONGEST_HEADER = 2**24


def tensors(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors in a safetensors file, by its header alone.

    Raises
    ------
    MitigationError
        When the header is longer than the file or than any adapter needs, is no header, or describes
        other bytes than there are.
    """
    spoilt = f"{path} is no whole safetensors file"
    try:
        with path.open("rb") as file:
            size, length = path.stat().st_size, int.from_bytes(file.read(8).ljust(8, b"\xff"), "little")
            if length > min(size - 8, LONGEST_HEADER):
                raise MitigationError(
                    f"{spoilt}: its header claims {length} bytes and the file has {size}; fetch it again."
                )
            header = json.loads(file.read(length))
    except (OSError, ValueError, RecursionError) as error:
        raise MitigationError(f"{spoilt} ({type(error).__name__}); fetch it again.") from None
    try:
        header.pop("__metadata__", None)
        spans = sorted(tuple(each["data_offsets"]) for each in header.values())
        shapes = {name: tuple(map(int, each["shape"])) for name, each in header.items()}
        ends = [0, *(end for _, end in spans)]
        whole = [start for start, _ in spans] == ends[:-1] and ends[-1] == size - 8 - length
    except (AttributeError, KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise MitigationError(f"{spoilt}: its header describes other bytes than there are; fetch it again.")
    return shapes


def check_base(adapter: Adapter, folder: str, base: str, revision: str) -> None:
    """Refuses a base model other than the adapter's, whatever its name: revisions are commits or digests.

    Raises
    ------
    MitigationError
        With both names and revisions.
    """
    if adapter.revision != revision:
        raise MitigationError(
            f"The adapter {folder} belongs to {adapter.base} at revision {adapter.revision}, and the model is {base} "
            f"at {revision}; load the model that it was made for."
        )


def ours(folder: Path) -> bool:
    """Whether a folder is an adapter that this project made."""
    return (folder / FACTS).is_file()


def attach(network: Any, folder: Path, *, base: str, revision: str) -> Any:
    """The network with the adapter of a folder, after everything about it has been checked.

    An adapter without ``mitigation.json`` was not made here: its base model is not known, all else is
    checked all the same.

    Parameters
    ----------
    network:
        A network of transformers without an adapter.
    base, revision:
        The name of the network's model, and :func:`scoring.inference.checkpoint.identity` of its folder.

    Raises
    ------
    MitigationError
        When something does not fit; the network is as it was.
    """
    if ours(folder):
        check_base(read(folder), str(folder), base, revision)
    from peft import get_peft_model_state_dict

    config, shapes = peft_config(folder), tensors(folder / WEIGHTS)
    try:
        wrapped = beside(network, config)
    except (ValueError, RuntimeError, KeyError, TypeError, MemoryError) as error:
        _unwrap(network)
        raise MitigationError(f"The adapter {folder} does not fit {base}: {_first(error)}.") from None
    wanted = {name: tuple(each.shape) for name, each in get_peft_model_state_dict(wrapped).items()}
    if wanted != shapes:
        wrapped.unload()
        name = min(n for n in wanted.keys() | shapes.keys() if wanted.get(n) != shapes.get(n))
        raise MitigationError(
            f"The adapter {folder} does not fit {base}: {name} has the shape {shapes.get(name, 'of nothing')} in the "
            f"adapter and {wanted.get(name, 'of nothing')} in the model; load the model that it was made for."
        )
    wrapped.load_adapter(str(folder), "default", is_trainable=False)
    return wrapped.eval()


def _unwrap(network: Any) -> None:
    """Takes out what PEFT had put in before it failed."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, BaseTunerLayer):
                setattr(parent, name, child.get_base_layer())


def beside(network: Any, config: Any) -> Any:
    """:func:`peft.get_peft_model`, quietly."""
    from peft import get_peft_model

    with quiet():
        return get_peft_model(network, config)


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps to itself that transformers 5 has new names for what older ones need, and PEFT requests by the old ones."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*gradient_checkpointing.* is deprecated", FutureWarning)
        yield


def _first(error: Exception) -> str:
    return " ".join(str(error).split()).split(". ")[0]


def peft_config(folder: Path) -> Any:
    """The configuration of PEFT in a folder, read strictly.

    Raises
    ------
    MitigationError
        For a method that PEFT does not have here, and for a field that the method does not have.
    """
    from peft import PeftConfig
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    path = folder / CONFIG
    found = json_of(path)
    kinds = {str(getattr(name, "value", name)): kind for name, kind in PEFT_TYPE_TO_CONFIG_MAPPING.items()}
    method = found.get("peft_type")
    if method not in kinds:
        raise MitigationError(f"{path} has the method {method!r}; the ones known here are {', '.join(sorted(kinds))}.")
    check_fields(kinds[method], found, str(path))
    # Names of a module and of a class in it: code to be imported.
    if found.get("auto_mapping"):
        raise MitigationError(f"{path} asks for code of its own in auto_mapping; take the field out.")
    config = PeftConfig.from_pretrained(str(folder))
    config.inference_mode = True
    config.base_model_name_or_path = None  # PEFT warns of any other name, and the base was checked
    return config


@contextmanager
def attached(model: Model, folder: Path, name: str = "") -> Iterator[Model]:
    """The model with an adapter for as long as the block lasts; afterwards, come what may, it is as it was.

    The adapter is called by its folder, or by ``name``.

    Raises
    ------
    MitigationError
        As :func:`attach`.
    """
    from scoring.inference import checkpoint
    from scoring.inference.model import Model

    wrapped = attach(model.network, folder, base=model.name, revision=model.revision)
    stamp = f"{name or folder.name}@{checkpoint.identity(folder)}"
    try:
        yield Model(
            wrapped,
            model.tokens.tokenizer,
            kind=model.kind,
            name=model.name,
            revision=model.revision,
            adapter=stamp,
            exact=model.exact,
        )
    finally:
        model.network = wrapped.unload()
