"""What a recipe will need, before anything is loaded: memory by the byte, checkpoints on disk, and time.

The network is built from its configuration on the device ``meta``, which has shapes and no numbers. It gets the adapter
of the recipe, and the optimizer of the recipe takes a step there. So weights, gradients and the state of the optimizer
are counted, not guessed. Activations and time follow formulas:

- Each linear map keeps its input and its output for the backward pass: tokens of a part of a step, times the inputs and
  outputs of all maps of the blocks, times the bytes of a number. With gradient checkpointing only the input of each
  block is kept, and the maps of one block at a time. The logits are kept three times in float32: as they are, as
  log-probabilities, and as their gradient. Attention is taken to keep no table of tokens by tokens.
- A multiplication and an addition for each weight and token is the forward pass. The backward pass takes as long again
  through frozen weights and twice as long where they are trained; gradient checkpointing repeats the forward pass.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from types import SimpleNamespace
from typing import Any, Literal

import torch

from mitigation.quantization import choose_quantization
from mitigation.recipe import Recipe
from mitigation.training.train import OPTIMIZERS
from mitigation.training.trainable import trainable
from scoring.adapters.attach import wrap
from scoring.adapters.feed_forward import blocks
from scoring.adapters.stamp import StampConfig
from scoring.inference import checkpoint
from scoring.inference.load_options import BUNDLED, LoadOptions

#: Tokens of a row where no setting says how many; most sentences and prompts of the data sets have fewer.
ASSUMED = 64
#: Sentences of a pair of FAST in a step: both sentences without and after a prefix, and the subject alone.
OF_PAIR = 5


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a recipe will need.

    Parameters
    ----------
    parts:
        Name to bytes: in memory, and at the end on disk. Activations are there without and with checkpointing.
    parameters, steps:
        How many are trained, in how many steps; 0 steps where the data decide.
    step_seconds:
        Seconds of a step at the measured speed.
    lines:
        The same in words.
    """

    parts: Mapping[str, int]
    parameters: int
    steps: int
    step_seconds: float
    lines: Sequence[str]


def estimate(recipe: Recipe, settings: Any, options: LoadOptions, quantize: str = "auto") -> Estimate:
    """What a recipe with these settings will need on a model, of which only the configuration is read.

    Raises
    ------
    ScoringError
        If there is no configuration of a language model, or 4 bits are asked for without bitsandbytes.
    """
    bits, _ = choose(recipe, settings, options, quantize)
    network, kind, numbers, place = empty(options)
    text, own = network.config.get_text_config(), vars(settings) if hasattr(settings, "__dict__") else {}
    parts = {"weights": in_four_bits(network) if bits else size([*network.parameters(), *network.buffers()])}
    # Two-dimensional weights multiply each token, and each of them keeps as many numbers a token as its sides have.
    sizes = [sum(sum(w.shape) for w in block.parameters() if w.dim() == 2) for _, block in blocks(network)]
    multiplied = sum(weight.numel() for weight in network.parameters() if weight.dim() == 2)
    trained, whole = added(network, kind, settings), own.get("rank") == 0
    state = optimizer_state(trained, own.get("optimizer", "adamw"))
    # A batch of 0 is chosen by the kind of model (LanguageSettings); without training states are read in batches.
    by_kind = (512 if kind == "masked" else 256) if trained else 32
    # With a divergence on ordinary text a step has a text for each pair.
    of_pair = OF_PAIR + bool(own.get("gamma"))
    rows = own.get("batch", 0) * of_pair or own.get("batch_size") or by_kind
    tokens = own.get("length") or min(ASSUMED, own.get("most_tokens", ASSUMED))
    at_once, active = min(rows, own.get("at_once", rows)), bool(own.get("gradient_checkpointing"))
    shown = ("activations", "activations with gradient checkpointing")
    if trained:
        parts |= {"adapter": 0 if whole else size(trained), "gradients": size(trained), "optimizer": size(state)}
        parts["best weights so far"] = size(trained) * bool(own.get("patience"))
        number, logits = at_once * tokens * (2 if bits else numbers.itemsize), 12 * at_once * tokens * text.vocab_size
        parts[shown[0]] = number * sum(sizes) + logits
        parts[shown[1]] = number * (len(sizes) * text.hidden_size + max(sizes)) + logits
    most = sum(value for name, value in parts.items() if name != shown[not active])
    if trained:
        parts["weights before, in the memory of the processor"] = parts["weights"] * whole
        parts["a checkpoint, on disk"] = size(trained) + size(state) + parts["best weights so far"]
        parts["the result, on disk"] = size(trained)
    passes = 1 + bool(trained) * (1 + whole + active + bool(own.get("retention")))
    seconds, steps = 2 * multiplied * rows * tokens * passes / speed(place, numbers), own.get("steps", 0)
    count = sum(weight.numel() for weight in trained)
    what = f"{count:,} trained parameters and {at_once} rows of {tokens} tokens"
    took = f", {steps:,} steps {steps * seconds / 60:,.1f} min" if steps else "; the data decide how many"
    lines = [f"{name:47}{value:>18,} bytes {value / 2**30:8.2f} GiB" for name, value in parts.items() if value]
    lines.append(f"At most {most / 2**30:.2f} GiB at once, with {what}.")
    lines.append(f"A step takes about {seconds:.3g} s on {place}{took}: an estimate, from a measured matrix product.")
    return Estimate(parts, count, steps, seconds, lines)


