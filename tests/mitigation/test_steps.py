"""Steps of a training on pairs: what the first one changes in any network, parts of a step, and where training ends."""

from dataclasses import replace
from types import SimpleNamespace

import peft
import pytest
import torch
import transformers
from peft import LoraConfig
from rich.console import Console

from builders.datasets import stated_gender
from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from mitigation.editing import edit, jobs, kept, pairs
from mitigation.editing.settings import EditingSchedule
from mitigation.editing.stamped import StampedNetwork
from mitigation.recipe import TrainingData
from mitigation.recipes import get
from mitigation.texts import corpora
from mitigation.training import train
from mitigation.training.trainable import expert_weights, share_of_body, trainable
from scoring.adapters.attach import quiet, wrap
from scoring.adapters.stamp import StampConfig
from scoring.inference.tokens import Query
from tests.mitigation import made
from tests.scoring import models

ROWS = [
    {"id": job, "subject": job, **filled(f"The {job} said that {BLANK} left.", "she", "he")}
    for job in ("nurse", "farmer", "teacher", "pilot")
]
VOCABULARY = 97
#: Small configurations of families, pre- and post-norm: the name of the configuration, and its own fields.
FAMILIES = {
    "llama": ("LlamaConfig", {"head_dim": 16}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "gemma2": ("Gemma2Config", {"head_dim": 16}),
    "gemma3": ("Gemma3TextConfig", {"head_dim": 16}),
    "olmo2": ("Olmo2Config", {}),
    "gpt-neox": ("GPTNeoXConfig", {}),
    "opt": ("OPTConfig", {"do_layer_norm_before": False}),
    "bert": ("BertConfig", {}),
}


def network_of(family, width, seed):
    name, fields = FAMILIES[family]
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    sizes = {"num_hidden_layers": 1, "hidden_size": width, "intermediate_size": 2 * width, "vocab_size": VOCABULARY}
    if family == "opt":
        sizes |= {"ffn_dim": 2 * width, "word_embed_proj_dim": width}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 64}
    config = getattr(transformers, name)(**sizes, **heads, **special, **fields)
    kind = "masked" if family == "bert" else "causal"
    cls = transformers.AutoModelForMaskedLM if kind == "masked" else transformers.AutoModelForCausalLM
    torch.manual_seed(seed)
    return cls.from_config(config).eval(), kind


def first_move(family, width, seed, *, scaled=True):
    """By what share of its own output the feed-forward part moves in the first step of Adam at a rate of .001."""
    network, kind = network_of(family, width, seed)
    stamped = wrap(network, StampConfig(layer=0, units=round(4 * width / 3), kind=kind))
    parts = StampedNetwork(stamped, 0, kind, 0)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(3, VOCABULARY, (4, 12), generator=generator).tolist()
    queries = [Query(tuple(row), (11,), (5,)) for row in rows]
    if scaled:
        edit.set_rate_of_values(parts, queries)
    layer = next(module for module in stamped.modules() if len(getattr(module, "fast_values", {})))
    seen = []
    layer.register_forward_hook(lambda _, __, output: seen.append(output.detach()))
    inputs = {"input_ids": torch.tensor(rows)}
    optimizer = edit._adam(parts, EditingSchedule(rate=1e-3))
    for group in optimizer.param_groups:
        group["lr"] = 1e-3 * group["share"]
    stamped(**inputs).logits[:, -1].log_softmax(-1)[:, 5].mean().backward()
    optimizer.step()
    with torch.no_grad():
        stamped(**inputs)
    before, after = seen
    return float((after - before).square().mean().sqrt() / before.square().mean().sqrt())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_step_of_a_stamp_depends_little_on_the_width(family):
    moves = [first_move(family, width, seed) for width, seed in ((64, 0), (256, 1), (1024, 2))]
    assert max(moves) < 2 * min(moves), moves
    assert 0.05 < moves[0] < 0.2, "a tenth of what the part writes, for a rate of .001"


