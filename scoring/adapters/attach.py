"""Attaches the adapter of a folder to a network after it was checked."""

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from scoring.adapters.facts import CONFIG, WEIGHTS, Adapter, AdapterError, is_own, json_of, read

#: A safetensors header of this many bytes would describe about 100,000 tensors; no adapter has so many.
LONGEST_HEADER = 2**24

#: Methods of PEFT that only add weights of the folder to a network. Others read another folder or ask the Hub.
METHODS = frozenset(
    "ADALORA BOFT C3A DELORA FAST FOURIERFT GRALORA HRA IA3 LN_TUNING LOHA LOKR LORA MISS OFT RANDLORA ROAD SHIRA "
    "TRAINABLE_TOKENS VBLORA VERA WAVEFT".split()
)
#: How the file of a stamp begins to name its method (:data:`scoring.adapters.stamp.STORED`).
_STAMP = "FAST,"
#: Fields with the name of a module or a class, which PEFT would import, or of a file, which it would unpickle.
_ELSEWHERE = ("megatron_config", "corda_config", "lora_ga_config")
#: Fields with regular expressions, and the seconds that matching them may take.
_PATTERNS = ("target_modules", "exclude_modules", "layers_pattern", "modules_to_save", "rank_pattern", "alpha_pattern")
PATTERN_SECONDS = 5.0
#: Matches each pattern with each name, as PEFT does, in a process that can be ended.
_MATCHING = """
import json, re, sys
patterns, names = json.load(sys.stdin)
for pattern in patterns:
    expression = re.compile(pattern)
    for name in names:
        expression.match(name), expression.fullmatch(name), re.match(rf"(.*\\.)?({pattern})$", name)
"""


def attach(network: Any, folder: Path, *, base: str, revision: str, content: str = "") -> Any:
    """The network with the adapter of a folder, after all checks.

    An adapter without ``mitigation.json`` was made elsewhere: its base model is unknown, and only its
    configuration, its weights and their shapes are checked.

    Parameters
    ----------
    network:
        A network of transformers without an adapter.
    base, revision:
        The name of the network's model, and :func:`scoring.inference.checkpoint.identity` of its folder.
    content:
        As in :func:`check_base`.

    Raises
    ------
    AdapterError
        If something does not fit; the network is then as it was.
    """
    if is_own(folder):
        check_base(read(folder), str(folder), base, revision, content)
    from peft import get_peft_model_state_dict

    config, shapes = peft_config(folder), tensor_shapes(folder / WEIGHTS)
    check_patterns(config, [name for name, _ in network.named_modules()], folder)
    try:
        wrapped = wrap(network, config)
    except (ValueError, RuntimeError, KeyError, TypeError, MemoryError) as error:
        _unwrap(network)
        first_sentence = " ".join(str(error).split()).split(". ")[0]
        raise AdapterError(f"The adapter {folder} does not fit {base}: {first_sentence}.") from None
    with quiet():
        weights = get_peft_model_state_dict(wrapped, save_embedding_layers=False)  # no copy of a head that is adapted
    expected = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if expected != shapes:
        wrapped.unload()
        name = min(n for n in expected.keys() | shapes.keys() if expected.get(n) != shapes.get(n))
        raise AdapterError(
            f"The adapter {folder} does not fit {base}: {name} has the shape {shapes.get(name, 'of nothing')} in the "
            f"adapter and {expected.get(name, 'of nothing')} in the model; load the model that it was made for."
        )
    with quiet():
        wrapped.load_adapter(str(folder), "default", is_trainable=False)
    return wrapped.eval()


