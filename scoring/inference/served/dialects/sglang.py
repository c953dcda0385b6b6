"""SGLang."""

from collections.abc import Mapping, Sequence
from typing import Any

from scoring.inference.generation import Decoding
from scoring.inference.served.dialects import NEUTRAL, Dialect, Ids, Ignored, Made, listed, matched, number, object_of


class SGLang(Dialect):
    """SGLang: ``/generate`` with ``return_logprob``; an entry is [log-probability, token id, text]."""

    software = "SGLang"
    owner = "sglang"
    signs = (("get_model_info", "model_path"),)
    version = ("get_server_info", "version")

    def _post(self, prompts: Sequence[Ids], sampling: Mapping[str, Any], more: Mapping[str, Any]) -> list[Any]:
        body = {"input_ids": [list(ids) for ids in prompts], "sampling_params": sampling, **more}
        return listed(self.client.post(f"{self.client.root}/generate", body), "", len(prompts))

    def sequences(self, prompts: Sequence[Ids], sampling: Mapping[str, float] = NEUTRAL) -> list[list[float]]:
        """From ``input_token_logprobs`` of the whole prompt."""
        options = {"return_logprob": True, "logprob_start_len": 0}
        replies = self._post(prompts, {**sampling, "max_new_tokens": 1}, options)
        return [self._read(reply, ids) for reply, ids in zip(replies, prompts, strict=True)]

    def _read(self, reply: Mapping[str, Any], prompt: Ids) -> list[float]:
        entries = object_of(reply.get("meta_info")).get("input_token_logprobs")
        if not isinstance(entries, list):
            raise Ignored("answered without log-probabilities of the prompt")
        matched(entries, prompt)
        for entry, token in zip(entries, prompt, strict=True):
            if not isinstance(entry, list) or len(entry) < 2 or entry[1] != token:
                raise Ignored(f"answered log-probabilities of other tokens than the ones that were sent ({token})")
        # The first token follows nothing, so its entry has no number.
        return [number(entry[0]) for entry in entries[1:]]

    def next_tokens(self, prompts: Sequence[Ids], tokens: Ids) -> list[dict[int, float]]:
        """From ``output_token_ids_logprobs`` of one new token."""
        options = {"return_logprob": True, "token_ids_logprob": [list(tokens)] * len(prompts)}
        replies = self._post(prompts, {**NEUTRAL, "max_new_tokens": 1}, options)
        candidates = []
        for reply in replies:
            scores: dict[int, float] = {}
            rows = object_of(reply.get("meta_info")).get("output_token_ids_logprobs")
            # One row, because one token is generated.
            if isinstance(rows, list) and rows and isinstance(rows[0], list):
                for entry in rows[0]:
                    if isinstance(entry, list) and len(entry) > 1 and entry[1] in tokens:
                        scores[int(entry[1])] = number(entry[0])
            candidates.append(scores)
        return candidates

    def continuations(self, prompts: Sequence[Ids], new: int, decoding: Decoding, seed: int) -> list[Made]:
        """Continuations, with their token ids where the server sends them."""
        sampling = self.sampling(decoding, seed)
        sampling["max_new_tokens"] = new
        # All tokens: SGLang has -1 for that, where others have 0.
        sampling["top_k"] = decoding.top_k or -1
        # SGLang has another name for the seed.
        if "seed" in sampling:
            sampling["sampling_seed"] = sampling.pop("seed")
        return [Made.of(reply.get("output_ids"), reply.get("text")) for reply in self._post(prompts, sampling, {})]


DIALECT = SGLang
