"""A model is known by what it answers: what changes answers and no weight is never given stored answers of another."""

from contextlib import contextmanager

import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model

import scoring
from scoring.inference.load_options import BUNDLED
from tests.scoring.made import data_set
from tests.scoring.test_chat_api import jobs
from tests.scoring.test_run import job_rows

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated")
OPTIONS = {"benchmarks": ["occugender"], "resamples": 50}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return data_set(tmp_path_factory.mktemp("data"), "occugender", {("explicit", "test"): list(job_rows())})


@pytest.fixture
def adapted():
    """A model with an adapter that changes its answers."""
    torch.manual_seed(1)
    network = transformers.AutoModelForCausalLM.from_pretrained(BUNDLED["tiny-causal"])
    model = get_peft_model(network, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.3)
    return model, transformers.AutoTokenizer.from_pretrained(BUNDLED["tiny-causal"])


@contextmanager
def scaled(model):
    """The same adapter with twice its scaling."""
    for module in model.modules():
        if isinstance(getattr(module, "scaling", None), dict):
            module.scaling = {name: 2 * scale for name, scale in module.scaling.items()}
    yield


@contextmanager
def steered(model):
    """The same weights with a vector added to the states of the first layers."""
    block = next(module for name, module in model.named_modules() if name.endswith("input_layernorm"))
    hook = block.register_forward_hook(lambda _module, _inputs, output: output + 0.5)
    yield
    hook.remove()


@contextmanager
def stretched(model):
    """The same weights with other frequencies of the rotary embedding."""
    model.get_base_model().model.rotary_emb.inv_freq.mul_(0.25)
    yield


CHANGES = {
    "disabled adapter": lambda model: model.disable_adapter(),
    "scaled adapter": scaled,
    "forward hook": steered,
    "rotary buffer": stretched,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_answers_and_no_weight_gets_answers_of_its_own(change, adapted, data, tmp_path):
    model, tokenizer = adapted
    options = {**OPTIONS, "tokenizer": tokenizer, "data": data}
    before = scoring.evaluate(model, out=tmp_path, **options)
    assert scoring.evaluate(model, out=tmp_path, **options).table().equals(before.table()), "itself is known"
    with CHANGES[change](model):
        fresh = scoring.evaluate(model, **options)
        with pytest.raises(scoring.ScoringError, match=r"holds results with other settings \(another answers\)"):
            scoring.evaluate(model, out=tmp_path, **options)
        again = scoring.evaluate(model, out=tmp_path, overwrite=True, **options)
    assert again.table().equals(fresh.table())
    assert not again.table().equals(before.table())


def test_a_function_of_the_same_name_replaces_nothing(tmp_path):
    rows = [row for row in jobs() if row["template"] == "explicit"]
    data = data_set(tmp_path / "data", "occugender", {("explicit", "test"): rows})

    def maker(word):
        def model(prompts):
            return [word] * len(prompts)

        return model

    options = {**OPTIONS, "data": data, "samples": 1, "out": tmp_path / "run"}
    first = scoring.evaluate(maker("Female"), **options)
    scoring.evaluate(maker("Female"), **options)
    with pytest.raises(scoring.ScoringError, match=r"holds results with other settings \(another answers\)"):
        scoring.evaluate(maker("Male"), **options)
    assert scoring.load(tmp_path / "run").table().equals(first.table())
    scoring.evaluate(maker("Male"), overwrite=True, **options)


def test_stored_answers_of_a_folder_are_used_by_a_model_that_answers_alike(data, tmp_path, monkeypatch):
    """The files are the same, and the code that computes with them is another."""
    out = tmp_path / "run"
    scoring.evaluate("tiny-causal", data=data, out=out, **OPTIONS)
    scoring.evaluate("tiny-causal", data=data, out=out, **OPTIONS)
    norm = transformers.models.llama.modeling_llama.LlamaRMSNorm
    forward = norm.forward
    monkeypatch.setattr(norm, "forward", lambda self, states: 1.5 * forward(self, states))
    with pytest.raises(scoring.ScoringError, match="This is another model than the one whose responses are stored"):
        scoring.evaluate("tiny-causal", data=data, out=out, **OPTIONS)


def test_a_network_whose_weights_the_rows_do_not_read_is_known_by_its_weights(adapted, data, tmp_path):
    """A changed row of the embeddings that no control row reads; the head of this network is apart."""
    _, tokenizer = adapted
    network = transformers.AutoModelForCausalLM.from_pretrained(BUNDLED["tiny-causal"])
    network.set_output_embeddings(torch.nn.Linear(network.config.hidden_size, network.config.vocab_size, bias=False))
    options = {**OPTIONS, "tokenizer": tokenizer, "data": data, "out": tmp_path}
    scoring.evaluate(network, **options)
    (nurse,) = tokenizer(" nurse")["input_ids"][-1:]
    with torch.no_grad():
        network.get_input_embeddings().weight[nurse] += 1
    with pytest.raises(scoring.ScoringError, match="holds results with"):
        scoring.evaluate(network, **options)
