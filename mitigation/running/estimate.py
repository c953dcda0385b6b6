"""What a recipe will need, before anything is loaded: memory by the byte, checkpoints on disk, and time.

The network is built from its configuration on the device ``meta``, which has shapes and no numbers. It gets the adapter
of the recipe, and the optimizer of the recipe takes a step there. So weights, gradients and the state of the optimizer
are counted, not guessed. For activations and time:

- Activations are the tensors that autograd keeps in a forward pass of one row on that device, times the rows that are
  computed at once. With gradient checkpointing only the input of each block is kept, and the tensors of one block at a
  time. The logits are kept three times in float32: as they are, as log-probabilities, and as their gradient. Recipes
  with pairs compute the head at few tokens, and keep :data:`OF_PLACE` distributions for each.
- A multiplication and an addition for each weight and token is the forward pass. The backward pass takes as long again
  through frozen weights and twice as long where they are trained; gradient checkpointing repeats the forward pass.

The same count decides how a model is loaded for training (:func:`plan_loading`): in 4 bits or not, and with or without
gradient checkpointing.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from types import SimpleNamespace
from typing import Any, Literal

import torch
import transformers

from mitigation.editing.settings import PairSettings
from mitigation.recipe import MitigationError, Recipe, TrainingData, trains_all_weights
from mitigation.running.quantization import choose_quantization
from mitigation.training import train, trainable
from scoring.adapters import attach, feed_forward, stamp
from scoring.inference import checkpoint, fetching
from scoring.inference.load_options import BUNDLED, LoadOptions

#: Tokens of a row where no setting says how many; most sentences and prompts of the data sets have fewer.
ASSUMED = 64
#: Tensors of the size of a distribution that are in memory for each place where an edit compares two: logits and
#: log-probabilities of both networks, what the divergence keeps for the backward pass, and the gradient.
OF_PLACE = 6
#: Names of the two counts of activations; only one of them is in memory at a time.
ACTIVATIONS = "activations"
CHECKPOINTED = "activations with gradient checkpointing"
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a recipe will need.

    Parameters
    ----------
    parts:
        Name to bytes: in memory, and at the end on disk. Activations are there without and with checkpointing.
    most:
        Bytes that are in the memory of the device at once, at most.
    parameters, steps:
        How many are trained, in how many steps; 0 steps where the data decide.
    step_seconds:
        Seconds of a step at the measured speed.
    lines:
        The same in words.
    """

    parts: Mapping[str, int]
    most: int
    parameters: int
    steps: int
    step_seconds: float
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Empty:
    """A network on the device ``meta``, its kind, the dtype of its weights, and the device where it would run."""

    network: Any
    kind: Literal["causal", "masked"]
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class Batch:
    """How many rows a step has, how many of them are computed at once, and the tokens of a row.

    ``logits`` is the number of distributions over the vocabulary that are in memory at once.
    """

    rows: int
    at_once: int
    tokens: int
    logits: int


