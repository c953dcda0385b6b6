"""What lies in a model's folder: fetched, checked and loaded, with one sentence for all that can be wrong."""

import importlib.util
import io
import json
import logging
import math
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto

from cards.common.files import file_sha256
from cards.common.stored import digest, parsed
from cards.hub import PATTERNS, files_digest
from scoring.adapters.attach import attach, check_patterns, peft_config, quiet, tensor_shapes, without_remarks
from scoring.adapters.facts import WEIGHTS, is_own, is_whole_model
from scoring.inference.fetching import NO_ADAPTER, NO_DEVICE, UNUSED, check_model, fetched, first_sentence, is_device
from scoring.inference.tokens import Kind
from scoring.types import ScoringError

_CAUSAL = set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
_MASKED = set(modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.values())
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SPECIAL = ("bos_token", "eos_token", "mask_token", "pad_token", "unk_token", "cls_token", "sep_token")
#: The largest numbers of a configuration by the end of their names; beyond them, building the network does not end.
_LARGEST = {"layers": 2_000, "layer": 2_000, "size": 10**8, "embd": 10**8, "inner": 10**8, "positions": 10**9,
            "embeddings": 10**9, "ctx": 10**9, "head": 10**5, "heads": 10**5, "experts": 10**5,
            "labels": 10**5}  # fmt: skip
#: Where transformers looks for weights, in its order.
_WEIGHTS = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
]
#: Files of which a tokenizer needs at least one, unless it works without a vocabulary.
_VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model",
                 "sentencepiece.bpe.model", "spm.model", "bpe.codes")  # fmt: skip
_WEIGHTS_OF_ANY = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.index.json")
#: The packages that transformers needs for weights that were quantized so, by ``quant_method``, as pip names them.
_QUANTIZERS = {
    "bitsandbytes": ("bitsandbytes",),
    "gptq": ("optimum", "gptqmodel"),
    "awq": ("gptqmodel",),
    "compressed-tensors": ("compressed-tensors",),
}
#: Parts of a checkpoint that give nothing to the log-probabilities of tokens: heads for other tasks, layers that guess
#: later tokens ahead (MTP), and towers for pictures and sound. They may be missing in the network as a whole.
_OTHER_PARTS = re.compile(
    r"pooler|seq_relationship|sop_classifier|classifier|score|qa_outputs|v_head|value_head|mtp\w*|"
    r"vision\w*|visual|audio\w*|multi_modal_projector|mm_projector"
)
#: Buffers that earlier versions of transformers wrote, and that a network computes itself.
_BUFFERS = frozenset(
    "masked_bias inv_freq original_inv_freq position_ids token_type_ids version causal_mask sin_cached cos_cached "
    "_float_tensor relative_position_index".split()
)
#: Files of a model's folder that change no answer: cards, licences, pictures, hidden files, weights of other programs.
_NOT_READ = (*UNUSED, "*.md", "LICENSE*", "NOTICE*", "*.png", "*.jpg", "*.svg", "*.pdf", ".*")


@contextmanager
def _apart(file: Path) -> Iterator[dict[str, Any]]:
    """What transformers is given to read a GGUF file: it is alone in a folder, so that nothing else is read."""
    if not importlib.util.find_spec("gguf"):
        raise ScoringError(
            f"{str(file)!r} is a GGUF file, which needs the package gguf; install it with pip install gguf."
        )
    with tempfile.TemporaryDirectory() as folder, redirect_stderr(io.StringIO()):  # the library shows its own bars
        (Path(folder) / file.name).symlink_to(file.resolve())
        yield {"pretrained_model_name_or_path": folder, "gguf_file": file.name}


def _of_gguf(file: Path) -> dict[str, Any]:
    """The configuration of a GGUF file."""
    return _config_of_gguf(file, file.stat().st_mtime_ns)


