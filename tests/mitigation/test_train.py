"""The training loop: what a step depends on, killed and resumed runs, numbers that are none."""

import io
import math
import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from accelerate import tracking
from accelerate.state import AcceleratorState, PartialState
from accelerate.tracking import GeneralTracker
from accelerate.utils import LoggerType
from rich.console import Console
from transformers import LlamaConfig, LlamaForCausalLM

from mitigation import api, mitigate
from mitigation.errors import MitigationError
from mitigation.recipe import WITHOUT_EFFECT
from mitigation.recipes import get
from mitigation.running.steps import make_adapter
from mitigation.training import train
from mitigation.training.data import TrainingData
from mitigation.training.train import TrainingSchedule, accelerator_on, checkpoint_path, computes_twice, fit
from mitigation.training.trainable import checkpointed, ordinary_text
from tests.mitigation.made import bundled, data, quick, silent

torch.set_num_threads(1)
ROWS = [[n, n + 1] for n in range(10)]


def test_a_training_may_follow_one_on_another_device():
    # What Accelerate keeps for the whole process after a training on a GPU.
    PartialState(cpu=True).device = torch.device("cuda")
    AcceleratorState._reset_state()
    assert accelerator_on(torch.device("cpu")).device == torch.device("cpu")
    assert accelerator_on(torch.device("cpu")).device == torch.device("cpu")


class Line(torch.nn.Module):
    """A line through points, with dropout on its inputs, so that a step draws random numbers."""

    device = torch.device("cpu")

    def __init__(self, dropout=0.3):
        super().__init__()
        torch.manual_seed(3)
        self.map = torch.nn.Linear(1, 1)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, points):
        return self.map(self.dropout(points))


def squared(network, rows):
    points = torch.tensor(rows, dtype=torch.float32) / 10
    error = (network(points[:, :1]) - points[:, 1:]) ** 2
    return {"loss": error.mean(), "worst": error.max()}


def schedule(**changed):
    return TrainingSchedule(
        **({"steps": 12, "batch_size": 4, "learning_rate": 0.05, "validate_every": 4, "checkpoint_every": 3} | changed)
    )


def trained(path, plan, loss=squared, printed=None):
    network = Line()
    curve = fit(network, loss, ROWS, ROWS[:3], plan, path, Console(file=printed or io.StringIO()))
    return curve, [weight.detach().clone() for weight in network.parameters()]


class Tracker(GeneralTracker):
    """A tracker that keeps in memory what it gets."""

    name = "tensorboard"
    requires_logging_directory = True
    tracker = None
    runs: ClassVar[list] = []

    def __init__(self, run_name, logging_dir, **_):
        super().__init__()
        self.logged = []
        self.runs.append((run_name, logging_dir, self.logged))

    def store_init_configuration(self, values):
        self.logged.append(values)

    def log(self, values, step=None, **_):
        self.logged.append((step, values))


def test_losses_are_logged_and_stay_the_same(tmp_path, monkeypatch):
    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "tensorboard", Tracker)
    monkeypatch.setattr(tracking, "_available_trackers", [LoggerType.TENSORBOARD])
    monkeypatch.setattr(Tracker, "runs", [])
    monkeypatch.chdir(tmp_path)
    plain, _ = trained(tmp_path / "plain.pt", schedule())
    console = Console(file=io.StringIO())
    network = Line()
    curve = fit(network, squared, ROWS, ROWS[:3], schedule(), tmp_path / "x.pt", console, report_to="tensorboard")
    assert curve == plain
    ((name, _, logged),) = Tracker.runs
    assert name == "x"
    assert logged[0]["learning_rate"] == 0.05
    steps = [(step, values["train/loss"]) for step, values in logged[1:] if "train/loss" in values]
    assert steps == [(number + 1, terms["loss"]) for number, terms in enumerate(curve.train)]
    held = [(step, values["held/loss"]) for step, values in logged[1:] if "held/loss" in values]
    assert held == [(terms["step"], terms["loss"]) for terms in curve.held]


def test_the_log_does_not_decide_about_the_checkpoint():
    assert "report_to" in WITHOUT_EFFECT


