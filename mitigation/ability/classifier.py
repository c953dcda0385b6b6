"""A model with a head for classes in place of its vocabulary head, with an adapter of its language model.

An adapter stays active while the model is fine-tuned: its weights are kept, and those of the model are trained. For a
LoRA this is the same as merging it first. A projection of the last hidden state, which is a LoRA on the map that reads
that state, is put before the new head instead, as bias-bench does for INLP and SentenceDebias.
"""

import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from mitigation.errors import MitigationError
from scoring.adapters.facts import PROMPT, digests, is_whole_model
from scoring.inference import checkpoint
from scoring.inference.load_options import BUNDLED, LoadOptions
from scoring.inference.model import Model

#: The relative difference up to which a change of the head's outputs is that of a change of its input.
_SAME = 1e-4


class Effect(StrEnum):
    """Where an adapter is in a model with a new head; the values are sentences for results."""

    NONE = "There is no adapter."
    WHOLE = "The trained model is fine-tuned in place of the unchanged one."
    INSIDE = "The adapter is active while the model is fine-tuned; its own weights are not trained."
    PROJECTION = "The adapter is a projection of the last hidden state, and is applied before the new head."
    HEAD = "The adapter changes only the vocabulary head, which GLUE replaces, so GLUE is unchanged by construction."


