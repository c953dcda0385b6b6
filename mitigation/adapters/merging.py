"""A whole model that equals a model with an adapter, for plain transformers and for servers.

PEFT adds what is linear to the weights. The rest is made fit before and after:

- Weights that two modules share, such as those of a vocabulary head and the embedding, are no longer shared where one
  of the modules is adapted (``tie_word_embeddings`` becomes false).
- A bias of an adapter needs a bias of the map. Where the architecture has an option for it, such as ``mlp_bias``, the
  other biases of the option are zero. That of a head without an option goes into the LayerNorm before the head.
- A stamp becomes units of the feed-forward part of its block: a(cz)/c tends to ReLU(z) for a ReLU, GELU or SiLU a, and
  c is :data:`STEEPNESS`. A gate a(cz) needs a factor 1 of the other map, which its bias gives. All blocks have one
  width, so the others have as many units of zeros.

The model is loaded from its folder and its logits are compared with those of the adapted model before it is put in
place, so what is not known here is refused.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer

from builders.files.folders import scratch_beside
from builders.parsers import read
from builders.text.embedded import DATA
from mitigation.adapters.write import MERGED, check_target, save_whole, write
from mitigation.errors import MitigationError
from scoring.adapters import attach, facts
from scoring.inference import checkpoint, fetching, load_options, measurements

#: The slope of a stamp's units, a power of two: products with it are exact.
STEEPNESS = 2.0**20
#: What the facts of a merged model name as its recipe where the adapter is one of others.
OF_OTHERS = "none of this project"
#: Statements of this project whose logits are compared.
COMPARED = 8
_NAN = float("nan")
_Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged model: its folder, the largest difference of logits from the adapted model, and what was changed.

    ``changes`` are short texts about what is more than added to the weights, such as a head that is no longer shared.
    """

    folder: Path
    difference: float
    changes: tuple[str, ...] = ()


def merge(
    model: str | Path,
    adapter: str | Path,
    *,
    out: str | Path,
    revision: str | None = None,
    dtype: load_options.Dtype = "auto",
    device: str | None = None,
) -> Merged:
    """Writes a whole model that equals a model with an adapter: one of this project, or another LoRA of PEFT.

    Parameters
    ----------
    model, revision, dtype, device:
        As in :class:`scoring.inference.load_options.LoadOptions`; the model that the adapter was made for.
    adapter:
        A folder or a name on the Hub.
    out:
        The folder of the model. A model that was merged there earlier is replaced, nothing else is.

    Raises
    ------
    MitigationError
        If the architecture has no place for a bias or a stamp, or the logits of the two models differ by more than
        rounding explains.
    ScoringError
        If the model or the adapter cannot be used.

    Examples
    --------
    >>> merge("gpt2", "fair", out="merged").difference  # doctest: +SKIP
    """
    out, folder = Path(out), fetching.fetched(str(adapter), None, None)
    check_target(out)
    options = load_options.LoadOptions(str(model), revision=revision, dtype=dtype, device=device)
    changes: list[str] = []
    if facts.is_own(folder):
        card = facts.read(folder)
        if facts.CONFIG not in card.files:
            what = "a whole model" if facts.is_whole_model(folder) else "a prompt"
            raise MitigationError(
                f"{adapter} is {what}, so there is nothing to merge; give it to probes score as it is."
            )
        loaded = options.load()
        base = {"base": loaded.name, "revision": loaded.revision, "content": loaded.content}
        adapted = attach.attach(loaded.network, folder, **base)
    else:
        loaded = replace(options, adapter=str(folder)).load()
        adapted = loaded.network
        card = facts.Adapter(
            OF_OTHERS, loaded.name, loaded.revision, loaded.dtype, {}, {}, facts.Cost(0, 0.0, 0, ""), {}
        )
        method = attach.peft_config(folder).peft_type
        changes.append(f"{adapter} was made by no recipe of this project: {getattr(method, 'value', method)} of PEFT")
    wanted, numbers, place, kind = loaded.dtype, loaded.network.dtype, loaded.device, loaded.kind
    tokenizer = loaded.tokens.tokenizer
    del loaded  # its weights, once they are written
    # Before merging, because merging changes the network in place.
    expected = logits(adapted, tokenizer)
    settings = attach.peft_config(folder)
    stamped = hasattr(settings, "units")
    with attach.quiet():
        if stamped:
            network, state, more = with_units(adapted, settings)
        else:
            network, state, more = with_weights(adapted, str(adapter))
    changes += more
    out.parent.mkdir(parents=True, exist_ok=True)
    with scratch_beside(out) as scratch:
        written = scratch / "made"
        save_whole(network, tokenizer, written, state)
        del network, state, adapted
        # Loaded from the written files, as users will: what a configuration cannot say is noticed here.
        again, _ = checkpoint.network(written, str(out), kind, dtype=numbers, use_safetensors=True)
        again = again.to(place).eval()
        merged = logits(again, tokenizer)
        apart = float((merged - expected).abs().max())
        if not measurements.difference(merged, expected) <= measurements.tolerance(numbers):
            raise MitigationError(
                f"The logits of the merged model differ from those of {model} with {adapter} by up to {apart:.2g}, "
                f"more than rounding in {wanted} explains, so its architecture ({type(again).__name__}) is not known "
                "here; use the adapter with PEFT."
            )
        measures = {**card.measures, MERGED: (apart, _NAN, _NAN)}
        write(written, replace(card, files=facts.digests(written), dtype=wanted, measures=measures), out)
    return Merged(out, apart, tuple(changes))


