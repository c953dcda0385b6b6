"""DPO: a planted preference for one pronoun shrinks, rows are balanced as the formula asks, and training goes on."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mitigation.errors import MitigationError
from mitigation.recipes import dpo, get
from mitigation.training import losses, train
from mitigation.training.data import TrainingData
from scoring.inference.load_options import BUNDLED, load
from tests.mitigation.made import DOING, bundled, data, silent
from tests.scoring import models
from tests.scoring.made import data_set

QUICK = {"corpora": "stsb", "steps": 24, "batch_size": 8, "learning_rate": 2e-3, "warmup": 0, "rank": 4, "alpha": 4}


def many_probes(folder):
    """More training probes than the steps use: a row that is seen again and again would be learnt by heart."""
    numbers = {"train": range(40), "validation": range(40, 45), "test": range(45, 50)}
    splits = {
        ("stsb", split): [
            {"id": f"{split}-{does}-{n}", "statement": "", "prompt": f"My friend {does} on day {n}, and"}
            for does in DOING
            for n in some
        ]
        for split, some in numbers.items()
    }
    return data_set(folder, "gender-neutral-probes", splits)


def ran(model, source, folder, **changed):
    """The facts of a training in a new folder beside its checkpoints."""
    (folder / "made").mkdir(parents=True)
    settings = replace(get("dpo").profiles["clean"], **QUICK | changed)
    return get("dpo").apply(model, settings, TrainingData(str(source)), folder / "made", silent())


def test_a_planted_preference_shrinks_and_the_base_model_stays(tmp_path):
    model = load(BUNDLED["tiny-causal"], device="cpu")
    he = model.tokens.words(dpo.PRONOUNS)[1]
    with torch.no_grad():  # he is more probable than she by 2 nats more, wherever a final state is like this one
        head = model.network.get_output_embeddings().weight
        states = model.network.base_model(input_ids=torch.arange(20, 60)[None]).last_hidden_state[0]
        mean = states.mean(0)
        head[he] += 2 * mean / mean.square().sum()
    weights = {name: weight.clone() for name, weight in model.network.state_dict().items()}
    configs = [model.network.config.to_json_string(), model.network.generation_config.to_json_string()]
    facts = ran(model, many_probes(tmp_path / "data"), tmp_path / "w")
    before, after = (facts.measures[f"held-out absolute log ratio {when}"][0] for when in ("before", "after"))
    assert before > 1.2
    assert after < 0.75 * before
    assert 0.75 < facts.measures["share of rows that prefer she"][0] <= 1
    assert [model.network.config.to_json_string(), model.network.generation_config.to_json_string()] == configs
    assert all(torch.equal(weight, weights[name]) for name, weight in model.network.state_dict().items())
    assert sorted(path.name for path in (tmp_path / "w" / "made").iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors", "losses.json", "losses.png",
    ]  # fmt: skip


def test_the_optimum_of_the_rows_is_balance():
    ratios = np.random.default_rng(0).normal(1.5, 0.2, 4000)
    for beta in (0.1, 1.0):
        share = dpo.prefers_first(ratios, beta).mean()
        # DPO adds logit(share) / beta to the base model's log-ratio.
        assert np.log(share / (1 - share)) / beta + ratios.mean() == pytest.approx(0, abs=0.06)


def test_the_loss_is_that_of_the_paper():
    """Equation 7 of Rafailov et al. (2023), written for whole distributions of both models."""
    torch.manual_seed(0)
    logits, base = torch.randn(2, 3, 11), torch.randn(2, 3, 11)  # [rows, tokens, vocabulary]
    she, he, beta = 4, 7, 0.3
    rows = []
    for number, (ids, chosen) in enumerate((([1, 2, 3], she), ([5, 6], he))):
        at = base[number, len(ids) - 1].log_softmax(-1)
        rows.append(dpo.Preference(ids, (she, he), float(chosen == she), float(at[she] - at[he])))
    model = SimpleNamespace(device=torch.device("cpu"), tokens=SimpleNamespace(pad=0))
    terms = losses.PreferenceLoss(model, beta)(lambda **_: SimpleNamespace(logits=logits), rows)
    expected = []
    for number, (last, chosen, rejected) in enumerate(((2, she, he), (1, he, she))):
        ratio = logits[number, last].log_softmax(-1) - base[number, last].log_softmax(-1)
        expected.append(-torch.log(torch.sigmoid(beta * ratio[chosen] - beta * ratio[rejected])))
    assert float(terms["loss"]) == pytest.approx(float(torch.stack(expected).mean()), abs=1e-6)


def test_an_interrupted_training_ends_as_one_that_was_not(tmp_path, monkeypatch):
    source, calls, step = data(tmp_path / "data"), [], train._step

    def counted(*given):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return step(*given)

    monkeypatch.setattr(train, "_step", counted)
    few = {"steps": 4, "checkpoint_every": 2}
    model = bundled()
    with pytest.raises(KeyboardInterrupt):
        ran(model, source, tmp_path / "w", **few)
    assert not hasattr(model.network, "peft_config")
    (tmp_path / "w" / "made").rmdir()
    resumed = ran(model, source, tmp_path / "w", **few)
    assert len(calls) == 4 + 2
    whole = ran(model, source, tmp_path / "other", **few)
    assert resumed.files["adapter_model.safetensors"] == whole.files["adapter_model.safetensors"]


def test_pronouns_of_several_tokens_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(dpo, "PRONOUNS", ("she", "hippopotamus"))
    with pytest.raises(MitigationError, match="opt she or he"):
        ran(models.model("opt"), data(tmp_path / "data"), tmp_path / "w")
