"""A run that goes on has the numbers of a run that was not interrupted: to rounding, and with ``exact`` bit for bit."""

import random
from itertools import chain

import pytest
import torch

from scoring.asking.answering import answer
from scoring.inference.load_options import BUNDLED, load
from scoring.inference.store import Store
from scoring.types import Option, Request

WORDS = "nurse farmer teacher vet doctor mechanic".split()
REQUESTS = [
    Request(
        f"{word} {n}", f"The {word} said{' that' * n}", (Option(" he was"), Option(" she was" + " very" * n + " old"))
    )
    for n in range(4)
    for word in WORDS
]
#: README says so of log-probabilities in float32.
ROUNDING = 1e-5


def numbers(responses):
    return list(chain(*(option for request in REQUESTS for option in responses[request.id].logprobs)))


def resumed(model, folder, draw):
    """The numbers of a run that was killed when it had a drawn part of the responses."""
    key = {"run": folder.name}
    with Store(folder, key) as store:
        answer(model, draw.sample(REQUESTS, draw.randrange(1, len(REQUESTS))), store, {})
    with Store(folder, key) as store:
        assert 0 < len(store) < len(REQUESTS)
        return numbers(answer(model, REQUESTS, store, {}))


@pytest.mark.fault(41)
@pytest.mark.parametrize("exact", [False, True])
def test_a_run_that_goes_on_has_the_numbers_of_one_that_was_not_interrupted(exact, tmp_path):
    torch.set_num_threads(1)
    model, draw = load(BUNDLED["tiny-causal"], dtype="float32", device="cpu", exact=exact), random.Random(12)
    with Store(tmp_path / "whole", {}) as store:
        whole = numbers(answer(model, REQUESTS, store, {}))
    largest = 0.0
    for n in range(4):
        again = resumed(model, tmp_path / str(n), draw)
        largest = max(largest, *(abs(a - b) for a, b in zip(whole, again, strict=True)))
    assert largest <= (0.0 if exact else ROUNDING)
