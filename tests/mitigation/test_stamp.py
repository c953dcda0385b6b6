import json
import subprocess
import sys

import pytest
import torch
import transformers
from peft import PeftModel, get_peft_model
from torch import nn

from mitigation.running.quantization import load_for_training
from scoring.adapters.attach import peft_config
from scoring.adapters.facts import AdapterError
from scoring.adapters.feed_forward import feed_forwards
from scoring.adapters.stamp import StampConfig, StampLayer
from scoring.inference.load_options import LoadOptions
from tests.scoring import models

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 60}
IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LLAMA = SMALL | IDS | {"intermediate_size": 24, "num_key_value_heads": 1}
BERT = SMALL | {"intermediate_size": 32}
GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 60} | IDS
#: Each family's configuration and the two maps of its last block.
FAMILIES = {
    "gpt2": (transformers.GPT2Config(**GPT), "mlp.c_fc mlp.c_proj"),
    "gpt_neo": (
        transformers.GPTNeoConfig(
            hidden_size=16,
            num_layers=2,
            num_heads=2,
            attention_types=[[["global", "local"], 1]],
            intermediate_size=32,
            max_position_embeddings=32,
            vocab_size=60,
            **IDS,
        ),
        "mlp.c_fc mlp.c_proj",
    ),
    "llama": (transformers.LlamaConfig(**LLAMA), "mlp.gate_proj mlp.down_proj"),
    "mistral": (transformers.MistralConfig(**LLAMA), "mlp.gate_proj mlp.down_proj"),
    "qwen2": (transformers.Qwen2Config(**LLAMA), "mlp.gate_proj mlp.down_proj"),
    # Attention that is wider than the hidden state, as a feed-forward part is.
    "qwen3": (transformers.Qwen3Config(head_dim=12, **LLAMA), "mlp.gate_proj mlp.down_proj"),
    "phi3": (transformers.Phi3Config(**LLAMA), "mlp.gate_up_proj mlp.down_proj"),
    "pythia": (transformers.GPTNeoXConfig(**BERT, **IDS), "mlp.dense_h_to_4h mlp.dense_4h_to_h"),
    "gpt_j": (transformers.GPTJConfig(rotary_dim=4, **GPT), "mlp.fc_in mlp.fc_out"),
    "opt": (
        transformers.OPTConfig(ffn_dim=32, word_embed_proj_dim=16, max_position_embeddings=32, **SMALL, **IDS),
        "fc1 fc2",
    ),
    "falcon": (transformers.FalconConfig(**SMALL, **IDS), "mlp.dense_h_to_4h mlp.dense_4h_to_h"),
    "bloom": (
        transformers.BloomConfig(hidden_size=16, n_layer=2, n_head=2, vocab_size=60, **IDS),
        "mlp.dense_h_to_4h mlp.dense_4h_to_h",
    ),
    "bert": (transformers.BertConfig(**BERT), "intermediate.dense output.dense"),
    "roberta": (transformers.RobertaConfig(max_position_embeddings=40, **BERT), "intermediate.dense output.dense"),
    "deberta": (transformers.DebertaV2Config(**BERT), "intermediate.dense output.dense"),
    "distilbert": (
        transformers.DistilBertConfig(dim=16, hidden_dim=32, n_layers=2, n_heads=2, vocab_size=60),
        "ffn.lin1 ffn.lin2",
    ),
    "albert": (
        transformers.AlbertConfig(embedding_size=8, **BERT),
        "albert_layers.0.ffn albert_layers.0.ffn_output",
    ),
}
MASKED = ("bert", "roberta", "deberta", "distilbert", "albert")
TEXT = torch.arange(3, 17).view(2, 7)
# PEFT requests transformers for it.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated")


def network(family):
    torch.manual_seed(0)
    kind = transformers.AutoModelForMaskedLM if family in MASKED else transformers.AutoModelForCausalLM
    return kind.from_config(FAMILIES[family][0]).eval()


def answers(of):
    with torch.no_grad():
        return of(TEXT).logits


