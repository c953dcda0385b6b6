"""What a recipe will need, as counted without loading the model, is what is allocated when it is loaded."""

import gc
import importlib.util
import json
from dataclasses import replace
from inspect import signature
from types import SimpleNamespace
from typing import get_overloads

import pytest
import torch
from transformers import LlamaConfig, Qwen3Config

import mitigation
from mitigation.recipes import get, gradiend
from mitigation.recipes.fast import add_stamp
from mitigation.running import estimate as estimates
from mitigation.running.estimate import GIB, estimate, plan_loading
from mitigation.running.quantization import load_for_training
from mitigation.training.data import TrainingData
from mitigation.training.train import OPTIMIZERS
from mitigation.training.trainable import trainable
from scoring.adapters.stamp import StampConfig
from scoring.inference.load_options import LoadOptions
from tests.support import commands

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


@pytest.mark.parametrize("name", ["fast", "fine_tuning"])
def test_a_model_of_eight_billion_parameters_fits_24_gib_with_the_defaults(name, tmp_path, monkeypatch):
    monkeypatch.setattr(estimates, "speed", lambda *_: 1e14)
    width, inner, blocks, vocabulary = 4096, 12288, 36, 151936
    config = Qwen3Config(
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=blocks,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=vocabulary,
        tie_word_embeddings=False,
    ).to_dict() | {"architectures": ["Qwen3ForCausalLM"], "dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    options = LoadOptions(str(tmp_path), device="cpu", dtype="bfloat16")
    made = estimate(get(name), get(name).profiles["clean"], options, "none")
    of_block = width * 4096 + 2 * width * 1024 + 4096 * width + 3 * width * inner + 2 * width + 2 * 128
    by_hand = 2 * vocabulary * width + blocks * of_block + width
    assert 2 * by_hand <= made.parts["weights"] < 2 * by_hand + 1024  # the buffer of rotary embeddings comes with them
    if name == "fine_tuning":
        maps = (width + 4096) + 2 * (width + 1024) + (4096 + width) + 3 * (width + inner)
        assert made.parameters == 8 * maps * blocks
    assert made.most < 24 * GIB


def test_a_loaded_model_has_no_estimate():
    network, tokenizer = (lambda m: (m.network, m.tokens.tokenizer))(LoadOptions("tiny-causal").load())
    with pytest.raises(mitigation.MitigationError, match="name or folder"):
        mitigation.mitigate("dpo", network, tokenizer=tokenizer, dry_run=True)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that is said to be there, with as many free bytes as ``free["now"]``."""
    free = {"now": 10**15}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free["now"], 10**15))
    # Of bitsandbytes alone: PEFT asks for other packages, and would read the version of one that is not there.
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *of: name == "bitsandbytes" or found(name, *of))
    return free


def plan(recipe, model, quantize="auto", profile="clean", **options):
    recipe = get(recipe)
    return plan_loading(recipe, recipe.profiles[profile], LoadOptions(str(model), **options), quantize)


def test_what_does_not_fit_the_gpu_is_checkpointed_first_and_then_loaded_in_four_bits(gpu, seven_billion):
    most = estimate_of("dpo", seven_billion).most
    gpu["now"] = most
    whole = plan("dpo", seven_billion)
    assert (whole.quantize, whole.settings.gradient_checkpointing, list(whole.remarks)) == (None, False, [])
    gpu["now"] = most - 1
    checkpointed = plan("dpo", seven_billion)
    assert (checkpointed.quantize, checkpointed.settings.gradient_checkpointing) == (None, True)
    assert "gradient checkpointing" in checkpointed.remarks[0]
    gpu["now"] = 8 * GIB
    assert plan("dpo", seven_billion).quantize == "4bit"
    assert plan("dpo", seven_billion, "none").quantize is None
    assert plan("cda", seven_billion, profile="paper").quantize is None  # all weights
    assert plan("dpo", seven_billion, device="cpu").quantize is None


def test_the_weights_alone_are_not_what_decides_about_four_bits(gpu, seven_billion):
    counted = estimate_of("dpo", seven_billion)
    gpu["now"] = (counted.parts["weights"] + counted.most) // 2
    assert plan("dpo", seven_billion).remarks


def test_a_float16_checkpoint_in_four_bits_is_loaded_in_the_dtype_of_autocast(gpu, seven_billion):
    assert plan("debias_tuning", seven_billion).dtype == "bfloat16"
    assert plan("debias_tuning", seven_billion, dtype="float16").dtype == "float16"
    assert plan("dpo", seven_billion, "4bit").dtype == "auto"  # without autocast


def test_a_training_of_all_weights_loads_half_precision_as_float32(gpu, seven_billion):
    assert plan("cda", seven_billion, profile="paper").dtype == "float32"
    assert plan("gradiend", seven_billion).dtype == "float32"
    assert plan("gradiend", seven_billion, dtype="float16").dtype == "float16"
    assert plan("gradiend", "tiny-causal").dtype == "auto"


def estimate_of(name, model, profile="clean"):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "speed", lambda *_: 1e14)
        return estimate(get(name), get(name).profiles[profile], LoadOptions(str(model)), "none")


#: Facts of Llama-2 7B (Touvron et al., 2023) for counts by hand.
VOCABULARY, WIDTH, INNER, BLOCKS = 32_000, 4_096, 11_008, 32
#: Inputs and outputs of the maps of a block: four of attention, three of the feed-forward part.
SIDES = 4 * 2 * WIDTH + 3 * (WIDTH + INNER)


def test_dpo_of_seven_billion_weights_is_as_counted_by_hand(gpu, seven_billion):
    lora = 16 * SIDES * BLOCKS
    tokens = 32 * 64
    # The head computes the last token of each row.
    logits = 3 * 4 * 32 * VOCABULARY
    expected = 2 * 6_738_415_616  # float16, and below the inverse frequencies of the positions in float32
    parts = estimate_of("dpo", seven_billion).parts
    by_maps = 2 * tokens * SIDES * BLOCKS  # what the maps read and write, in float16
    assert expected <= parts["weights"] < expected + 1000
    assert parts["adapter"] == parts["gradients"] == 4 * lora
    # A LoRA in float32 reads a copy of each input, and normalizations, the gate and attention keep more.
    assert by_maps < parts["activations"] - logits < 2.5 * by_maps
    checkpointed = parts["activations with gradient checkpointing"] - logits
    inputs = 2 * tokens * BLOCKS * WIDTH
    assert inputs < checkpointed < inputs + 2.6 * by_maps / BLOCKS


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model", KINDS)
def test_activations_are_what_autograd_keeps(model, dtype):
    settings, rows, tokens = get("cda").profiles["clean"], 3, 20
    empty = estimates.empty_network(LoadOptions(model, device="cpu", dtype=str(dtype).removeprefix("torch.")))
    with torch.device("meta"), estimates.adapted(get("cda"), empty, settings) as network:
        counted = rows * estimates.kept_for_backward(network, tokens, None)
    loaded = LoadOptions(model, device="cpu").load()
    loaded.network.to(dtype)
    kept = {}
    with trainable(loaded, settings, 16) as tuned:
        weights = {w.untyped_storage().data_ptr() for w in [*tuned.network.parameters(), *tuned.network.buffers()]}

        def keep(tensor):
            if tensor.untyped_storage().data_ptr() not in weights:
                kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
            return tensor

        tuned.network.train()
        ids = torch.full((rows, tokens), 5)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            tuned.network(input_ids=ids)
    measured = sum(storage.nbytes() for storage in kept.values())
    # Attention is computed otherwise on each device, and tables of positions are there once for all rows.
    assert 0.95 * measured < counted < 1.3 * measured


def test_all_weights_of_seven_billion_are_as_counted_by_hand(gpu, seven_billion):
    made = estimate_of("cda", seven_billion, "paper")
    assert made.parameters == 6_738_415_616
    assert made.parts["gradients"] == 4 * made.parameters
    assert 8 * made.parameters <= made.parts["optimizer"] < 8 * made.parameters + 4 * 300


def test_gradiend_of_seven_billion_weights_is_as_counted_by_hand(gpu, seven_billion):
    changed = 6_738_415_616 - VOCABULARY * WIDTH  # without the head
    made = estimate_of("gradiend", seven_billion)
    assert made.parameters == 3 * changed + 1
    # The network, encoder and decoder with gradients and AdamW, and four vectors, in float32.
    least = 4 * (6_738_415_616 + 4 * 3 * changed + 4 * changed)
    assert least <= made.most < 1.05 * least + 10 * GIB
    assert any("float32" in line for line in made.lines)


#: Inputs and outputs of the maps of a block of Llama-2 7B: four of attention, three of the feed-forward part.
SIDES = 4 * 2 * WIDTH + 3 * (WIDTH + 11_008)


@pytest.mark.parametrize(
    ("name", "trained"),
    [
        ("dpo", 32 * 16 * SIDES),  # a LoRA of rank 16 in each of 32 blocks
        ("fast", 2 * round(4 * WIDTH / 3) * WIDTH),  # two matrices
    ],
)
def test_adapters_of_seven_billion_weights_are_as_counted_by_hand(name, trained, seven_billion):
    recipe = get(name)
    empty = estimates.empty_network(LoadOptions(str(seven_billion), device="cpu", dtype="float16"))
    made = estimates.count(recipe, recipe.profiles["clean"], empty, None)
    assert made.trained == trained
    # The weights in half precision; the adapter, its gradients and two numbers of AdamW in single precision.
    assert made.parts["weights"] == pytest.approx(2 * 6_738_415_616, rel=1e-4)
    others = made.parts["adapter"] + made.parts["gradients"] + made.parts["optimizer"]
    assert others == pytest.approx(16 * trained, rel=1e-4)


def test_gradiend_keeps_what_is_counted(monkeypatch):
    model = LoadOptions("tiny-causal", device="cpu").load()
    settings = replace(get("gradiend").profiles["clean"], contrast="")
    counted = gradiend.memory(model.network, settings)
    weights = list(model.network.base_model.parameters())
    changed = sum(weight.numel() for weight in weights)
    learner = gradiend.Learner(changed, 1e-4, 0.0, model.device)
    plus, minus = torch.rand(changed), torch.rand(changed)
    learner.step(minus, plus - minus)
    kept = [*learner.encoder.parameters(), *learner.decoder.parameters()]
    state = [value for of in learner.optimizer.state.values() for value in of.values()]
    assert counted.trained == sum(weight.numel() for weight in kept)
    assert counted.parts["encoder and decoder"] == size(kept)
    assert counted.parts["gradients"] == size(weight.grad for weight in kept)
    assert 0 <= size(state) - counted.parts["optimizer"] <= 4 * 8  # the counts of steps
    live, concatenate = [], torch.cat

    def vectors():
        return {id(t): t for t in gc.get_objects() if type(t) is torch.Tensor and t.shape == (changed,)}

    before = vectors()

    def seen(tensors, *given, **named):
        whole = concatenate(tensors, *given, **named)
        if whole.shape != (changed,):
            return whole
        gc.collect()
        new = [tensor for key, tensor in vectors().items() if key not in before]
        live.append(size([*new, *tensors]))
        return whole

    monkeypatch.setattr(torch, "cat", seen)
    gradiend.gradients(model, [("He is here.", "She is here.")], weights, 64)
    assert live
    assert max(live) <= counted.parts["vectors of gradients"]


@pytest.mark.parametrize("name", ["fast", "fine_tuning"])
def test_time_of_passes_over_pairs_is_known_with_built_data(name, tmp_path):
    recipe, options = get(name), LoadOptions("tiny-causal", device="cpu")
    few = {"sets": "weat", "domain": "gender", "batch": 4, "steps": 0, "passes": 3, "held_out": 0.2}
    settings = replace(recipe.profiles["clean"], **few)
    rows = [{"config": "weat", "domain": domain, "subject": f"{n}"} for domain in ("gender", "race") for n in range(20)]
    data = SimpleNamespace(load=lambda *_: SimpleNamespace(rows=rows))
    # 16 of 20 pairs, 4 a batch; a stamp has trials of six passes in three blocks before.
    passes = {"fine_tuning": 3, "fast": 3 + 3 * 6}[name]
    assert estimate(recipe, settings, options, "none", data).steps == passes * 4
    assert estimate(recipe, settings, options, "none").steps == 0
    assert estimate(recipe, settings, options, "none", TrainingData(str(tmp_path / "nothing"))).steps == 0


def test_type_checkers_see_the_parameters_that_mitigate_has():
    """Its overloads say that ``dry_run`` gives an estimate; the one of a recipe repeats the parameters."""
    estimated, made, either = get_overloads(mitigation.mitigate)
    declared, known = signature(made).parameters, signature(mitigation.mitigate).parameters
    assert list(declared) == list(known)
    for name in declared.keys() - {"dry_run"}:
        assert declared[name] == known[name], name
    returned = [signature(overload).return_annotation for overload in (estimated, made, either)]
    assert returned == ["Estimate", "Mitigated", "Mitigated | Estimate"]