def choose(recipe: Recipe, settings: Any, options: LoadOptions, quantize: str) -> tuple[Literal["4bit"] | None, str]:
    """As :func:`mitigation.quantization.choose_quantization`, and ``auto`` also for a LoRA on too large a model.

    That is one whose weights need more than the free memory of the GPU.
    """
    bits, remark = choose_quantization(recipe, quantize, options.device)
    if quantize == "auto" and not bits and getattr(settings, "rank", None):
        possible, _ = choose_quantization(replace(recipe, quantized=True), "auto", options.device)
        network, *_, place = empty(options) if possible else (torch.nn.Identity(), torch.device("cpu"))
        needed = size(list(network.parameters())) / 2**30
        if possible and needed > (free := torch.cuda.mem_get_info(place)[0] / 2**30):
            remark = (
                f"The weights need {needed:.1f} GiB and {free:.1f} are free on {place}, so they are loaded in 4 bits."
            )
            return possible, remark
    return bits, remark


def empty(options: LoadOptions) -> tuple[Any, str, torch.dtype, torch.device]:
    """The network of a model on the device ``meta``, its kind, its dtype and where it would run."""
    import transformers

    name, code = str(BUNDLED.get(options.model, options.model)), {"trust_remote_code": options.trust_remote_code}
    folder = checkpoint.fetched(name, options.revision, ["config.json"])
    config = checkpoint.config(folder, name)
    kind = checkpoint.kind(config, name)
    checkpoint.check_code(folder, config, name, options.revision, trusted=options.trust_remote_code)
    place = checkpoint.torch_device(None if options.device == "auto" else options.device)
    numbers = checkpoint.dtype(options.dtype, config, place, exact=options.exact)
    cls: Any = transformers.AutoModelForCausalLM if kind == "causal" else transformers.AutoModelForMaskedLM
    with torch.device("meta"):
        made = cls.from_config(transformers.AutoConfig.from_pretrained(folder, **code), dtype=numbers, **code)
    return made, kind, numbers, place


def added(network: Any, kind: Any, settings: Any) -> list[Any]:
    """The weights that a recipe trains, in a network that gets its adapter; none for a recipe without gradients."""
    with torch.device("meta"):
        if hasattr(settings, "units"):
            units = settings.units_for(network.config.get_text_config().hidden_size)
            config = StampConfig(layer=max(settings.layer, 0), units=units, kind=kind)
            network = wrap(network, config)
        elif getattr(settings, "rank", None) is None:
            network.requires_grad_(False)
        elif settings.rank:
            model: Any = SimpleNamespace(network=network, kind=kind)
            with trainable(model, SimpleNamespace(rank=settings.rank, seed=0), settings.rank) as tuned:
                return [weight for weight in tuned.network.parameters() if weight.requires_grad]
        return [weight for weight in network.parameters() if weight.requires_grad]


def optimizer_state(trained: list[Any], name: str) -> list[torch.Tensor]:
    """The tensors that an optimizer keeps, after a step on weights that have no numbers."""
    if not trained:
        return []
    optimizer = OPTIMIZERS[name](trained, foreach=False)
    for weight in trained:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    return [tensor for state in optimizer.state.values() for tensor in state.values()]


def size(tensors: Sequence[torch.Tensor]) -> int:
    """Bytes of tensors."""
    return sum(tensor.numel() * tensor.itemsize for tensor in tensors)


def in_four_bits(network: Any) -> int:
    """Bytes of the weights and buffers with the linear maps but the head in NF4 with double quantization.

    A weight has half a byte. 64 of them share a scale of one byte, 256 scales another one of four bytes, and a map has
    tables of 16 and of 256 numbers of four bytes and an offset.
    """
    head, total = network.get_output_embeddings(), size([*network.parameters(), *network.buffers()])
    for module in network.modules():
        if isinstance(module, torch.nn.Linear) and module is not head:
            count, scales = module.weight.numel(), ceil(module.weight.numel() / 64)
            total += ceil(count / 2) + scales + 4 * ceil(scales / 256) + 4 * (16 + 256 + 1) - size([module.weight])
    return total


def speed(place: torch.device, numbers: torch.dtype) -> float:
    """Operations a second in the fastest of a few products of two square matrices on a device."""
    wide, times = 1024 if place.type == "cpu" else 8192, []
    one = torch.ones(wide, wide, dtype=numbers, device=place)
    for _ in range(4):
        start = time.perf_counter()
        float((one @ one)[0, 0])  # reading a number waits for the result
        times.append(time.perf_counter() - start)
    return 2 * wide**3 / min(times)
