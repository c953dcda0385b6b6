"""Batches side by side: the same answers, in order, whatever goes wrong on the way."""

import copy
import threading
import time

import pytest
import torch

from scoring.inference import workers
from scoring.inference.batch import Limits, cut, run
from scoring.inference.model import Model
from scoring.inference.workers import MOST, number, side_by_side
from scoring.types import Option, Request, ScoringError
from tests.scoring.models import CAUSAL, MASKED, model, network, tokenizer


@pytest.fixture(autouse=True)
def threads():
    """Four threads of torch, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    assert torch.get_num_threads() == 4
    torch.set_num_threads(before)


class Full(Exception):
    """Memory is full."""


def limits(tokens, size=None):
    return Limits(tokens, size, lambda e: isinstance(e, Full), lambda row, error: ScoringError(f"{len(row)}: {error}"))


def asked(count=18):
    return [Request(f"{n}", "", (Option("The nurse said" + " that she came" * (n % 9)),)) for n in range(count)]


@pytest.mark.parametrize("name", [*CAUSAL, *MASKED])
def test_batches_side_by_side_give_what_they_give_one_after_another(name, monkeypatch):
    made = model(name, torch.float64)
    requests = asked(5 if made.kind == "masked" else 18)  # a masked model is asked of each token apart
    monkeypatch.setattr(workers, "number", lambda _: 1)
    expected = [option for response in made.answer(requests, batch_tokens=64) for option in response.logprobs]
    monkeypatch.setattr(workers, "number", lambda _: 4)
    for _ in range(2):
        found = [option for response in made.answer(requests, batch_tokens=64) for option in response.logprobs]
        assert all(one == pytest.approx(other, abs=1e-10) for one, other in zip(found, expected, strict=True))


def test_as_many_batches_run_at_one_time_as_there_are_workers():
    meet = threading.Barrier(3, timeout=30)
    with side_by_side(3) as each:
        results = list(run([[n] for n in range(6)], lambda batch: (meet.wait(), batch)[1], limits(1), each, 3))
    assert [result for _, result in results] == [[[n]] for n in range(6)]


def test_results_come_in_order():
    def compute(batch):
        time.sleep(0.02 * (batch[0] == [0]))
        return batch[0][0]

    with side_by_side(4) as each:
        assert [value for _, value in run([[n] for n in range(9)], compute, limits(1), each, 4)] == list(range(9))


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("lengths", [[3, 3, 2, 2, 1], [9] * 7, [64, *[8] * 40], list(range(60, 2, -1)), [5]])
def test_every_worker_has_as_many_batches_of_about_one_size(count, lengths):
    rows = [[0] * length for length in lengths]
    batches = cut(rows, limits(64), 64, count)
    assert [row for batch in batches for row in batch] == rows
    assert all(len(batch) == 1 or len(batch) * len(batch[0]) <= 64 for batch in batches)
    if len(rows) > 4 * count:
        assert len(batches) % count == 0


@pytest.mark.fault(40)
def test_a_batch_that_does_not_fit_beside_others_is_tried_by_itself():
    busy, most = [], []

    def compute(batch):
        busy.append(1)
        try:
            time.sleep(0.01)
            most.append((len(busy), len(batch)))
            if len(busy) > 1 or len(batch) > 2:
                raise Full("full")
            return len(batch)
        finally:
            busy.pop()

    rows = [[n] for n in range(12)]
    with side_by_side(3) as each:
        done = [row for batch, _ in run(rows, compute, limits(4), each, 3) for row in batch]
    assert done == rows
    assert max(number for number, _ in most) > 1


@pytest.mark.fault(40)
def test_a_row_that_does_not_fit_by_itself_is_an_error_after_it_was_tried_alone():
    def compute(_):
        raise Full("full")

    with side_by_side(2) as each, pytest.raises(ScoringError, match=r"^5: full$"):
        list(run([[0] * 5] * 4, compute, limits(5), each, 2))


def test_an_error_of_a_worker_stops_the_others_and_gives_the_threads_back():
    started = []

    def compute(batch):
        started.append(batch)
        raise KeyError("x")

    with pytest.raises(KeyError), side_by_side(2) as each:
        list(run([[n] for n in range(400)], compute, limits(1), each, 2))
    assert len(started) < 400


def test_workers_share_the_threads_of_torch():
    with side_by_side(2) as each:
        assert set(each(lambda _: torch.get_num_threads(), range(4))) == {2}


def test_one_worker_takes_none_of_them():
    with side_by_side(1) as each:
        assert each is map


def test_networks_of_transformers_run_side_by_side():
    assert {name: number(network(name)) for name in [*CAUSAL, *MASKED]} == dict.fromkeys([*CAUSAL, *MASKED], 4)
    torch.set_num_threads(64)
    assert number(network("llama")) == MOST
    torch.set_num_threads(4)


def test_networks_that_may_keep_something_run_one_batch_at_a_time():
    hooked = copy.deepcopy(network("llama"))
    handle = hooked.model.layers[0].register_forward_hook(lambda *_: None)
    assert number(hooked) == 1
    handle.remove()
    assert number(hooked) == 4
    hooked.model.rotary_emb.rope_type = "longrope"
    assert number(hooked) == 1
    hooked.model.rotary_emb.rope_type = {"full_attention": "default", "sliding_attention": "dynamic"}
    assert number(hooked) == 1
    assert number(torch.nn.Sequential(network("llama"))) == 1


def test_exact_answers_come_one_after_another(monkeypatch):
    monkeypatch.setattr(workers, "number", lambda _: pytest.fail("Workers were asked for."))
    made = Model(network("llama"), tokenizer("llama"), kind="causal", exact=True)
    assert len(made.answer(asked(3))) == 3
