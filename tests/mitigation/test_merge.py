"""Merging: the adapter of every recipe becomes a whole model that plain transformers load, with equal logits."""

import json
from dataclasses import replace

import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model

import mitigation
from builders.text.embedded import DATA
from mitigation.adapters import merging
from mitigation.adapters.write import MERGED, describe, save_peft, write
from mitigation.errors import MitigationError
from mitigation.projections import subspaces
from mitigation.recipes import ablation, get, mabel, names
from mitigation.training.data import TrainingData
from scoring.adapters.attach import attach, wrap
from scoring.adapters.facts import Cost, read
from scoring.adapters.stamp import StampConfig
from scoring.inference.load_options import BUNDLED, LoadOptions, load
from tests.mitigation import made, test_auto_debias, test_dpo, test_fast, test_language, test_mabel
from tests.mitigation.test_projections import planted_corpus, random_projection
from tests.scoring import models
from tests.scoring.made import data_set
from tests.support import commands

LOADERS = {"tiny-causal": transformers.AutoModelForCausalLM, "tiny-masked": transformers.AutoModelForMaskedLM}
#: Statements that the command itself does not compare.
STATEMENTS = (DATA / "llm-2.txt").read_text().splitlines()[:16]
FEW = {"steps": 2, "rank": 4, "validate_every": 2, "checkpoint_every": 2, "alpha": 16, "learning_rate": 1e-2}
#: Recipes that write matrices of their own; the others train the same LoRA, so one kind of model is enough for each.
OWN = ("ablation", "closed_form", "fast", "inlp", "leace", "sentence_debias", "steering", "tie")
CAUSAL, MASKED = ("cda", "debias_tuning", "dpo", "fine_tuning", "task_vector"), ("auto_debias", "dropout", "mabel")
CASES = [*((name, kind) for name in OWN for kind in LOADERS)]
CASES += [*((name, "tiny-causal") for name in CAUSAL), *((name, "tiny-masked") for name in MASKED)]
#: Where an adapter needs a bias that the architecture does not have.
REFUSED = {("leace", "tiny-causal")}


def settings(name, folder):
    """A recipe's settings for a few steps, and its data."""
    data = TrainingData(str(folder))
    if name in ("inlp", "sentence_debias", "leace", "steering", "ablation", "tie"):
        own = {"inlp": {"classifiers": 3}, "steering": {"strengths": "0.2,1,3", "held": 30}, "ablation": {"held": 8}}
        return replace(get(name).profiles["clean"], **planted_corpus(folder), **own.get(name, {})), data
    if name == "closed_form":
        return replace(get(name).profiles["clean"], kept=0, rank=4), data
    if name in ("cda", "dropout", "task_vector"):
        return test_language.planted_settings(folder, name, **FEW), data
    if name in ("fast", "fine_tuning"):
        data = TrainingData(str(data_set(folder, "biaske", {("stereoset", "test"): test_fast.rows()})))
        if name == "fast":
            return test_fast.settings(layer=1), data
        few = {"sets": "stereoset", "rank": 4, "steps": 0, "passes": 2, "rate": 1e-2}
        return replace(get(name).profiles["clean"], **few), data
    if name == "auto_debias":
        return test_auto_debias.settings(folder, rank=4, alpha=16), data
    if name == "mabel":
        (folder / "words.json").write_text(json.dumps({"gender": test_mabel.WORDS.groups}))
        few = {"words": str(folder / "words.json"), "rank": 4, "alpha": 16, "epochs": 1, "held_out": 0.25}
        return replace(get(name).profiles["clean"], **test_mabel.QUICK | few), data
    source = TrainingData(str(made.data(folder)))
    if name == "dpo":
        return replace(get(name).profiles["clean"], **test_dpo.QUICK | {"steps": 2, "alpha": 16}), source
    return made.quick(**FEW), source


def adapter(name, model, folder):
    """The folder of an adapter that a recipe made for a loaded model."""
    chosen, data = settings(name, folder)
    (folder / "work" / "made").mkdir(parents=True)
    facts = get(name).apply(model, chosen, data, folder / "work" / "made", made.silent())
    write(folder / "work" / "made", facts, folder / "adapter")
    return folder / "adapter"


def test_every_recipe_that_makes_an_adapter_is_merged_below():
    assert {name for name, _ in CASES} == {*names()} - {"decoding", "gradiend", "prompts", "self_debias"}


