"""Weights in 4 bits on a CPU: what bitsandbytes can block answers, and what it cannot is refused before loading."""

import pytest
import torch
import transformers
from typer.testing import CliRunner

from scoring.__main__ import app
from scoring.inference import checkpoint
from scoring.inference.load_options import load
from scoring.types import Option, Request, ScoringError
from tests.scoring.made import data_set
from tests.scoring.models import network, tokenizer

modules = pytest.importorskip("bitsandbytes", reason="weights in 4 bits need bitsandbytes").nn.modules
JOBS = ("nurse", "farmer", "teacher")
#: Widths in blocks of 64 inputs and 32 outputs, as bitsandbytes needs on a processor with AVX512-BF16.
BLOCKED = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1}


def saved(folder, **shape):
    """A folder with a small Llama."""
    text = tokenizer("llama")
    ids = {"bos_token_id": text.bos_token_id, "eos_token_id": text.eos_token_id, "pad_token_id": text.pad_token_id}
    settings = {"vocab_size": len(text), "num_hidden_layers": 2, "initializer_range": 0.1, **ids, **shape}
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings)).save_pretrained(folder)
    text.save_pretrained(folder)
    return folder


@pytest.fixture
def narrow(tmp_path):
    """A folder with a Llama of the width 32."""
    network("llama").save_pretrained(tmp_path)
    tokenizer("llama").save_pretrained(tmp_path)
    return tmp_path


@pytest.fixture
def avx512(monkeypatch):
    """A processor that bitsandbytes takes for one with AVX512-BF16."""
    monkeypatch.setattr(modules, "has_avx512bf16", lambda: True)


@pytest.fixture
def plain(monkeypatch):
    """A processor that bitsandbytes takes for one without it."""
    monkeypatch.setattr(modules, "has_avx512bf16", lambda: False)


def test_weights_in_four_bits_answer_nearly_as_before(tmp_path):
    folder = saved(tmp_path, **BLOCKED)
    made = load(folder, quantize="4bit", device="cpu")
    assert made.dtype == "float32-4bit"
    assert made._network.head_apart
    requests = [Request(j, f"The {j} said that", (Option(" she was very happy."),)) for j in JOBS]
    pairs = zip(made.answer(requests), load(folder, device="cpu").answer(requests), strict=True)
    apart = [abs(a - b) for one, other in pairs for a, b in zip(one.logprobs[0], other.logprobs[0], strict=True)]
    assert 0.01 < sum(apart) / len(apart) < 1


@pytest.mark.fault(76)
def test_widths_that_cannot_be_blocked_are_refused_before_weights_are_read(narrow, avx512):
    (narrow / "model.safetensors").write_bytes(b"never read")
    with pytest.raises(ScoringError) as error:
        load(narrow, quantize="4bit", device="cpu")
    assert str(error.value) == (
        f"'{narrow}' cannot run in 4 bits on this processor: its layer model.layers.0.self_attn.q_proj has 32 inputs "
        "and 32 outputs, and bitsandbytes needs multiples of 64 and of 32 on a processor with AVX512-BF16; load it "
        "without quantization, or use a GPU."
    )


@pytest.mark.fault(76)
def test_the_command_says_it_in_one_sentence(narrow, avx512, tmp_path):
    rows = [{"id": "a", "sentence_she": "She is.", "sentence_he": "He is."}]
    data = data_set(tmp_path / "data", "unstereo", {("pronoun-pairs", "test"): rows})
    arguments = [narrow, "--quantize", "4bit", "--device", "cpu", "--benchmarks", "unstereo", "--data", data]
    done = CliRunner().invoke(app, [str(item) for item in (*arguments, "--out", tmp_path / "out")])
    assert done.exit_code == 1, done.output
    assert done.output.startswith(f"error: '{narrow}' cannot run in 4 bits on this processor: its layer ")
    assert done.output.count("\n") == 1


@pytest.mark.parametrize(
    ("shape", "refused"),
    [
        ({}, ""),
        ({"intermediate_size": 160}, "mlp.down_proj has 160 inputs and 64 outputs"),
        ({"intermediate_size": 96, "mlp_bias": True}, "mlp.down_proj has 96 inputs and 64 outputs"),
        ({"head_dim": 24}, "self_attn.q_proj has 64 inputs and 48 outputs"),
    ],
)
def test_inputs_come_in_blocks_of_64_and_outputs_of_32(tmp_path, avx512, shape, refused):
    folder = saved(tmp_path, **BLOCKED | shape)
    config = checkpoint.quantized("4bit", torch.float32)

    def check():
        options = {"quantization_config": config, "device_map": {"": torch.device("cpu")}}
        checkpoint.check_packing(transformers.AutoModelForCausalLM, folder, "m", options)

    if refused:
        with pytest.raises(ScoringError, match=refused):
            check()
    else:
        check()


def test_other_processors_and_unquantized_weights_take_any_width(narrow, plain):
    requests = [Request("a", "The nurse said that", (Option(" she was very happy."),))]
    assert load(narrow, quantize="4bit", device="cpu").answer(requests)[0].logprobs
    checkpoint.check_packing(transformers.AutoModelForCausalLM, narrow, "m", {"device_map": {"": "cpu"}})
