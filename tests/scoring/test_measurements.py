"""Measurements: each way of batching is measured on networks with a planted fault, and the fault is found."""

import inspect

import pytest
import torch

from scoring.inference.engines.loaded import engine_of
from scoring.inference.load_options import BUNDLED, load
from scoring.inference.measurements import GenerationMode, Measurements
from scoring.inference.model import Model
from scoring.types import Option, Request, ScoringError
from tests.scoring.models import model, network, tokenizer

TEXTS = ["The nurse said that she came home", "The nurse", "The farmer said that he came home and left the house again"]
REQUESTS = [Request(str(n), "", (Option(text),)) for n, text in enumerate(TEXTS)]


def faulty(name, fault, kind="causal"):
    """A model whose logits a function of (input_ids, attention_mask, logits) changes."""
    made = network(name)
    plain = made.forward

    def forward(input_ids=None, attention_mask=None, **more):
        output = plain(input_ids=input_ids, attention_mask=attention_mask, **more)
        output.logits = fault(input_ids, attention_mask, output.logits)
        return output

    # The signature is what a probe looks at for position ids.
    forward.__signature__ = inspect.signature(plain)
    made.forward = forward
    return Model(made, tokenizer("bert" if kind == "masked" else name), kind=kind, name="odd")


def largest_difference(one, other):
    return max(
        abs(a - b) for x, y in zip(one, other, strict=True) for a, b in zip(x.logprobs[0], y.logprobs[0], strict=True)
    )


@pytest.mark.parametrize(("name", "kind"), [("llama", "causal"), ("bert", "masked")])
def test_padding_that_changes_answers_is_not_used(name, kind):
    # Padding changes the scale of hidden states in its row, as in a network whose padding reaches other tokens.
    made = network(name)
    plain, masks = made.forward, []

    def forward(input_ids=None, attention_mask=None, **more):
        masks[:] = [attention_mask]
        return plain(input_ids=input_ids, attention_mask=attention_mask, **more)

    def scaled(_, arguments):
        if arguments[0].dim() == 2:  # the head applied apart, to states that are scaled already
            return None
        return (arguments[0] * (1 + 0.1 * (masks[0] == 0).sum(1)[:, None, None]), *arguments[1:])

    forward.__signature__ = inspect.signature(plain)
    made.forward = forward
    made.get_output_embeddings().register_forward_pre_hook(scaled)
    odd = Model(made, tokenizer(name), kind=kind, name="odd")
    alone = [odd.answer([request], batch_size=1)[0] for request in REQUESTS]
    together = odd.answer(REQUESTS, share_contexts=False)
    assert largest_difference(together, alone) < 1e-4
    assert "only batched with others of their length" in odd.environment["batching"]


def test_a_batch_that_changes_answers_is_not_used():
    odd = faulty("llama", lambda ids, mask, logits: logits * (1 + 0.1 * len(ids)))
    alone = [odd.answer([request], batch_size=1)[0] for request in REQUESTS]
    assert largest_difference(odd.answer(REQUESTS, share_contexts=False), alone) < 1e-4
    assert "computed one at a time" in odd.environment["batching"]


def test_branches_that_a_local_window_cuts_off_are_kept_shorter():
    # Gemma 2 has a window of 64 tokens, which a mask of four dimensions replaces.
    made = model("gemma2")
    assert made.measurements.shares(90) == 48
    assert "rows shorter than 96 tokens only" in made.environment["batching"]


def test_a_sound_network_has_no_finding():
    made = model("llama")
    made.answer([*REQUESTS, Request("new", "The nurse", max_new=3)])
    assert "batching" not in made.environment
    assert made.measurements.generates(32) == GenerationMode(padded=True, batched=True, cached=True)