@torch.inference_mode()
def logits(network, tokenizer):
    return torch.cat([network(**tokenizer(text, return_tensors="pt")).logits[0] for text in STATEMENTS])


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_adapter_is_a_whole_model_with_equal_logits(name, kind, tmp_path, monkeypatch):
    model = load(BUNDLED[kind], device="cpu")
    monkeypatch.setattr(ablation, "REMAINS", 10.0)  # an ablation that the recipe refuses is merged as others are
    monkeypatch.setattr(mabel, "entailment_pairs", lambda _: test_mabel.pairs())
    monkeypatch.setattr(mabel.MabelSettings, "inputs", lambda _: {})
    folder = adapter(name, model, tmp_path)
    if (name, kind) in REFUSED:
        with pytest.raises(MitigationError, match=r"LlamaForCausalLM.*lm_head"):
            mitigation.merge(kind, folder, out=tmp_path / "merged")
        assert not (tmp_path / "merged").exists()
        return
    done = mitigation.merge(kind, folder, out=tmp_path / "merged")
    network, report = LOADERS[kind].from_pretrained(tmp_path / "merged", dtype=torch.float64, output_loading_info=True)
    assert not any(report.values()), report
    # In float64, because logits of about 20 are rounded by 1e-5 in float32, also those of the adapted model itself.
    base = LoadOptions(kind, device="cpu", dtype="float64").load()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "merged")
    merged, before = logits(network.eval(), tokenizer), logits(base.network, tokenizer)
    adapted = logits(attach(base.network, folder, base=kind, revision=base.revision), tokenizer)
    apart = (merged - adapted).abs().max().item()
    print(f"{name}, {kind}: {apart:.1e} in float64, {done.difference:.1e} in float32, {done.changes}")
    assert apart <= 1e-5
    assert done.difference <= 5e-5
    assert (adapted - before).abs().max() > 0.05
    assert read(tmp_path / "merged").measures[MERGED][0] == done.difference


def written(model, out, base):
    """The folder of an adapter that is in a folder, with facts."""
    facts = describe(out, model, "leace", get("leace").profiles["clean"], data={}, cost=Cost(1, 1.0, 1, "cpu"))
    write(out, replace(facts, base=base), out.with_name("adapter"))
    return out.with_name("adapter")


def stamped(model, out, units=16):
    """The files of a stamp that changes what a model says."""
    torch.manual_seed(0)
    network = wrap(model.network, StampConfig(layer=1, units=units))
    for name, weight in network.named_parameters():
        if "fast_values" in name:
            torch.nn.init.normal_(weight, std=0.3)
    save_peft(network, out, model.name)
    model.network = network.unload()


#: What families do with a bias of the head and with a stamp: a change that is named, or the end of a refusal.
FAMILIES = {
    "gpt2": ("LayerNorm before", "16 more units"),
    "opt": ("LayerNorm before", "16 more units"),
    "neox": ("LayerNorm before", "16 more units"),
    "bloom": ("LayerNorm before", "has no option for the width"),
    "llama": ("has no bias at lm_head", "(mlp_bias)"),
    "granite": ("has no bias at lm_head", "(mlp_bias)"),
    "gemma2": ("has no bias at lm_head", "has no bias at model.layers.1.mlp.up_proj"),
    "cohere": ("has no bias at lm_head", "has no bias at model.layers.1.mlp.up_proj"),
    "bert": ("", "16 more units"),
    "roberta": ("", "16 more units"),
}


