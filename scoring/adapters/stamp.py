"""The fairness stamp: two small matrices added to the feed-forward part of one block, as a method of PEFT.

Source: *Large Language Model Bias Mitigation from the Perspective of Knowledge Editing* (FAST; Chen et al., 2024).
The output of a block's feed-forward part becomes FFN(h) + ReLU(h K'ᵀ) V', with K' and V' of shape [units, width] and no
bias. h is the input of the part's first linear map; the new term is added to the output of its last one.
So the stamp also fits blocks that compute something else around these maps.

``import mitigation`` (or ``import scoring.adapters``) registers the method with PEFT; then
``PeftModel.from_pretrained`` loads a stamp like any other adapter. Disabled or unloaded, it leaves the base
model unchanged, bit for bit. The stamp is not linear, so PEFT cannot merge it; :mod:`mitigation.adapters.merging` makes
it units of the feed-forward part.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from peft import PeftConfig
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING
from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer
from peft.utils import register_peft_method
from peft.utils.peft_types import PeftType
from torch import nn

from scoring.adapters.facts import AdapterError
from scoring.adapters.feed_forward import INPUTS, OUTPUTS, features, feed_forwards

#: ReLU(h K'ᵀ) by adapter: stored at the first map and used up at the last map of the same forward pass.
Activations = dict[str, torch.Tensor]

NAME = "FAST"
#: The method in the file of a stamp. PEFT looks it up and knows no other way to say what is missing: without the import
#: its KeyError is this text. Files of earlier versions have :data:`NAME`.
STORED = "FAST, known to PEFT after: import mitigation"


def _peft_type() -> Any:
    """The member of :class:`PeftType` for the method; added here, since PEFT cannot register new members."""
    if NAME in PeftType.__members__:
        return PeftType[NAME]
    # What EnumMeta does for each member of a class body; an Enum takes no member after it is made.
    member: Any = str.__new__(PeftType, NAME)
    member._name_ = NAME
    member._value_ = NAME
    member._sort_order_ = len(PeftType)
    type.__setattr__(PeftType, NAME, member)
    PeftType._member_names_.append(NAME)
    PeftType._member_map_[NAME] = member
    PeftType._value2member_map_[NAME] = member
    return member


@dataclass
class StampConfig(PeftConfig):
    """The configuration of a stamp.

    Parameters
    ----------
    layer:
        The number of the block, from 0.
    units:
        Rows of K' and V': 1024 in the paper; its costs for Llama-2 imply 11008.
    first, last:
        Names of the linear map whose input is h, and of the one to whose output the term is added. If
        left out, they are found by :func:`feed_forwards` and filled in when the stamp is attached.
    kind:
        Whether the model is causal or masked, for which PEFT has no task; empty where unknown.
    target_modules:
        Both names, for PEFT.
    """

    layer: int = field(default=0, metadata={"help": "number of the block, from 0"})
    units: int = field(default=1024, metadata={"help": "rows of the two matrices"})
    first: str | None = field(default=None, metadata={"help": "linear map whose input is read"})
    last: str | None = field(default=None, metadata={"help": "linear map to whose output the term is added"})
    kind: str = field(default="", metadata={"help": "causal or masked"})
    target_modules: list[str] | None = field(default=None, metadata={"help": "both maps"})

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[no-untyped-call]
        self.peft_type = PeftType[NAME]

    def to_dict(self) -> dict[str, Any]:
        """The fields as they are stored."""
        fields = super().to_dict()
        fields["peft_type"] = STORED
        return fields


class StampLayer(nn.Module, BaseTunerLayer):
    """Wraps the first or the last linear map, which is unchanged, with K' (``fast_keys``) or V' (``fast_values``)."""

    adapter_layer_names = ("fast_keys", "fast_values")

    def __init__(self, base_layer: nn.Module, activations: Activations) -> None:
        nn.Module.__init__(self)
        self.base_layer = base_layer
        self.activations = activations
        self.fast_keys = nn.ModuleDict({})
        self.fast_values = nn.ModuleDict({})
        self._disable_adapters = False
        self.merged_adapters: list[str] = []

    def add(self, name: str, matrix: nn.Linear, *, keys: bool) -> None:
        """Adds K' or V' of an adapter, in the dtype of the map, but at least in float32.

        Both are small and trained with large steps, so 16 bits would be too few.
        """
        if keys:
            self.fast_keys[name] = matrix
        else:
            self.fast_values[name] = matrix
        self._move_adapter_to_device_of_base_layer(name)
        dtype = torch.float32
        base = getattr(self.get_base_layer(), "weight", matrix.weight).dtype
        # Weights in 4 or 8 bits are integers, and then the matrices stay in float32.
        if base.is_floating_point:
            dtype = torch.promote_types(base, torch.float32)
        matrix.to(dtype)

    def forward(self, hidden: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        """The output of the map; stores ReLU(h K'ᵀ) at the first map, adds its product with V' at the last."""
        active = self.active_adapters
        if self.disable_adapters:
            active = []
        for name in active:
            if name in self.fast_keys:
                keys: Any = self.fast_keys[name]
                self.activations[name] = torch.relu(keys(hidden.to(keys.weight.dtype)))
        output: torch.Tensor = self.base_layer(hidden, *arguments, **named)
        for name in active:
            if name in self.fast_values:
                # Popped, so that no activation of one forward pass is kept, or read by the next one.
                values: Any = self.fast_values[name]
                activations = self.activations.pop(name).to(values.weight.dtype)
                output = output + values(activations).to(output.dtype)
        return output

    def merge(self, safe_merge: bool = False, adapter_names: list[str] | None = None) -> None:
        """Always raises, because a stamp is not linear."""
        del safe_merge, adapter_names
        raise AdapterError("A stamp is not linear, so PEFT cannot merge it; use probes mitigate merge.")

    def unmerge(self) -> None:
        """Does nothing: a stamp is never merged."""


class StampModel(BaseTuner):
    """The PEFT tuner that inserts stamps."""

    prefix = "fast_"
    tuner_layer_cls = StampLayer

    def _prepare_adapter_config(self, peft_config: Any, model_config: Any) -> Any:
        del model_config
        return peft_config

    def _prepare_model(self, peft_config: Any, model: nn.Module) -> None:
        """Fills in the names of the two maps if the configuration has none."""
        if not (peft_config.first and peft_config.last):
            parts = feed_forwards(model)
            if not 0 <= peft_config.layer < len(parts):
                raise AdapterError(
                    f"The layer is {peft_config.layer} and the model has {len(parts)}; give one from 0 to "
                    f"{len(parts) - 1}."
                )
            peft_config.first, peft_config.last, _ = parts[peft_config.layer]
        peft_config.target_modules = [peft_config.first, peft_config.last]
        names = {name for name, _ in model.named_modules()}
        for name in peft_config.target_modules:
            if name not in names:
                raise AdapterError(f"The model has no module {name}; load the model that the stamp was made for.")

    @staticmethod
    def _check_target_module_exists(peft_config: Any, key: str) -> bool:
        return key in (peft_config.first, peft_config.last)

    def _create_and_replace(
        self,
        peft_config: Any,
        adapter_name: str,
        target: nn.Module,
        target_name: str,
        parent: nn.Module,
        current_key: str,
        parameter_name: str | None = None,
    ) -> None:
        del parameter_name
        layer: Any = target
        # A map that another stamp has wrapped gets a further matrix in the same wrapper.
        if not isinstance(target, StampLayer):
            layer = StampLayer(target, self._activations(peft_config))
            self._replace_module(parent, target_name, layer, target)
        if current_key == peft_config.first:
            layer.add(adapter_name, _keys(layer.get_base_layer(), peft_config.units), keys=True)
        else:
            layer.add(adapter_name, _values(layer.get_base_layer(), peft_config.units), keys=False)
        layer.set_adapter(self.active_adapters)

    def _activations(self, peft_config: Any) -> Activations:
        """Those of the other wrapped map if there is one already, else new ones."""
        for name in (peft_config.first, peft_config.last):
            module = self.model.get_submodule(name)
            if isinstance(module, StampLayer):
                return module.activations
        return {}

    def _check_merge_allowed(self) -> None:
        raise AdapterError("A stamp is not linear, so PEFT cannot merge it; use probes mitigate merge.")


def _keys(base: Any, units: int) -> nn.Linear:
    """K', random with the standard deviation width^-0.5."""
    width = features(base, INPUTS)
    matrix = nn.Linear(width, units, bias=False)
    # PEFT makes layers without memory first where it loads weights into them.
    if not matrix.weight.is_meta:
        nn.init.normal_(matrix.weight, std=width**-0.5)
    return matrix


def _values(base: Any, units: int) -> nn.Linear:
    """V', zero, so that a new stamp changes nothing."""
    matrix = nn.Linear(units, features(base, OUTPUTS), bias=False)
    if not matrix.weight.is_meta:
        nn.init.zeros_(matrix.weight)
    return matrix


def register() -> None:
    """Registers the method with PEFT; a second call does nothing."""
    if _peft_type() not in PEFT_TYPE_TO_CONFIG_MAPPING:
        register_peft_method(name=NAME.lower(), config_cls=StampConfig, model_cls=StampModel)
        stored: Any = STORED
        PEFT_TYPE_TO_CONFIG_MAPPING[stored] = StampConfig


register()
