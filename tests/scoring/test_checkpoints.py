"""Checkpoints as they are published: quantized ones are computed right or refused, and no tensor is left out unsaid."""

import importlib.util
import json
import os

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from scoring.asking.answering import key
from scoring.inference import checkpoint
from scoring.inference.load_options import load
from scoring.inference.model import Model
from scoring.inputs.prompts import get
from scoring.types import Option, Request, ScoringError
from tests.scoring import families
from tests.scoring.models import network, tokenizer

REQUESTS = [Request(job, f"The {job} said that", (Option(" she was very happy."),)) for job in ("nurse", "farmer")]
#: Widths in blocks of 128, as published FP8 checkpoints have them.
SHAPE = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 2, "num_key_value_heads": 2}
FP8 = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}
GPTQ = {"bits": 4, "group_size": 128, "quant_method": "gptq", "desc_act": False, "sym": True}
AWQ = {"bits": 4, "group_size": 128, "quant_method": "awq", "zero_point": True, "version": "gemm"}
PACKED = {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"]}


def saved(folder, **shape):
    """A folder with a Llama in bfloat16."""
    text = tokenizer("llama")
    ids = {"bos_token_id": text.bos_token_id, "eos_token_id": text.eos_token_id, "pad_token_id": text.pad_token_id}
    settings = {"vocab_size": len(text), "num_hidden_layers": 2, "initializer_range": 0.1, **ids, **SHAPE, **shape}
    torch.manual_seed(0)
    made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings)).to(torch.bfloat16)
    made.save_pretrained(folder)
    text.save_pretrained(folder)
    return folder


def change(folder, replace, **config):
    """Replaces each linear map of the blocks by what ``replace`` makes of it, and sets the configuration."""
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name.endswith("proj.weight"):
            tensors |= replace(name.removesuffix(".weight"), tensor.float())
        else:
            tensors[name] = tensor
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(whole, folder / "model.safetensors", {"format": "pt"})
    configure(folder, **config)
    return folder


def configure(folder, **config):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))