@pytest.mark.parametrize("way", ["bias", "stamp"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_bias_and_a_stamp_become_part_of_the_weights_where_there_is_a_place(name, way, tmp_path):
    network, tokenizer = models.network(name), models.tokenizer(models.FAMILIES[name][2])
    with torch.no_grad():
        for module in network.modules():  # as after training: gains and shifts of norms differ
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.add_(torch.randn_like(module.weight), alpha=0.2)
                module.bias.add_(torch.randn_like(module.bias), alpha=0.2)
    network.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    model = LoadOptions(str(tmp_path / "base"), device="cpu").load()
    (tmp_path / "work").mkdir()
    if way == "bias":
        subspaces.write_projection(model, random_projection(32, mean=True), tmp_path / "work")
    else:
        stamped(model, tmp_path / "work")
    folder = written(model, tmp_path / "work", str(tmp_path / "base"))
    told = FAMILIES[name][way == "stamp"]
    if told.startswith("has no "):
        with pytest.raises(MitigationError, match=told):
            mitigation.merge(tmp_path / "base", folder, out=tmp_path / "merged")
        assert not (tmp_path / "merged").exists()
        return
    done = mitigation.merge(tmp_path / "base", folder, out=tmp_path / "merged")
    assert told in " ".join(done.changes)
    merged = type(network).from_pretrained(tmp_path / "merged").eval()
    adapted = attach(model.network, folder, base=model.name, revision=model.revision)
    ids = torch.arange(6, 26).reshape(2, 10)
    with torch.inference_mode():
        one, other = merged(input_ids=ids).logits, adapted(input_ids=ids).logits
        with adapted.disable_adapter():
            before = adapted(input_ids=ids).logits
    scale = other.abs().max()
    assert (one - other).abs().max() <= 1e-5 * scale
    assert (before - other).abs().max() > 1e-2 * scale


@pytest.fixture(scope="module")
def stamp(tmp_path_factory):
    """A stamp of the bundled causal model."""
    out = tmp_path_factory.mktemp("stamp") / "work"
    out.mkdir()
    stamped(made.bundled(), out)
    return written(made.bundled(), out, "tiny-causal")


def run(*arguments):
    return commands.run("mitigation", "merge", *arguments)


def test_the_command_writes_a_model_that_is_scored_and_can_be_written_again(stamp, tmp_path):
    out = tmp_path / "merged"
    done = run("tiny-causal", stamp, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "Each block has 16 more units, which are zero except in model.layers.1.mlp." in done.stdout
    assert f"The model is {out}; its logits differ by at most " in done.stdout
    assert run("tiny-causal", stamp, "--out", out).returncode == 0
    data = made.data(tmp_path / "data")
    options = ("--benchmarks", "neutral", "--limit", 2, "--resamples", 20, "--data", data)
    for model, to in (((out,), "merged"), (("tiny-causal", "--adapter", stamp), "adapted")):
        done = commands.run("scoring", *model, *options, "--out", tmp_path / to / "run")
        assert done.returncode == 0, done.stderr
    one, other = (
        {(e["benchmark"], e["group"], e["metric"]): e["value"] for e in json.loads(path.read_text())["estimates"]}
        for path in (tmp_path / to / "run" / "results.json" for to in ("merged", "adapted"))
    )
    assert one.keys() == other.keys()
    assert one == pytest.approx(other, abs=1e-4, nan_ok=True)


def test_a_file_of_the_users_own_stays(stamp, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = run("tiny-causal", stamp, "--out", tmp_path)
    assert done.returncode == 1
    assert "notes.txt" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_what_cannot_be_merged_is_refused_in_one_sentence(stamp, tmp_path):
    mitigation.merge("tiny-causal", stamp, out=tmp_path / "merged")
    prompt = tmp_path / "prompt"
    (tmp_path / "work").mkdir()
    facts = get("prompts").apply(
        made.bundled(), get("prompts").profiles["clean"], TrainingData(), tmp_path / "work", made.silent()
    )
    write(tmp_path / "work", facts, prompt)
    for adapter, message in (
        (tmp_path / "merged", f"{tmp_path / 'merged'} is a whole model, so there is nothing to merge; give it to "),
        (prompt, f"{prompt} is a prompt, so there is nothing to merge; give it to "),
    ):
        with pytest.raises(MitigationError, match=f"^{message}"):
            mitigation.merge("tiny-causal", adapter, out=tmp_path / "out")
    with pytest.raises(MitigationError, match="--dtype"):
        mitigation.merge("tiny-causal", stamp, out=tmp_path / "out", dtype="float16")
    assert not (tmp_path / "out").exists()


def test_a_model_that_would_say_something_else_is_not_written(stamp, tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "STEEPNESS", 1.0)  # then the units are no ReLU
    with pytest.raises(MitigationError, match=r"logits .*merged model"):
        mitigation.merge("tiny-causal", stamp, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore")  # those of PEFT about tied and saved embeddings
@pytest.mark.parametrize("saved", [None, ["embed_tokens", "lm_head"]])
def test_an_adapter_of_others_with_added_tokens_is_loaded_and_merged(saved, tmp_path):
    """As PEFT's own class does it: the folder has the tokenizer, and the network gets a row for each token of it."""
    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(BUNDLED["tiny-causal"])
    tokenizer.add_tokens(["<one>", "<two>"])
    network = transformers.AutoModelForCausalLM.from_pretrained(BUNDLED["tiny-causal"])
    network.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], modules_to_save=saved, task_type="CAUSAL_LM")
    adapted = get_peft_model(network, lora)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.3)
    adapted.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    expected = logits(adapted.eval(), tokenizer)
    loaded = load(BUNDLED["tiny-causal"], adapter=str(tmp_path / "adapter"), device="cpu", dtype="float32")
    assert len(loaded.tokens.tokenizer) == len(tokenizer)
    assert (logits(loaded.network, tokenizer) - expected).abs().max() < 1e-4
    done = mitigation.merge("tiny-causal", tmp_path / "adapter", out=tmp_path / "merged", device="cpu")
    assert "was made by no recipe of this project: LORA of PEFT" in done.changes[0]
    merged = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32)
    assert (logits(merged.eval(), tokenizer) - expected).abs().max() < 1e-3
