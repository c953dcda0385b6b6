"""Training of all weights: the folder is a whole model of transformers, and the base model stays as it was."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import transformers
from huggingface_hub import ModelCard

from mitigation.ability.glue import Classifiers, Effect
from mitigation.adapters.temporary import attached
from mitigation.adapters.write import write, write_facts
from mitigation.errors import MitigationError
from mitigation.publish import publication
from mitigation.recipes import get
from mitigation.training.data import TrainingData
from mitigation.training.trainable import trainable
from scoring.adapters.facts import AdapterError, read
from scoring.inference.load_options import BUNDLED, LoadOptions, load
from scoring.types import ScoringError
from tests.mitigation.made import bundled, silent
from tests.mitigation.texts import corpus

pytestmark = pytest.mark.usefixtures("undrawn")
QUICK = {"steps": 2, "batch_size": 4, "length": 32, "lines": 60, "checkpoint_every": 2, "validate_every": 2}
LOADERS = {"tiny-causal": transformers.AutoModelForCausalLM, "tiny-masked": transformers.AutoModelForMaskedLM}
IDS = torch.arange(5, 25)[None]


def logits(network):
    """What a network says about a few tokens."""
    with torch.inference_mode():
        return network.eval()(input_ids=IDS).logits


def made(kind, folder):
    """The loaded base model, and the folder that CDA with its published settings wrote after two steps."""
    model = load(BUNDLED[kind], device="cpu")
    settings = replace(get("cda").profiles["paper"], **QUICK | {"corpus": corpus(folder), "learning_rate": 1e-3})
    (folder / "work").mkdir()
    facts = get("cda").apply(model, settings, TrainingData(str(folder)), folder / "work", silent())
    write(folder / "work", facts, folder / "cda")
    return model, folder / "cda"


@pytest.mark.mirror
@pytest.mark.parametrize("kind", LOADERS)
def test_the_published_settings_train_all_weights_into_a_folder_that_loads_by_name(kind, tmp_path):
    base = load(BUNDLED[kind], device="cpu").network
    model, folder = made(kind, tmp_path)
    assert all(torch.equal(weight, base.state_dict()[name]) for name, weight in model.network.state_dict().items())
    assert not any(weight.requires_grad and weight.grad is not None for weight in model.network.parameters())
    count = sum(weight.numel() for weight in base.parameters())
    assert read(folder).cost.parameters == count
    named = logits(LOADERS[kind].from_pretrained(folder))
    assert (named - logits(base)).abs().max() > 1e-3
    with attached(model, folder) as adapted:
        assert torch.equal(logits(adapted.network), named)
        assert adapted.name == model.name
        assert adapted.adapter.startswith("cda@")
    assert torch.equal(logits(load(str(folder), device="cpu").network), named)
    classifiers = Classifiers(LoadOptions(kind, device="cpu"), folder)
    assert classifiers.effect is Effect.WHOLE
    body = classifiers.make(2, 0).base_model
    trained = LOADERS[kind].from_pretrained(folder).base_model.state_dict()
    assert all(torch.equal(weight, trained[name]) for name, weight in body.state_dict().items() if name in trained)
    write_facts(folder, replace(read(folder), data={}))  # a text of one's own has no licence that is known
    files = publication(folder, "org/cda", "mit", "org/base")
    card = ModelCard(files["README.md"].decode())
    assert f"{LOADERS[kind].__name__}.from_pretrained('org/cda')" in card.text.replace('"', "'")
    assert (card.data.base_model_relation, card.data.library_name) == ("finetune", "transformers")
    assert str(BUNDLED[kind]) not in files["config.json"].decode()


@pytest.mark.mirror
def test_a_whole_model_is_no_adapter_and_belongs_to_its_base(tmp_path):
    _, folder = made("tiny-causal", tmp_path)
    with pytest.raises(ScoringError, match="whole model"):
        load(BUNDLED["tiny-causal"], device="cpu", adapter=str(folder))
    with (
        pytest.raises(AdapterError, match=r"belongs to .* at revision"),
        attached(load(BUNDLED["tiny-masked"], device="cpu"), folder),
    ):
        pass
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(AdapterError, match="is not the file that"), attached(bundled(), folder):
        pass


def test_what_training_adds_is_multiplied_and_taken_back_also_after_an_error():
    model = bundled()
    before = logits(model.network)
    name, start = next((name, weight.clone()) for name, weight in model.network.named_parameters())
    with pytest.raises(ZeroDivisionError), trainable(model, SimpleNamespace(rank=0, seed=0), 1) as tuned:  # noqa: PT012
        weight = dict(tuned.network.named_parameters())[name]
        with torch.no_grad():
            weight.add_(0.5)
        tuned.multiply(-1.0)
        assert torch.allclose(weight, start - 0.5)
        _ = 1 / 0
    assert torch.equal(logits(model.network), before)


def test_weights_in_another_dtype_are_refused():
    model = load(BUNDLED["tiny-causal"], device="cpu", dtype="bfloat16")
    with (
        pytest.raises(MitigationError, match=r"float32, .*bfloat16"),
        trainable(model, SimpleNamespace(rank=0, seed=0), 1),
    ):
        pass