def logits(network: Any, tokenizer: Any) -> torch.Tensor:
    """The logits [tokens, vocabulary] of the first :data:`COMPARED` statements, in float32 on the processor."""
    texts = read.lines(DATA / "llm-1.txt")[:COMPARED]
    parts = []
    with torch.inference_mode():
        for text in texts:
            row = torch.tensor([tokenizer(text)["input_ids"]], device=network.device)
            parts.append(network(input_ids=row).logits[0].float().cpu())
    return torch.cat(parts)


def with_weights(adapted: Any, name: str) -> tuple[Any, dict[str, torch.Tensor], list[str]]:
    """The network with the adapter in its weights, the weights to be saved, and what else was changed.

    Raises
    ------
    MitigationError
        If PEFT cannot merge the adapter, or the network has no place for a bias.
    """
    base: Any = adapted.get_base_model()
    # A weight that is used twice may only be changed where the adapter is, so that use gets a copy.
    uses = Counter(id(weight) for _, weight in base.named_parameters(remove_duplicate=False))
    untied, biased = False, list[str]()
    for path, layer in base.named_modules():
        if not isinstance(layer, BaseTunerLayer):
            continue
        base_layer: Any = layer.get_base_layer()
        if uses[id(getattr(base_layer, "weight", None))] > 1:
            base_layer.weight = torch.nn.Parameter(base_layer.weight.detach().clone())
            untied = True
        # PEFT adds the bias of a LoRA to that of the map, so there has to be one.
        if any(getattr(layer, "lora_bias", {}).values()) and base_layer.bias is None:
            base_layer.bias = torch.nn.Parameter(base_layer.weight.new_zeros(base_layer.out_features))
            biased.append(path)
    try:
        network = adapted.merge_and_unload(safe_merge=True)
    except (ValueError, NotImplementedError, AttributeError) as error:
        raise MitigationError(f"PEFT cannot merge {name} ({error}); use the adapter with PEFT.") from None
    changes = []
    if untied:
        network.config.tie_word_embeddings = False
        changes.append("The vocabulary head and the word embedding have weights of their own.")
    if biased:
        changes.append(_find_place(network, biased))
    state = network.state_dict()
    if untied:  # what is still shared would not be saved under both names
        state = {key: weight.clone() for key, weight in state.items()}
    if biased:  # the other biases of an option
        for key, shape in shapes(network).items():
            if key not in state:
                state[key] = _zeros(state, shape)
    return network, state, changes