@cache
def _config_of_gguf(file: Path, _changed: int) -> dict[str, Any]:
    """The configuration of transformers for a GGUF file, with the quantization of most of its tensors.

    Raises
    ------
    ScoringError
        For a file that is broken, or of an architecture that transformers does not read from GGUF.
    """
    with _apart(file) as place:
        import gguf

        try:
            loaded: Any = transformers.AutoConfig.from_pretrained(**place)
            number = gguf.GGUFReader(file).fields["general.file_type"].contents()
            file_type = gguf.LlamaFileType(number).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        except KeyError:
            file_type = ""
        except Exception as error:  # a file that is none, or an architecture that is not known
            raise ScoringError(f"{str(file)!r} cannot be read as GGUF: {first_sentence(error)}.") from None
    content: dict[str, Any] = json.loads(loaded.to_json_string(use_diff=False))
    causal = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(loaded.model_type)
    if causal:
        content["architectures"] = [causal]
    content["quantization_config"] = {"quant_method": "gguf", "file_type": file_type}
    return content


def torch_device(device: str | None) -> torch.device:
    """The device of a name, by default the first GPU where there is one.

    Raises
    ------
    ScoringError
        When there is no such device.
    """
    has_gpu = torch.cuda.is_available()
    name = device
    if not name:
        name = "cpu"
        if has_gpu:
            name = "cuda"
    try:
        place = torch.device(name)
    except RuntimeError:
        place = None
    if place is None or not is_device(name):
        raise ScoringError(NO_DEVICE.format(device))
    if place.type == "mps" and not torch.backends.mps.is_available():
        raise ScoringError("torch has no mps here, so the device cannot be mps; leave it out, or give cpu.")
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        gpus = "no GPU"
        if has_gpu:
            gpus = f"{torch.cuda.device_count()} GPUs"
        raise ScoringError(f"torch finds {gpus} here, so the device cannot be {device}; leave it out, or give cpu.")
    return place


def config(folder: Path, model: str) -> dict[str, Any]:
    """The configuration of a model as it was saved, or of its GGUF file."""
    if folder.is_file():
        return _of_gguf(folder)
    check_model(folder, model)
    try:
        content = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(f"config.json of {model!r} is no whole JSON ({error})") from None
    if not isinstance(content, dict):
        raise damaged(f"config.json of {model!r} holds no object")
    for key, kind_ in {"architectures": list, "auto_map": dict, "model_type": str}.items():
        if not isinstance(content.get(key, kind_()), (kind_, type(None))):
            raise damaged(f"config.json of {model!r} has {type(content[key]).__name__} as {key}")
    if (folder / "adapter_config.json").is_file():
        raise ScoringError(
            f"{model!r} has an adapter_config.json beside its config.json, so transformers would load another "
            "model or apply an adapter; give a folder of the model alone, and the adapter as --adapter."
        )
    return content


def damaged(what: str) -> ScoringError:
    """The error about a file of a model that is not as it was saved."""
    return ScoringError(f"The {what}; fetch or save the model again.")


def kind(config: Mapping[str, Any], model: str) -> Kind:
    """Causal or masked, by the architecture that the checkpoint was saved with."""
    architectures = config.get("architectures")
    architecture = "model of unnamed architecture"
    if architectures:
        architecture = str(architectures[0])
    # Classes of the model's own code, by the class of transformers that loads them.
    remote = config.get("auto_map") or {}
    model_type = config.get("model_type") or ""
    if architecture in _CAUSAL or "AutoModelForCausalLM" in remote:
        return "causal"
    # A checkpoint of pretraining, such as BertForPreTraining, has several heads, one of them for masks.
    pretraining = modeling_auto.MODEL_FOR_PRETRAINING_MAPPING_NAMES.get(model_type)
    with_masks = architecture == pretraining and model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    masked = architecture in _MASKED or with_masks or "AutoModelForMaskedLM" in remote
    what = f"a {architecture}"
    if config.get("is_encoder_decoder"):
        what = "an encoder-decoder"
    elif masked:
        return "masked"
    raise ScoringError(
        f"{model!r} is {what}, which has no head for the next or a masked token; "
        f"give a causal language model such as GPT-2 or Llama, or a masked one such as BERT."
    )


