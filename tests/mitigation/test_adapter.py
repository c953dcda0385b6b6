"""An adapter's folder: what is refused, what is loaded, and what is left when it is gone."""

import doctest
import json
import math
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from mitigation.adapters.temporary import attached
from mitigation.adapters.write import check_target, write, write_facts
from mitigation.errors import MitigationError
from mitigation.running.evaluate import changed
from scoring.adapters import facts
from scoring.adapters.attach import attach, tensor_shapes
from scoring.adapters.facts import CONFIG, FACTS, WEIGHTS, AdapterError, Change, read
from scoring.inference import fetching
from scoring.inference.load_options import BUNDLED, load
from scoring.types import Difference, Estimate, Option, Request
from tests.mitigation.made import bundled, data, quick, tuned

ASKS = [Request("a", "My friend sings, and", (Option(" she"), Option(" he went home.")), ("she", "he"), 5)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An adapter of the bundled model, made by six steps."""
    folder = tmp_path_factory.mktemp("made")
    tuned(bundled(), quick(), data(folder / "data"), folder / "adapter")
    return folder / "adapter"


@pytest.fixture
def own(made, tmp_path):
    """A copy of it to spoil."""
    return shutil.copytree(made, tmp_path / "own")


def edited(path, **changed):
    result = json.loads(path.read_text())
    path.write_text(json.dumps({**result, **changed}))


def signed(folder):
    """Makes the facts describe the files as they are."""
    edited(folder / FACTS, files=facts.digests(folder))
    return folder


def put(folder, network=None, revision=None):
    model = bundled()
    return attach(network or model.network, folder, base=model.name, revision=revision or model.revision)


def refused(folder, **more):
    """The sentence that an adapter is refused with; the model is as it was."""
    before = logits(bundled().network)
    with pytest.raises(AdapterError) as error:
        put(folder, **more)
    assert torch.equal(before, logits(bundled().network))
    assert "\n" not in str(error.value)
    return str(error.value)


@torch.no_grad()
def logits(network):
    return network(torch.arange(3, 40)[None]).logits


def test_a_folder_says_what_it_is(made):
    adapter = read(made)
    assert {path.name for path in made.iterdir()} == {FACTS, CONFIG, WEIGHTS, "losses.json", "losses.png"}
    assert (adapter.recipe, adapter.base, adapter.revision) == ("debias_tuning", bundled().name, bundled().revision)
    assert (adapter.settings["rank"], adapter.settings["learning_rate"], adapter.dtype) == (4, 5e-3, "float32")
    assert adapter.cost.parameters == sum(math.prod(shape) for shape in tensor_shapes(made / WEIGHTS).values())
    assert adapter.cost.memory > 0
    assert set(adapter.data) == {f"gender-neutral-probes/stsb/{split}" for split in ("train", "validation")}


def test_facts_come_back_as_they_were_written(made, tmp_path):
    change = Change("neutral", "stsb", "gas", (0.5, 0.4, 0.6), (0.1, 0.0, 0.2), (-0.4, math.nan, -0.3), 40)
    folder = shutil.copytree(made, tmp_path / "work")
    write(folder, replace(read(made), changes=(change, change), measures={"x": (1.0, 0.5, 1.5)}), tmp_path / "out")
    again = read(tmp_path / "out")
    assert str(again.changes) == str((change, change))
    assert again.measures == {"x": (1.0, 0.5, 1.5)}
    assert "NaN" not in (tmp_path / "out" / FACTS).read_text()
    assert not folder.exists()


@pytest.mark.fault(51)
def test_another_base_model_is_refused_with_both_names(made):
    message = refused(made, revision="0" * 40)
    assert message == (
        f"The adapter {made} belongs to {bundled().name} at revision {bundled().revision}, and the model is "
        f"{bundled().name} at {'0' * 40}; load the model that it was made for."
    )


def test_an_adapter_of_a_model_in_a_folder_fits_its_copy_on_the_hub_and_no_other(made, tmp_path, monkeypatch):
    snapshot = shutil.copytree(BUNDLED["tiny-causal"], tmp_path / "snapshots" / ("a" * 40))
    (snapshot / "README.md").write_text("# Small\n")
    monkeypatch.setattr(fetching, "fetched", lambda name, *_: snapshot if name == "org/small" else Path(name))
    loaded = load("org/small", device="cpu", adapter=str(made))
    assert (loaded.name, loaded.revision) == ("org/small", "a" * 40)
    assert "lora" in str(loaded.network)
    with attached(load("org/small", device="cpu"), made) as adapted:
        assert "lora" in str(adapted.network)
    edited(snapshot / "config.json", note="another model")
    with pytest.raises(AdapterError, match="was made for"):
        load("org/small", device="cpu", adapter=str(made))


@pytest.mark.fault(51)
@pytest.mark.parametrize("ours", [True, False])
def test_other_shapes_are_refused_with_both(own, ours):
    edited(own / CONFIG, r=8)
    signed(own) if ours else (own / FACTS).unlink()
    message = refused(own)
    assert message.startswith(f"The adapter {own} does not fit {bundled().name}: base_model.model.")
    assert "has the shape (4, " in message
    assert "in the adapter and (8, " in message


@pytest.mark.fault(51)
def test_an_adapter_for_maps_that_the_model_lacks_is_refused(own):
    edited(own / CONFIG, target_modules=["c_attn"])
    assert refused(signed(own)).startswith(f"The adapter {own} does not fit {bundled().name}: Target modules")


@pytest.mark.fault(51)
@pytest.mark.parametrize("rank", [2**40, 0, -3, "4"])
def test_an_impossible_rank_is_refused_and_nothing_is_left(own, rank):
    edited(own / CONFIG, r=rank)
    assert refused(signed(own)).startswith(f"The adapter {own} does not fit {bundled().name}: ")
    assert not any("lora" in name for name, _ in bundled().network.named_modules())


def bombed(length):
    def spoilt(content):
        return struct.pack("<Q", length) + content[8:]

    return spoilt


def header(change):
    """Weights whose header was changed, with the right length."""

    def spoilt(content):
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        change(next(v for k, v in header.items() if k != "__metadata__"))
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]

    return spoilt


SPOILT = {
    "cut to a half": (lambda c: c[: len(c) // 2], "its header describes other bytes than there are; fetch it again."),
    "cut to four bytes": (lambda c: c[:4], " bytes and the file has 4; fetch it again."),
    "empty": (lambda _: b"", " bytes and the file has 0; fetch it again."),
    "longer": (lambda c: c + b"\0", "its header describes other bytes than there are; fetch it again."),
    "a huge header": (bombed(2**62), f": its header claims {2**62} bytes and the file has "),
    "a header as long as the file": (bombed(2**23), f": its header claims {2**23} bytes and the file has "),
    "no JSON": (lambda c: struct.pack("<Q", 4) + b"{{{{" + c, "(JSONDecodeError); fetch it again."),
    "deep JSON": (lambda c: struct.pack("<Q", 40000) + b"[" * 40000 + c, "(RecursionError); fetch it again."),
    "a list": (lambda c: struct.pack("<Q", 2) + b"[]", "its header describes other bytes than there are"),
    "bytes used twice": (header(lambda t: t.update(data_offsets=[0, 1])), "its header describes other bytes"),
    "no shape": (header(lambda t: t.pop("shape")), "its header describes other bytes than there are"),
}


@pytest.mark.fault(51)
@pytest.mark.parametrize("name", SPOILT)
def test_truncated_and_bombed_weights_are_refused_by_their_header(own, name):
    spoil, message = SPOILT[name]
    (own / WEIGHTS).write_bytes(spoil((own / WEIGHTS).read_bytes()))
    message = refused(signed(own))
    assert message.startswith(f"{own / WEIGHTS} is no whole safetensors file")
    assert message in message


@pytest.mark.fault(51)
def test_weights_that_are_not_the_described_ones_are_refused(own):
    content = bytearray((own / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (own / WEIGHTS).write_bytes(content)
    assert refused(own) == f"{own / WEIGHTS} is not the file that mitigation.json describes; fetch the adapter again."


def test_facts_with_a_change_without_an_interval_are_read_again(own):
    estimate = Estimate("b", "g", "m", 1.0, math.nan, math.nan, math.nan, 1, 1)
    difference = Difference("b", "g", "m", 0.0, math.nan, math.nan, math.nan, 1, 1)
    without = changed(difference, estimate, estimate)
    write_facts(own, replace(read(own), changes=(without, replace(without, p=0.25))))
    assert [change.p for change in read(own).changes] == [None, 0.25]


@pytest.mark.fault(52)
@pytest.mark.parametrize("file", [FACTS, CONFIG])
def test_an_unknown_field_is_refused_by_name(own, file):
    edited(own / file, surprise=1)
    if file == CONFIG:
        signed(own)
    said = {FACTS: "has a wrong field, surprise: unexpected keyword argument, given 1", CONFIG: "has the unknown field"}
    assert refused(own).startswith(f"{own / file} {said[file]}")


@pytest.mark.fault(52)
@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b", "..\\x", "C:x", "a\0b", ".."])
def test_a_path_out_of_the_folder_is_refused(own, name):
    edited(own / FACTS, files={**facts.digests(own), name: "0" * 64})
    assert refused(own) == (
        f"{own / FACTS} names the file {name!r}, which is not in its folder; give plain file names."
    )


@pytest.mark.fault(52)
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cost": {"parameters": 1}}, "cost.seconds: field required, given {'parameters': 1}; fetch the adapter again"),
        ({"cost": 5}, "cost: input should be "),
        ({"recipe": ["a"]}, "recipe: input should be a valid string, given ['a']; fetch the adapter again"),
        ({"files": {"a": 1}}, "files.a: input should be a valid string, given 1; fetch the adapter again"),
        ({"measures": {"a": [1, 2]}}, "measures.a.2: field required, given [1, 2]"),
        ({"changes": [{"benchmark": "x", "secret": 1}]}, "changes.0.secret: unexpected keyword argument, given 1"),
        ({"format": 2}, " has the format 2; this version reads 1, so update it."),
    ],
)
def test_fields_of_another_kind_are_refused(own, changed, message):
    edited(own / FACTS, **changed)
    refusal = refused(own)
    assert refusal.startswith(f"{own / FACTS} has ")
    assert message in refusal


@pytest.mark.fault(52)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON (JSONDecodeError); fetch the adapter again."),
        ("[" * 20000, "is not JSON (RecursionError); fetch the adapter again."),
        ("[]", "holds a list, not an object; fetch the adapter again."),
        (
            "{}",
            "has a wrong field, recipe: field required, given {}; fetch the adapter again, or use the version that "
            "wrote it.",
        ),
    ],
)
def test_broken_facts_are_refused(own, text, message):
    (own / FACTS).write_text(text)
    assert refused(own) == f"{own / FACTS} {message}"


@pytest.mark.fault(52)
def test_a_configuration_of_an_unknown_method_or_with_code_is_refused(own):
    edited(own / CONFIG, peft_type="EVIL")
    assert refused(signed(own)).startswith(f"{own / CONFIG} has the method 'EVIL'; the ones known here are ")
    edited(own / CONFIG, peft_type="LORA", auto_mapping={"parent_library": "os", "base_model_class": "system"})
    assert (
        refused(signed(own)) == f"{own / CONFIG} asks for code or files elsewhere in auto_mapping; take the field out."
    )


@pytest.mark.fault(53)
def test_loaded_scored_and_unloaded_the_logits_are_bit_for_bit_as_before(made):
    model, before = bundled(), logits(bundled().network)
    responses = model.answer(ASKS)
    with attached(model, made) as adapted:
        assert adapted.adapter.startswith("adapter@")
        assert adapted.answer(ASKS)[0].candidate_logprobs != responses[0].candidate_logprobs
        assert not torch.equal(before, logits(adapted.network))
    assert torch.equal(before, logits(model.network))
    assert model.answer(ASKS) == responses
    assert not any("lora" in name for name, _ in model.network.named_modules())


@pytest.mark.fault(53)
def test_an_exception_while_it_is_loaded_leaves_the_model_as_it_was(made):
    before = logits(bundled().network)
    with pytest.raises(KeyError), attached(bundled(), made):
        raise KeyError
    assert torch.equal(before, logits(bundled().network))


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_peft_alone_has_the_same_logits(made):
    with attached(bundled(), made) as adapted:
        here = logits(adapted.network)
    base = AutoModelForCausalLM.from_pretrained(BUNDLED["tiny-causal"], dtype=torch.float32)
    assert torch.equal(here, logits(PeftModel.from_pretrained(base, made).eval()))


def test_a_folder_of_something_else_is_not_replaced(made, tmp_path):
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(MitigationError, match=r"thesis\.tex"):
        check_target(tmp_path)
    check_target(made)
    check_target(tmp_path / "new")


def test_the_doctests_of_the_facts_pass():
    assert doctest.testmod(facts).failed == 0
