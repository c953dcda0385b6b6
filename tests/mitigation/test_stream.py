"""Steering and ablation: planted constants and directions in the residual stream, families, and refusals."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import peft
import pytest
import torch

from mitigation.errors import MitigationError
from mitigation.projections import states, subspaces
from mitigation.recipes import get
from mitigation.running.steps import make_adapter
from mitigation.training.data import TrainingData
from scoring.adapters.attach import attach, quiet
from scoring.adapters.feed_forward import blocks
from scoring.inference.load_options import BUNDLED, load
from tests.mitigation.made import bundled, silent
from tests.mitigation.test_projections import planted, planted_corpus
from tests.mitigation.texts import corpus
from tests.scoring import models

#: Families whose blocks add to the stream without a normalization behind the maps.
OPEN_STREAMS = ["gpt2", "opt", "llama", "neox", "gemma2", "cohere", "granite"]
STEER = {"block": 0, "held": 30, "strengths": "1,2", "loss_limit": 0.0}


def ran(name, model, settings, out):
    """The facts of an adapter in a new folder."""
    out.mkdir(parents=True)
    return get(name).apply(model, settings, TrainingData(str(out)), out, silent())


def unit(width):
    vector = torch.from_numpy(np.random.default_rng(5).normal(size=width))
    return vector / vector.norm()


def test_a_planted_constant_is_steered_away(tmp_path):
    model, direction = planted()
    constant = torch.from_numpy(0.8 * direction).float()
    with torch.no_grad():
        model.network.transformer.h[0].mlp.c_proj.bias.add_(constant)  # every text looks male
    settings = replace(get("steering").profiles["clean"], **planted_corpus(tmp_path), **STEER)
    facts = ran("steering", model, settings, tmp_path / "made")
    before, after = (facts.measures[f"held-out preference {when}"][0] for when in ("before", "after"))
    assert before < -1
    assert abs(after) < 0.35 * abs(before)
    adapted = attach(model.network, tmp_path / "made", base=model.name, revision=model.revision)
    added = adapted.get_base_model().transformer.h[0].mlp.c_proj.lora_B["default"].bias
    adapted.unload()
    assert torch.cosine_similarity(added, -constant, 0) > 0.95


def test_a_planted_direction_is_projected_out_where_the_head_reads(tmp_path):
    model, _ = planted()
    settings = replace(get("steering").profiles["clean"], **planted_corpus(tmp_path), **STEER | {"how": "project"})
    facts = ran("steering", model, settings, tmp_path / "made")
    before, after = (facts.measures[f"held-out absolute preference {when}"][0] for when in ("before", "after"))
    assert before > 1
    assert after < 0.1 * before


JOBS = {
    "first": ("nurse", "maid", "dancer", "cook", "singer"),
    "second": ("guard", "driver", "sailor", "smith", "judge"),
}


def contrast_file(folder, **changed):
    texts = {kind: [f"The {job} said that [he|she] was late." for job in jobs] for kind, jobs in JOBS.items()}
    (folder / "contrast.json").write_text(json.dumps(texts | changed))
    return str(folder / "contrast.json")


@pytest.mark.parametrize("name", ["tiny-causal", "tiny-masked"])
def test_after_the_projection_the_head_predicts_the_same_on_average_for_both_kinds_of_texts(name, tmp_path):
    model = load(BUNDLED[name], device="cpu")
    given = {"contrast": contrast_file(tmp_path), "how": "project"}
    facts = ran("steering", model, replace(get("steering").profiles["clean"], **given), tmp_path / "made")
    (file,) = facts.data
    assert file.endswith("contrast.json")

    tokenizer, path = model.tokens.tokenizer, states.reading_map(model)[0]
    blank = f" {tokenizer.mask_token}" if model.kind == "masked" else ""
    means = []
    for jobs in JOBS.values():
        found = []
        for job in [job for n, job in enumerate(jobs) if n % 4 != 3]:
            row = tokenizer(
                f"The {job} said that{blank} was late." if blank else f"The {job} said that", return_tensors="pt"
            )
            at = int((row["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0]) if blank else -1
            with torch.inference_mode():
                found.append(states.last_hidden_state(model.network, dict(row))[0, at])
        means.append(torch.stack(found).mean(0))
    apart = means[1] - means[0]
    adapted = attach(model.network, tmp_path / "made", base=model.name, revision=model.revision)
    reads = adapted.get_base_model().get_submodule(path)
    with torch.inference_mode():
        before, after = (read(apart) - read(torch.zeros_like(apart)) for read in (reads.base_layer, reads))
    adapted.unload()
    assert before.norm() > 0.1
    assert after.norm() < 1e-4 * before.norm()


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"second": ["The smith said that [he|she] was late."]}, r"second: list should have at least 4 items"),
        ({"first": ["The nurse said that she was late."] * 4}, r"first.0: string should match pattern"),
        ({"third": []}, r"third: "),
    ],
)
def test_a_contrast_that_is_none_is_refused_in_one_sentence(changed, fault, tmp_path):
    settings = replace(get("steering").profiles["clean"], contrast=contrast_file(tmp_path, **changed))
    with pytest.raises(
        MitigationError, match=rf"^The contrast .*contrast.json cannot be read \({fault}.*give a JSON object"
    ):
        ran("steering", bundled(), settings, tmp_path / "made")


def test_a_planted_direction_is_ablated(tmp_path):
    model, direction = planted()
    settings = replace(get("ablation").profiles["clean"], **planted_corpus(tmp_path), held=60)
    facts = ran("ablation", model, settings, tmp_path / "made")
    before, after = (facts.measures[f"held-out absolute preference {when}"][0] for when in ("before", "after"))
    assert before > 1
    assert after < 0.1 * before
    adapted = attach(model.network, tmp_path / "made", base=model.name, revision=model.revision)
    written = adapted.get_base_model().transformer.wte.lora_embedding_B["default"].flatten()
    adapted.unload()
    assert abs(float(written @ torch.from_numpy(direction).float())) > 0.95


@pytest.mark.parametrize("name", OPEN_STREAMS)
def test_no_block_writes_along_the_direction_and_the_lora_equals_hooks(name, tmp_path):
    model = models.model(name)
    names = [block for block, _ in blocks(model.network)]
    maps, direction = states.writing_maps(model, names), unit(32)
    assert len(maps) == 1 + 2 * len(names)
    ids = torch.arange(6, 26).reshape(2, 10)
    along = states.spread_along(model, names, direction)
    handles = []
    for path in maps:
        module = model.network.get_submodule(path)
        bias = getattr(module, "bias", None)
        kept = torch.zeros(32) if bias is None else bias
        handles.append(
            module.register_forward_hook(
                lambda _, __, out, kept=kept: out - ((out - kept) @ direction.float())[..., None] * direction.float()
            )
        )
    expected = model.network(input_ids=ids).logits
    for handle in handles:
        handle.remove()
    before = model.network(input_ids=ids).logits
    subspaces.write_lora(model, subspaces.without(maps, direction), tmp_path)
    assert torch.equal(model.network(input_ids=ids).logits, before)
    with quiet():
        model.network = peft.PeftModel.from_pretrained(models.network(name), tmp_path).eval()
    assert states.spread_along(model, names, direction) < 1e-4 * along
    scale = expected.abs().max()
    assert (model.network(input_ids=ids).logits - expected).abs().max() <= 1e-5 * scale
    assert (expected - before).abs().max() > 1e-3 * scale


@pytest.mark.parametrize("name", ["bert", "bloom"])
def test_a_stream_with_a_normalization_behind_its_maps_is_refused(name, tmp_path):
    model = models.model(name)
    for module in model.network.modules():  # as after training; with equal gains, a direction may stay one
        if isinstance(module, torch.nn.LayerNorm):
            torch.nn.init.normal_(module.weight, generator=torch.Generator().manual_seed(0))
    settings = replace(get("ablation").profiles["clean"], **planted_corpus(tmp_path), held=2)
    before = {name: weight.clone() for name, weight in model.network.state_dict().items()}
    with pytest.raises(MitigationError, match=r"still write \d+%"):
        ran("ablation", model, settings, tmp_path / "made")
    assert all(torch.equal(weight, before[name]) for name, weight in model.network.state_dict().items())


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("steering", {"strengths": "1,-2"}, "The setting strengths is '1,-2'; give numbers above 0"),
        ("steering", {"block": 2}, "The block is 2 and gpt2 has 2; give one from 0 to 1, or -1 for the middle"),
        ("steering", {"strengths": "1e-30", "loss_limit": 1e-12}, "No strength among 1e-30 lowers the preference of"),
        ("ablation", {"sentences": 30}, r"The corpus has \d+ sentences with words of the first group alone and "),
        ("ablation", {"domain": "race"}, "The groups of words for 'race' have 3 words, and a"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(name, changed, message, tmp_path):
    given = planted_corpus(tmp_path) | {"held": 4} | changed
    if "domain" in changed:
        Path(given["words"]).write_text(json.dumps({changed["domain"]: [["one", "two", "three"]]}))
    with pytest.raises(MitigationError, match=f"^{message}"):
        ran(name, planted()[0], replace(get(name).profiles["clean"], **given), tmp_path / "made")


@pytest.mark.mirror
@pytest.mark.parametrize(("name", "kind"), [("steering", "causal"), ("steering", "masked"), ("ablation", "causal")])
def test_an_adapter_from_real_text_keeps_the_loss_and_steering_lowers_the_preference(name, kind, tmp_path):
    model = bundled() if kind == "causal" else models.model("bert")
    few = {"corpus": corpus(tmp_path), "sentences": 150, "lines": 800, "held": 16}
    settings = replace(
        get(name).profiles["clean"], **few | ({} if name == "ablation" else {"strengths": "0.3,1", "loss_limit": 0.2})
    )
    facts = make_adapter(get(name), settings, model, TrainingData(str(tmp_path)), tmp_path / "made", silent())
    assert facts.data == settings.inputs()
    assert facts.measures["held-out loss after"][0] < facts.measures["held-out loss before"][0] + 0.3
    if name == "steering":  # an ablation on so few sentences may raise it
        before, after = (abs(facts.measures[f"held-out preference {when}"][0]) for when in ("before", "after"))
        assert after < before