def stamped(base, layer=None, units=8):
    """A network with a stamp that changes something."""
    layer = len(feed_forwards(base)) - 1 if layer is None else layer
    with_stamp = get_peft_model(base, StampConfig(layer=layer, units=units)).eval()
    for name, weight in with_stamp.named_parameters():
        if "fast_values" in name:
            nn.init.normal_(weight)
    return with_stamp


@pytest.mark.parametrize("family", FAMILIES)
def test_the_two_maps_of_a_block_are_found_by_structure(family):
    first, last, width = feed_forwards(network(family))[-1]
    ends = FAMILIES[family][1].split()
    assert (first.endswith(f".{ends[0]}"), last.endswith(f".{ends[1]}"), width) == (True, True, 16)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_stamp_is_loaded_from_its_folder_and_removed_exactly(family, tmp_path):
    base = network(family)
    before = answers(base)
    assert torch.equal(answers(get_peft_model(base, StampConfig(units=8)).eval()), before), (
        "a new stamp changes nothing"
    )
    stamped_network = stamped(network(family))
    changed = answers(stamped_network)
    assert not torch.allclose(changed, before)
    with stamped_network.disable_adapter():
        assert torch.equal(answers(stamped_network), before)
    stamped_network.save_pretrained(tmp_path)
    base = stamped_network.unload()
    assert torch.equal(answers(base), before)
    assert not any(isinstance(module, StampLayer) for module in base.modules())
    assert torch.equal(answers(PeftModel.from_pretrained(base, tmp_path)), changed)


def test_the_term_is_that_of_the_paper():
    base = network("llama")
    stamped_network = stamped(base, layer=0)
    part = stamped_network.base_model.model.model.layers[0].mlp
    keys, values = (getattr(layer, name)["default"].weight for layer, name in _ends(part))
    hidden = torch.randn(5, 16)
    with torch.no_grad():
        inner = torch.nn.functional.silu(part.gate_proj.base_layer(hidden)) * part.up_proj(hidden)
        own = part.down_proj.base_layer(inner)
        assert torch.allclose(part(hidden), own + torch.relu(hidden @ keys.T) @ values.T, atol=1e-6)


def _ends(part):
    return (part.gate_proj, "fast_keys"), (part.down_proj, "fast_values")


def test_only_the_two_matrices_are_trained():
    stamped_network = get_peft_model(network("gpt2"), StampConfig(layer=1, units=8))
    trained = {name: tuple(w.shape) for name, w in stamped_network.named_parameters() if w.requires_grad}
    assert sorted(trained.values()) == [(8, 16), (16, 8)]
    assert all("fast_" in name for name in trained)


def test_two_stamps_on_one_model_act_one_at_a_time(tmp_path):
    first = stamped(network("gpt2"), layer=0)
    one = answers(first)
    first.save_pretrained(tmp_path / "one")
    second = stamped(first.unload(), layer=1)
    other = answers(second)
    second.load_adapter(str(tmp_path / "one"), "one")
    assert torch.equal(answers(second), other)
    second.set_adapter("one")
    assert torch.equal(answers(second), one)


@pytest.mark.fault(53)
def test_an_error_inside_a_block_leaves_nothing_behind():
    base = network("gpt2")
    before = answers(base)
    stamped_network = stamped(base, layer=0)
    part = stamped_network.base_model.model.transformer.h[0].mlp
    broken = part.act.register_forward_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("broken")))
    with pytest.raises(RuntimeError, match="broken"):
        answers(stamped_network)
    broken.remove()
    assert torch.equal(answers(stamped_network.unload()), before)


def test_a_stamp_cannot_be_merged():
    with pytest.raises(AdapterError, match="probes mitigate merge"):
        stamped(network("gpt2")).merge_and_unload()


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(AdapterError, match=r"layer is 2 .*0 to 1"):
        get_peft_model(network("gpt2"), StampConfig(layer=2))


