"""Weights in 4 bits: whether a recipe uses them, and how they are loaded so that gradients are right."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from mitigation.recipe import MitigationError, Model, Recipe

if TYPE_CHECKING:
    from scoring.inference.load_options import LoadOptions


def choose_quantization(recipe: Recipe, quantize: str, device: str | None) -> tuple[Literal["4bit"] | None, str]:
    """Whether to load weights in 4 bits, and a remark for the user if that may be unexpected.

    Parameters
    ----------
    quantize:
        ``4bit``, ``none``, or ``auto``: 4 bits if the recipe uses them, and a GPU and bitsandbytes are available.
    device:
        As in :class:`scoring.inference.load_options.LoadOptions`.

    Raises
    ------
    MitigationError
        For ``4bit`` without bitsandbytes.
    """
    if quantize == "none" or (quantize == "auto" and not recipe.quantized):
        return None, ""
    import torch

    gpu = torch.cuda.is_available() and not (device or "").startswith("cpu")
    # The package is looked for and not imported, which takes seconds.
    package = importlib.util.find_spec("bitsandbytes") is not None
    missing = []
    if not gpu:
        missing.append("a GPU")
    if not package:
        missing.append("the package bitsandbytes (pip install bitsandbytes)")
    needs = " and ".join(missing)
    if quantize == "auto":
        if missing:
            remark = f"Weights in 4 bits (QLoRA) need {needs}; this command trains plain LoRA on unquantized weights."
            return None, remark
        return "4bit", ""
    if not package:
        raise MitigationError(
            f"Weights in 4 bits need {needs}; or give --quantize none to train with weights in float32, which suits "
            "small models."
        )
    return "4bit", "" if gpu else "There is no GPU, so weights in 4 bits are computed on the CPU, which is slow."


def load_for_training(options: LoadOptions) -> Model:
    """The model, loaded so that gradients pass through weights in 4 bits on every processor."""
    if options.quantize != "4bit":
        return options.load()
    with _unpacked():
        return options.load()


@contextmanager
def _unpacked() -> Iterator[None]:
    """Makes bitsandbytes build layers that do not pack their weights on a CPU with AVX512-BF16.

    A packed layer computes with ``gemv_4bit``, which has no backward pass: gradients through it are
    silently lost. (Measured with bitsandbytes 0.50 on a Llama of three blocks: the gradient in the first
    block is 80 times too small.) Each layer asks ``has_avx512bf16`` once, when it is built. Unpacked
    layers take any width and give the same numbers on every processor.
    """
    modules: Any = importlib.import_module("bitsandbytes.nn.modules")
    # The function is looked up in this module when a layer is built.
    original = getattr(modules, "has_avx512bf16", None)
    if original is None:  # a version without packing
        yield
        return
    modules.has_avx512bf16 = lambda: False
    try:
        yield
    finally:
        modules.has_avx512bf16 = original