def check_code(folder: Path, config: Mapping[str, Any], model: str, revision: str | None, *, trusted: bool) -> None:
    """Refuses a model whose classes come with it, unless trusted and unable to change under our feet.

    Raises
    ------
    ScoringError
        Also for code in another repository, whose revision cannot be pinned, even when trusted.
    """
    # transformers has its own code for the types that it knows, whatever the files say.
    needs_own = "auto_map" in config and config.get("model_type") not in transformers.CONFIG_MAPPING
    classes: list[str] = []
    if trusted or needs_own:
        classes += _texts(config.get("auto_map"))
        classes += _texts(json_object(folder / "tokenizer_config.json").get("auto_map"))
    # "owner/name" is an implementation on the Hub, and "owner/name--module.Class" a class of another repository.
    elsewhere = [name for name in _implementations(config) if "/" in name]
    elsewhere += [name for name in classes if "--" in name]
    if elsewhere:
        raise ScoringError(
            f"{model!r} runs Python code of another repository, {elsewhere[0]!r}, which its revision does not pin; "
            "give a model that has its code in its own repository."
        )
    if needs_own and not trusted:
        raise ScoringError(
            f"{model!r} runs Python code of its own; read that code, then allow it with --trust-remote-code "
            f"and a revision pinned to a commit."
        )
    if classes and not Path(model).is_dir() and not _COMMIT.fullmatch(revision or ""):
        raise ScoringError(
            f"{model!r} runs Python code of its own and its revision is {revision!r}; "
            f"pin it to a commit of 40 hexadecimal digits, so that the code stays the one you read."
        )


def _texts(value: Any) -> Iterator[str]:
    """All texts in nested JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _implementations(config: Mapping[str, Any]) -> Iterator[str]:
    """The implementations that a configuration names; transformers would fetch one with a slash from the Hub."""
    for key, value in config.items():
        if key.endswith("_implementation"):
            yield from _texts(value)
        elif isinstance(value, dict):
            yield from _implementations(value)


def json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty when there is none, which its user will say."""
    if not path.is_file():
        return {}
    return parsed(path.read_bytes())


def weight_files(folder: Path, named: Any = None) -> list[str]:
    """The files that transformers reads the weights of a folder from.

    Parameters
    ----------
    named:
        The ``transformers_weights`` of the configuration, if it has them.
    """
    if folder.is_file():
        return [folder.name]
    names = _WEIGHTS
    if named:
        names = [str(named)]
    for name in names:
        if not (folder / name).is_file():
            continue
        if name.endswith(".index.json"):
            # An index has the file of each tensor, and a file has many tensors.
            return sorted(set(_texts(json_object(folder / name).get("weight_map"))))
        return [name]
    return []


def check_pickle(files: Sequence[str], model: str, *, allowed: bool) -> None:
    """Refuses weights that can only be read by running what is in them, unless allowed.

    Raises
    ------
    ScoringError
        Also when there are no weights, or they are outside the folder of the model.
    """
    if not files:
        raise ScoringError(f"{model!r} has no weights; give a model with *.safetensors files.")
    for name in files:
        if Path(name).name != name or "\\" in name:
            raise ScoringError(f"{model!r} has the weights {name!r} outside its folder; fetch or save the model again.")
    pickles = [name for name in files if not name.endswith((".safetensors", ".gguf"))]
    if pickles and not allowed:
        raise ScoringError(
            f"{model!r} has its weights in pickle files ({pickles[0]}), which can run code when read; "
            f"convert them to safetensors, or allow them with --allow-pickle and a pinned revision."
        )