def test_a_stamp_of_another_family_is_refused(tmp_path):
    stamped(network("gpt2")).save_pretrained(tmp_path)
    with pytest.raises(AdapterError, match=r"transformer\.h\.1\.mlp\.c_fc"):
        PeftModel.from_pretrained(network("llama"), tmp_path)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (nn.Linear(3, 3), "has no list of blocks"),
        (nn.Sequential(nn.ModuleList([nn.Linear(3, 3)])), "has no linear map from 3 to 3 before its last one"),
    ],
)
def test_a_network_without_feed_forward_parts_is_refused(made, message):
    with pytest.raises(AdapterError, match=message):
        feed_forwards(made)


@pytest.fixture
def quantized(tmp_path):
    """A folder of a Llama, and that network in 4 bits, loaded for training and run once in inference mode."""
    pytest.importorskip("bitsandbytes", reason="weights in 4 bits need bitsandbytes")
    base = models.model("llama")
    base.network.save_pretrained(tmp_path)
    base.tokens.tokenizer.save_pretrained(tmp_path)
    network = load_for_training(LoadOptions(str(tmp_path), quantize="4bit", device="cpu")).network
    answers(network)
    return network


def test_a_gradient_reaches_a_stamp_through_weights_in_4_bits(quantized):
    stamped_network = stamped(quantized, layer=0)
    stamped_network(TEXT).logits.square().mean().backward()
    gradients = [weight.grad.abs().sum() for weight in stamped_network.parameters() if weight.requires_grad]
    assert len(gradients) == 2
    assert all(gradient > 0 for gradient in gradients)


def test_gradients_through_weights_in_4_bits_are_those_through_the_same_weights_in_full(quantized):
    from bitsandbytes.functional import dequantize_4bit

    full = models.network("llama")
    for name, layer in quantized.named_modules():
        if hasattr(layer, "quant_state"):
            weight = dequantize_4bit(layer.weight.data, layer.weight.quant_state)
            full.get_submodule(name).weight = nn.Parameter(weight, requires_grad=False)
    gradients = []
    for network in (quantized, full):
        embedded = network.get_input_embeddings()(TEXT).detach().requires_grad_()
        network(inputs_embeds=embedded).logits.square().mean().backward()
        gradients.append(embedded.grad)
    # Both add up the same products, in another order: float32 has 24 bits, and a path has some thousand sums.
    assert torch.allclose(*gradients, rtol=1e-3, atol=1e-4 * gradients[1].abs().max().item())


def test_importing_the_package_is_all_that_peft_needs_in_a_fresh_process(tmp_path):
    stamped_network = stamped(network("gpt2"))
    stamped_network.save_pretrained(tmp_path / "stamp")
    torch.save(answers(stamped_network), tmp_path / "answers.pt")
    stamped_network.unload().save_pretrained(tmp_path / "base")
    code = (
        "import sys, torch, mitigation; from pathlib import Path; from peft import AutoPeftModelForCausalLM as Auto, "
        "PeftModel; from transformers import AutoModelForCausalLM as Model; folder = Path(sys.argv[1]); "
        "base = Model.from_pretrained(folder / 'base'); found = PeftModel.from_pretrained(base, folder / 'stamp'); "
        "logits = found(torch.arange(3, 17).view(2, 7)).logits; "
        "assert torch.equal(logits, torch.load(folder / 'answers.pt', weights_only=True))"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_without_the_import_the_error_says_what_to_import(tmp_path):
    stamped(network("gpt2")).save_pretrained(tmp_path)
    code = "import sys; from peft import PeftConfig; PeftConfig.from_pretrained(sys.argv[1])"
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.strip().endswith("KeyError: 'FAST, known to PEFT after: import mitigation'")


def test_a_stamp_of_an_earlier_version_is_loaded(tmp_path):
    stamped_network = stamped(network("gpt2"))
    changed = answers(stamped_network)
    stamped_network.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    del config["kind"]
    (tmp_path / "adapter_config.json").write_text(json.dumps(config | {"peft_type": "FAST"}))
    assert peft_config(tmp_path).kind == ""
    assert torch.equal(answers(PeftModel.from_pretrained(stamped_network.unload(), tmp_path)), changed)
