"""Checkpoints in the published forms of quantized weights, each beside the same weights as plain ones.

Values are rounded to the nearest, with no calibration: what is measured is whether a form is read right, not how good
a quantization can be.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

#: The tensors of a map by the end of their names, and the map that they stand for.
Parts = tuple[Mapping[str, Tensor], Tensor]


def fp8(weight: Tensor, block: int) -> Parts:
    """Float8 values, and a scale for each square block of them."""
    rows, columns = weight.shape
    blocks = weight.float().reshape(rows // block, block, columns // block, block)
    scale = blocks.abs().amax((1, 3), keepdim=True) / 448
    values = (blocks / scale).to(torch.float8_e4m3fn)
    meant = (values.float() * scale).reshape(rows, columns)
    return {"weight": values.reshape(rows, columns), "weight_scale_inv": scale[:, 0, :, 0].contiguous()}, meant


def gptq(weight: Tensor, group: int) -> Parts:
    """Four bits of GPTQ: eight inputs in an integer, and a scale for each output and group of inputs."""
    rows, columns = weight.shape
    levels, scale = four_bits(weight, group, torch.float16)
    of_inputs = (levels + 8).T.reshape(columns // 8, 8, rows).to(torch.int64)
    integers = (of_inputs << torch.arange(0, 32, 4)[None, :, None]).sum(1)
    parts = {
        "qweight": torch.where(integers >= 2**31, integers - 2**32, integers).to(torch.int32),
        # The zero is 8, and the format keeps one less.
        "qzeros": torch.full((columns // group, rows // 8), 0x77777777, dtype=torch.int32),
        "scales": scale.T.contiguous(),
        "g_idx": (torch.arange(columns) // group).to(torch.int32),
    }
    return parts, (levels.reshape(rows, -1, group) * scale.float()[..., None]).reshape(rows, columns)


def pack_quantized(weight: Tensor, group: int) -> Parts:
    """Four bits as compressed-tensors packs them."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    rows, columns = weight.shape
    levels, scale = four_bits(weight, group, torch.bfloat16)
    parts = {
        "weight_packed": pack_to_int32(levels.to(torch.int8), 4),
        "weight_scale": scale,
        "weight_shape": torch.tensor([rows, columns]),
    }
    return parts, (levels.reshape(rows, -1, group) * scale.float()[..., None]).reshape(rows, columns)


def four_bits(weight: Tensor, group: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Levels from −8 to 7 of the shape of the map, and the scales of outputs × groups."""
    rows, columns = weight.shape
    grouped = weight.float().reshape(rows, columns // group, group)
    scale = (grouped.abs().amax(2) / 7).clamp(min=1e-6).to(dtype)
    levels = torch.clamp(torch.round(grouped / scale.float()[..., None]), -8, 7)
    return levels.reshape(rows, columns).to(torch.int32), scale


class Form(NamedTuple):
    """A published form: what it makes of a map, and what the configuration says of it for a size of blocks."""

    make: Callable[[Tensor, int], Parts]
    config: Callable[[int], dict[str, Any]]
    #: The packages that transformers needs to read it.
    packages: tuple[str, ...] = ()


def _config_of_pack_quantized(group: int) -> dict[str, Any]:
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": group}
    of_group = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
    about = {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed"}
    return {**about, "ignore": ["lm_head"], "config_groups": {"group_0": of_group}}


FORMS: Mapping[str, Form] = {
    "FP8": Form(
        fp8,
        lambda block: {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [block, block],
        },
    ),
    "GPTQ": Form(
        gptq,
        lambda group: {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": group,
            "desc_act": False,
            "sym": True,
            "checkpoint_format": "gptq",
        },
        ("optimum", "gptqmodel"),
    ),
    "compressed-tensors": Form(pack_quantized, _config_of_pack_quantized, ("compressed_tensors",)),
}


def write(folder: Path, form: Form, size: int, place: Path) -> None:
    """Writes a model folder with the maps of all layers in a form, and ``PLACE-plain`` with what they stand for."""
    beside = place.with_name(f"{place.name}-plain")
    for made in (place, beside):
        shutil.copytree(folder, made)
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Tensor] = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if not name.endswith("proj.weight"):
            tensors[name] = plain[name] = tensor
            continue
        parts, plain[name] = form.make(tensor, size)
        tensors.update({f"{name.removesuffix('weight')}{part}": value for part, value in parts.items()})
    save_file(tensors, place / "model.safetensors", {"format": "pt"})
    save_file(plain, beside / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"quantization_config": form.config(size)}))


def drop_scales(place: Path) -> None:
    """Leaves out the scales of an FP8 checkpoint, as a program does that reads the weights alone."""
    tensors = {}
    for name, tensor in load_file(place / "model.safetensors").items():
        if not name.endswith("_scale_inv"):
            tensors[name] = tensor.to(torch.bfloat16)
    save_file(tensors, place / "model.safetensors", {"format": "pt"})
    config = json.loads((place / "config.json").read_text())
    config.pop("quantization_config")
    (place / "config.json").write_text(json.dumps(config))


def save_nf4(folder: Path, place: Path) -> None:
    """Writes a folder with all maps but the head in the NF4 of bitsandbytes, as transformers saves it."""
    import transformers

    auto: Any = transformers.AutoModelForCausalLM
    settings: Any = transformers.BitsAndBytesConfig
    wanted = settings(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)
    auto.from_pretrained(folder, quantization_config=wanted, device_map="cpu").save_pretrained(place)
    for file in folder.glob("*token*"):
        shutil.copy2(file, place)