def dtype(dtype: str, config: Mapping[str, Any], device: torch.device, *, exact: bool) -> torch.dtype:
    """The dtype to load in: the one asked for, or the checkpoint's own with float32 for half precision on a CPU."""
    name = dtype
    if dtype == "auto":
        name = saved_dtype(config)
        if device.type == "cpu" and name in ("float16", "bfloat16"):
            name = "float32"
    if exact:
        name = "float32"
    chosen = getattr(torch, name, None)
    if not isinstance(chosen, torch.dtype) or not chosen.is_floating_point:
        raise ScoringError(f"The dtype is {dtype!r}; give auto, float32, bfloat16, float16 or float64.")
    return chosen


def saved_dtype(config: Mapping[str, Any]) -> str:
    """The dtype that a configuration states, by its present name or its former one; float32 without any."""
    # A model of texts and images states it for its text part.
    for part in (config, config.get("text_config") or {}):
        stated = part.get("dtype") or part.get("torch_dtype")
        if stated:
            return str(stated)
    return "float32"


def stored_quantization(config: Mapping[str, Any]) -> dict[str, Any]:
    """How the weights of a checkpoint are quantized, as its configuration says; empty where they are not."""
    for part in (config, config.get("text_config") or {}):
        stated = part.get("quantization_config")
        if isinstance(stated, dict) and stated:
            return stated
    return {}


def quantization_name(stored: Mapping[str, Any]) -> str:
    """A short name of a quantization: its method and bits.

    >>> quantization_name({"quant_method": "gptq", "bits": 4}), quantization_name({"quant_method": "fp8"})
    ('gptq-4bit', 'fp8')
    >>> quantization_name({"quant_method": "bitsandbytes", "load_in_4bit": True}), quantization_name({})
    ('4bit', '')
    """
    # Those of bitsandbytes have the names of --quantize.
    for bits in ("4bit", "8bit"):
        if stored.get(f"load_in_{bits}"):
            return bits
    parts = [str(stored.get("quant_method") or "")]
    if stored.get("bits"):
        parts.append(f"{stored['bits']}bit")
    elif stored.get("file_type"):
        parts.append(str(stored["file_type"]))
    return "-".join(part for part in parts if part)


def check_quantization(config: Mapping[str, Any], model: str, quantize: str | None) -> None:
    """Refuses a quantized checkpoint that this machine lacks packages for, and --quantize for one.

    Raises
    ------
    ScoringError
        With all packages that are missing.
    """
    stored = stored_quantization(config)
    if not stored:
        return
    name = quantization_name(stored)
    if quantize:
        raise ScoringError(f"The weights of {model!r} are quantized already ({name}); leave out --quantize.")
    packages = _QUANTIZERS.get(str(stored.get("quant_method")), ())
    missing = [package for package in packages if not importlib.util.find_spec(package.replace("-", "_"))]
    if missing:
        raise ScoringError(
            f"The weights of {model!r} are quantized ({name}), and reading them needs {' and '.join(missing)}; install "
            f"with pip install {' '.join(missing)}, or give the checkpoint that is not quantized."
        )


def dequantizing(stored: Mapping[str, Any], device: torch.device) -> Any:
    """What makes transformers dequantize weights while it reads them; None where it decides.

    FP8 weights are computed with on a GPU alone. Without one transformers dequantizes them itself, but not for a CPU
    beside a GPU.
    """
    if stored.get("quant_method") not in ("fp8", "mxfp8") or device.type != "cpu":
        return None
    settings: Any = transformers.FineGrainedFP8Config
    return settings(dequantize=True, modules_to_not_convert=stored.get("modules_to_not_convert"))


def quantized(quantize: str | None, dtype: torch.dtype) -> Any:
    """How bitsandbytes stores the weights: NF4 with double quantization (Dettmers et al. 2023), or LLM.int8."""
    if quantize is None:
        return None
    if quantize not in ("4bit", "8bit"):
        raise ScoringError(f"The quantization is {quantize!r}; give 4bit or 8bit, or none.")
    if not importlib.util.find_spec("bitsandbytes"):
        raise ScoringError(
            f"Weights in {quantize} need the package bitsandbytes; install it with pip install bitsandbytes."
        )
    import_bitsandbytes()
    settings: Any = transformers.BitsAndBytesConfig
    if quantize == "8bit":
        return settings(load_in_8bit=True)
    return settings(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )


