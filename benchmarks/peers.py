"""What scoring is compared with: the loops that evaluations of this kind are usually written as, and a harness.

Each gives the log-probability of every option of the requests, in order, and finds its tokens by itself.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from scoring.types import Request

#: Sentences of a batch of the padded loop.
BATCH = 16


@torch.no_grad()
def one_by_one(network: Any, tokenizer: Any, requests: Sequence[Request]) -> list[float]:
    """One forward pass per option, with its context, and log-probabilities of the vocabulary at all positions."""
    results = []
    for request in requests:
        for option in request.options:
            start, ids = encode(tokenizer, request.context, option.text)
            tokens = torch.tensor([ids], device=network.device)
            logprobs = torch.log_softmax(network(input_ids=tokens).logits[0, :-1].float(), -1)
            of_tokens = logprobs.gather(1, tokens[0, 1:, None])[start - 1 :]
            results.append(float(of_tokens.sum()))
    return results


def encode(tokenizer: Any, context: str, option: str) -> tuple[int, list[int]]:
    """Where the option's tokens start, and all tokens; before a sentence without context stands one special token."""
    ids: list[int] = tokenizer(context + option)["input_ids"]
    if context:
        return len(tokenizer(context)["input_ids"]), ids
    first = tokenizer.bos_token_id
    return 1, ids if ids[0] == first else [first, *ids]


@torch.no_grad()
def padded(network: Any, tokenizer: Any, sentences: Sequence[str], width: int) -> list[float]:
    """Sentences padded to ``width``, that of the longest of their file, with logits at all positions.

    Padding is on the right with a mask, so the numbers are those of the sentences by themselves.
    """
    results: list[float] = []
    for start in range(0, len(sentences), BATCH):
        rows = [encode(tokenizer, "", sentence)[1] for sentence in sentences[start : start + BATCH]]
        fill = tokenizer.bos_token_id
        ids = torch.tensor([row + [fill] * (width - len(row)) for row in rows], device=network.device)
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=network.device)
        logprobs = torch.log_softmax(network(input_ids=ids, attention_mask=mask).logits[:, :-1].float(), -1)
        of_tokens = logprobs.gather(2, ids[:, 1:, None])[..., 0] * mask[:, 1:]
        results += of_tokens.sum(1).tolist()
    return results


def longest(tokenizer: Any, sentences: Iterable[str]) -> int:
    """Tokens of the longest sentence, with the special token before it."""
    return max(len(encode(tokenizer, "", sentence)[1]) for sentence in sentences)


class Harness:
    """lm-evaluation-harness with the batch size of its automatic search, which the longest of all requests decides.

    The search runs five batches of full size, so its seconds are kept apart: they do not grow with the
    number of questions, and would be all there is to see in a sample. With ``batch`` there is no search.
    """

    def __init__(self, network: Any, tokenizer: Any, requests: Sequence[Request], batch: int = 0) -> None:
        self._model = importlib.import_module("lm_eval.models.huggingface").HFLM
        self._request = importlib.import_module("lm_eval.api.instance").Instance
        self._given: Mapping[str, Any] = {"pretrained": network, "tokenizer": tokenizer, "device": str(network.device)}
        self.batch, self.search_seconds = batch, 0.0
        if not batch:
            self._search(tokenizer, requests)
        self._found = self._model(**self._given, batch_size=self.batch)

    def _search(self, tokenizer: Any, requests: Sequence[Request]) -> None:
        pairs = [Request(request.id, request.context, (option,)) for request in requests for option in request.options]
        longest = max(pairs, key=lambda request: len(encode(tokenizer, request.context, request.options[0].text)[1]))
        search = self._model(**self._given, batch_size="auto")
        started = time.perf_counter()
        self._ask(search, [longest])
        self.search_seconds = time.perf_counter() - started
        self.batch = int(search.batch_sizes[0])

    def __call__(self, requests: Sequence[Request]) -> list[float]:
        """The options' log-probabilities."""
        return self._ask(self._found, requests)

    def continued(self, requests: Sequence[Request]) -> list[str]:
        """Greedy continuations, of as many tokens as each request wants."""
        asked = [
            self._request(
                request_type="generate_until",
                doc={},
                arguments=(request.context, {"until": [], "max_gen_toks": request.max_new, "do_sample": False}),
                idx=n,
            )
            for n, request in enumerate(requests)
        ]
        results: list[str] = self._found.generate_until(asked, disable_tqdm=True)
        return results

    def _ask(self, model: Any, requests: Sequence[Request]) -> list[float]:
        pairs = [(request.context, option.text) for request in requests for option in request.options]
        requests = [
            self._request(request_type="loglikelihood", doc={}, arguments=pair, idx=n) for n, pair in enumerate(pairs)
        ]
        return [float(logprob) for logprob, _ in model.loglikelihood(requests, disable_tqdm=True)]


def harness_version() -> str | None:
    """The version of the harness, or None where it is not installed."""
    return importlib.metadata.version("lm_eval") if importlib.util.find_spec("lm_eval") else None