def _find_place(network: Any, biased: list[str]) -> str:
    """Has the configuration ask for biases of maps, or moves that of a head into the norm before it; says which."""
    wanted, before = {f"{path}.bias" for path in biased}, shapes(network).keys()
    for option in _options(network.config, lambda name, value: value is False and "bias" in name):
        after = shapes(network, {option: True}).keys()
        # The option must give the biases that are needed and nothing else but biases.
        if wanted <= after and all(key.endswith(".bias") for key in after - before):
            setattr(network.config, option, True)
            return f"Maps have biases ({option})."
    if len(biased) == 1 and _moved_into_norm(network, biased[0]):
        return "The bias of the vocabulary head is in the LayerNorm before it."
    raise MitigationError(
        f"{type(network).__name__} has no bias at {biased[0]}, and the adapter needs one; use the adapter with PEFT, "
        "or a recipe without a bias: inlp, sentence_debias or ablation."
    )


def _moved_into_norm(network: Any, path: str) -> bool:
    """Moves the bias b of the head that reads the last LayerNorm into both; False where that cannot be.

    The norm gives h = g n + s, and the components of n sum to zero. So for every text (1/g) h is (1/g) s, which a
    shift d = (width - (1/g) s) / (1/g)² · (1/g) of s makes equal to the width. So a head with weights
    W + (b - W d) (1/g) / width gives W h + b.
    """
    # The norm that runs last is the one before the head.
    head, ran = network.get_submodule(path), []
    with ExitStack() as hooks:
        for module in network.modules():
            if isinstance(module, torch.nn.LayerNorm):
                hooks.enter_context(module.register_forward_hook(lambda module, *_: ran.append(module)))
        with torch.inference_mode():
            network(input_ids=torch.ones(1, 4, dtype=torch.long, device=network.device))
    norm = ran[-1] if ran else None
    if network.get_output_embeddings() is not head or norm is None or norm.bias is None or not norm.weight.all():
        return False
    inverse, weight = 1 / norm.weight.detach().double(), head.weight.detach().double()
    shift = inverse * (len(inverse) - inverse @ norm.bias.detach().double()) / (inverse @ inverse)
    rest = head.bias.detach().double() - weight @ shift
    with torch.no_grad():
        norm.bias += shift
        head.weight.copy_(weight + torch.outer(rest, inverse) / len(inverse))
    head.bias = None
    return True