@cache
def import_bitsandbytes() -> None:
    """Imports bitsandbytes without the package kernels, with which it asks the Hub for code on some processors.

    It then computes with what is installed.
    """
    if "bitsandbytes" in sys.modules or not importlib.util.find_spec("bitsandbytes"):
        return
    before = sys.modules.pop("kernels", None)
    # An import of a name that is None here fails, as that of a package that is not installed.
    sys.modules["kernels"] = None  # type: ignore[assignment]
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        importlib.import_module("bitsandbytes")
    finally:
        logging.disable(level)
        del sys.modules["kernels"]
        if before is not None:
            sys.modules["kernels"] = before


def check_packing(cls: Any, folder: Path, model: str, options: Mapping[str, Any]) -> None:
    """Refuses a model that bitsandbytes cannot run in 4 bits on this processor, before its weights are read.

    On a CPU with AVX512-BF16, bitsandbytes packs the weights of each ``Linear4bit`` when it first runs in
    inference mode: outputs in blocks of 32, inputs in blocks of 64 that share a scale
    (``bitsandbytes.functional._convert_weight_packed_for_cpu``). Other widths fail there with an assertion.
    A layer says by ``support_avx512bf16_for_cpu`` whether it will be packed. A network without weights
    (on the device ``meta``) has the same layers as the one to be loaded.

    Raises
    ------
    ScoringError
        With the first layer whose inputs or outputs cannot be divided into blocks.
    """
    settings: Any = options.get("quantization_config")
    stored = stored_quantization(json_object(folder / "config.json"))
    if stored.get("load_in_4bit"):
        from_stored: Any = transformers.BitsAndBytesConfig.from_dict
        settings = from_stored(stored)
    if settings is not None:
        import_bitsandbytes()
    if not getattr(settings, "load_in_4bit", False) or not _on_cpu(options.get("device_map")):
        return
    from transformers.quantizers.auto import AutoHfQuantizer

    code = {"trust_remote_code": options.get("trust_remote_code", False)}
    with torch.device("meta"):
        empty = cls.from_config(transformers.AutoConfig.from_pretrained(folder, **code), **code)
    quantizer: Any = AutoHfQuantizer.from_config(settings, pre_quantized=False)
    quantizer.preprocess_model(empty, device_map={"": "cpu"})
    for name, layer in empty.named_modules():
        packed = getattr(layer, "support_avx512bf16_for_cpu", False)
        if packed and (layer.out_features % 32 or layer.in_features % 64):
            raise ScoringError(
                f"{model!r} cannot run in 4 bits on this processor: its layer {name} has {layer.in_features} inputs "
                f"and {layer.out_features} outputs, and bitsandbytes needs multiples of 64 and of 32 on a processor "
                "with AVX512-BF16; load it without quantization, or use a GPU."
            )


def _on_cpu(device_map: Any) -> bool:
    """Whether a part of a network will be on the CPU; without a device, all is on a GPU where there is one."""
    places = [None]
    if isinstance(device_map, Mapping):
        places = list(device_map.values())
    for place in places:
        if place:
            if torch.device(place).type == "cpu":
                return True
        elif not torch.cuda.is_available():
            return True
    return False


def check_sizes(config: Mapping[str, Any], model: str) -> None:
    """Refuses a configuration with a number with which no network can be built in reasonable time or memory.

    Raises
    ------
    ScoringError
        With the first such number.
    """
    for key, value in config.items():
        most = _LARGEST.get(key.rpartition("_")[2], math.inf)
        if isinstance(value, dict):
            check_sizes(value, model)
        elif isinstance(value, int | float) and value > most:
            raise damaged(f"config.json of {model!r} has {value:g} as {key}, and {most:,} is the most")


