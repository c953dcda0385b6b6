"""How servers are asked for log-probabilities: one class for each kind of server.

Each sends prompts as token ids and checks that the reply is about them: a server that adds a token, cuts the
prompt or answers fewer numbers than there are tokens is refused, in whichever reply it does so. llama-cpp-python
takes text only; there the tokens of the reply are compared with the ones that were meant.

All requests have temperature 1 and no penalties, so a server that applies them to log-probabilities changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from scoring.inference.decoding import Decoding
from scoring.inference.served.http import HttpClient, Refused
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


class Dialect(Protocol):
    """How one kind of server is asked. A reply that is not what was asked for raises :class:`Ignored`."""

    #: The name of the software in reports.
    software: str
    #: Whether one request takes several prompts, and whether a distribution of the next token can be had.
    batches: bool
    points: bool

    def sequences(self, prompts: Sequence[Ids], sampling: Mapping[str, float] = NEUTRAL) -> list[list[float]]:
        """For each prompt the log-probability of each of its tokens after the first."""

    def next_tokens(self, prompts: Sequence[Ids], tokens: Ids) -> list[dict[int, float]]:
        """For each prompt the log-probability of tokens (at most ``TOP``) as the next one, as far as they are given."""

    def continuations(self, prompts: Sequence[Ids], new: int, decoding: Decoding, seed: int) -> list[Made]:
        """For each prompt its continuation by at most ``new`` tokens."""


def _sampling(decoding: Decoding, seed: int) -> dict[str, Any]:
    """Greedy or sampled decoding in the names of OpenAI; every setting is sent, because servers have own defaults."""
    if not decoding.sampled:
        return {**NEUTRAL, "temperature": 0.0}
    return {**NEUTRAL, "temperature": decoding.temperature or 1.0, "top_p": decoding.top_p or 1.0, "seed": seed}


def _listed(reply: Any, name: str, count: int) -> list[Any]:
    """The entries of a reply, in the order of the prompts."""
    entries = reply.get(name) if isinstance(reply, dict) else reply
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Ignored("answered without the completions that were asked for")
    if len(entries) != count:
        raise Ignored(f"answered {len(entries)} completions to {count} prompts")
    return sorted(entries, key=lambda entry: int(entry.get("index") or 0))


def _number(value: Any) -> float:
    """A log-probability of a reply.

    Raises
    ------
    Ignored
        For one that is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value > 1e-4:
        shown = "nothing" if value is None else value
        raise Ignored(f"answered {shown} as a log-probability")
    return float(value)


def _matching(given: Sequence[Any], prompt: Ids) -> None:
    """Checks that a reply has one entry for each token of the prompt."""
    if not given or all(entry is None for entry in given):
        raise Ignored("answered without log-probabilities of the prompt")
    if len(given) < len(prompt):
        raise Ignored(f"answered log-probabilities of {len(given)} tokens to a prompt of {len(prompt)}")
    if len(given) > len(prompt):
        raise Ignored(
            f"answered log-probabilities of {len(given)} tokens to a prompt of {len(prompt)}, which happens when a "
            "server puts a beginning-of-sequence token of its own before the prompt"
        )