def with_units(adapted: Any, stamp: Any) -> tuple[Any, dict[str, torch.Tensor], list[str]]:
    """The network without its stamp, its weights with the units of the stamp, and what was changed.

    Raises
    ------
    MitigationError
        If the width of the feed-forward parts cannot be set, or a gate has no bias in its factor.
    """
    base = adapted.get_base_model()
    keys = base.get_submodule(stamp.first).fast_keys["default"].weight.detach()
    values = base.get_submodule(stamp.last).fast_values["default"].weight.detach()
    network = adapted.unload()
    block = stamp.first.rpartition(".")[0]
    size = {}
    for name, module in network.named_modules():
        if _is_map(module):
            size[name] = tuple(module.weight.shape)
    # Maps between the first and the last one of the same shape as the first are factors of a gate.
    maps = list(size)
    between = maps[maps.index(stamp.first) + 1 : maps.index(stamp.last)]
    factors = [name for name in between if name.startswith(f"{block}.") and size[name] == size[stamp.first]]
    # GPT-2 stores its weights with inputs first, torch.nn.Linear with outputs first.
    turned = type(network.get_submodule(stamp.first)) is not torch.nn.Linear
    inner = size[stamp.last][0] if turned else size[stamp.last][1]
    before, wider = shapes(network), inner + stamp.units
    changed: dict[str, Any] = {}
    # Which option is the width is found by trying: it makes the last map exactly that much wider.
    for option in _options(network.config, lambda name, value: value == inner or (value is None and "inner" in name)):
        widened = shapes(network, {option: wider})
        if widened.get(f"{stamp.last}.weight", ()) == _with_length(size[stamp.last], inner, wider):
            changed = {option: wider}
            break
    needed = {f"{name}.bias" for name in factors} - before.keys()
    more_biases = ""
    if needed:
        for option in _options(network.config, lambda name, value: value is False and "bias" in name):
            if needed <= shapes(network, {option: True}).keys():
                changed[option] = True
                more_biases = option
                needed = set()
                break
    after = shapes(network, changed)
    wide_first = _with_length(size[stamp.first], inner, wider)
    if not changed or needed or after.get(f"{stamp.first}.weight") != wide_first or after.keys() < before.keys():
        if needed:
            what = f"no bias at {min(needed)}"
        else:
            what = "no option for the width of its feed-forward parts"
        raise MitigationError(
            f"{type(network).__name__} has {what}, and a stamp of {stamp.units} units needs it to become part of the "
            "weights; use the stamp with PEFT."
        )
    if network.dtype == torch.float16:
        raise MitigationError("Units of a stamp are too steep for float16; give --dtype float32 or bfloat16.")
    state = network.state_dict()
    grown = {}
    for key, shape in after.items():
        grown[key] = _padded(state[key], shape) if key in state else _zeros(state, shape)
    into, out_of = grown[f"{stamp.first}.weight"], grown[f"{stamp.last}.weight"]
    if turned:
        # Views of the same numbers, so that what is written below is in the weights.
        into, out_of = into.T, out_of.T
    # In the limit of a steep slope GELU and SiLU are the ReLU of the stamp.
    into[inner:], out_of[:, inner:] = keys * STEEPNESS, values / STEEPNESS
    for name in factors:
        grown[f"{name}.bias"][inner:] = 1
    for option, value in changed.items():
        setattr(network.config, option, value)
    changes = [f"Each block has {stamp.units} more units, which are zero except in {block}."]
    if more_biases:
        changes.append(f"Maps have biases ({more_biases}).")
    return network, grown, changes


def _with_length(shape: tuple[int, ...], length: int, other: int) -> tuple[int, ...]:
    """A shape in which every axis of one length has another.

    >>> _with_length((128, 512), 512, 683)
    (128, 683)
    """
    return tuple(other if size == length else size for size in shape)


def shapes(network: Any, changed: Mapping[str, Any] | None = None) -> _Shapes:
    """Name to shape of the weights of a network of the same class; nothing where it refuses a changed configuration."""
    config = deepcopy(network.config)
    try:
        for option, value in (changed or {}).items():
            setattr(config, option, value)
        with torch.device("meta"), attach.without_remarks():
            return {name: tuple(weight.shape) for name, weight in type(network)(config).state_dict().items()}
    except Exception:  # whatever the code of a model raises for an impossible configuration
        return {}


def _options(config: Any, fits: Callable[[str, Any], bool]) -> Iterable[str]:
    return [name for name, value in config.to_dict().items() if fits(name, value)]


def _is_map(module: Any) -> bool:
    return getattr(module, "weight", None) is not None and module.weight.dim() == 2


def _padded(weight: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """A weight with zeros after its last row and column, up to a shape; itself where it has the shape."""
    if weight.shape == shape:
        return weight
    # The zeros before and after, which torch takes from the last axis to the first.
    ends: list[int] = []
    for target, size in zip(reversed(shape), reversed(weight.shape), strict=True):
        ends += [0, target - size]
    return torch.nn.functional.pad(weight, ends)


def _zeros(state: Mapping[str, torch.Tensor], shape: tuple[int, ...]) -> torch.Tensor:
    return next(iter(state.values())).new_zeros(shape)