def network(folder: Path, model: str, kind: Kind, **options: Any) -> tuple[Any, list[str]]:
    """The network with all of its weights, and the parts of the checkpoint that it does not need.

    Extra options go to transformers. Weights that transformers dequantizes while it reads them are all in the dtype of
    the options then.

    Raises
    ------
    ScoringError
        Also for a checkpoint with a tensor that the network should use and does not: a scale of quantized weights, a
        layer beyond the configuration.
    """
    config = json_object(folder / "config.json")
    place: AbstractContextManager[dict[str, Any]] = nullcontext({"pretrained_model_name_or_path": folder})
    if folder.is_file():
        config = _of_gguf(folder)
        place = _apart(folder)
    check_sizes(config, model)
    cls: Any = transformers.AutoModelForMaskedLM
    if kind == "causal":
        cls = transformers.AutoModelForCausalLM
    check_packing(cls, folder, model, options)
    try:
        # What does not fit is refused below with its name and shapes; transformers would print a table.
        with without_remarks(), place as named:
            network, report = cls.from_pretrained(
                **named, output_loading_info=True, ignore_mismatched_sizes=True, **options
            )
    except Exception as error:  # files of a model that are not what they should be raise anything
        for path in sorted(folder.glob("*.safetensors")):
            tensor_shapes(path)  # an error of its own names the broken file
        raise ScoringError(f"{model!r} cannot be loaded: {first_sentence(error)}.") from None
    unused, apart = _unused(network, report["unexpected_keys"])
    if unused:
        raise ScoringError(
            f"The weights of {model!r} have {len(unused)} tensors that a {type(network).__name__} of its config.json "
            f"does not use ({', '.join(_numbered(unused)[:6])}), so its answers would be those of another model; "
            f"{_advice(config, unused)}."
        )
    if report["mismatched_keys"]:
        name, stored, wanted = sorted(report["mismatched_keys"])[0]
        raise ScoringError(
            f"The weights of {model!r} have {name} in the shape {list(stored)}, and its config.json says "
            f"{list(wanted)}; give a config.json and weights that belong together."
        )
    lacking = report["missing_keys"]
    if lacking:
        # transformers would go on with random numbers in these tensors.
        names = sorted(str(name) for name in lacking)
        raise ScoringError(
            f"The weights of {model!r} lack {len(names)} tensors that it needs, first {names[0]}, and would be "
            f"filled with random numbers; give a checkpoint saved with its language-model head."
        )
    wanted_dtype = options.get("dtype")
    if stored_quantization(config) and not getattr(network, "quantization_method", None) and wanted_dtype:
        # Dequantized weights are in the dtype of the options, and those that were never quantized in the stored one.
        network = network.to(wanted_dtype)
    return network, apart


