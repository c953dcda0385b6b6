"""The folder of a model, fetched from the Hub, and what its small files say; torch is not imported for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cards.common.text import did_you_mean
from scoring.types import ScoringError

#: Weights in formats that are not read.
UNUSED = ("*.h5", "*.msgpack", "*.onnx", "*.gguf", "*.ot", "onnx/*", "original/*", "consolidated*", "coreml/*")


NO_ADAPTER = "{!r} has no adapter_config.json; give a folder or a name of a PEFT adapter."
NO_FOLDER = "There is no folder {!r}; give a folder that is there, or a name on the Hub."
NO_DEVICE = "No device is called {!r}; give cpu, cuda, cuda:1 …, or auto for all there are."
#: The files that say whether a model may be loaded and asked; they are read before its weights are fetched.
SMALL = (
    "config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template*",
    "additional_chat_templates/*",
)


def is_device(name: str) -> bool:
    """Whether a text can name a device of torch that models run on.

    >>> is_device("cuda:1"), is_device("gpu")
    (True, False)
    """
    return re.fullmatch(r"(cpu|cuda|mps|xpu)(:\d+)?", name) is not None


def is_path(model: str) -> bool:
    """Whether a text can only be a path: no name on the Hub begins or ends like one, or has two slashes.

    >>> is_path("./gpt2"), is_path("org/name")
    (True, False)
    """
    return model.startswith((".", "/", "~")) or model.endswith("/") or model.count("/") > 1


@dataclass(frozen=True, slots=True)
class Facts:
    """What the small files of a model say: its kind, which is empty where they do not say it, and if it has a chat.

    >>> from scoring.inference.load_options import BUNDLED
    >>> facts(BUNDLED["tiny-masked"])
    Facts(kind='masked', has_chat_template=False)
    """

    kind: str
    has_chat_template: bool


def check_model(folder: Path, model: str) -> None:
    """Refuses a folder that is no model of transformers; a GGUF file is one.

    Raises
    ------
    ScoringError
        With what the folder is.
    """
    if folder.is_file() or (folder / "config.json").is_file():
        return
    if (folder / "adapter_config.json").is_file():
        named = base_of(folder)[0] or "the model it was trained for"
        raise ScoringError(f"{model!r} is an adapter; give {named}, and this as its adapter.")
    what = "has no config.json, so transformers does not know it"
    if (folder / "results.json").is_file() or any(folder.glob("*/results.json")):
        what = "has results of runs and no config.json"
    raise ScoringError(f"{model!r} {what}; give the folder of a transformers model.")


def base_of(folder: Path) -> tuple[str, str | None]:
    """The model that the adapter in a folder was trained for, and its revision; empty where the folder is no adapter.

    A merged model has a ``config.json`` as well and is scored as it is.
    """
    try:
        # A text that is too long for a path is an OSError here.
        if (folder / "config.json").is_file():
            return "", None
        config = json.loads((folder / "adapter_config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return "", None
    base = config.get("base_model_name_or_path") if isinstance(config, dict) else None
    if not isinstance(base, str):
        return "", None
    revision = config.get("revision")
    return base, revision if isinstance(revision, str) else None


def facts(folder: Path) -> Facts:
    """The facts of a model's folder; where a file is damaged nothing is excluded, and loading says what is wrong."""
    nothing_known = Facts("", has_chat_template=True)
    if folder.is_file():  # GGUF
        return nothing_known
    contents: list[dict[str, Any]] = []
    for name in ("config.json", "tokenizer_config.json"):
        try:
            content = json.loads((folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            return nothing_known
        if not isinstance(content, dict) or "auto_map" in content:  # code of the model decides
            return nothing_known
        contents.append(content)
    config, tokenizer = contents
    architectures = config.get("architectures")
    architecture = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    kind = ""
    if architecture.endswith(("ForCausalLM", "LMHeadModel")):
        kind = "causal"
    elif architecture.endswith("ForMaskedLM"):
        kind = "masked"
    has_file = any(folder.glob("chat_template*")) or any(folder.glob("additional_chat_templates/*"))
    return Facts(kind, has_chat_template=bool(tokenizer.get("chat_template")) or has_file)


def fetched(model: str, revision: str | None, only: list[str] | None, names: Iterable[str] = ()) -> Path:
    """The folder of a model: as it is, or the Hub's at a revision, downloaded where it is not there yet.

    Of a model in a GGUF file it is the file: one that is named, or the only one of a folder without a config.json. An
    error says which of the ``names`` is nearest to one that cannot be had.
    """
    with suppress(OSError):  # a text that is too long for a path
        if model and Path(model).is_dir():
            return _gguf_in(Path(model)) or Path(model)
        if Path(model).suffix == ".gguf" and Path(model).is_file():
            return Path(model)
    if is_path(model):
        raise ScoringError(NO_FOLDER.format(model))
    # The client of the Hub takes a third of a second to import.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=only, ignore_patterns=list(UNUSED)))
    except (OSError, ValueError, HfHubHTTPError) as error:
        at_revision = ""
        if revision:
            at_revision = f" at revision {revision!r}"
        raise ScoringError(
            f"{model!r}{did_you_mean(model, names)} is neither a folder nor a model that the Hub gives"
            f"{at_revision} ({first_sentence(error)}); check its name, the network and, for a gated model, the login. "
            "A model behind an API is asked with --chat-api."
        ) from None


def _gguf_in(folder: Path) -> Path | None:
    """The GGUF file of a folder that has nothing else for transformers.

    Raises
    ------
    ScoringError
        Where there are several.
    """
    if (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
        return None
    files = sorted(folder.glob("*.gguf"))
    if len(files) > 1:
        raise ScoringError(f"{folder} has {len(files)} GGUF files; name one of them, such as {files[0]}.")
    return files[0] if files else None


def first_sentence(error: BaseException) -> str:
    """What an error says first, or how much memory it asked for."""
    text = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
    # The two forms of torch, for a GPU and for a CPU.
    memory = re.search(r"[Tt]ried to allocate [\d.]+ \w+|you tried to allocate \d+ bytes", text)
    if memory:
        return memory.group(0)
    return text.split(". ")[0]
