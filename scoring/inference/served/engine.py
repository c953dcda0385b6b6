"""The served engine: answers of a model behind one or several servers."""

from __future__ import annotations

import importlib.metadata
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from builders.sources.client import HttpError, Unavailable
from cards.text import grouped
from scoring.inference.decoding import Decoding, TokenizedPrompt, until
from scoring.inference.engine import Batching, Capability, Continued, Engine, Scored, Stats
from scoring.inference.generation import continued_text
from scoring.inference.served import plan
from scoring.inference.served.dialects import Ignored
from scoring.inference.served.handshake import CHANGE, INSTEAD, SENTENCES, Server, change, refusal
from scoring.inference.served.pool import Pool
from scoring.inference.store import Store
from scoring.inference.tokens import Query, Tokens
from scoring.types import Option, Request, Response, ScoringError

#: The most tokens and prompts of one request to a server; several requests are in progress at the same time.
TOKENS, SIZE = 2**13, 128
#: Prompts of one request for continuations.
CONTINUED = 32

Values = list[tuple[int, float]]


class Served(Engine):
    """A causal model behind servers that passed the handshake; all of them serve the same model.

    Parameters
    ----------
    servers:
        From :func:`scoring.inference.served.connect.connect`.
    tokens:
        The tokenization of the model.
    name, family, identity:
        The model, the ``model_type`` of its configuration where that is known, and the digest of its tokenizer.
    concurrency:
        Requests to one server at the same time.
    """

    kind, adapter, exact = "causal", "", False
    dtype, family = "the server's dtype", ""
    capabilities: frozenset[Capability] = frozenset({"logprobs", "generation"})

    def __init__(
        self,
        servers: Sequence[Server],
        tokens: Tokens,
        *,
        name: str,
        family: str = "",
        identity: str = "",
        concurrency: int = 4,
    ) -> None:
        self.name = name
        self.revision = f"served by {' and '.join(sorted({server.software for server in servers}))}"
        self.tokens = tokens
        self.stats = Stats()
        self.servers = servers
        self.concurrency = concurrency
        self.family = family
        self._identity = identity
        self._busy = _Busy()

    @property
    def source(self) -> str:
        """The model and its servers."""
        return f"{self.name} at {' and '.join(self._hosts)}"

    @property
    def _hosts(self) -> list[str]:
        return [f"{server.client.host} ({server.software})" for server in self.servers]

    @property
    def store_key(self) -> dict[str, str]:
        """The software and the tokenizer, so that responses of another engine are not used."""
        return {"engine": self.revision, "tokenizer": self._identity}

    @property
    def environment(self) -> dict[str, Any]:
        """The servers, what they lack, and what share of the time was spent waiting for them."""
        packages = ("transformers", "tokenizers", "numpy")
        seconds = self.stats.seconds
        return {
            "python": platform.python_version(),
            **{package: importlib.metadata.version(package) for package in packages},
            "engine": self.revision,
            "servers": self._hosts,
            "servers lost": [server.lost for server in self.servers if server.lost],
            "largest change on a repeat": max(server.repeat for server in self.servers),
            "share of time waiting for servers": round(self._busy.seconds / seconds, 3) if seconds else 0.0,
        }

    @property
    def waiting_seconds(self) -> float:
        """Seconds in which at least one request to a server was in progress."""
        return self._busy.seconds

    @property
    def remarks(self) -> list[str]:
        """A sentence for each server that was lost."""
        return [f"A server was dropped: {server.lost}." for server in self.servers if server.lost]

    def recognise(self, store: Store) -> None:
        """Compares the control sentence with that of an earlier run whose responses are stored, or stores it.

        Raises
        ------
        ScoringError
            When the stored responses are of another model.
        """
        request = Request("handshake", options=(Option(SENTENCES[0]),))
        now = self.servers[0].control
        known = store.get(request)
        if known is None:
            store.put(request, Response(request.id, (tuple(now),)))
        elif (apart := change(known.logprobs[0], now)) > CHANGE:
            raise ScoringError(
                f"{self.servers[0].client.host} now serves another model than the one whose responses are stored: "
                f"log-probabilities of one sentence differ by {apart:.2g} on average; start the earlier model, or give "
                "another --out."
            )

    def close(self) -> None:
        """Closes the connections."""
        for server in self.servers:
            server.client.close()

    def score(self, queries: Sequence[Query], batching: Batching) -> Iterator[Scored]:
        """Log-probabilities as the servers answer them."""
        if any(query.hidden for query in queries):
            raise ScoringError(
                "Padding that other tokens do not see cannot be sent to a server; leave this benchmark out, or score "
                "the model with the transformers engine."
            )
        self.stats.asked += sum(len(query.ids) for query in queries)
        points = all(server.points for server in self.servers)
        prompts, contexts = plan.planned(queries, points=points, share=batching.share)
        tokens, size = batching.tokens or TOKENS, batching.size or SIZE
        together = all(server.dialect.batches for server in self.servers)
        batches = plan.batches(prompts, tokens, size) if together else ([prompt] for prompt in prompts)
        jobs: list[Callable[[Server], Values]] = [partial(_score_prompts, prompts=batch) for batch in batches]
        jobs += [partial(_score_contexts, contexts=c, tokens=t) for c, t in plan.groups(contexts, tokens, size)]
        self.stats.tokens += sum(len(p.ids) for p in prompts) + sum(len(c.ids) for c in contexts)
        self.stats.read += sum(len(q.at) for q in queries)
        for values in self._spread(jobs):
            answers, logprobs = zip(*values, strict=True)
            yield Scored(np.array(answers, dtype=np.int64), np.array(logprobs))

    def generate(
        self, prompts: Sequence[TokenizedPrompt], decoding: Decoding, batching: Batching
    ) -> Iterator[Continued]:
        """Continuations as the servers answer them; a sampled one has a seed of its own."""
        if decoding.banned:
            raise ScoringError(
                "Words cannot be banned from what a server generates; leave out this --prompt, or score the model with "
                "the transformers engine."
            )
        together = all(server.dialect.batches for server in self.servers) and not decoding.sampled
        most = (batching.size or CONTINUED) if together else 1
        jobs = [
            partial(self._continue, prompts=group[first : first + most], decoding=decoding)
            for group in grouped(prompts, lambda prompt: prompt.new).values()
            for first in range(0, len(group), most)
        ]
        for continued, generated in self._spread(jobs):
            sent = sum(len(continuation.prompt.ids) for continuation in continued)
            self.stats.add(asked=sent, tokens=sent, generated=generated)
            yield from continued

    def _continue(
        self, server: Server, prompts: Sequence[TokenizedPrompt], decoding: Decoding
    ) -> tuple[list[Continued], int]:
        """The continuations, and how many new tokens the server names by their ids."""
        tokenizer, new = self.tokens.tokenizer, prompts[0].new
        seed = crc32(prompts[0].request.id.encode(), decoding.seed) >> 1 if decoding.sampled else decoding.seed
        made = server.dialect.continuations([prompt.ids for prompt in prompts], new, decoding, seed)
        server.scored([])
        continuations, generated = [], 0
        for prompt, (ids, text) in zip(prompts, made, strict=True):
            if ids is not None:
                kept = until(ids[:new], {tokenizer.eos_token_id})
                text = continued_text(tokenizer, prompt.ids, kept)
                generated += len(kept)
            continuations.append(Continued(prompt, text))
        return continuations, generated

    def _spread(self, jobs: Sequence[Callable[[Server], Any]]) -> Iterator[Any]:
        """The results of jobs; the control sentence is among the requests of each, or follows it."""

        def ask(server: Server, job: Callable[[Server], Any]) -> Any:
            with self._busy.waiting():
                try:
                    result = job(server)
                except Ignored as error:
                    raise refusal(
                        server.client, server.software, error, f"what was answered is kept; {INSTEAD}"
                    ) from None
                except Unavailable:
                    raise
                except HttpError as error:
                    raise ScoringError(f"{error}; what was answered before is kept.") from None
            return result

        return Pool(self.servers, ask, self.concurrency).run(jobs)


def _score_prompts(server: Server, prompts: Sequence[plan.TokenRow]) -> Values:
    sequences = server.scored([prompt.ids for prompt in prompts])
    return [
        (answer, logprobs[place - 1])
        for prompt, logprobs in zip(prompts, sequences, strict=True)
        for place, answer in prompt.reads
    ]


def _score_contexts(server: Server, contexts: Sequence[plan.Context], tokens: Sequence[int]) -> Values:
    """Candidates by the distribution of the next token, and those that it lacks as one-token options."""
    distributions = server.dialect.next_tokens([context.ids for context in contexts], tokens)
    values, lacking = [], []
    for context, known in zip(contexts, distributions, strict=True):
        values += [(answer, known[token]) for token in tokens if token in known for answer in context.wanted[token]]
        lacking += context.apart([token for token in tokens if token not in known])
    return values + _score_prompts(server, lacking)


class _Busy:
    """Seconds in which at least one request was in progress."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._count = 0
        self._since = 0.0
        self._guard = threading.Lock()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        with self._guard:
            self._since = self._since if self._count else time.perf_counter()
            self._count += 1
        try:
            yield
        finally:
            with self._guard:
                self._count -= 1
                if not self._count:
                    self.seconds += time.perf_counter() - self._since
