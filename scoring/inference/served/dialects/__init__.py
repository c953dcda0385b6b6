"""How servers are asked for log-probabilities: one file for each kind of server, with its class as ``DIALECT``.

Each sends prompts as token ids and checks that the reply is about them: a server that adds a token, cuts the
prompt or answers fewer numbers than there are tokens is refused, in whichever reply it does so. llama-cpp-python
takes text only; there the tokens of the reply are compared with the ones that were meant.

All requests have temperature 1 and no penalties, so a server that applies them to log-probabilities changes nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from builders.sources.client import HttpClient
from cards.common.registry import Registry
from scoring.inference.generation import Decoding
from scoring.types import ScoringError

#: The most tokens whose probability as the next token is asked at one time: the default limit of vLLM.
TOP = 20
#: Settings that leave the distribution of the model as it is.
NEUTRAL: Mapping[str, float] = {"temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
#: Settings that change it, to find servers whose log-probabilities are those of sampling.
CHANGED: Mapping[str, float] = {"temperature": 2.0, "top_p": 1.0, "presence_penalty": 1.0, "frequency_penalty": 1.0}

Ids = Sequence[int]


class Ignored(ScoringError):
    """The reply is not what was asked for. The message says what the server did, as the predicate of a sentence."""


class Made(NamedTuple):
    """A continuation: the new token ids where the server gives them, else None, and its text."""

    ids: list[int] | None
    text: str

    @classmethod
    def of(cls, ids: Any, text: Any) -> Made:
        """That of a reply; what is no list of ids is left out, and without a text it is :class:`Ignored`."""
        if not isinstance(text, str):
            raise Ignored("answered without the text of a continuation")
        if not isinstance(ids, list):
            return cls(None, text)
        # Ids that do not fit 32 bits would fail in the tokenizer.
        are_ids = all(type(token) is int and 0 <= token < 2**31 for token in ids)
        if not are_ids:
            return cls(None, text)
        return cls(ids, text)


class Dialect(ABC):
    """How one kind of server is asked. A reply that is not what was asked for raises :class:`Ignored`."""

    #: The name of the software in reports.
    software: str
    #: Who owns the models that it lists, and addresses with a field by which it is known where that says nothing.
    owner: str = ""
    signs: tuple[tuple[str, str], ...] = ()
    #: The address and the field with its version, and the address at which it tokenizes a text.
    version: tuple[str, str] | None = None
    tokenize: str = ""
    #: Whether one request takes several prompts, and whether a distribution of the next token can be had.
    batches: bool = True
    points: bool = True

    def __init__(self, client: HttpClient, model: str, tokenizer: Any) -> None:
        self.client = client
        self.model = model
        self.tokenizer = tokenizer

    @staticmethod
    def sampling(decoding: Decoding, seed: int) -> dict[str, Any]:
        """Greedy or sampled decoding in the names of OpenAI; every setting is sent, as servers have own defaults."""
        settings: dict[str, Any] = dict(NEUTRAL)
        if decoding.sampled:
            settings["temperature"] = decoding.temperature or 1.0
            settings["top_p"] = decoding.top_p or 1.0
            settings["seed"] = seed
        else:
            settings["temperature"] = 0.0
        return settings

    @abstractmethod
    def sequences(self, prompts: Sequence[Ids], sampling: Mapping[str, float] = NEUTRAL) -> list[list[float]]:
        """For each prompt the log-probability of each of its tokens after the first."""

    @abstractmethod
    def next_tokens(self, prompts: Sequence[Ids], tokens: Ids) -> list[dict[int, float]]:
        """For each prompt the log-probability of tokens (at most ``TOP``) as the next one, as far as they are given."""

    @abstractmethod
    def continuations(self, prompts: Sequence[Ids], new: int, decoding: Decoding, seed: int) -> list[Made]:
        """For each prompt its continuation by at most ``new`` tokens."""


def listed(reply: Any, name: str, count: int) -> list[Any]:
    """The entries of a reply, in the order of the prompts."""
    entries = reply
    if isinstance(reply, dict):
        entries = reply.get(name)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Ignored("answered without the completions that were asked for")
    if len(entries) != count:
        raise Ignored(f"answered {len(entries)} completions to {count} prompts")
    # Servers may answer prompts in the order in which they are done, and number them then.
    by_place = {}
    for number_of_entry, entry in enumerate(entries):
        place = entry.get("index", number_of_entry)
        if type(place) is int:
            by_place[place] = entry
    if sorted(by_place) != list(range(count)):
        raise Ignored("answered completions with other numbers than the prompts")
    return [by_place[place] for place in range(count)]


def number(value: Any) -> float:
    """A log-probability of a reply; whether it can be one is decided by :func:`scoring.inference.responses.is_logprob`.

    Raises
    ------
    Ignored
        For what is no number.
    """
    if value is None:
        raise Ignored("answered nothing as a log-probability")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Ignored("answered no number as a log-probability")
    try:
        return float(value)
    except OverflowError:
        # JSON has integers of any size.
        return math.inf


def matched(entries: Sequence[Any], prompt: Ids) -> None:
    """Checks that a reply has one entry for each token of the prompt."""
    if not entries or all(entry is None for entry in entries):
        raise Ignored("answered without log-probabilities of the prompt")
    if len(entries) < len(prompt):
        raise Ignored(f"answered log-probabilities of {len(entries)} tokens to a prompt of {len(prompt)}")
    if len(entries) > len(prompt):
        raise Ignored(
            f"answered log-probabilities of {len(entries)} tokens to a prompt of {len(prompt)}, which happens when a "
            "server puts a beginning-of-sequence token of its own before the prompt"
        )


def object_of(value: Any) -> Mapping[str, Any]:
    """A value that should be an object; an empty one where it is none."""
    if isinstance(value, dict):
        return value
    return {}


REGISTRY: Registry[type[Dialect]] = Registry((__name__, __path__), "DIALECT", type, "dialect", ScoringError)
names, get = REGISTRY.names, REGISTRY.get
