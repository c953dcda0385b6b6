"""vLLM."""

from collections.abc import Mapping, Sequence
from typing import Any

from scoring.inference.generation import Decoding
from scoring.inference.served.dialects import NEUTRAL, Dialect, Ids, Ignored, Made, listed, matched, number, object_of


class VLLM(Dialect):
    """vLLM: completions with ``prompt_logprobs``, which names the tokens by their ids.

    ``logprob_token_ids`` asks for given candidate tokens; servers that do not know it answer their most likely ones.
    """

    software = "vLLM"
    owner = "vllm"
    version: tuple[str, str] | None = ("version", "version")
    tokenize = "tokenize"

    def _post(self, prompts: Sequence[Ids], more: Mapping[str, Any]) -> list[Any]:
        body: dict[str, Any] = {"model": self.model, "prompt": [list(ids) for ids in prompts]}
        # Sent although they are neutral: a server may take other defaults from the model's generation_config.json.
        body["repetition_penalty"] = 1.0
        body["min_p"] = 0.0
        body["top_k"] = 0
        body.update(more)
        reply = self.client.post(f"{self.client.base_url}/completions", body)
        model = None
        if isinstance(reply, dict):
            model = reply.get("model")
        if isinstance(model, str) and model != self.model:
            raise Ignored(f"answered as the model {model[:80]!r} instead of {self.model!r}")
        return listed(reply, "choices", len(prompts))

    def sequences(self, prompts: Sequence[Ids], sampling: Mapping[str, float] = NEUTRAL) -> list[list[float]]:
        """From ``prompt_logprobs``, where each entry is by the id of its token."""
        choices = self._post(prompts, {"max_tokens": 1, "prompt_logprobs": 0, **sampling})
        return [self._read(choice.get("prompt_logprobs"), ids) for choice, ids in zip(choices, prompts, strict=True)]

    def _read(self, entries: Any, prompt: Ids) -> list[float]:
        if not isinstance(entries, list):
            raise Ignored("answered without log-probabilities of the prompt")
        matched(entries, prompt)
        logprobs = []
        # The first token follows nothing, so its entry is null.
        for entry, token in zip(entries[1:], prompt[1:], strict=True):
            # An entry may also have the most likely token of its place.
            of_token = object_of(object_of(entry).get(str(token)))
            if not of_token:
                raise Ignored(f"answered log-probabilities of other tokens than the ones that were sent ({token})")
            logprobs.append(number(of_token.get("logprob")))
        return logprobs

    def next_tokens(self, prompts: Sequence[Ids], tokens: Ids) -> list[dict[int, float]]:
        """From the ``top_logprobs`` of one new token."""
        wanted = {"logprobs": len(tokens), "logprob_token_ids": list(tokens), "return_tokens_as_token_ids": True}
        choices = self._post(prompts, {"max_tokens": 1, **wanted, **NEUTRAL})
        return [self._top(choice.get("logprobs"), set(tokens)) for choice in choices]

    def _top(self, logprobs: Any, tokens: set[int]) -> dict[int, float]:
        top = object_of(logprobs).get("top_logprobs")
        if not isinstance(top, list) or not top:
            return {}
        # Versions name a token by its id, with this prefix or without it.
        names = {}
        for token in tokens:
            names[f"token_id:{token}"] = token
            names[str(token)] = token
        return {names[name]: number(value) for name, value in object_of(top[0]).items() if name in names}

    def continuations(self, prompts: Sequence[Ids], new: int, decoding: Decoding, seed: int) -> list[Made]:
        """Completions, with their token ids."""
        more = {"max_tokens": new, "return_token_ids": True, "top_k": decoding.top_k or 0}
        choices = self._post(prompts, {**more, **self.sampling(decoding, seed)})
        return [Made.of(choice.get("token_ids"), choice.get("text")) for choice in choices]


DIALECT = VLLM