@dataclass(frozen=True, slots=True)
class StateChange:
    """The change h + left (right h) + shift of a hidden state h; [width, rank], [rank, width] and [width]."""

    left: torch.Tensor
    right: torch.Tensor
    shift: torch.Tensor

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states [..., width] after the change."""
        left, right, shift = (part.to(hidden) for part in (self.left, self.right, self.shift))
        return hidden + hidden @ right.T @ left.T + shift


class Classifiers:
    """Makes models with a new head from a language model and at most one adapter.

    Parameters
    ----------
    options:
        How to load the language model, without its adapter.
    adapter:
        The folder of an adapter, or None.

    Attributes
    ----------
    name, digest:
        The name of the adapter and a digest of its files, without its facts; empty without an adapter.
    files:
        The digest of all files of the model and its tokenizer.
    effect:
        Where the adapter is.
    tokenizer, window:
        For texts of the language model.

    Raises
    ------
    MitigationError
        For a prompt, which changes no weights.
    AdapterError
        For an adapter that does not fit the model.
    """

    def __init__(self, options: LoadOptions, adapter: Path | None = None) -> None:
        if adapter and (adapter / PROMPT).is_file():
            raise MitigationError(
                f"{adapter} is a prompt, and GLUE fine-tunes weights, which a prompt does not change; its GLUE is that "
                "of the model without it."
            )
        self.options = options
        self.name = adapter.resolve().name if adapter else ""
        self.digest = str(sorted(digests(adapter).items())) if adapter else ""
        self.effect = Effect.NONE
        self._inside: Any = None
        self._projection: StateChange | None = None
        model = self.load()
        self.kind, self.revision, self.device = model.kind, model.revision, model.device
        self.files = model.files
        self.tokenizer, self.window = _tokenizer(model), model.tokens.window
        if adapter:
            self._attach(model, adapter)

    def load(self) -> Model:
        """The language model without adapter, in float32."""
        return replace(self.options, dtype="float32").load()

    def _attach(self, model: Model, adapter: Path) -> None:
        from peft.tuners.tuners_utils import BaseTunerLayer

        from mitigation.adapters.temporary import whole_network
        from scoring.adapters.attach import attach

        if is_whole_model(adapter):
            # A whole model has no adapter that could be attached.
            self.effect, self._inside = Effect.WHOLE, whole_network(model, adapter).base_model
            return
        # Its name is needed below to distinguish a projection from a change of the head.
        reader = _reading_map(model)  # before a layer is inserted
        network = attach(model.network, adapter, base=model.name, revision=model.revision).get_base_model()
        changed = [name for name, module in network.named_modules() if isinstance(module, BaseTunerLayer)]
        if any(name.startswith(f"{network.base_model_prefix}.") for name in changed):
            self.effect, self._inside = Effect.INSIDE, network.base_model
            return
        self._projection = _projection(network.get_submodule(changed[0])) if changed == [reader] else None
        self.effect = Effect.PROJECTION if self._projection else Effect.HEAD

    def make(self, classes: int, seed: int) -> Any:
        """The network with a new head of ``classes`` outputs; the same seed gives the same head."""
        import transformers

        from scoring.adapters.attach import without_remarks

        options, name = self.options, str(BUNDLED.get(self.options.model, self.options.model))
        code = {"trust_remote_code": options.trust_remote_code}
        folder = checkpoint.fetched(name, options.revision, None)
        kind = "regression" if classes == 1 else "single_label_classification"
        auto: Any = transformers.AutoModelForSequenceClassification
        # The new head is drawn when the network is made.
        transformers.set_seed(seed)
        try:
            with without_remarks():
                network = auto.from_pretrained(
                    folder,
                    num_labels=classes,
                    problem_type=kind,
                    pad_token_id=self.tokenizer.pad_token_id,
                    dtype=torch.float32,
                    use_safetensors=not options.allow_pickle or None,
                    **code,
                )
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            raise MitigationError(
                f"{options.model} has no form with a head for classes in transformers "
                f"({checkpoint.first_sentence(error)}); give another model."
            ) from None
        if self._inside is not None:
            _put_inside(network, copy.deepcopy(self._inside))
        if self._projection is not None:
            _project(network, self._projection)
        return network.to(self.device)


def _tokenizer(model: Model) -> Any:
    """A copy of the tokenizer that pads on the right, with a token for it."""
    # A copy, because the model is scored with its own padding.
    tokenizer = copy.deepcopy(model.tokens.tokenizer)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(model.tokens.pad)
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    return tokenizer


def _reading_map(model: Model) -> str:
    """The name of the map that reads the last hidden state; empty where there is not exactly one."""
    from mitigation.projections.states import reading_map

    try:
        return reading_map(model)[0]
    except MitigationError:
        return ""


def _projection(layer: Any) -> StateChange | None:
    """The change of a map's input that has the effect of the LoRA on it; None if there is none.

    The map computes W h + b, and the LoRA adds B A h + c. With B = W L and c = W s that is the map of h + L A h + s.
    """
    (name,) = layer.active_adapters
    if name not in getattr(layer, "lora_A", ()) or name in getattr(layer, "lora_variant", ()):
        return None  # another method, or a variant with more than B A
    b = layer.lora_B[name]
    weight = layer.get_base_layer().weight.detach().double().cpu()
    down = b.weight.detach().double().cpu() * layer.scaling[name]
    bias = torch.zeros(len(down)) if b.bias is None else b.bias.detach().cpu() * layer.scaling[name]
    # Both equations have the same left side, so the bias is one more column.
    wanted = torch.cat([down, bias.double()[:, None]], dim=1)
    # The least-squares solution of W L = B, which is exact where the LoRA is a projection.
    solution = torch.linalg.lstsq(weight, wanted, driver="gelsd").solution
    if torch.linalg.norm(weight @ solution - wanted) > _SAME * torch.linalg.norm(wanted):
        return None
    return StateChange(solution[:, :-1], layer.lora_A[name].weight.detach(), solution[:, -1])


def _put_inside(network: Any, inside: Any) -> None:
    """Puts the body of a language model, with its adapter, in place of the network's own.

    What only the network's own body has, such as the pooler of BERT, is kept.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, child in network.base_model.named_children():
        if getattr(inside, name, None) is None:
            setattr(inside, name, child)
    # transformers finds the body of a network under this name.
    setattr(network, network.base_model_prefix, inside)
    layers: list[Any] = [module for module in inside.modules() if isinstance(module, BaseTunerLayer)]
    network.requires_grad_(True)
    for layer in layers:
        layer.requires_grad_(False)
        for part in layer.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0  # of the training of the adapter
    for layer in layers:
        layer.get_base_layer().requires_grad_(True)


def _project(network: Any, projection: StateChange) -> None:
    """Changes the last hidden state wherever it is read: by a pooler, and after the body."""
    pooler = getattr(network.base_model, "pooler", None)
    if pooler is not None:
        pooler.register_forward_pre_hook(lambda _, given: (projection(given[0]), *given[1:]))

    def change(_: Any, __: Any, output: Any) -> Any:
        output.last_hidden_state = projection(output.last_hidden_state)
        return output

    network.base_model.register_forward_hook(change)
