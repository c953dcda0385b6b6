"""The fairness stamp: two small matrices beside the feed-forward part of one block, as a method of PEFT.

From *Identifying and Editing Fine-Grained Fairness in LLMs* (FAST; Chen et al., 2024): the output of a
block's feed-forward part becomes FFN(h) + ReLU(h K'ᵀ) V' with K', V' of shape [units, width] and no
bias. h is read where the part's first linear map gets it, and the new term is added where its last
one gives its output. So it fits blocks that do other things around these maps.

``import mitigation`` makes the method known to PEFT, and then ``PeftModel.from_pretrained`` gives a
stamp back like any other adapter. Disabled or unloaded, the model is bit for bit the one before. It
is not linear, so it cannot be merged into the weights of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from peft import PeftConfig
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING
from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer
from peft.utils import register_peft_method
from peft.utils.peft_types import PeftType
from torch import nn

from mitigation.adapters.adapter import MitigationError
from mitigation.editing.blocks import feed_forwards

NAME = "FAST"


def _known() -> Any:
    """The name of the method among those of PEFT, which has no door for a new one."""
    if NAME in PeftType.__members__:
        return PeftType[NAME]
    member: Any = str.__new__(PeftType, NAME)
    member._name_ = member._value_ = NAME
    member._sort_order_ = len(PeftType)
    type.__setattr__(PeftType, NAME, member)
    PeftType._member_names_.append(NAME)
    PeftType._member_map_[NAME] = PeftType._value2member_map_[NAME] = member
    return member


@dataclass
class StampConfig(PeftConfig):
    """What a stamp is.

    Parameters
    ----------
    layer:
        The number of the block, from 0.
    units:
        Rows of K' and V': 1024 in the paper, whose costs for Llama-2 tell of 11008.
    first, last:
        Names of the linear maps that h is read at and the term is added to. They are found by the
        structure of the model when left out, and filled in when the stamp is put into a model.
    target_modules:
        Both names, for PEFT.
    """

    layer: int = field(default=0, metadata={"help": "number of the block, from 0"})
    units: int = field(default=1024, metadata={"help": "rows of the two matrices"})
    first: str | None = field(default=None, metadata={"help": "linear map that the input is read at"})
    last: str | None = field(default=None, metadata={"help": "linear map that the term is added to"})
    target_modules: list[str] | None = field(default=None, metadata={"help": "both maps"})

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[no-untyped-call]
        self.peft_type = PeftType[NAME]


class Wire:
    """Carries what the first map's side has computed to the last map's side, within one pass of one block."""

    def __init__(self) -> None:
        self.activated: dict[str, torch.Tensor] = {}


class StampLayer(nn.Module, BaseTunerLayer):
    """One end of stamps, around a linear map that stays as it is: ``fast_keys`` or ``fast_values`` by adapter."""

    adapter_layer_names = ("fast_keys", "fast_values")

    def __init__(self, base_layer: nn.Module, wire: Wire) -> None:
        nn.Module.__init__(self)
        self.base_layer = base_layer
        self.wire = wire
        self.fast_keys = nn.ModuleDict({})
        self.fast_values = nn.ModuleDict({})
        self._disable_adapters = False
        self.merged_adapters: list[str] = []

    def add(self, name: str, matrix: nn.Linear, *, keys: bool) -> None:
        """Puts in K' or V' of an adapter."""
        (self.fast_keys if keys else self.fast_values)[name] = matrix
        self._move_adapter_to_device_of_base_layer(name)
        matrix.float()  # small, and trained with large steps

    def forward(self, hidden: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        """What the map gives, and before it ReLU(h K'ᵀ) to the wire, or after it the term from the wire."""
        active = [] if self.disable_adapters else self.active_adapters
        for name in active:
            if name in self.fast_keys:
                self.wire.activated[name] = torch.relu(self.fast_keys[name](hidden.float()))
        output: torch.Tensor = self.base_layer(hidden, *arguments, **named)
        for name in active:
            if name in self.fast_values:
                output = output + self.fast_values[name](self.wire.activated.pop(name)).to(output.dtype)
        return output

    def merge(self, safe_merge: bool = False, adapter_names: list[str] | None = None) -> None:
        """Refuses, because a stamp is not linear."""
        del safe_merge, adapter_names
        raise MitigationError("A stamp is not linear and cannot be merged into a model; load it beside the model.")

    def unmerge(self) -> None:
        """Has nothing to do."""


class StampModel(BaseTuner):
    """A model with stamps."""

    prefix = "fast_"
    tuner_layer_cls = StampLayer

    def _prepare_adapter_config(self, peft_config: Any, model_config: Any) -> Any:
        del model_config
        return peft_config

    def _prepare_model(self, peft_config: Any, model: nn.Module) -> None:
        """Finds the two maps where the config does not name them."""
        if not (peft_config.first and peft_config.last):
            found = feed_forwards(model)
            if not 0 <= peft_config.layer < len(found):
                raise MitigationError(
                    f"The layer is {peft_config.layer} and the model has {len(found)}; give one from 0 to "
                    f"{len(found) - 1}."
                )
            peft_config.first, peft_config.last, _ = found[peft_config.layer]
        peft_config.target_modules = [peft_config.first, peft_config.last]
        names = {name for name, _ in model.named_modules()}
        for name in peft_config.target_modules:
            if name not in names:
                raise MitigationError(f"The model has no module {name}; load the model that the stamp was made for.")

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
        keys = current_key == peft_config.first
        layer: Any = target
        if not isinstance(target, StampLayer):
            layer = StampLayer(target, self._wire(peft_config))
            self._replace_module(parent, target_name, layer, target)
        layer.add(adapter_name, _matrix(layer.get_base_layer(), peft_config.units, keys=keys), keys=keys)
        layer.set_adapter(self.active_adapters)

    def _wire(self, peft_config: Any) -> Wire:
        """The one that the other end has, or a new one."""
        for name in (peft_config.first, peft_config.last):
            module = self.model.get_submodule(name)
            if isinstance(module, StampLayer):
                return module.wire
        return Wire()

    def _check_merge_allowed(self) -> None:
        raise MitigationError("A stamp is not linear and cannot be merged into a model; load it beside the model.")


def _matrix(base: Any, units: int, *, keys: bool) -> nn.Linear:
    """K' small and random or V' zero, so that a new stamp changes nothing."""
    width = _width(base, keys=keys)
    matrix = nn.Linear(width, units, bias=False) if keys else nn.Linear(units, width, bias=False)
    if not matrix.weight.is_meta:
        nn.init.normal_(matrix.weight, std=width**-0.5) if keys else nn.init.zeros_(matrix.weight)
    return matrix


def _width(base: Any, *, keys: bool) -> int:
    names = ("in_features", "nx") if keys else ("out_features", "nf")
    return int(next(getattr(base, name) for name in names if hasattr(base, name)))


def register() -> None:
    """Makes the method known to PEFT; a second time does nothing."""
    if _known() not in PEFT_TYPE_TO_CONFIG_MAPPING:
        register_peft_method(name=NAME.lower(), config_cls=StampConfig, model_cls=StampModel)


register()