def check_base(adapter: Adapter, folder: str, base: str, revision: str, content: str = "") -> None:
    """Refuses a base model with another revision (a commit or a digest), whatever its name is.

    A model in a folder is known by a digest of its files, which its copy on the Hub has too: ``content`` is that digest
    where ``revision`` is a commit.

    Raises
    ------
    AdapterError
        With both names and revisions.
    """
    if adapter.revision not in (revision, content):
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
            size = path.stat().st_size
            length = int.from_bytes(file.read(8).ljust(8, b"\xff"), "little")
            # A header may claim any length; without this check that much memory would be taken before it is read.
            if length > min(size - 8, LONGEST_HEADER):
                raise AdapterError(
                    f"{refusal}: its header claims {length} bytes and the file has {size}; fetch it again."
                )
            header = json.loads(file.read(length))
    except (OSError, ValueError, RecursionError) as error:
        raise AdapterError(f"{refusal} ({type(error).__name__}); fetch it again.") from None
    shapes: dict[str, tuple[int, ...]] = {}
    try:
        # Free text of the writer, and the only entry that is no tensor.
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            shapes[name] = tuple([int(number) for number in tensor["shape"]])
        spans = sorted(tuple(tensor["data_offsets"]) for tensor in header.values())
        # Each tensor must begin where the one before it ends, and the last must end with the file.
        is_whole = True
        end_before = 0
        for start, end in spans:
            is_whole = is_whole and start == end_before
            end_before = end
        is_whole = is_whole and end_before == size - 8 - length
    except (AttributeError, KeyError, TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise AdapterError(f"{refusal}: its header describes other bytes than there are; fetch it again.")
    return shapes


def peft_config(folder: Path) -> Any:
    """The configuration of PEFT in a folder, ready for inference.

    Raises
    ------
    AdapterError
        For a method that is not in :data:`METHODS`, a field that the method does not have, and a field that names
        code or files elsewhere.
    """
    from peft import PeftConfig
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    path = folder / CONFIG
    content = json_of(path)
    classes = {str(getattr(name, "value", name)): cls for name, cls in PEFT_TYPE_TO_CONFIG_MAPPING.items()}
    method = content.get("peft_type")
    supported = isinstance(method, str) and (method in METHODS or method.startswith(_STAMP)) and method in classes
    if not isinstance(method, str) or not supported:
        raise AdapterError(f"{path} has the method {method!r}; the ones known here are {', '.join(sorted(METHODS))}.")
    if unknown := sorted(content.keys() - {field.name for field in fields(classes[method])}):
        raise AdapterError(
            f"{path} has the unknown field {unknown[0]!r}; take it out, or use the version that wrote it."
        )
    elsewhere = [name for name in _ELSEWHERE if content.get(name)]
    # PEFT writes the class of a model of transformers here, and imports it only in its auto classes.
    mapping = content.get("auto_mapping") or {"parent_library": "transformers."}
    if not (isinstance(mapping, dict) and str(mapping.get("parent_library")).startswith("transformers.")):
        elsewhere.append("auto_mapping")
    if elsewhere:
        raise AdapterError(f"{path} asks for code or files elsewhere in {elsewhere[0]}; take the field out.")
    try:
        config = PeftConfig.from_pretrained(str(folder))
    except Exception as error:  # PEFT checks no type of a field
        raise AdapterError(
            f"{path} cannot be used ({' '.join(str(error).split())}); fetch the adapter again."
        ) from None
    config.inference_mode = True
    config.base_model_name_or_path = None  # PEFT warns if the name differs; the revision was checked instead
    return config


def check_patterns(config: Any, names: Sequence[str], folder: Path) -> None:
    """Refuses regular expressions that are wrong, or that take too long to match with the names of modules.

    Raises
    ------
    AdapterError
        When matching takes longer than :data:`PATTERN_SECONDS`.
    """
    patterns = []
    for field in _PATTERNS:
        texts = getattr(config, field, None) or ()
        if isinstance(texts, str):
            texts = [texts]
        for text in texts:
            # A name without special characters but dots matches at once, and needs no process.
            if re.escape(str(text)).replace(r"\.", ".") != str(text):
                patterns.append(text)
    if not patterns:
        return
    try:
        subprocess.run(
            [sys.executable, "-I", "-c", _MATCHING],
            input=json.dumps([patterns, list(names)]),
            text=True,
            check=True,
            capture_output=True,
            timeout=PATTERN_SECONDS,
        )
    except subprocess.TimeoutExpired:
        reason = f"takes longer than {PATTERN_SECONDS:g} s"
    except (subprocess.CalledProcessError, TypeError):
        reason = "is not a regular expression"
    else:
        return
    raise AdapterError(
        f"{folder / CONFIG} has an expression for the names of modules that {reason}; name the modules one by one."
    )


def wrap(network: Any, config: Any) -> Any:
    """:func:`peft.get_peft_model` without the warnings that :func:`quiet` hides."""
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
def without_remarks() -> Iterator[None]:
    """Hides what transformers logs below an error, such as that a head is new, inside the block."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)


@contextmanager
def quiet() -> Iterator[None]:
    """Hides warnings of transformers 5 and PEFT about what is meant to be so.

    PEFT calls methods of transformers by their former names. A LoRA of the vocabulary head alone leaves the weights
    that the head shares with the embedding as they are, and may have a bias where the head has none.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*gradient_checkpointing.* is deprecated", FutureWarning)
        warnings.filterwarnings("ignore", ".*tie_word_embeddings=(True|False).*")
        # PEFT's own patterns for models with experts, of maps that only some of them have.
        warnings.filterwarnings("ignore", ".*(rank|alpha)_pattern keys did not match", RuntimeWarning)
        warnings.filterwarnings("ignore", ".*targeted layer of type .* has no bias")
        warnings.filterwarnings("ignore", ".*LoRA tensor.s. have invalid shape.*bias")  # a bias has one dimension
        yield