def test_without_the_multiple_the_first_step_grows_with_the_width():
    narrow, wide = (first_move("gemma3", width, 0, scaled=False) for width in (64, 1024))
    assert max(narrow, wide) > 3 * min(narrow, wide)


def test_a_width_of_4096_moves_as_much_as_one_of_64():
    narrow, wide = first_move("llama", 64, 0), first_move("llama", 4096, 0)
    assert 0.5 < wide / narrow < 2


def stamped_toy():
    model = models.model("gpt2")
    torch.manual_seed(0)
    network = wrap(model.network, StampConfig(layer=1, units=16))
    parts = StampedNetwork(network, 1, model.kind, model.tokens.pad)
    texts = corpora.WITHOUT_PEOPLE.read_text(encoding="utf-8").splitlines()[:20]
    text = kept.KeptText(kept.OrdinaryText(model, texts, 0), kept.StatedGender(model, 0))
    return parts, [pairs.edit_pair(model.tokens, row) for row in ROWS], text


def run(parts, own, text, path, **plan):
    schedule = EditingSchedule(**{"batch": 4, "rate": 0.01, "alpha": 1.0, "passes": 4, "seed": 0} | plan)
    curve = edit.edit(parts, lambda n, _: [own[n]], len(own), [], schedule, path, Console(quiet=True), text)
    return curve, schedule


def test_a_first_step_that_moves_ordinary_text_too_much_is_made_smaller(tmp_path):
    parts, own, text = stamped_toy()
    queries = text.ordinary.batch(0, 4)
    schedule = EditingSchedule(batch=4, rate=50.0, passes=4)
    optimizer = edit._adam(parts, schedule)
    steps = edit.batches_of_step([[pair] for pair in own], text.batch(0, 4), schedule)
    edit._first_step(parts, steps, schedule, optimizer, text.ordinary, Console(quiet=True))
    assert 0 < edit.text_divergence(parts, queries) <= edit.FIRST
    assert {group["share"] for group in optimizer.param_groups} < {2.0**-n for n in range(1, train.HALVINGS)}
    parts, own, text = stamped_toy()
    run(parts, own, text, tmp_path / "a.pt", rate=50.0, passes=2)
    assert edit.text_divergence(parts, queries) < 5


def test_training_ends_where_ordinary_text_is_lost_with_the_weights_of_before(tmp_path, monkeypatch):
    monkeypatch.setattr(edit, "LOST", -1.0)
    parts, own, text = stamped_toy()
    curve, _ = run(parts, own, text, tmp_path / "a.pt", passes=50)
    assert len(curve.train) == edit.WINDOW
    assert edit.text_divergence(parts, text.ordinary.batch(0, 4)) == pytest.approx(0, abs=1e-6)


def test_parts_of_a_step_give_the_gradient_of_the_whole():
    gradients = {}
    for at_once in (4, 2, 1):
        parts, own, text = stamped_toy()
        for weight in parts.trained.values():
            torch.nn.init.normal_(weight, std=0.1)
        schedule = EditingSchedule(batch=4, at_once=at_once, mass=1.0, compare="square", passes=2, rate=1e-9)
        steps = edit.batches_of_step([[pair] for pair in own], text.batch(0, 4), schedule)
        assert len(steps) == 4 // at_once
        values = edit._train(parts, steps, schedule, edit._adam(parts, schedule), 0)
        gradients[at_once] = values, [weight.grad.clone() for weight in parts.trained.values()]
    whole, expected = gradients.pop(4)
    for values, of_parts in gradients.values():
        assert values == pytest.approx(whole, rel=1e-3)
        for one, other in zip(of_parts, expected, strict=True):
            assert torch.allclose(one, other, atol=1e-4)