def _unused(network: Any, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Of the tensors of a checkpoint that were not loaded, those that the network should use, and the other parts.

    transformers has already left out what the classes of a model say that they ignore.
    """
    modules = dict(network.named_modules())
    config = network.config.get_text_config()
    layers = getattr(config, "num_hidden_layers", 0) or 0
    ahead = getattr(config, "num_nextn_predict_layers", 0) or 0
    unused, apart = [], set()
    for name in sorted(names):
        above, _, leaf = name.rpartition(".")
        parts = name.split(".")
        # The mask of a causal attention, from times when it was stored; a linear map has a weight beside its bias.
        is_mask = leaf == "bias" and above in modules and not hasattr(modules[above], "weight")
        if leaf in _BUFFERS or is_mask or (leaf == "weights" and "embed_positions" in parts):
            continue
        for end, part in enumerate(parts, 1):
            other = ".".join(parts[:end])
            is_ahead = part.isdigit() and parts[end - 2] == "layers" and layers <= int(part) < layers + ahead
            if other not in modules and (is_ahead or _OTHER_PARTS.fullmatch(part)):
                apart.add(other)
                break
        else:
            unused.append(name)
    return unused, sorted(apart)


def _numbered(names: Sequence[str]) -> list[str]:
    """Names that differ in their numbers alone as one.

    >>> _numbered(["layers.2.up.weight", "layers.3.up.weight", "scale"])
    ['layers.{2, 3}.up.weight', 'scale']
    """
    numbers: dict[str, list[str]] = {}
    for name in names:
        found = re.findall(r"(?<=\.)\d+(?=\.)", name)
        numbers.setdefault(re.sub(r"(?<=\.)\d+(?=\.)", "{}", name), []).append(".".join(found))
    shown = []
    for pattern, of_pattern in numbers.items():
        if len(of_pattern) == 1:
            shown.append(pattern.replace("{}", of_pattern[0], 1))
        elif pattern.count("{}") == 1:
            shown.append(pattern.replace("{}", "{" + ", ".join(of_pattern) + "}"))
        else:
            shown.append(pattern)
    return shown


def _advice(config: Mapping[str, Any], unused: Sequence[str]) -> str:
    """What can be done about tensors that are not used."""
    stored = stored_quantization(config)
    if stored:
        return f"transformers cannot read its quantization ({quantization_name(stored)}); give another checkpoint"
    if any(re.search(r"scale|absmax|zero|qweight|packed", name.rpartition(".")[2]) for name in unused):
        return "they are of quantized weights, so add the quantization_config to config.json"
    return "give the config.json that the weights were saved with"


def tokenizer(folder: Path, model: str, code: Mapping[str, bool]) -> Any:
    """The tokenizer in the folder of a model."""
    place: AbstractContextManager[dict[str, Any]] = nullcontext({"pretrained_model_name_or_path": folder})
    if folder.is_file():
        place = _apart(folder)
    try:
        with place as named:
            tokenizer = transformers.AutoTokenizer.from_pretrained(**named, **code)
        tokenizer("a")  # some faults show only now
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library of tokenizers ends in a panic, which is no Exception
        if folder.is_dir() and not any(path.name in _VOCABULARIES for path in folder.iterdir()):
            raise ScoringError(
                f"{model!r} has no file of a tokenizer, such as tokenizer.json; add those of the model to its folder."
            ) from None
        raise ScoringError(f"The tokenizer of {model!r} cannot be loaded: {first_sentence(error)}.") from None
    wrong = [name for name in _SPECIAL if not isinstance(getattr(tokenizer, name, None), str | None)]
    if not isinstance(tokenizer.model_max_length, int | float):
        wrong.append("model_max_length")
    if wrong:
        raise damaged(f"tokenizer of {model!r} has {getattr(tokenizer, wrong[0])!r:.40} as {wrong[0]}")
    return tokenizer


def tokenizer_of_adapter(network: Any, adapter: str, revision: str | None) -> Any:
    """The tokenizer of an adapter with added tokens, for which the network is resized; None for another adapter.

    PEFT's ``AutoPeftModel`` does the same: the folder of such an adapter has the tokenizer, and weights with a row for
    each of its tokens.
    """
    folder = fetched(adapter, revision, None)
    if not ((folder / "tokenizer_config.json").is_file() and (folder / WEIGHTS).is_file()):
        return None
    made = tokenizer(folder, adapter, {"trust_remote_code": False})
    is_resized = any(len(made) in shape for shape in tensor_shapes(folder / WEIGHTS).values())
    if is_resized and len(made) != len(network.get_input_embeddings().weight):
        # The rows of new tokens are those of the adapter.
        network.resize_token_embeddings(len(made), mean_resizing=False)
        return made
    return None


def adapted(
    network: Any,
    adapter: str,
    revision: str | None,
    base: str,
    identity_of_base: str,
    digest_of_base: str,
    *,
    allowed: bool,
) -> tuple[Any, str]:
    """The network with an adapter, and the adapter's name with its revision.

    An adapter that a recipe of this project made is compared with the base model that it names: by
    ``identity_of_base`` and ``digest_of_base``, the ``revision`` and ``content`` of
    :func:`scoring.adapters.attach.check_base`.
    """
    if not importlib.util.find_spec("peft"):
        raise ScoringError("An adapter needs the package peft; install it with pip install peft.")
    # PEFT imports it too.
    import_bitsandbytes()
    from peft import PeftModel

    folder = fetched(adapter, revision, None)
    if is_whole_model(folder):
        raise ScoringError(f"{adapter!r} is a whole model and no adapter; give it in place of the model.")
    if not (folder / "adapter_config.json").is_file():
        raise ScoringError(NO_ADAPTER.format(adapter))
    names = (WEIGHTS, "adapter_model.bin")
    check_pickle([name for name in names if (folder / name).is_file()][:1], adapter, allowed=allowed)
    settings = peft_config(folder)
    check_patterns(settings, [name for name, _ in network.named_modules()], folder)
    stamp = f"{adapter}@{identity(folder, adapter)}"
    if is_own(folder):
        wrapped = attach(network, folder, base=base, revision=identity_of_base, content=digest_of_base)
        return wrapped, stamp
    try:
        with quiet():
            return PeftModel.from_pretrained(network, str(folder)), stamp
    except Exception as error:  # PEFT raises errors of many types for weights that do not fit
        raise ScoringError(f"The adapter {adapter!r} does not fit the model: {first_sentence(error)}.") from None


def identity(folder: Path, name: str = "", digests: Mapping[str, str] | None = None) -> str:
    """The commit of a model that was fetched from the Hub, or the SHA-256 of its configuration, tokenizer and weights.

    Parameters
    ----------
    name:
        What the user gave. Where it is a folder, its name says nothing of its content, which is hashed.
    digests:
        Those of :func:`file_digests`, where they are known.
    """
    commit = _commit(folder, name)
    if commit:
        return commit
    if digests is None:
        digests = file_digests(folder)

    return files_digest({file: sha256 for file, sha256 in digests.items() if "/" not in file})


def content(folder: Path, name: str) -> str:
    """The commit of a model or an adapter of the Hub, and else a digest of all files that it could be read from."""
    return _commit(folder, name) or digest(file_digests(folder))


def _commit(folder: Path, name: str) -> str:
    """The commit of what was fetched from the Hub by its name; of a folder that the user gave it is empty."""
    if not name or Path(name).is_dir():
        return ""
    # The cache of the Hub has each commit as a folder: models--OWNER--NAME/snapshots/COMMIT.
    if folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name):
        return folder.name
    return ""


def file_digests(folder: Path, *, weights: bool = True) -> dict[str, str]:
    """SHA-256 of each file that a model, its code and its tokenizer could read, by its path in the folder.

    Tokenizers have files of many names (``bpe.codes``, ``spiece.model``, ``chat_template.jinja``), so all are taken but
    those that change no answer, such as a card. Without ``weights`` those of a server's tokenizer.
    """
    if folder.is_file():
        return {folder.name: file_sha256(folder)}
    names = set()
    for path in folder.iterdir():
        if path.is_file() and (_matches(path.name, PATTERNS) or not _matches(path.name, _NOT_READ)):
            names.add(path.name)
    # Weights that an index names, and the templates of a chat, may lie in folders below.
    for name in weight_files(folder):
        if (folder / name).is_file():
            names.add(name)
    for path in folder.glob("*templates/*.jinja"):
        names.add(path.relative_to(folder).as_posix())
    digests = {}
    for name in sorted(names):
        if weights or not _matches(name, _WEIGHTS_OF_ANY):
            digests[name] = file_sha256(folder / name)
    return digests


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def digest_of_tokenizer(tokenizer: Any) -> str:
    """A digest of a loaded tokenizer: of all the files that it would be saved as, or of its vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            tokenizer.save_pretrained(folder)
        except Exception:  # tokenizers of others raise anything where they cannot be saved
            return digest([type(tokenizer).__qualname__, sorted(tokenizer.get_vocab().items())])
        digests = {}
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                digests[path.relative_to(folder).as_posix()] = file_sha256(path)
        return digest(digests)
