"""Control rows: a model is known by what it answers to eight sentences, besides its name, its files and its address.

A hash of files or of weights does not see all that changes answers: an adapter that is disabled or scaled, a hook, a
buffer outside of the weights, another model behind an address. So the answers to these rows are kept with the stored
responses, and these are used only for a model that answers the rows as before.

A model of files or of a server may give other roundings on another machine, and its answers are compared
(:func:`recognise`). An object or a function of the user is asked in the same process, and a hash of its answers is a
part of the key of its responses (:func:`digest`).
"""

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import orjson

from scoring.inference.store import Store
from scoring.types import Option, Request, Response, ScoringError

#: A :class:`scoring.inference.engine.Engine`, which imports this module.
Engine = Any

#: Any language model of English finds these likelier than their words backwards; the first is the control sentence.
SENTENCES = (
    "The man said that he would come again in the morning.",
    "She took the letter and went out of the room.",
    "It was a cold day, and there was nobody in the street.",
)
CONTROL = (
    *SENTENCES,
    "They had seen the old house before, but not from this side.",
    "Nobody knew why the door was open.",
    "I will tell you what we did when the water came.",
    "He gave the children some bread and asked them to wait.",
    "The next day she was in London, and her father was dead.",
)
#: The log-probabilities of control rows may change by this many times their change between rounds of one run, and by
#: rounding. Weights that differ by 1 % change them by 0.02 and more, in float32 two rounds of one model by 1e-7.
TIMES, ROUNDING = 3.0, 1e-3
#: The most by which the mean log-probability of the control sentence's tokens may change: batches change it by
#: rounding, in bfloat16 by up to about 0.02; another model by more.
CHANGE = 0.05
#: The tokens of the continuation of a control row, for what gives no log-probabilities.
CONTINUED = 8

#: The log-probabilities of the tokens of each control row.
Round = Sequence[Sequence[float]]


def has_logprobs(engine: Engine) -> bool:
    """Whether an engine gives log-probabilities of sentences."""
    return "logprobs" in engine.capabilities and bool(engine.kind == "causal" or "masked" in engine.capabilities)


def requests(engine: Engine) -> list[Request]:
    """The control rows as requests that an engine can answer; none for an engine that neither scores nor continues."""
    if has_logprobs(engine):
        return [Request("control", options=tuple(Option(text) for text in CONTROL))]
    if "generation" in engine.capabilities:
        return [Request(f"control/{n}", context=text, max_new=CONTINUED) for n, text in enumerate(CONTROL)]
    return []


def answers(engine: Engine) -> list[Response]:
    """What an engine answers to the control rows now; its statistics are those of the run alone."""
    before = engine.stats
    engine.stats = type(before)()
    try:
        responses: list[Response] = []
        # A model with a short window is known by the beginnings of the rows.
        engine.answer(requests(engine), truncate=True, on_response=responses.append)
        return responses
    finally:
        engine.stats = before
        engine.tokens.truncated.clear()


def digest(engine: Engine) -> str:
    """A hash of the exact answers of an object in memory to the control rows.

    Where the same object gives other answers each time, or none for texts that it does not expect, nothing stored is
    used again.
    """
    try:
        return hash_of([[answer.logprobs, answer.text] for answer in answers(engine)])
    # The code of an engine of the user may raise anything.
    except Exception:
        return secrets.token_hex(16)


def hash_of(given: object) -> str:
    """The hash of answers, as a part of a key.

    >>> hash_of(["one", "two"]) == hash_of(["one", "three"])
    False
    """
    return f"sha256:{hashlib.sha256(orjson.dumps(given, option=orjson.OPT_SERIALIZE_NUMPY)).hexdigest()[:16]}"


def recognise(store: Store, now: Mapping[str, Sequence[Round]], rounding: float = ROUNDING) -> None:
    """Compares answers to the control rows with those that are stored; in a new store they are stored.

    Parameters
    ----------
    now:
        The rounds of each server by its name; of a model in this process one round, by an empty name.
    rounding:
        The least mean absolute difference that is another model.

    Raises
    ------
    ScoringError
        When the stored responses are of another model, or their control rows are not there any more.
    """
    rows = tuple(Option(text) for text in CONTROL)
    places = {name: [Request("control", f"{name} {n}", rows) for n in range(len(now[name]))] for name in now}
    stored = {name: [store.get(request) for request in places[name]] for name in now}
    known = [response for of_name in stored.values() for response in of_name if response]
    if len(known) < sum(map(len, places.values())):
        # Only a new store may lack them; a store with other responses had them before.
        if len(store) > len(known):
            raise ScoringError(
                f"The responses in {store.path} have lost the control rows by which their model is recognised; "
                "give another --out."
            )
        for name, requests_of_name in places.items():
            for request, logprobs in zip(requests_of_name, now[name], strict=True):
                store.put(request, Response(request.id, tuple(tuple(row) for row in logprobs)))
        return
    for name, responses in stored.items():
        before = [response.logprobs for response in responses if response]
        difference = differs(before, now[name], rounding)
        if difference:
            this = f"{name} now serves" if name else "This is"
            raise ScoringError(
                f"{this} another model than the one whose responses are stored: log-probabilities of the control rows "
                f"differ by {difference}; use the earlier model, or give another --out."
            )


def differs(before: Sequence[Round], now: Sequence[Round], rounding: float = ROUNDING) -> str:
    """By how much control rows differ, as text; empty where it is no more than they change within a run.

    Two rounds of one model differ by rounding, where a server computes other requests at the same time. So the mean
    absolute difference between the runs is compared with the one between two rounds of one of them.

    >>> differs([[[-1.0, -2.0]], [[-1.0, -2.0]]], [[[-1.03, -2.03]]])
    '0.03, and within a run by 0'
    >>> differs([[[-1.0, -2.0]], [[-1.02, -2.02]]], [[[-1.03, -2.03]]])
    ''
    """
    within = 0.0
    for rounds in (before, now):
        for first, second in combinations(rounds, 2):
            within = max(within, _distance(first, second))
    distances = []
    for earlier in before:
        for later in now:
            distances.append(_distance(earlier, later))
    between = math.fsum(distances) / len(distances)
    if between > max(TIMES * within, rounding):
        return f"{between:.2g}, and within a run by {within:.2g}"
    return ""


def _distance(first: Round, second: Round) -> float:
    """The mean absolute difference over the tokens of all rows."""
    return change(list(chain.from_iterable(first)), list(chain.from_iterable(second)))


def change(first: Sequence[float], second: Sequence[float]) -> float:
    """The mean absolute difference of log-probabilities; infinite where their numbers differ.

    >>> change([-1.0, -2.0], [-1.5, -2.0])
    0.25
    """
    if len(first) != len(second):
        return math.inf
    return math.fsum(abs(a - b) for a, b in zip(first, second, strict=True)) / len(first)
