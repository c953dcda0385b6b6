"""What a recipe will need, as counted without loading the model, is what is allocated when it is loaded."""

import json

import pytest
import torch
from transformers import LlamaConfig

import mitigation
from mitigation import estimate as estimates
from mitigation.estimate import choose, estimate
from mitigation.quantization import load_for_training
from mitigation.recipes import get
from mitigation.recipes.fast import add_stamp
from mitigation.training.train import OPTIMIZERS
from mitigation.training.trainable import trainable
from scoring.adapters.stamp import StampConfig
from scoring.inference.load_options import LoadOptions
from tests import commands

KINDS = {"tiny-causal": ["dpo", "cda", "debias_tuning", "fine_tuning"], "tiny-masked": ["cda", "mabel"]}
RECIPES = [(model, recipe) for model, names in KINDS.items() for recipe in names]


def of(model: str, recipe: str, profile: str):
    return estimate(get(recipe), get(recipe).profiles[profile], LoadOptions(model, device="cpu"), "none")


def size(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def counted(weights, optimizer) -> tuple[int, int]:
    """Bytes of gradients and of the state of an optimizer after a step."""
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    return size(weight.grad for weight in weights), size(
        v for state in optimizer.state.values() for v in state.values()
    )


@pytest.mark.parametrize("profile", ["clean", "paper"])
@pytest.mark.parametrize(("model", "recipe"), RECIPES)
def test_weights_gradients_and_optimizer_are_what_is_allocated(model, recipe, profile):
    expected, settings = of(model, recipe, profile).parts, get(recipe).profiles[profile]
    loaded = LoadOptions(model, device="cpu").load()
    assert expected["weights"] == size([*loaded.network.parameters(), *loaded.network.buffers()])
    with trainable(loaded, settings, alpha=16) as tuned:
        weights = [weight for weight in tuned.network.parameters() if weight.requires_grad]
        assert expected["adapter"] == (size(weights) if settings.rank else 0)
        kind = OPTIMIZERS[getattr(settings, "optimizer", "adamw")]
        assert (expected["gradients"], expected["optimizer"]) == counted(weights, kind(weights))


@pytest.mark.parametrize("model", KINDS)
def test_a_stamp_is_counted_as_it_is_trained(model):
    expected, settings = of(model, "fast", "clean"), get("fast").profiles["clean"]
    loaded = LoadOptions(model, device="cpu").load()
    units = settings.units_for(loaded.network.config.hidden_size)
    stamped = add_stamp(loaded.network, StampConfig(layer=0, units=units, kind=loaded.kind), settings)
    weights = [weight for weight in stamped.parameters() if weight.requires_grad]
    assert expected.parts["adapter"] == size(weights)
    assert (expected.parts["gradients"], expected.parts["optimizer"]) == counted(weights, torch.optim.Adam(weights))


def test_weights_in_four_bits_are_what_bitsandbytes_allocates():
    pytest.importorskip("bitsandbytes")
    network = load_for_training(LoadOptions("tiny-causal", device="cpu", quantize="4bit")).network
    states = [p.quant_state for p in network.parameters() if getattr(p, "quant_state", None) is not None]
    tables = [t for s in states for t in (s.absmax, s.code, s.offset, s.state2.absmax, s.state2.code)]
    recipe = get("debias_tuning")
    made = estimate(recipe, recipe.profiles["clean"], LoadOptions("tiny-causal", device="cpu"), "4bit")
    assert states
    assert made.parts["weights"] == size([*network.parameters(), *network.buffers(), *tables])


@pytest.fixture
def seven_billion(tmp_path):
    """A folder with the configuration of Llama-2 7B alone."""
    config = LlamaConfig().to_dict() | {"architectures": ["LlamaForCausalLM"], "dtype": "float16"}
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text(json.dumps(config))
    return tmp_path / "llama"


def test_a_configuration_is_enough_and_nothing_is_written(seven_billion, tmp_path, monkeypatch):
    monkeypatch.setattr(estimates, "speed", lambda *_: 1e14)
    made = mitigation.mitigate(
        "cda", str(seven_billion), dry_run=True, profile="paper", dtype="float32", device="cpu", out=tmp_path / "out"
    )
    weights = 6_738_415_616  # as Llama 2 (Touvron et al., 2023) has
    assert made.parameters == weights
    assert made.parts["gradients"] == 4 * weights
    assert made.parts["activations with gradient checkpointing"] < made.parts["activations"]
    assert not (tmp_path / "out").exists()
    done = commands.run("mitigation", "fast", seven_billion, "--dry-run", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "an estimate" in done.stdout
    assert commands.run("mitigation", "fast", seven_billion).returncode == 2


def test_a_loaded_model_has_no_estimate():
    network, tokenizer = (lambda m: (m.network, m.tokens.tokenizer))(LoadOptions("tiny-causal").load())
    with pytest.raises(mitigation.MitigationError, match="give the model by its name or folder"):
        mitigation.mitigate("dpo", network, tokenizer=tokenizer, dry_run=True)


def test_weights_that_do_not_fit_the_gpu_are_loaded_in_four_bits_where_a_lora_is_trained(monkeypatch):
    recipe, options = get("cda"), LoadOptions("tiny-causal")
    free = {"now": 10**6}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free["now"], 10**9))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    clean, paper = recipe.profiles["clean"], recipe.profiles["paper"]
    bits, remark = choose(recipe, clean, options, "auto")
    assert bits == "4bit"
    assert "so they are loaded in 4 bits" in remark
    assert choose(recipe, paper, options, "auto") == (None, "")  # all weights
    assert choose(recipe, clean, options, "none") == (None, "")
    assert choose(recipe, clean, LoadOptions("tiny-causal", device="cpu"), "auto") == (None, "")
    free["now"] = 10**8
    assert choose(recipe, clean, options, "auto") == (None, "")
