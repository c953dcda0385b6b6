"""A model that is in memory already: of transformers or PEFT, or an engine that the user made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rich.console import Console

from scoring.asking.result import RunResult
from scoring.inference import control
from scoring.inference.engines import Call, EngineKind, is_function, name_of, score
from scoring.inference.load_options import LoadOptions
from scoring.inference.parallel import Processes
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.inference.engine import Engine
    from scoring.inference.model import Model


def score_call(call: Call, console: Console, processes: Processes) -> RunResult:
    """Scores the model, and gives it back as it was."""
    check_loaded(call.model, call.tokenizer, call.loading)

    def load() -> Engine:
        # An engine of the user answers requests itself.
        if own_engine(call.model):
            engine: Engine = call.model
            engine.answers = control.digest(engine)
            return engine
        return engine_of(call.model, call.tokenizer)

    with unchanged(call.model):
        return score(call.loading.model, load, call.settings, console, processes)


def check_loaded(model: Any, tokenizer: Any, options: LoadOptions) -> None:
    """Refuses an object that is no loaded model, one without its tokenizer, and options that say how to load one.

    Raises
    ------
    ScoringError
        In one sentence.
    """
    # An option that differs from its default was given.
    default = LoadOptions(options.model)
    for field in fields(options):
        if getattr(options, field.name) != getattr(default, field.name):
            raise ScoringError(f"{field.name} is an option of loading, and this model is loaded; leave it out.")
    if own_engine(model):
        return
    if model is None:
        raise ScoringError("No model was given; give a name, a folder, or a loaded transformers or PEFT model.")
    # A pipeline of transformers.
    if hasattr(model, "model") and hasattr(model, "tokenizer"):
        raise ScoringError(
            f"The model is a {type(model).__name__}; give what it holds: the pipeline's .model as the model, "
            "and tokenizer= its .tokenizer."
        )
    if not hasattr(model, "config") or not hasattr(model, "get_input_embeddings"):
        raise ScoringError(
            f"The model is a {type(model).__name__}; give a name, a folder, or a loaded transformers or PEFT model."
        )
    if tokenizer is None or isinstance(tokenizer, str):
        raise ScoringError("A loaded model needs its loaded tokenizer; give tokenizer=….")


def own_engine(model: Any) -> bool:
    """Whether an object is an engine that the user made (:class:`scoring.inference.engine.Engine`)."""
    return hasattr(model, "capabilities")


@contextmanager
def unchanged(model: Any) -> Iterator[None]:
    """Gives a loaded model back as it was: the mode of every module, and the generation settings."""
    bare = _bare(model)
    training = {}
    # An engine of the user has no modules.
    if hasattr(model, "modules"):
        training = {module: module.training for module in model.modules()}
    generation = getattr(bare, "generation_config", None)
    try:
        yield
    finally:
        for module, mode in training.items():
            module.training = mode
        if generation is not None:
            bare.generation_config = generation


def _bare(model: Any) -> Any:
    """The model of transformers, which a model of PEFT has around it."""
    if hasattr(model, "get_base_model"):
        return model.get_base_model()
    return model


def engine_of(model: Any, tokenizer: Any) -> Model:
    """A loaded transformers or PEFT model as an engine, after :func:`check_loaded`."""
    from scoring.inference import checkpoint
    from scoring.inference.model import Model

    bare = _bare(model)
    classes = {"architectures": [type(bare).__name__], "model_type": bare.config.model_type}
    kind = checkpoint.kind(classes, name_of(model))
    adapters = ""
    # Models of transformers without an adapter have active_adapters too, as a method.
    if hasattr(model, "peft_config"):
        adapters = ", ".join(getattr(model, "active_adapters", None) or ())
    files = checkpoint.digest_of_tokenizer(tokenizer)
    engine = Model(model, tokenizer, kind, name_of(model), _digest(model), adapters, files=files)
    if _is_plain(model):
        engine.keep_measurements()
    # A disabled or scaled adapter, a hook and a buffer change answers, and no weight.
    engine.answers = control.digest(engine)
    return engine


def _is_plain(model: Any) -> bool:
    """Whether all that a model computes follows from its weights and configuration: no code of the user is in it.

    Only then do measurements of an earlier call hold for it.
    """
    for module in model.modules():
        changed = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
        if changed or type(module).__module__.split(".")[0] not in ("torch", "transformers"):
            return False
    return True


def _digest(model: Any) -> str:
    """The weights as they are in memory, by a hash: stored responses of other weights must not be taken."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        # As bytes, because numpy has no bfloat16.
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return f"in memory, weights sha256:{digest.hexdigest()[:16]}"


ENGINE = EngineKind(
    lambda call: call.in_memory and not is_function(call.model), lambda call: call.loading.model, score_call
)