def to_fp8(name, weight):
    """A weight in FP8 and the scale of each block of 128 by 128, as DeepSeek-V3 and Qwen3 publish them."""
    rows, columns = weight.shape
    blocks = weight.reshape(rows // 128, 128, columns // 128, 128)
    scales = blocks.abs().amax((1, 3), keepdim=True) / 448
    narrow = (blocks / scales).reshape(rows, columns).to(torch.float8_e4m3fn)
    return {f"{name}.weight": narrow, f"{name}.weight_scale_inv": scales[:, 0, :, 0]}


def from_fp8(name, weight):
    """The same weight as a plain tensor of float32, block by block."""
    made = to_fp8(name, weight)
    plain = made[f"{name}.weight"].float()
    for row, scales in enumerate(made[f"{name}.weight_scale_inv"]):
        for column, scale in enumerate(scales):
            plain[128 * row : 128 * row + 128, 128 * column : 128 * column + 128] *= scale
    return {f"{name}.weight": plain}


def to_gptq(name, weight):
    """Tensors in the names and shapes of GPTQ; their numbers are never read."""
    outputs, inputs = weight.shape
    return {
        f"{name}.qweight": torch.zeros(inputs // 8, outputs, dtype=torch.int32),
        f"{name}.qzeros": torch.zeros(inputs // 128, outputs // 8, dtype=torch.int32),
        f"{name}.scales": torch.ones(inputs // 128, outputs, dtype=torch.float16),
    }


def to_packed(name, weight):
    """A weight in FP8 with a scale a row, as compressed-tensors stores it."""
    scales = weight.abs().amax(1, keepdim=True) / 448
    return {f"{name}.weight": (weight / scales).to(torch.float8_e4m3fn), f"{name}.weight_scale": scales.bfloat16()}


def answers(folder, **options):
    return [sum(response.logprobs[0]) for response in load(folder, device="cpu", **options).answer(REQUESTS)]


def test_an_fp8_checkpoint_answers_as_its_dequantized_weights(tmp_path):
    fp8 = change(saved(tmp_path / "fp8"), to_fp8, quantization_config=FP8)
    plain = change(saved(tmp_path / "plain"), from_fp8)
    assert answers(fp8) == pytest.approx(answers(plain), abs=1e-4)
    made = load(fp8, device="cpu")
    assert made.dtype == "float32-fp8"
    assert {parameter.dtype for parameter in made.network.parameters()} == {torch.float32}
    assert made.environment["quantization of the checkpoint"]["weight_block_size"] == "[128, 128]"
    assert made.environment["computed with"] == "weights dequantized to float32"
    # A part of the key of stored answers, which no answer of other weights has.
    assert key(made, get("plain"))["dtype"] == "float32-fp8"


def test_a_checkpoint_that_bitsandbytes_saved_answers_as_before_it_was_saved(tmp_path):
    pytest.importorskip("bitsandbytes", reason="weights in 4 bits need bitsandbytes")
    plain = saved(tmp_path / "plain")
    settings = {"quantization_config": checkpoint.quantized("4bit", torch.float32), "device_map": {"": "cpu"}}
    # Saved before it has answered: on some processors bitsandbytes packs the weights then.
    transformers.AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32, **settings).save_pretrained(
        tmp_path / "nf4"
    )
    made = load(plain, quantize="4bit", device="cpu")
    tokenizer("llama").save_pretrained(tmp_path / "nf4")
    again = load(tmp_path / "nf4", device="cpu")
    assert again.dtype == made.dtype == "float32-4bit"
    assert again.environment["computed with"] == "quantized weights"
    assert answers(tmp_path / "nf4") == pytest.approx(answers(plain, quantize="4bit"), abs=1e-4)
    assert answers(tmp_path / "nf4") != pytest.approx(answers(plain), abs=1e-3)
    with pytest.raises(ScoringError, match=r"are quantized already \(4bit\); leave out --quantize"):
        load(tmp_path / "nf4", device="cpu", quantize="8bit")


@pytest.mark.parametrize(
    ("settings", "replace", "packages"),
    [
        (GPTQ, to_gptq, "optimum and gptqmodel"),
        (AWQ, to_gptq, "gptqmodel"),
        (PACKED, to_packed, "compressed-tensors"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, to_packed, "bitsandbytes"),
    ],
)
def test_a_quantization_whose_packages_are_missing_is_refused_by_their_names(
    tmp_path, monkeypatch, settings, replace, packages
):
    folder = change(saved(tmp_path / "m"), replace, quantization_config=settings)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ScoringError, match=f"and reading them needs {packages}; install with pip install"):
        load(folder, device="cpu")


@pytest.mark.parametrize(
    ("replace", "named"),
    [
        (to_fp8, "model.layers.{0, 1}.mlp.down_proj.weight_scale_inv"),
        (to_gptq, "model.layers.{0, 1}.mlp.down_proj.qweight"),
        (to_packed, "model.layers.{0, 1}.mlp.down_proj.weight_scale"),
    ],
)
def test_scales_that_the_configuration_says_nothing_of_are_refused_by_name(tmp_path, replace, named):
    folder = change(saved(tmp_path / "m"), replace)
    with pytest.raises(ScoringError) as error:
        load(folder, device="cpu")
    assert named in str(error.value)
    assert "they are of quantized weights, so add the quantization_config to config.json" in str(error.value)


def test_layers_beyond_the_configuration_are_refused_by_name(tmp_path):
    folder = saved(tmp_path / "m", num_hidden_layers=4)
    configure(folder, num_hidden_layers=2)
    with pytest.raises(ScoringError) as error:
        load(folder, device="cpu")
    said = str(error.value)
    assert "18 tensors that a LlamaForCausalLM of its config.json does not use" in said
    assert "model.layers.{2, 3}.input_layernorm.weight" in said
    assert "give the config.json that the weights were saved with" in said


def test_a_bias_that_no_layer_adds_is_refused_by_name(tmp_path):
    folder = saved(tmp_path / "m", attention_bias=True)
    configure(folder, attention_bias=False)
    with pytest.raises(ScoringError, match=r"8 tensors .*model\.layers\.\{0, 1\}\.self_attn\.k_proj\.bias"):
        load(folder, device="cpu")


def test_weights_of_another_shape_are_refused_with_both_shapes(tmp_path):
    folder = saved(tmp_path / "m")
    configure(folder, intermediate_size=128)
    with pytest.raises(ScoringError, match=r"down_proj\.weight in the shape \[128, 256\], .* says \[128, 128\]"):
        load(folder, device="cpu")


def with_more(folder, **tensors):
    """The same folder with more tensors in its checkpoint."""
    whole = load_file(folder / "model.safetensors") | {name.replace("__", "."): t for name, t in tensors.items()}
    save_file(whole, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_heads_for_other_tasks_and_a_pooler_are_left_out_and_recorded(tmp_path):
    network("bert").save_pretrained(tmp_path)
    tokenizer("bert").save_pretrained(tmp_path)
    before = load(tmp_path, device="cpu")
    assert "parts of the checkpoint not used" not in before.environment
    more = {"bert__pooler__dense__weight": torch.ones(32, 32), "cls__seq_relationship__bias": torch.ones(2)}
    made = load(with_more(tmp_path, **more), device="cpu")
    assert made.environment["parts of the checkpoint not used"] == ["bert.pooler", "cls.seq_relationship"]
    asked = [Request("a", "", (Option("The nurse sings."),))]
    assert made.answer(asked) == before.answer(asked)


def test_layers_that_guess_ahead_are_left_out_where_the_configuration_names_them(tmp_path):
    folder = saved(tmp_path / "m", num_hidden_layers=3)
    configure(folder, num_hidden_layers=2, num_nextn_predict_layers=1)
    made = load(folder, device="cpu")
    assert made.environment["parts of the checkpoint not used"] == ["model.layers.2"]
    configure(folder, num_nextn_predict_layers=0)
    with pytest.raises(ScoringError, match="9 tensors"):
        load(folder, device="cpu")


def test_masks_and_buffers_of_earlier_versions_are_left_out(tmp_path):
    made = families.build("gpt_neo", "causal")
    made.save_pretrained(tmp_path)
    text = families.tokenizer("causal")
    text.save_pretrained(tmp_path)
    place = "transformer__h__0__attn__attention__"
    with_more(tmp_path, **{f"{place}bias": torch.ones(1, 1, 8, 8), f"{place}masked_bias": torch.tensor(-1e9)})
    loaded, apart = checkpoint.network(tmp_path, "m", "causal")
    assert apart == []
    asked = [Request("a", "w10 w11", (Option(" w12"),))]
    both = [Model(one, text, "causal").answer(asked) for one in (made, loaded)]
    assert both[0][0].logprobs[0] == pytest.approx(both[1][0].logprobs[0], abs=1e-5)


ALL = os.environ.get("PROBES_ALL_FAMILIES") == "1"
CASES = [(kind, name) for kind in families.KINDS for name in (families.names(kind) if ALL else families.FAST[kind])]


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_saved_network_of_every_architecture_is_read_with_all_its_tensors(tmp_path, kind, name):
    made = families.build(name, kind)
    made.save_pretrained(tmp_path)
    again, apart = checkpoint.network(tmp_path, name, kind)
    assert apart == []
    assert type(again) is type(made)


def test_a_dtype_that_is_not_that_of_the_checkpoint_is_said(tmp_path):
    folder = saved(tmp_path / "m")
    made = load(folder, device="cpu")
    assert made.remarks == ["The checkpoint is in bfloat16, and this run computed in float32."]
    assert made.environment["dtype of the checkpoint"] == "bfloat16"
    (said,) = load(folder, device="cpu", dtype="bfloat16").remarks
    assert said.startswith("bfloat16 rounds the scores and is not faster on most processors")
    assert load("tiny-causal", device="cpu").remarks == []