@dataclass(frozen=True, slots=True)
class Count:
    """The bytes that a recipe needs, as :class:`Estimate` has them, and what they were counted for."""

    parts: Mapping[str, int]
    most: int
    trained: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How a model is loaded for a recipe.

    Parameters
    ----------
    quantize:
        ``4bit``, or None for weights as they are.
    dtype:
        The dtype to load in, as :class:`scoring.inference.load_options.LoadOptions` has it.
    settings:
        The settings of the recipe, with gradient checkpointing where the memory needs it.
    remarks:
        One sentence for each thing that the user did not ask for.
    """

    quantize: Literal["4bit"] | None
    dtype: Any
    settings: Any
    remarks: Sequence[str]


def estimate(
    recipe: Recipe, settings: Any, options: LoadOptions, quantize: str = "auto", data: TrainingData | None = None
) -> Estimate:
    """What a recipe with these settings will need on a model; only the configuration of the model is read.

    Parameters
    ----------
    quantize:
        As in :func:`mitigation.running.quantization.choose_quantization`.
    data:
        Built data sets. A recipe that makes passes over its rows has a number of steps only with them.

    Raises
    ------
    ScoringError
        If there is no configuration of a language model, or 4 bits are asked for without bitsandbytes.

    Examples
    --------
    >>> from mitigation.recipes import get
    >>> dpo = get("dpo")
    >>> estimate(dpo, dpo.profiles["clean"], LoadOptions("tiny-causal", device="cpu")).parameters
    154624
    """
    plan = plan_loading(recipe, settings, options, quantize)
    settings = plan.settings
    options = replace(options, dtype=plan.dtype)
    empty = empty_network(options)
    counted = count(recipe, settings, empty, plan.quantize)
    steps = number_of_steps(recipe, settings, data)
    seconds = operations(recipe, settings, empty, counted) / speed(empty.device, empty.dtype)
    lines = []
    for name, value in counted.parts.items():
        if value:
            lines.append(f"{name:47}{value:>18,} bytes {value / GIB:8.2f} GiB")
    lines.append(
        f"At most {counted.most / GIB:.2f} GiB at once, with {counted.trained:,} trained parameters and "
        f"{counted.batch.at_once} rows of {counted.batch.tokens} tokens."
    )
    lines += plan.remarks
    duration = "; the data decide how many"
    if steps:
        duration = f", {steps:,} steps {steps * seconds / 60:,.1f} min"
    lines.append(
        f"A step takes about {seconds:.3g} s on {empty.device}{duration}: an estimate, from a measured matrix product."
    )
    return Estimate(counted.parts, counted.most, counted.trained, steps, seconds, lines)


def plan_loading(recipe: Recipe, settings: Any, options: LoadOptions, quantize: str) -> LoadPlan:
    """How to load a model for a recipe, so that all that is needed at once fits the free memory of the GPU.

    What does not fit as it is gets gradient checkpointing first, which changes no result, and then weights in 4 bits,
    if the recipe trains a LoRA and ``quantize`` is ``auto``. A training of all weights is in float32 unless a dtype is
    given. With mixed precision in bfloat16, weights in 4 bits of a float16 checkpoint are loaded as bfloat16: else
    every block adds numbers of both and keeps a result in float32.

    Raises
    ------
    MitigationError
        For ``4bit`` without bitsandbytes.
    ScoringError
        If there is no configuration of a language model.
    """
    bits, remark = choose_quantization(recipe, quantize, options.device)
    remarks = []
    if remark:
        remarks.append(remark)
    dtype: Any = options.dtype  # the names of LoadOptions
    if dtype == "auto" and trains_all_weights(recipe, settings):
        if empty_network(options).dtype != torch.float32:
            dtype = "float32"
            remarks.append(f"{recipe.name} trains all weights, so they are loaded in float32.")
        options = replace(options, dtype=dtype)
    device = checkpoint.torch_device(None if options.device == "auto" else options.device)
    if device.type == "cuda":
        free = int(torch.cuda.mem_get_info(device)[0])
        possible = quantize == "auto" and not bits and bool(getattr(settings, "rank", None))
        if possible:
            possible = choose_quantization(replace(recipe, quantized=True), "auto", options.device)[0] == "4bit"
        bits, settings, more = fitting(recipe, settings, options, free, bits, four_bits_possible=possible)
        remarks += more
    mixed = bool(bits) and dtype == "auto" and precision(settings, device) == "bf16"
    if mixed and empty_network(options).dtype == torch.float16:
        dtype = "bfloat16"
        remarks.append("The checkpoint is in float16 and mixed precision in bfloat16, so it is loaded as bfloat16.")
    return LoadPlan(bits, dtype, settings, remarks)


def fitting(
    recipe: Recipe,
    settings: Any,
    options: LoadOptions,
    free: int,
    bits: Literal["4bit"] | None,
    *,
    four_bits_possible: bool,
) -> tuple[Literal["4bit"] | None, Any, list[str]]:
    """The first way of loading whose memory at once is at most ``free`` bytes; the smallest one where none fits.

    Returns
    -------
    tuple
        Whether in 4 bits, the settings, and a sentence for each thing that had to change.
    """
    empty = empty_network(options)
    needed = count(recipe, settings, empty, bits).most
    if needed <= free:
        return bits, settings, []
    need = f"{needed / GIB:.1f} GiB are needed at once and {free / GIB:.1f} are free on {empty.device}"
    checkpointed = settings
    if getattr(settings, "gradient_checkpointing", None) is False:
        checkpointed = replace(settings, gradient_checkpointing=True)
        if count(recipe, checkpointed, empty, bits).most <= free:
            return bits, checkpointed, [f"{need}, so activations are computed twice (gradient checkpointing)."]
    if not four_bits_possible:
        if bits and checkpointed is not settings:
            return bits, checkpointed, [f"{need}, so activations are computed twice (gradient checkpointing)."]
        return bits, settings, [f"{need}; this may not fit."]
    if count(recipe, settings, empty, "4bit").most <= free or checkpointed is settings:
        return "4bit", settings, [f"{need}, so the weights are loaded in 4 bits."]
    sentence = f"{need}, so the weights are loaded in 4 bits, and activations are computed twice."
    return "4bit", checkpointed, [sentence]


def count(recipe: Recipe, settings: Any, empty: Empty, bits: Literal["4bit"] | None) -> Count:
    """The bytes that a recipe needs in memory and on disk, by name, and how many parameters it trains."""
    network = empty.network
    weights = in_four_bits(network) if bits else size_of_network(network)
    parts = {"weights": weights}
    batch = batch_of(settings, empty.kind, trains=recipe.memory is not None or trains_something(settings))
    if recipe.memory is not None:
        # A recipe that learns something of its own says what it keeps.
        special = recipe.memory(network, settings)
        parts |= special.parts
        parts |= activations(recipe, settings, empty, batch)
        most = sum(parts.values()) - parts[CHECKPOINTED]
        # In float32, as PEFT saves a LoRA of matrices that were computed.
        parts["the result, on disk"] = weights if recipe.all_weights else 4 * special.trained
        return Count(parts, most, special.trained, batch)
    trained = added(recipe, empty, settings)
    if not trained:
        return Count(parts, weights, 0, batch)
    state = optimizer_state(trained, getattr(settings, "optimizer", "adamw"))
    whole = trains_all_weights(recipe, settings)
    parts["adapter"] = 0 if whole else size(trained)
    parts["gradients"] = size(trained)
    parts["optimizer"] = size(state)
    guarded = getattr(settings, "most_change", 0)
    parts["best weights so far"] = size(trained) if getattr(settings, "patience", 0) or guarded else 0
    if guarded:
        # Before and now, and what a logarithm of them needs.
        places = trainable.ORDINARY * trainable.LONGEST
        parts["distributions of ordinary text"] = 3 * 4 * places * network.config.get_text_config().vocab_size
    parts |= activations(recipe, settings, empty, batch)
    # Only one of the two counts of activations is needed at a time.
    not_active = ACTIVATIONS if getattr(settings, "gradient_checkpointing", False) else CHECKPOINTED
    most = sum(value for name, value in parts.items() if name != not_active)
    parts["weights before, in the memory of the processor"] = weights if whole else 0
    parts["a checkpoint, on disk"] = size(trained) + size(state) + parts["best weights so far"]
    parts["the result, on disk"] = size(trained)
    return Count(parts, most, sum(weight.numel() for weight in trained), batch)


def trains_something(settings: Any) -> bool:
    """Whether a recipe computes gradients of weights of a network."""
    return hasattr(settings, "units") or getattr(settings, "rank", None) is not None


def batch_of(settings: Any, kind: str, *, trains: bool) -> Batch:
    """The size of a step of a recipe with these settings."""
    # A batch of 0 is chosen by the kind of model (LanguageSettings); without training states are read in batches.
    # States are read in batches of this size.
    by_kind = 32
    if trains:
        by_kind = 512 if kind == "masked" else 256
    if isinstance(settings, PairSettings):
        per_pair, places = settings.rows_of_pair(), settings.places_of_pair()
        pairs = min(settings.batch, settings.at_once)
        length = settings.tokens_of_row() or ASSUMED
        return Batch(settings.batch * per_pair, pairs * per_pair, length, OF_PLACE * pairs * places)
    rows = getattr(settings, "batch_size", 0) or by_kind
    at_once = min(rows, getattr(settings, "at_once", rows))
    # A length is a row that is filled; the other limit is rarely reached by a sentence.
    tokens = getattr(settings, "length", 0) or min(ASSUMED, getattr(settings, "most_tokens", ASSUMED))
    # As they are, as log-probabilities and as their gradient; some losses read a few tokens of each row.
    return Batch(rows, at_once, tokens, 3 * at_once * (getattr(settings, "read", 0) or tokens))


def activations(recipe: Recipe, settings: Any, empty: Empty, batch: Batch) -> dict[str, int]:
    """Bytes of the activations of a step without and with gradient checkpointing.

    Tensors that autograd keeps are counted in a forward pass of one row on the device ``meta``. Where that pass depends
    on numbers, as in a mixture of experts, each linear map is taken to keep its input and its output, twice: in 129
    small networks where both can be counted, the median of what is kept is 1.8 times that.
    """
    network = empty.network
    text = network.config.get_text_config()
    number_of_blocks = len(feed_forward.blocks(network))
    # Autocast computes the adapter in the same dtype as the base; without it, PEFT computes a LoRA in float32.
    dtype = torch.bfloat16 if precision(settings, empty.device) == "bf16" else None
    try:
        with torch.device("meta"), adapted(recipe, empty, settings) as tuned:
            kept = batch.at_once * kept_for_backward(tuned, batch.tokens, dtype)
    except Exception:  # the code of an architecture can raise anything without numbers
        sides = 0
        for _, block in feed_forward.blocks(network):
            sides += sum(sum(weight.shape) for weight in block.parameters() if weight.dim() == 2)
        kept = 2 * batch.at_once * batch.tokens * empty.dtype.itemsize * sides
    tokens = batch.at_once * batch.tokens
    logits = 4 * batch.logits * text.vocab_size
    # With checkpointing only the input of each block is kept.
    inputs_of_blocks = number_of_blocks * tokens * text.hidden_size * empty.dtype.itemsize
    return {
        ACTIVATIONS: kept + logits,
        CHECKPOINTED: inputs_of_blocks + ceil(kept / number_of_blocks) + logits,
    }


def kept_for_backward(network: Any, tokens: int, dtype: torch.dtype | None) -> int:
    """Bytes of the tensors that the forward pass of a row on the device ``meta`` keeps, besides the weights.

    Parameters
    ----------
    dtype:
        The dtype that all weights are computed in; None for the dtype that each has.
    """
    if dtype is not None:
        network.to(dtype)
    weights = set()
    for tensors in (network.parameters(), network.buffers()):
        weights |= {tensor.untyped_storage()._cdata for tensor in tensors}
    kept: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage  # kept, so that no later storage has the same address
        return tensor

    network.config.pad_token_id = None  # transformers would look for padding among the numbers, which are not there
    network.train()
    row = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network(input_ids=row)
    network.eval()
    return sum(storage.nbytes() for storage in kept.values())


def precision(settings: Any, device: torch.device) -> str:
    """The mixed precision of a recipe on a device: ``no`` or ``bf16``."""
    precision_on = getattr(settings, "precision", None)
    if precision_on is None:
        return "no"
    return str(precision_on(device))


def number_of_steps(recipe: Recipe, settings: Any, data: TrainingData | None) -> int:
    """The steps of a training; 0 where only the data can say and they are not built."""
    if recipe.steps is not None:
        if data is None:
            return 0
        return recipe.steps(settings, data)
    return int(getattr(settings, "steps", 0))


def operations(recipe: Recipe, settings: Any, empty: Empty, counted: Count) -> float:
    """Multiplications and additions of a step."""
    # Only matrices count; vectors of norms and biases are small in comparison.
    multiplied: int = sum(weight.numel() for weight in empty.network.parameters() if weight.dim() == 2)
    # The forward pass counts one, and each of the following as long again.
    passes = 1
    if counted.trained:
        passes += 1
        if trains_all_weights(recipe, settings):
            passes += 1
        if getattr(settings, "gradient_checkpointing", False):
            passes += 1
        if getattr(settings, "retention", 0):
            passes += 1
    return 2.0 * multiplied * counted.batch.rows * counted.batch.tokens * passes


def empty_network(options: LoadOptions) -> Empty:
    """The network of a model on the device ``meta``; only its configuration is read."""
    name = str(BUNDLED.get(options.model, options.model))
    code = {"trust_remote_code": options.trust_remote_code}
    folder = fetching.fetched(name, options.revision, ["config.json"])
    if folder.is_file():
        raise MitigationError(f"{name!r} is a GGUF file, and recipes change plain weights; give a folder of the model.")
    config = checkpoint.config(folder, name)
    # Before any code of the model runs, its kind and whether its code may run are known.
    kind = checkpoint.kind(config, name)
    checkpoint.check_code(folder, config, name, options.revision, trusted=options.trust_remote_code)
    device = checkpoint.torch_device(None if options.device == "auto" else options.device)
    dtype = checkpoint.dtype(options.dtype, config, device, exact=options.exact)
    cls: Any = transformers.AutoModelForCausalLM if kind == "causal" else transformers.AutoModelForMaskedLM
    with torch.device("meta"):
        network = cls.from_config(transformers.AutoConfig.from_pretrained(folder, **code), dtype=dtype, **code)
    return Empty(network, kind, dtype, device)


@contextmanager
def adapted(recipe: Recipe, empty: Empty, settings: Any) -> Iterator[Any]:
    """The network with the adapter of a recipe, whose weights require gradients; without it after the block."""
    network = empty.network
    if trains_all_weights(recipe, settings):
        yield network.requires_grad_(True)
    elif hasattr(settings, "units"):
        units = settings.units_for(network.config.get_text_config().hidden_size)
        # Which block is not known before it is located, and all blocks have the same size.
        config = stamp.StampConfig(layer=max(settings.layer, 0), units=units, kind=empty.kind)
        stamped = attach.wrap(network, config)
        yield stamped
        stamped.unload()
    else:
        # The context of a training needs no more of a model than these two.
        model: Any = SimpleNamespace(network=network, kind=empty.kind)
        with trainable.trainable(model, SimpleNamespace(rank=settings.rank, seed=0), settings.rank) as tuned:
            yield tuned.network


def added(recipe: Recipe, empty: Empty, settings: Any) -> list[Any]:
    """The weights that a recipe trains, in a network that gets its adapter; none for a recipe without gradients."""
    if not trains_something(settings):
        return []
    with torch.device("meta"), adapted(recipe, empty, settings) as network:
        return [weight for weight in network.parameters() if weight.requires_grad]


def optimizer_state(trained: list[Any], name: str) -> list[torch.Tensor]:
    """The tensors that an optimizer keeps, after a step on weights that have no numbers."""
    if not trained:
        return []
    # The state is the same whether weights are updated one by one or together.
    optimizer = train.OPTIMIZERS[name](trained, foreach=False)
    for weight in trained:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    tensors = []
    for state in optimizer.state.values():
        tensors.extend(state.values())
    for weight in trained:
        weight.grad = None
    return tensors


def size(tensors: Sequence[torch.Tensor]) -> int:
    """Bytes of tensors."""
    return sum(tensor.numel() * tensor.itemsize for tensor in tensors)


def size_of_network(network: Any) -> int:
    """Bytes of the weights and buffers of a network as they are."""
    return size(list(network.parameters())) + size(list(network.buffers()))


def in_four_bits(network: Any) -> int:
    """Bytes of the weights and buffers with the linear maps but the head in NF4 with double quantization.

    A weight has half a byte. 64 of them share a scale of one byte, 256 scales another one of four bytes, and a map has
    tables of 16 and of 256 numbers of four bytes and an offset.
    """
    head = network.get_output_embeddings()
    total = size_of_network(network)
    for module in network.modules():
        if not isinstance(module, torch.nn.Linear) or module is head:
            continue
        weights = module.weight.numel()
        scales = ceil(weights / 64)
        total -= size([module.weight])
        total += ceil(weights / 2) + scales + 4 * ceil(scales / 256)
        total += 4 * (16 + 256 + 1)
    return total


def speed(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second in the fastest of a few products of two square matrices on a device."""
    width = 1024 if device.type == "cpu" else 8192
    # Large enough that the product and not the start of a kernel is measured.
    matrix = torch.ones(width, width, dtype=dtype, device=device)
    times = []
    # The first product also loads libraries, so the fastest one counts.
    for _ in range(4):
        start = time.perf_counter()
        float((matrix @ matrix)[0, 0])  # reading a number waits for the result
        times.append(time.perf_counter() - start)
    return float(2 * width**3 / min(times))