def test_a_tracker_that_is_not_installed_is_refused_before_a_model_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr(api, "find_spec", lambda name: None)
    with pytest.raises(MitigationError, match="needs the package mlflow, which is not installed; install it with pip"):
        mitigate("cda", "tiny-causal", out=tmp_path / "x", report_to="mlflow")


class Killed(BaseException):
    """What a test stops a training with."""


def killed_at(step):
    """The loss, until the step is reached."""
    seen = []

    def loss(network, rows):
        if network.training:
            seen.append(rows)
            if len(seen) > step:
                raise Killed
        return squared(network, rows)

    return loss


@pytest.mark.fault(55)
@pytest.mark.parametrize("step", [1, 3, 8])
def test_a_killed_training_resumes_to_the_same_curve_and_the_same_weights(tmp_path, step):
    whole, weights = trained(tmp_path / "whole.pt", schedule())
    with pytest.raises(Killed):
        trained(tmp_path / "cut.pt", schedule(), killed_at(step))
    again, same = trained(tmp_path / "cut.pt", schedule())
    assert [terms["loss"] for terms in again.train] == pytest.approx([terms["loss"] for terms in whole.train], rel=1e-6)
    assert again.held == whole.held
    assert all(torch.equal(a, b) for a, b in zip(weights, same, strict=True))
    assert len(whole.train) == 12


@pytest.mark.fault(55)
def test_only_the_steps_after_the_last_complete_checkpoint_are_repeated(tmp_path):
    with pytest.raises(Killed):
        trained(tmp_path / "cut.pt", schedule(), killed_at(8))
    done = []

    def counted(network, rows):
        done.extend([1] * network.training)
        return squared(network, rows)

    printed = io.StringIO()
    trained(tmp_path / "cut.pt", schedule(), counted, printed)
    assert len(done) == 12 - 6
    assert "Training goes on after step 6 of 12." in printed.getvalue()


