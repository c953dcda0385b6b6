"""A model in a GGUF file: scored as the same weights in a folder, and refused in one sentence where it cannot be."""

import importlib.util
import json
import shutil

import numpy as np
import pytest
import torch
import transformers

from mitigation.recipe import MitigationError
from mitigation.running.estimate import empty_network
from scoring import evaluate
from scoring.inference.load_options import LoadOptions, load
from scoring.types import Option, Request, ScoringError
from tests.scoring.made import data_set
from tests.scoring.models import tokenizer
from tests.scoring.test_run import pairs
from tests.support import real

REQUESTS = [
    Request(job, f"The {job} said that", (Option(" she was happy."), Option(" he"))) for job in ("nurse", "vet")
]
HEADS = 2
#: Names in a GGUF file, by those of a Llama of transformers.
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A folder with a small Llama in float32."""
    folder = tmp_path_factory.mktemp("plain")
    text = tokenizer("gpt2")
    text.save_pretrained(folder)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": HEADS}
    ends = {"bos_token_id": text.bos_token_id, "eos_token_id": text.eos_token_id, "pad_token_id": text.eos_token_id}
    torch.manual_seed(0)
    settings = transformers.LlamaConfig(
        vocab_size=len(text), initializer_range=0.2, max_position_embeddings=256, tie_word_embeddings=False,
        num_key_value_heads=HEADS, rms_norm_eps=1e-5, **shape, **ends,
    )  # fmt: skip
    transformers.LlamaForCausalLM(settings).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def file(llama, tmp_path_factory):
    """The same weights and tokenizer in a GGUF file."""
    gguf = pytest.importorskip("gguf", reason="a GGUF file needs the package gguf")
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    network = transformers.AutoModelForCausalLM.from_pretrained(llama)
    config = network.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(int(gguf.LlamaFileType.ALL_F32))
    text = json.loads(tokenizer("gpt2").backend_tokenizer.to_str())["model"]
    tokens = sorted(text["vocab"], key=text["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token == "<|endoftext|>" else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) if isinstance(merge, list) else merge for merge in text["merges"]])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    for name, weight in network.state_dict().items():
        writer.add_tensor(*stored(name, weight.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def stored(name, weight):
    """The name and the numbers of a tensor as llama.cpp stores them."""
    whole = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm", "lm_head.weight": "output"}
    if name in whole:
        return f"{whole[name]}.weight", weight
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    if part in ("self_attn.q_proj", "self_attn.k_proj"):
        # The two halves of the rotated dimensions of a head follow each other there pair by pair.
        rows, columns = weight.shape
        halves = weight.reshape(HEADS, 2, rows // HEADS // 2, columns)
        weight = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))
    return f"blk.{layer}.{NAMES[part]}.weight", weight


def answers(model):
    return [[sum(values) for values in response.logprobs] for response in model.answer(REQUESTS)]


def test_a_gguf_file_answers_as_the_folder_that_it_was_made_of(llama, file):
    plain = load(llama, device="cpu")
    made = load(file, device="cpu")
    assert made.tokens.encode(["The nurse said"])[0].ids == plain.tokens.encode(["The nurse said"])[0].ids
    assert np.array(answers(made)) == pytest.approx(np.array(answers(plain)), abs=1e-4)
    assert made.dtype == "float32-gguf-F32"
    assert made.environment["computed with"] == "weights dequantized to float32"


@pytest.mark.real
def test_a_real_gguf_file_answers_as_the_folder_whose_weights_were_rounded():
    pytest.importorskip("gguf", reason="a GGUF file needs the package gguf")
    plain = load(real.smollm2(), device="cpu")
    made = load(real.smollm2_gguf(), device="cpu")
    texts = ["The nurse said that she was very happy.", "La médica llegó tarde, y él también."]
    assert [t.ids for t in made.tokens.encode(texts)] == [t.ids for t in plain.tokens.encode(texts)]
    assert made.dtype.startswith("float32-gguf-Q4")
    # The folder has the same weights in bfloat16, so log-probabilities of five and one tokens differ a little.
    assert np.array(answers(made)) == pytest.approx(np.array(answers(plain)), abs=0.5)
    assert not np.array_equal(answers(made), answers(plain))


def test_a_folder_with_one_gguf_file_is_that_file_and_one_with_two_is_refused(file, tmp_path):
    shutil.copy(file, tmp_path / "a.gguf")
    assert answers(load(tmp_path, device="cpu")) == answers(load(file, device="cpu"))
    shutil.copy(file, tmp_path / "b.gguf")
    with pytest.raises(ScoringError, match=r"has 2 GGUF files; name one of them, such as .*a\.gguf"):
        load(tmp_path, device="cpu")


def test_a_run_of_a_gguf_file_says_what_it_was(file, tmp_path):
    data = data_set(tmp_path / "data", "unstereo", {("ours-5", "test"): list(pairs("a"))})
    result = evaluate(str(file), benchmarks="unstereo", data=data, resamples=20, device="cpu")
    assert result.report.environment["quantization of the checkpoint"]["file_type"] == "F32"
    assert result.report.dtype == "float32-gguf-F32"
    assert result.report.revision


def test_what_cannot_be_read_is_refused_in_one_sentence(file, tmp_path, monkeypatch):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF, and nothing after it")
    with pytest.raises(ScoringError, match=r"broken\.gguf' cannot be read as GGUF"):
        load(tmp_path / "broken.gguf", device="cpu")
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "rwkv6")
    writer.add_block_count(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ScoringError, match=r"other\.gguf' cannot be read as GGUF: .*rwkv6"):
        load(tmp_path / "other.gguf", device="cpu")
    with pytest.raises(MitigationError, match="is a GGUF file, and recipes change plain weights"):
        empty_network(LoadOptions(str(file), device="cpu"))


def test_the_package_that_is_missing_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ScoringError, match="needs the package gguf; install it with pip install gguf"):
        load(tmp_path / "a.gguf", device="cpu")