class VLLM:
    """vLLM: completions with ``prompt_logprobs``, which names the tokens by their ids.

    ``logprob_token_ids`` asks for given candidate tokens; servers that do not know it answer their most likely ones.
    """

    software = "vLLM"
    batches = True
    points = True

    def __init__(self, client: HttpClient, model: str) -> None:
        self.client = client
        self.model = model

    def _post(self, body: Mapping[str, Any], count: int) -> list[Any]:
        reply = self.client.post(f"{self.client.base_url}/completions", {"model": self.model, **body})
        named = reply.get("model") if isinstance(reply, dict) else None
        if isinstance(named, str) and named != self.model:
            raise Ignored(f"answered as the model {named!r} instead of {self.model!r}")
        return _listed(reply, "choices", count)

    def sequences(self, prompts: Sequence[Ids], sampling: Mapping[str, float] = NEUTRAL) -> list[list[float]]:
        """From ``prompt_logprobs``, where each entry is by the id of its token."""
        body = {"prompt": [list(ids) for ids in prompts], "max_tokens": 1, "prompt_logprobs": 0, **sampling}
        choices = self._post({**body, "repetition_penalty": 1.0, "top_k": 0, "min_p": 0.0}, len(prompts))
        return [self._read(choice.get("prompt_logprobs"), ids) for choice, ids in zip(choices, prompts, strict=True)]

    def _read(self, entries: Any, prompt: Ids) -> list[float]:
        if not isinstance(entries, list):
            raise Ignored("answered without log-probabilities of the prompt")
        _matching(entries, prompt)
        logprobs = []
        for entry, token in zip(entries[1:], prompt[1:], strict=True):
            known = entry.get(str(token)) if isinstance(entry, dict) else None
            if not isinstance(known, dict):
                raise Ignored(f"answered log-probabilities of other tokens than the ones that were sent ({token})")
            logprobs.append(_number(known.get("logprob")))
        return logprobs

    def next_tokens(self, prompts: Sequence[Ids], tokens: Ids) -> list[dict[int, float]]:
        """From the ``top_logprobs`` of one new token."""
        wanted = {"logprobs": len(tokens), "logprob_token_ids": list(tokens), "return_tokens_as_token_ids": True}
        body = {"prompt": [list(ids) for ids in prompts], "max_tokens": 1, **wanted, **NEUTRAL}
        choices = self._post({**body, "repetition_penalty": 1.0, "top_k": 0, "min_p": 0.0}, len(prompts))
        return [self._top(choice.get("logprobs"), set(tokens)) for choice in choices]

    def _top(self, logprobs: Any, tokens: set[int]) -> dict[int, float]:
        top = logprobs.get("top_logprobs") if isinstance(logprobs, dict) else None
        first = top[0] if isinstance(top, list) and top and isinstance(top[0], dict) else {}
        named = {name.removeprefix("token_id:"): value for name, value in first.items()}
        return {int(n): _number(value) for n, value in named.items() if n.isdecimal() and int(n) in tokens}

    def continuations(self, prompts: Sequence[Ids], new: int, decoding: Decoding, seed: int) -> list[Made]:
        """Completions, with their token ids."""
        body = {"prompt": [list(ids) for ids in prompts], "max_tokens": new, "return_token_ids": True}
        more = {"repetition_penalty": 1.0, "top_k": decoding.top_k or 0, "min_p": 0.0}
        choices = self._post({**body, **more, **_sampling(decoding, seed)}, len(prompts))
        return [_made(choice.get("token_ids"), choice.get("text")) for choice in choices]


def _made(ids: Any, text: Any) -> Made:
    if not isinstance(text, str):
        raise Ignored("answered without the text of a continuation")
    return Made(ids if isinstance(ids, list) and all(isinstance(i, int) for i in ids) else None, text)


class SGLang:
    """SGLang: ``/generate`` with ``return_logprob``; an entry is [log-probability, token id, text]."""

    software = "SGLang"
    batches = True
    points = True

    def __init__(self, client: HttpClient, model: str) -> None:
        self.client = client
        self.model = model

    def _post(self, prompts: Sequence[Ids], sampling: Mapping[str, Any], more: Mapping[str, Any]) -> list[Any]:
        body = {"input_ids": [list(ids) for ids in prompts], "sampling_params": sampling, **more}
        return _listed(self.client.post(f"{self.client.root}/generate", body), "", len(prompts))

    def sequences(self, prompts: Sequence[Ids], sampling: Mapping[str, float] = NEUTRAL) -> list[list[float]]:
        """From ``input_token_logprobs`` of the whole prompt."""
        options = {"return_logprob": True, "logprob_start_len": 0}
        replies = self._post(prompts, {**sampling, "max_new_tokens": 1}, options)
        return [self._read(reply, ids) for reply, ids in zip(replies, prompts, strict=True)]

    def _read(self, reply: Mapping[str, Any], prompt: Ids) -> list[float]:
        entries = _about(reply).get("input_token_logprobs")
        if not isinstance(entries, list):
            raise Ignored("answered without log-probabilities of the prompt")
        _matching(entries, prompt)
        for entry, token in zip(entries, prompt, strict=True):
            if not isinstance(entry, list) or len(entry) < 2 or entry[1] != token:
                raise Ignored(f"answered log-probabilities of other tokens than the ones that were sent ({token})")
        return [_number(entry[0]) for entry in entries[1:]]

    def next_tokens(self, prompts: Sequence[Ids], tokens: Ids) -> list[dict[int, float]]:
        """From ``output_token_ids_logprobs`` of one new token."""
        options = {"return_logprob": True, "token_ids_logprob": [list(tokens)] * len(prompts)}
        replies = self._post(prompts, {**NEUTRAL, "max_new_tokens": 1}, options)
        candidates = []
        for reply in replies:
            rows = _about(reply).get("output_token_ids_logprobs")
            entries = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], list) else []
            candidates.append({int(e[1]): _number(e[0]) for e in entries if isinstance(e, list) and e[1] in tokens})
        return candidates

    def continuations(self, prompts: Sequence[Ids], new: int, decoding: Decoding, seed: int) -> list[Made]:
        """Continuations, with their token ids where the server sends them."""
        sampling = {**_sampling(decoding, seed), "max_new_tokens": new, "top_k": decoding.top_k or -1}
        sampling.pop("seed", None)
        if decoding.sampled:
            sampling["sampling_seed"] = seed
        return [_made(reply.get("output_ids"), reply.get("text")) for reply in self._post(prompts, sampling, {})]