class OnGpu(torch.Tensor):
    """Behaves as a tensor on a GPU: no operation takes it together with one on the processor, before ``cpu()``."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        if any(type(value) is not cls for value in tensors):
            raise RuntimeError("Expected all tensors to be on the same device, but got other is on cpu.")
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result.as_subclass(torch.Tensor) if func is torch.Tensor.cpu else result


def test_logits_of_a_gpu_are_compared_on_the_processor(monkeypatch):
    made = model("llama")
    generate = made._network.generate

    def on_gpu(*given, **more):
        generated = generate(*given, **more)
        generated.logits = tuple(logits.as_subclass(OnGpu) for logits in generated.logits)
        return generated

    monkeypatch.setattr(made.measurements.network, "generate", on_gpu)
    assert made.measurements.generates(32) == GenerationMode(padded=True, batched=True, cached=True)
    with pytest.raises(RuntimeError, match="same device"):
        torch.equal(torch.zeros(2).as_subclass(OnGpu), torch.zeros(2))


def test_measurements_leave_the_network_as_it_was():
    made = network("bloom")
    hooks = [len(module._forward_pre_hooks) for module in made.modules()]
    odd = Model(made, tokenizer("gpt2"), kind="causal", name="bloom")
    odd.answer(REQUESTS)
    assert [len(module._forward_pre_hooks) for module in made.modules()] == hooks
    assert not made.training


def test_a_length_is_measured_once(monkeypatch):
    made = model("llama")
    made.answer(REQUESTS)
    calls = []
    plain = made._network.outputs
    monkeypatch.setattr(made._network, "outputs", lambda trees: calls.append(len(trees)) or plain(trees))
    made.answer(REQUESTS)
    assert len(calls) == 1


def test_a_network_that_answers_by_chance_is_refused():
    with pytest.raises(ScoringError, match=r"^odd .*by \d+%"):
        faulty("llama", lambda ids, mask, logits: logits + torch.randn(logits.shape[-1]))


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_network_that_looks_ahead_is_refused_as_causal(shift):
    # Logits depend on the next token, or on the number of tokens.
    def ahead(ids, mask, logits):
        return logits.flip(-1) * (1 + 0.1 * ids.shape[1]) if shift > 0 else logits.roll(shift, 1)

    with pytest.raises(ScoringError, match=r"^odd .*later tokens"):
        faulty("llama", ahead)


def test_a_network_that_cannot_be_run_is_refused():
    def broken(ids, mask, logits):
        raise TypeError("pixel_values are missing")

    with pytest.raises(ScoringError, match="TypeError"):
        faulty("llama", broken)


def test_a_network_with_outputs_for_other_positions_is_refused():
    with pytest.raises(ScoringError, match=r"outputs for \d+"):
        faulty("bert", lambda ids, mask, logits: torch.cat([logits, logits[:, :1]], 1), kind="masked")


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Loads a bundled model, and counts the batches that are computed to measure it from then on."""
    monkeypatch.setenv("PROBES_CACHE", str(tmp_path))
    counted = []
    plain = Measurements._answers

    def answers(self, trees):
        counted.append(len(trees))
        return plain(self, trees)

    monkeypatch.setattr(Measurements, "_answers", answers)

    def one(**options):
        made = load(BUNDLED["tiny-causal"], device="cpu", **options)
        counted.clear()
        return made, counted

    return one


ASKED = [*REQUESTS, Request("new", "The nurse", max_new=3)]


def test_a_loaded_model_is_measured_once_for_a_machine_and_its_answers_stay(loaded, tmp_path):
    first, counted = loaded()
    answers = first.answer(ASKED)
    assert counted
    again, counted = loaded()
    assert again.answer(ASKED) == answers
    assert counted == []
    assert again.environment == first.environment
    other, counted = loaded(dtype="bfloat16")
    other.answer(ASKED)
    assert counted
    assert len(list((tmp_path / "networks").iterdir())) == 2


def test_a_model_in_memory_is_measured_once_and_one_with_code_of_the_user_each_time(loaded):
    made, counted = loaded()
    network, text = made.network, made.tokens.tokenizer

    def measured():
        engine = engine_of(network, text)
        # What is checked at the start is short, and no part of it.
        counted.clear()
        engine.answer(ASKED)
        return bool(counted)

    assert measured()
    assert not measured()
    hook = network.register_forward_hook(lambda *_: None)
    assert measured()
    hook.remove()
    assert not measured()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"value": [1], "findings": {}}'])
def test_a_measurement_that_cannot_be_read_is_made_again(loaded, tmp_path, content):
    first, _ = loaded()
    answers = first.answer(ASKED)
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    for path in kept:
        path.write_bytes(content)
    again, counted = loaded()
    assert again.answer(ASKED) == answers
    assert counted
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == kept


def test_a_folder_that_cannot_be_written_changes_nothing(loaded, tmp_path):
    (tmp_path / "networks").write_text("a file")
    made, counted = loaded()
    made.answer(ASKED)
    assert counted


def test_measurements_of_changed_weights_are_not_kept(loaded, tmp_path):
    made, _ = loaded()
    with torch.no_grad():
        next(made.network.parameters()).mul_(2)
    made.answer(ASKED)
    assert list(tmp_path.rglob("*.json")) == []


def test_a_finding_is_kept_with_its_measurement(tmp_path):
    made = model("gemma2")
    first = Measurements(made._network, "one", 96, folder=tmp_path)
    assert first.shares(90) == 48
    again = Measurements(made._network, "one", 96, folder=tmp_path)
    assert again.shares(90) == 48
    assert again.findings == first.findings
    assert "rows shorter than 96 tokens only" in again.findings["shares"]
    assert again.generates(32) == first.generates(32)
