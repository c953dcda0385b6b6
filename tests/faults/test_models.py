"""Weights, code and adapters are judged by what would be loaded, not by what lies beside it."""

import json
import os
import pickle
import re
import shutil
import sys
import tomllib

import pytest
import torch
from safetensors.torch import load_file, save_file

from scoring.adapters.attach import METHODS, AdapterError, check_patterns, peft_config, wrap
from scoring.adapters.stamp import STORED
from scoring.inference import checkpoint
from scoring.inference.load_options import BUNDLED, load
from scoring.types import Option, Request, ScoringError
from tests.scoring.made import data_set
from tests.scoring.test_run import pairs
from tests.support import commands
from tests.support.helpers import ROOT

ASK = [Request("a", "My friend sings, and", (Option(" she"), Option(" he")))]


class Harm:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.fixture
def model(tmp_path):
    """A copy of the bundled model to change."""
    return shutil.copytree(BUNDLED["tiny-causal"], tmp_path / "model")


@pytest.fixture
def adapter(tmp_path):
    """An adapter of it, of another project."""
    from peft import LoraConfig

    network = load(BUNDLED["tiny-causal"], device="cpu").network
    names = sorted({name.rpartition(".")[2] for name, part in network.named_modules() if type(part) is torch.nn.Linear})
    wrapped = wrap(network, LoraConfig(r=2, target_modules=names[:1]))
    wrapped.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A built data set to score."""
    return data_set(tmp_path_factory.mktemp("data"), "unstereo", {("ours-5", "test"): list(pairs("a"))})


def edited(path, **changed):
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def decoy(folder):
    """A safetensors file that nothing loads."""
    save_file({"decoy": torch.zeros(1)}, folder / "decoy.safetensors")


@pytest.mark.fault(62)
def test_pickles_that_an_index_of_safetensors_names_are_refused(model, tmp_path):
    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    (model / "weights.bin").write_bytes(pickle.dumps(Harm(tmp_path / "harm"), 2))
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, "weights.bin")}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    decoy(model)
    with pytest.raises(ScoringError, match=r"weights\.bin"):
        load(model)
    index["weight_map"] = dict.fromkeys(weights, "../elsewhere/model.safetensors")
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ScoringError, match=r"'\.\./elsewhere/model\.safetensors'"):
        load(model, allow_pickle=True)
    half = dict(list(weights.items())[::2])
    save_file(half, model / "1.safetensors", {"format": "pt"})
    save_file({name: weights[name] for name in weights.keys() - half}, model / "2.safetensors", {"format": "pt"})
    index["weight_map"] = {name: "1.safetensors" if name in half else "2.safetensors" for name in weights}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert load(model).answer(ASK)[0].logprobs == load(BUNDLED["tiny-causal"]).answer(ASK)[0].logprobs
    assert not (tmp_path / "harm").exists()


@pytest.mark.fault(62)
@pytest.mark.parametrize("decoyed", [True, False])
def test_pickled_weights_beside_a_decoy_are_refused(model, tmp_path, decoyed):
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(pickle.dumps(Harm(tmp_path / "harm"), 2))
    if decoyed:
        decoy(model)
    with pytest.raises(ScoringError, match=r"pytorch_model\.bin"):
        load(model)
    with pytest.raises(ScoringError, match="cannot be loaded"):
        load(model, allow_pickle=True)  # torch reads tensors only
    assert not (tmp_path / "harm").exists()


@pytest.mark.fault(62)
def test_weights_that_the_configuration_names_are_those_that_are_judged(model):
    edited(model / "config.json", transformers_weights="weights.bin")
    (model / "weights.bin").write_bytes(b"")
    with pytest.raises(ScoringError, match=r"weights\.bin"):
        load(model)


@pytest.mark.fault(62)
def test_an_adapter_in_a_pickle_beside_a_decoy_is_refused(adapter, tmp_path):
    weights = load_file(adapter / "adapter_model.safetensors")
    (adapter / "adapter_model.safetensors").unlink()
    torch.save(weights, adapter / "adapter_model.bin")
    decoy(adapter)
    with pytest.raises(ScoringError, match=r"adapter_model\.bin"):
        load(BUNDLED["tiny-causal"], adapter=adapter)
    assert load(BUNDLED["tiny-causal"], adapter=adapter, allow_pickle=True).adapter
    (adapter / "adapter_model.bin").write_bytes(pickle.dumps(Harm(tmp_path / "harm"), 2))
    with pytest.raises(ScoringError, match="does not fit the model"):
        load(BUNDLED["tiny-causal"], adapter=adapter, allow_pickle=True)
    assert not (tmp_path / "harm").exists()


@pytest.mark.fault(62)
def test_a_torch_that_unpickles_by_default_cannot_be_installed():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "torch>=2.6" in extras["score"]


@pytest.mark.fault(63)
def test_a_method_that_reads_elsewhere_is_refused_by_name(adapter):
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    known = {str(getattr(name, "value", name)) for name in PEFT_TYPE_TO_CONFIG_MAPPING}
    assert known > METHODS
    for method in sorted(known - METHODS - {STORED}):
        edited(adapter / "adapter_config.json", peft_type=method)
        with pytest.raises(ScoringError, match=f"'{method}'.*ADALORA.*BOFT"):
            load(BUNDLED["tiny-causal"], adapter=adapter)


@pytest.mark.fault(63)
@pytest.mark.parametrize(
    "field",
    [
        {"auto_mapping": {"base_model_class": "x", "parent_library": "antigravity"}},
        {"megatron_config": {"a": 1}, "megatron_core": "antigravity"},
        {"corda_config": {"cache_file": "cache.pt"}},
        {"lora_ga_config": {"cache_file": "cache.pt"}},
    ],
)
def test_a_field_that_names_code_or_files_elsewhere_is_refused(adapter, field):
    edited(adapter / "adapter_config.json", **field)
    with pytest.raises(ScoringError, match=f"{next(iter(field))}"):
        load(BUNDLED["tiny-causal"], adapter=adapter)


@pytest.mark.fault(64)
def test_code_of_another_repository_is_refused_under_a_pinned_revision(tmp_path):
    own = {"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}}
    other = own | {"auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "evil/repo--own.M"}}
    pinned = "0a" * 20
    checkpoint.check_code(tmp_path, own, "org/own", pinned, trusted=True)
    said = r"runs Python code of another repository, 'evil/repo--own\.\w', which its revision does not pin"
    with pytest.raises(ScoringError, match=said):
        checkpoint.check_code(tmp_path, other, "org/own", pinned, trusted=True)
    (tmp_path / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": [null, "evil/repo--own.T"]}}')
    with pytest.raises(ScoringError, match=said):
        checkpoint.check_code(tmp_path, own, "org/own", pinned, trusted=True)
    with pytest.raises(ScoringError, match=said):
        checkpoint.check_code(tmp_path, {"model_type": "gpt2"}, str(tmp_path), None, trusted=True)
    checkpoint.check_code(tmp_path, {"model_type": "gpt2"}, "org/own", None, trusted=False)  # its code is not run


@pytest.mark.fault(64)
def test_code_of_a_tokenizer_needs_a_pinned_revision_too(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": [null, "own.T"]}}')
    with pytest.raises(ScoringError, match="commit of 40"):
        checkpoint.check_code(tmp_path, {"model_type": "gpt2"}, "org/own", "main", trusted=True)


@pytest.mark.fault(64)
@pytest.mark.parametrize(
    "config", [{"attn_implementation": "org/kernel"}, {"text": {"_attn_implementation": {"": "org/k"}}}]
)
def test_a_kernel_that_would_come_from_the_hub_is_refused(model, config):
    edited(model / "config.json", **config)
    with pytest.raises(ScoringError, match="org/k"):
        load(model)


@pytest.mark.fault(65)
def test_a_model_folder_with_the_configuration_of_an_adapter_is_refused(model, adapter):
    for file in adapter.iterdir():
        shutil.copy(file, model)
    done = commands.run("scoring", model, "--benchmarks", "neutral")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    with pytest.raises(ScoringError, match=r"adapter_config\.json.*config\.json"):
        load(model)


@pytest.mark.fault(74)
@pytest.mark.parametrize(
    "field",
    [{"target_modules": "(([a-z_]+)+)+[0-9]"}, {"rank_pattern": {"([a-z_0-9.]+)+!": 4}}, {"exclude_modules": "(.*)*!"}],
)
def test_an_expression_that_takes_too_long_is_refused(adapter, field, monkeypatch):
    monkeypatch.setattr("scoring.adapters.attach.PATTERN_SECONDS", 0.5)
    edited(adapter / "adapter_config.json", **field)
    with pytest.raises(ScoringError, match=r"0\.5"):
        load(BUNDLED["tiny-causal"], adapter=adapter)


@pytest.mark.fault(74)
def test_an_expression_that_is_wrong_is_refused_and_a_plain_one_is_taken(adapter):
    config = peft_config(adapter)
    config.target_modules = "model.("
    with pytest.raises(AdapterError, match="regular expression"):
        check_patterns(config, ["model.x"], adapter)
    config.target_modules = r".*\.(q|v)_proj"
    check_patterns(config, ["model.x.q_proj"] * 1000, adapter)


DEEP = b"[" * 99_999
WRONG = {
    "a BOS that is no text": ("tokenizer_config.json", {"bos_token": 5}),
    "a length that is text": ("tokenizer_config.json", {"model_max_length": "many"}),
    "deep JSON of the tokenizer": ("tokenizer.json", DEEP),
    "deep JSON of its settings": ("tokenizer_config.json", DEEP),
    "deep JSON of generation": ("generation_config.json", DEEP),
    "special tokens in a list": ("special_tokens_map.json", b"[1]"),
    "a special token that is no text": ("special_tokens_map.json", b'{"bos_token": 5}'),
    "deep JSON of special tokens": ("special_tokens_map.json", DEEP),
    "many layers": ("config.json", {"n_layer": 10**6, "num_hidden_layers": 10**6}),
    "a long vector": ("config.json", {"n_embd": 10**12, "hidden_size": 10**12}),
    "many tokens": ("config.json", {"vocab_size": 10**12}),
    "many labels": ("config.json", {"num_labels": 10**7}),
}


@pytest.mark.fault(86)
@pytest.mark.parametrize("name", WRONG)
def test_files_of_a_model_of_absurd_types_or_sizes_are_one_sentence(model, data, tmp_path, name):
    file, content = WRONG[name]
    if isinstance(content, dict):
        content = json.dumps(json.loads((model / file).read_bytes()) | content).encode()
    (model / file).write_bytes(content)
    refused(model, data, tmp_path / "out")


def refused(model, data, out):
    """Scoring ends with status 1 and one sentence, and the results of an earlier run stay as they are."""
    arguments = "--benchmarks", "unstereo", "--data", data, "--out", out
    out.mkdir()
    (out / "results.json").write_text("of an earlier run")
    done = commands.run("scoring", model, *arguments, "--overwrite")
    assert done.returncode == 1, done
    assert re.fullmatch(r"error: [^\n]+\.", done.stderr.strip()), done.stderr
    assert "model" in done.stderr or "tokenizer" in done.stderr
    assert (out / "results.json").read_text() == "of an earlier run"


def backtracking(model, pattern):
    """Has the tokenizer of a model split text by an expression that takes time without end."""
    content = json.loads((model / "tokenizer.json").read_bytes())
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, content["pre_tokenizer"]]}
    (model / "tokenizer.json").write_text(json.dumps(content))


def test_bitsandbytes_is_imported_without_the_package_that_asks_the_hub_for_kernels(tmp_path, monkeypatch):
    """Stand-ins of both packages: the real one asks only on a processor with avx512_bf16."""
    (tmp_path / "kernels.py").write_text("asked = []\ndef get_kernel(name):\n    asked.append(name)\n")
    tries = "try:\n    import kernels\n    kernels.get_kernel('cpu')\nexcept ImportError:\n    kernels = None\n"
    (tmp_path / "bitsandbytes.py").write_text(tries)
    monkeypatch.syspath_prepend(tmp_path)
    # Set before they are removed, so that what was imported is there again after the test.
    for name in [name for name in sys.modules if name.partition(".")[0] in ("bitsandbytes", "kernels")]:
        monkeypatch.delitem(sys.modules, name)
    checkpoint.import_bitsandbytes.cache_clear()
    checkpoint.import_bitsandbytes()
    assert sys.modules["bitsandbytes"].kernels is None
    assert "kernels" not in sys.modules
    for name in ("bitsandbytes", "kernels"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.fault(86)
def test_a_run_with_a_tokenizer_that_backtracks_is_one_sentence(model, data, tmp_path):
    backtracking(model, "((([A-Za-z .]+)+)+)+[0-9]")
    refused(model, data, tmp_path / "out")


@pytest.mark.fault(86)
def test_an_expression_of_a_tokenizer_that_backtracks_is_one_sentence(model):
    backtracking(model, "(a+)+$")
    loaded = load(model, device="cpu")
    with pytest.raises(ScoringError, match="tokenizer cannot encode"):
        loaded.answer([Request("a", "a" * 60 + "!", (Option(" she"),))])


@pytest.mark.fault(86)
@pytest.mark.parametrize("mapping", [["transformers"], "transformers.models", 5])
def test_an_auto_mapping_of_another_type_is_one_sentence(tmp_path, mapping):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "auto_mapping": mapping}))
    with pytest.raises(AdapterError, match="auto_mapping"):
        peft_config(tmp_path)