def _about(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    information = reply.get("meta_info")
    return information if isinstance(information, dict) else {}


class Echo:
    """llama-cpp-python: completions with ``echo`` and ``logprobs``, of one text at a time.

    The server puts the beginning-of-sequence token before the text and leaves it out of its reply, and the first token
    of a reply has no number: the probability of a sentence's first token is read as that of the next token after
    nothing, with ``logprobs`` over the whole vocabulary.
    """

    software = "llama-cpp-python"
    batches = False
    points = False

    def __init__(self, client: HttpClient, model: str, tokenizer: Any) -> None:
        self.client = client
        self.model = model
        self.tokenizer = tokenizer
        self._pieces: dict[int, str] = {}
        self._first: dict[str, float] = {}

    def _post(self, text: str, more: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"model": self.model, "prompt": text, "repeat_penalty": 1.0, "min_p": 0.0, "seed": 0, **more}
        (choice,) = _listed(self.client.post(f"{self.client.base_url}/completions", body), "choices", 1)
        answer: Mapping[str, Any] = choice
        return answer

    def _text(self, ids: Ids) -> str:
        """The text of ids without the beginning-of-sequence token, which the server adds.

        Raises
        ------
        ScoringError
            Where the text would become other tokens.
        """
        bos = self.tokenizer.bos_token_id
        if not ids or ids[0] != bos:
            raise Refused(
                f"{self.client.host} puts a beginning-of-sequence token before every text, and a prompt has none; use "
                "another engine for this benchmark.",
                0,
            )
        text = str(self.tokenizer.decode(list(ids[1:]), clean_up_tokenization_spaces=False))
        if self.tokenizer(text, add_special_tokens=False)["input_ids"] != list(ids[1:]):
            raise Refused(
                f"{self.client.host} takes text only, and {text!r} is not a text of the tokens that are meant.", 0
            )
        return text

    def sequences(self, prompts: Sequence[Ids], sampling: Mapping[str, float] = NEUTRAL) -> list[list[float]]:
        """From ``token_logprobs`` of the echoed text, and the first token from the distribution after nothing."""
        return [self._sequence(ids, sampling) for ids in prompts]

    def _sequence(self, ids: Ids, sampling: Mapping[str, float]) -> list[float]:
        text = self._text(ids)
        choice = self._post(text, {"max_tokens": 1, "echo": True, "logprobs": 1, "top_k": 0, **sampling})
        logprobs = choice.get("logprobs")
        tokens = logprobs.get("tokens") if isinstance(logprobs, dict) else None
        values = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
        if not (isinstance(tokens, list) and isinstance(values, list) and len(tokens) == len(values)):
            raise Ignored("answered without log-probabilities of the prompt")
        count = len(ids) - 1
        if len(values) <= count and "".join(map(str, tokens)) != text:
            raise Ignored("answered without log-probabilities of the prompt")
        if len(values) < count:
            raise Ignored(f"answered log-probabilities of {len(values)} tokens to a prompt of {count}")
        if "".join(map(str, tokens[:count])).strip() != text.strip():
            raise Ignored("answered log-probabilities of other tokens than the ones that were sent")
        return [self._after_nothing(tokens[0]), *map(_number, values[1:count])]

    def _after_nothing(self, piece: str) -> float:
        if not self._first:
            choice = self._post("", {"max_tokens": 1, "logprobs": len(self.tokenizer), "top_k": 0, **NEUTRAL})
            top = (choice.get("logprobs") or {}).get("top_logprobs")
            self._first = dict(top[0]) if isinstance(top, list) and top and isinstance(top[0], dict) else {}
        return _number(self._first.get(piece))

    def next_tokens(self, prompts: Sequence[Ids], _tokens: Ids) -> list[dict[int, float]]:
        """Nothing: candidates are scored as one-token options, because the reply names tokens by their text."""
        return [{} for _ in prompts]

    def continuations(self, prompts: Sequence[Ids], new: int, decoding: Decoding, seed: int) -> list[Made]:
        """Completions as text."""
        more = {"max_tokens": new, "top_k": decoding.top_k or 0, **_sampling(decoding, seed)}
        return [_made(None, self._post(self._text(ids), more).get("text")) for ids in prompts]