def small_llama(**config):
    """A small network of blocks with random weights."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=50, max_position_embeddings=32, **sizes, **config))


def cramped(memory):
    """The loss of a language model that runs out of memory unless activations are computed twice."""

    def loss(network, rows):
        if network.training and not computes_twice(network):
            memory.append("too little")
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.50 GiB.")
        ids = torch.tensor(rows)
        return {"loss": network(input_ids=ids, labels=ids).loss}

    return loss


def language_loss(network, rows):
    ids = torch.tensor(rows)
    return {"loss": network(input_ids=ids, labels=ids).loss}


def tuned(path, loss, checkpointing=False):
    """The weights of a small network after some steps, the last validation, and what was printed."""
    network, console = small_llama(), Console(file=io.StringIO(), width=200)
    rows = [[n, n + 1, n + 2, n + 3] for n in range(12)]
    with checkpointed(network, on=checkpointing):
        curve = fit(network, loss, rows, rows[:2], schedule(steps=3), path, console)
    assert not computes_twice(network)
    return list(network.parameters()), curve.held[-1]["loss"], console.file.getvalue()


def test_a_step_that_does_not_fit_is_repeated_with_gradient_checkpointing(tmp_path):
    memory = []
    plain, expected, _ = tuned(tmp_path / "plain.pt", language_loss)
    weights, measured, printed = tuned(tmp_path / "cramped.pt", cramped(memory))
    assert memory == ["too little"]
    assert "step 1" in printed
    assert measured == pytest.approx(expected, rel=1e-5)
    for one, other in zip(weights, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_step_that_does_not_fit_with_gradient_checkpointing_either_is_an_error(tmp_path):
    def loss(network, rows):
        if network.training:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return language_loss(network, rows)

    with pytest.raises(torch.OutOfMemoryError):
        tuned(tmp_path / "x.pt", loss)


@pytest.mark.fault(55)
def test_a_nan_loss_stops_training_at_once_and_keeps_the_checkpoint(tmp_path):
    steps = []

    def broken(network, rows):
        parts = squared(network, rows)
        steps.extend([1] * network.training)
        return {**parts, "loss": parts["loss"] * (math.nan if len(steps) == 5 else 1)}

    with pytest.raises(MitigationError) as error:
        trained(tmp_path / "state.pt", schedule(), broken)
    assert str(error.value).startswith("Step 5 produced NaN or infinity (loss nan, worst ")
    assert str(error.value).endswith(
        "); the last checkpoint is kept, so lower the learning rate, or load the model in float32."
    )
    assert len(steps) == 5
    kept = torch.load(tmp_path / "state.pt", weights_only=True)
    assert all(weight.isfinite().all() for weight in kept["weights"].values())


@pytest.mark.fault(55)
def test_a_nan_gradient_stops_training_before_the_weights_change(tmp_path):
    network = Line()
    before = [weight.detach().clone() for weight in network.parameters()]

    def broken(network, _):
        root = network.map.weight.sum() * 0
        return {"loss": root.sqrt()}  # the slope of a square root at 0

    with pytest.raises(MitigationError, match=r"Step 1 .*gradient (nan|inf)"):
        fit(network, broken, ROWS, ROWS[:3], schedule(), tmp_path / "x.pt", Console(file=io.StringIO()))
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda _: b"", lambda _: b"\x80\x04."])
def test_a_damaged_checkpoint_is_refused_by_name(tmp_path, damage):
    path = tmp_path / "state.pt"
    trained(path, schedule())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(MitigationError, match=f"{path}"):
        trained(path, schedule())


def test_training_ends_when_the_held_out_loss_does_not_improve_and_takes_the_best_weights(tmp_path):
    measured = []

    def worse(network, rows):
        measured.extend([1] * (not network.training))
        return squared(network, rows) if network.training else {"loss": torch.tensor(float(len(measured)))}

    curve, weights = trained(tmp_path / "x.pt", schedule(steps=100, patience=2), worse)
    assert len(curve.train) == 8
    assert [terms["step"] for terms in curve.held] == [0, 4, 8]
    assert all(torch.equal(a, b) for a, b in zip(weights, Line().parameters(), strict=True))


def test_every_epoch_has_each_row_once_in_an_order_of_its_own():
    plan = schedule(batch_size=4)
    rows = [row for step in range(5) for row in plan.rows_at(step, 10)]
    assert sorted(rows[:10]) == sorted(rows[10:]) == list(range(10))
    assert rows[:10] != rows[10:]


def test_the_rate_rises_and_falls():
    plan = TrainingSchedule(steps=10, batch_size=1, learning_rate=2.0, warmup=0.2)
    assert [plan.rate_at(step) for step in (0, 1, 2, 9)] == pytest.approx([1.0, 2.0, 2.0, 0.25])
    assert TrainingSchedule(steps=10, batch_size=1, learning_rate=2.0, warmup=0.0).rate_at(0) == 2.0


def test_a_batch_that_processes_cannot_share_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("accelerate.Accelerator.num_processes", 3)
    with pytest.raises(MitigationError, match=r"4 rows .*3 processes"):
        trained(tmp_path / "x.pt", schedule())


def test_a_run_with_less_free_memory_goes_on_and_makes_nothing_twice(tmp_path):
    model, paths, folder = bundled(), [], tmp_path / "work" / "made"
    source = TrainingData(str(data(tmp_path / "data")))

    def make(job):
        paths.append(checkpoint_path(job))
        (job.out / "prompt.json").write_text("{}")
        return job.done(None)

    def made(**settings):
        recipe = replace(get("debias_tuning"), make=make)
        return make_adapter(recipe, quick(**settings), model, source, folder, silent())

    assert not made(gradient_checkpointing=False).settings["gradient_checkpointing"]
    # The memory now turns it on: the adapter is the one that is there, with the settings that it was made with.
    assert not made(gradient_checkpointing=True).settings["gradient_checkpointing"]
    assert len(paths) == 1
    shutil.rmtree(folder)
    assert made(gradient_checkpointing=True).settings["gradient_checkpointing"]
    assert paths[0] == paths[1], "an interrupted training goes on from its checkpoint"
    made(gradient_checkpointing=True, learning_rate=1e-3)
    assert len({*paths}) == 2


def network_of_width(width):
    torch.manual_seed(0)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    sizes = {"num_hidden_layers": 1, "hidden_size": width, "intermediate_size": 2 * width, "vocab_size": 97}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, max_position_embeddings=64)).eval()


def next_tokens(network, rows):
    ids = torch.tensor(rows)
    return {"loss": network(input_ids=ids, labels=ids).loss}


def guarded_fit(network, folder, most, **changed):
    """The losses of a training of all weights at a rate that ruins a network in its first step."""
    model = SimpleNamespace(tokens=WordTokens(), kind="causal", device=torch.device("cpu"))
    measure = ordinary_text(model, network)
    plan = schedule(learning_rate=0.3, batch_size=2, steps=3, validate_every=1, most_change=most, **changed)
    rows = [[n, n + 1, n + 2] for n in range(3, 13)]
    curve = fit(network, next_tokens, rows, rows[:2], plan, folder / "x.pt", silent(), ordinary=measure)
    return curve, measure()


class WordTokens:
    """A token for each word, by its length."""

    start, prefix, suffix, pad, window = (), (), (), 0, 64

    def encode(self, texts):
        return [SimpleNamespace(ids=[3 + len(word) for word in text.split()]) for text in texts]


@pytest.mark.parametrize("width", [64, 512])
def test_the_first_step_of_every_training_changes_ordinary_text_little(width, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(train, "terminal", SimpleNamespace(show=lambda _, lines: seen.extend(lines)))
    network = network_of_width(width)
    start = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    (tmp_path / "free").mkdir()
    _, after = guarded_fit(network_of_width(width), tmp_path / "free", 0.0)
    assert after["change"] > 0.5, "without the check the first steps ruin the network"
    curve, after = guarded_fit(network, tmp_path, 0.05)
    assert len(curve.train) == 3
    assert after["change"] < 0.5
    assert any("the rate is divided by" in line for line in seen)
    assert any(not torch.equal(start[name], weight) for name, weight in network.named_parameters())


def test_a_halved_rate_is_kept_by_the_checkpoint(tmp_path):
    whole, _ = guarded_fit(network_of_width(64), tmp_path, 0.05, checkpoint_every=1)
    (tmp_path / "second").mkdir()
    network = network_of_width(64)
    model = SimpleNamespace(tokens=WordTokens(), kind="causal", device=torch.device("cpu"))
    plan = schedule(learning_rate=0.3, batch_size=2, steps=3, validate_every=1, checkpoint_every=1, most_change=0.05)
    rows = [[n, n + 1, n + 2] for n in range(3, 13)]
    steps = []

    def stop_after_one(network, rows):
        if network.training and steps:
            raise Killed
        return next_tokens(network, rows)

    path = tmp_path / "second" / "x.pt"
    saved = train.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "save", lambda *arguments: (saved(*arguments), steps.append(1)))
        with pytest.raises(Killed):
            fit(network, stop_after_one, rows, rows[:2], plan, path, silent(), ordinary=ordinary_text(model, network))
    network = network_of_width(64)
    again = fit(network, next_tokens, rows, rows[:2], plan, path, silent(), ordinary=ordinary_text(model, network))
    assert again.train == whole.train


def test_training_ends_where_the_loss_of_ordinary_text_rises(tmp_path):
    network = network_of_width(64)
    start = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    texts = iter([1.0, 1.05, 1.2, 1.3])

    def measure():
        return {"change": 0.0, "text": next(texts)}

    plan = schedule(learning_rate=0.01, batch_size=2, steps=9, validate_every=1, most_change=0.05)
    rows = [[n, n + 1, n + 2] for n in range(3, 13)]
    weights = []

    def loss(network, rows):
        if not network.training:
            weights.append(network.lm_head.weight.detach().clone())
        return next_tokens(network, rows)

    # The trial of the first step reads the change alone, before the first validation.
    first = [{"change": 0.0, "text": 1.0}]
    curve = fit(
        network,
        loss,
        rows,
        rows[:2],
        plan,
        tmp_path / "x.pt",
        silent(),
        ordinary=lambda: first.pop() if first else measure(),
    )
    assert [terms["text"] for terms in curve.held] == [1.0, 1.05, 1.2]
    assert len(curve.train) == 2
    # The weights are those of the last validation at which nothing was lost: of step 1.
    assert torch.equal(network.lm_head.weight, weights[1])
    assert not torch.equal(network.lm_head.weight, start["lm_head.weight"])