def test_the_mass_of_both_objects_is_kept_where_it_has_a_weight():
    parts, own, _ = stamped_toy()
    for weight in parts.trained.values():
        torch.nn.init.normal_(weight, std=0.1)
    batch = edit.PairBatch([[pair] for pair in own])
    with torch.no_grad():
        terms = batch.loss_terms(parts, EditingSchedule(mass=2.0))
        assert "l_m" not in batch.loss_terms(parts, EditingSchedule())
    changes = []
    for pair in own:
        query = pair.biased[0]
        sums = []
        for adapted in (True, False):
            with torch.no_grad():
                if adapted:
                    logits = parts.network(input_ids=torch.tensor([query.ids])).logits
                else:
                    with parts.network.disable_adapter():
                        logits = parts.network(input_ids=torch.tensor([query.ids])).logits
            sums.append(logits[0, query.at[0]].double().log_softmax(-1)[list(pair.objects)].logsumexp(0))
        changes.append(float((sums[0] - sums[1]) ** 2))
    assert float(terms["l_m"]) == pytest.approx(sum(changes) / len(changes), rel=1e-3)


def test_what_is_learnt_by_default_is_not_what_stated_gender_measures():
    assert not stated_gender.shared(row[f"sentence_{side}"] for row in jobs.rows() for side in pairs.PAIR)
    every = [f"{one.before}{one.forms[0]}{one.after}" for pair in kept.sentences() for one in pair]
    assert not stated_gender.shared(every)
    assert not stated_gender.shared(corpora.WITHOUT_PEOPLE.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("kind", ["tiny-causal", "tiny-masked"])
def test_fine_tuning_needs_no_file_and_writes_a_lora(kind, tmp_path):
    model = made.bundled() if kind == "tiny-causal" else models.load("tiny-masked", device="cpu")
    settings = replace(get("fine_tuning").profiles["clean"], steps=2, batch=2, held_out=0.9)
    out = tmp_path / "work" / "made"
    out.mkdir(parents=True)
    data = TrainingData(str(tmp_path / "nothing"))
    adapter = get("fine_tuning").apply(model, settings, data, out, Console(quiet=True))
    assert adapter.measures["share_of_body"][0] > 0.9
    assert list(adapter.data) == ["project:jobs", "project:without_people.txt"]
    assert {"adapter_config.json", "adapter_model.safetensors"} <= set(adapter.files)


@pytest.mark.parametrize("architecture", [transformers.GptOssConfig, transformers.MixtralConfig])
def test_a_lora_reaches_experts_that_are_no_linear_maps_and_loads_and_merges(architecture, tmp_path):
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "vocab_size": VOCABULARY}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 4}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    torch.manual_seed(0)
    network = transformers.AutoModelForCausalLM.from_config(architecture(**sizes, **heads, **special)).eval()
    linear_alone = wrap(network, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    # PEFT finds the experts of Mixtral, which were linear maps in its first checkpoints.
    assert (share_of_body(linear_alone) < 0.5) == (architecture is transformers.GptOssConfig)
    model = SimpleNamespace(network=linear_alone.unload(), kind="causal", name="made", dtype="float32")
    ids = torch.arange(4, 12)[None]
    before = network(input_ids=ids).logits
    with trainable(model, SimpleNamespace(rank=2, seed=0, dropout=0.1), 2) as tuned:
        assert share_of_body(tuned.network) > 0.9
        trained = [weight for weight in tuned.network.parameters() if weight.requires_grad]
        optimizer = torch.optim.Adam(trained, 0.01)
        for _ in range(2):
            tuned.network(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        tuned.network.eval()
        after = tuned.network(input_ids=ids).logits.detach()
        tuned.save(tmp_path)
    assert (after - before).abs().max() > 0.01
    assert torch.allclose(model.network(input_ids=ids).logits, before, atol=1e-6)
    with quiet():
        loaded = peft.PeftModel.from_pretrained(model.network, tmp_path).eval()
    assert torch.allclose(loaded(input_ids=ids).logits, after, atol=1e-5)
    merged = loaded.merge_and_unload()
    assert torch.allclose(merged(input_ids=ids).logits, after, atol=1e-4)


def test_a_convolution_is_no_expert():
    config = transformers.MambaConfig(num_hidden_layers=1, hidden_size=32, vocab_size=VOCABULARY)
    assert not expert_weights(transformers.AutoModelForCausalLM.from_config(config))
