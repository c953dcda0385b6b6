"""The interface of engines: what answers requests, and the part of answering that is the same for all.

An engine gets token ids, never text: contexts and options are encoded here, with the tokenizer of the model, so
that the boundary between them and the beginning-of-sequence token are the same in every engine.

engine          where the model runs
=============== ===================================================================
transformers    in this process (:class:`scoring.inference.model.Model`)
served          behind servers (:class:`scoring.inference.served.engine.Served`)
=============== ===================================================================
"""

import importlib.metadata
import importlib.util
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from scoring.inference import control
from scoring.inference.batching import Ints
from scoring.inference.generation import Decoding, TokenizedPrompt
from scoring.inference.responses import IncomingResponses
from scoring.inference.store import Store
from scoring.inference.tokens import Kind, Query, Tokens
from scoring.types import Floats, Request, Response

T = TypeVar("T")
#: What an engine can do: log-probabilities of given tokens; continuations; filling masks; tokens behind padding that no
#: other token sees; words that may not be generated; the states inside the network.
Capability = Literal["logprobs", "generation", "masked", "padding", "banned words", "hidden states"]
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)


@dataclass(slots=True)
class Stats:
    """What an engine has computed.

    Attributes
    ----------
    asked:
        Tokens of all sequences, each counted by itself.
    tokens, padding:
        Tokens computed (or sent to a server) after sharing, and what batches added to them.
    read, generated:
        Positions at which the vocabulary was computed; new tokens.
    flops:
        Multiplications and additions of the matrix products with weights: 2 for each weight and token (PaLM,
        appendix B), without attention and padding.
    """

    asked: int = 0
    tokens: int = 0
    padding: int = 0
    read: int = 0
    generated: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    load_seconds: float = 0.0

    def add(self, **more: float) -> None:
        """Counts more, by name."""
        for name, count in more.items():
            setattr(self, name, getattr(self, name) + count)

    def speed(self) -> dict[str, float]:
        """Tokens per second and the shares of padding and of tokens saved, for a report."""
        tokens_per_second = 0.0
        flops_per_second = 0.0
        # Where all responses were stored, nothing was computed and no time passed.
        if self.seconds:
            tokens_per_second = self.tokens / self.seconds
            flops_per_second = self.flops / self.seconds
        shared_share = 0.0
        if self.asked:
            shared_share = 1 - self.tokens / self.asked
        return {
            "tokens_per_second": tokens_per_second,
            "padding_share": self.padding / max(self.tokens + self.padding, 1),
            "shared_share": shared_share,
            "flops_per_second": flops_per_second,
            "generated": float(self.generated),
            "seconds": self.seconds,
            "load_seconds": self.load_seconds,
        }


@dataclass(frozen=True, slots=True)
class Batching:
    """How sequences are put together.

    ``tokens`` and ``size`` are the most padded tokens and rows of a batch, None for the engine's own choice;
    ``share`` says whether what sequences have in common may be computed once.
    """

    tokens: int | None = None
    size: int | None = None
    share: bool = True


class Scored(NamedTuple):
    """Numbers of answers (counted through the queries in order), and their log-probabilities."""

    answers: Ints
    values: Floats


class Continued(NamedTuple):
    """A prompt and its continuation, without special tokens."""

    prompt: TokenizedPrompt
    text: str


def versions(*packages: str) -> dict[str, str]:
    """The versions of Python and of those packages that are installed, for a report."""
    installed = {"python": platform.python_version()}
    for name in packages:
        if importlib.util.find_spec(name):
            installed[name] = importlib.metadata.version(name)
    return installed


@contextmanager
def _closed(values: Iterator[T]) -> Iterator[Iterator[T]]:
    """Ends a generator with the block: after an error nothing more is asked of a server."""
    try:
        yield values
    finally:
        if isinstance(values, Generator):
            values.close()


class Engine(ABC):
    """What answers requests.

    Attributes
    ----------
    kind:
        Whether the model predicts the next token or a masked one.
    name, revision, adapter, dtype:
        The model, for reports and for the key of stored responses.
    files:
        A digest of all files that model and tokenizer were read from, for that key.
    answers:
        A digest of what an object in memory answers to the control rows (:mod:`scoring.inference.control`), for that
        key; empty for a model of files or servers, whose answers are compared instead.
    exact:
        Whether each sequence is computed by itself.
    tokens:
        The tokenization of the model.
    stats:
        What was computed so far.
    named_revision:
        The branch, tag or commit that was asked for; empty where none was.
    piece:
        The characters of requests that are asked at one time; about a quarter of a million tokens. These are many
        batches, so that the last one, which is not full, costs little.
    """

    named_revision: str = ""
    piece: int = 2**20
    kind: Kind
    name: str
    revision: str
    adapter: str
    exact: bool
    tokens: Tokens
    stats: Stats
    files: str = ""
    answers: str = ""

    @property
    @abstractmethod
    def dtype(self) -> str:
        """The dtype of the weights."""

    @property
    @abstractmethod
    def family(self) -> str:
        """The ``model_type`` of the model's configuration; empty where it is not known."""

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[Capability]:
        """What the engine can do."""

    @property
    @abstractmethod
    def environment(self) -> dict[str, Any]:
        """Versions, machine, and remarks, for a report."""

    @property
    def source(self) -> str:
        """What gives the numbers, for an error about one."""
        return f"{self.name} in {self.dtype}"

    @property
    def parameters(self) -> int | None:
        """How many parameters the model has; None where that is not known."""
        return None

    @property
    def store_key(self) -> dict[str, str]:
        """Further facts that responses depend on; responses of different engines are stored apart."""
        return {}

    @property
    def remarks(self) -> list[str]:
        """Sentences for the end of a run."""
        return []

    def recognise(self, store: Store) -> None:
        """Checks by the control rows that the responses of a store are of the model that answers now.

        Raises
        ------
        ScoringError
            When they are of another model.
        """
        # The answers of an object in memory are a part of the key of its store.
        if self.answers or not control.has_logprobs(self):
            return
        # In half the precision another device or batch changes the rows by rounding; see ``CHANGE``.
        rounding = control.ROUNDING if self.dtype in ("float32", "float64") else control.CHANGE
        control.recognise(store, {"": [answer.logprobs for answer in control.answers(self)]}, rounding)

    def close(self) -> None:  # noqa: B027  nothing to close for a model in this process
        """Closes connections."""

    @abstractmethod
    def score(self, queries: Sequence[Query], batching: Batching) -> Iterator[Scored]:
        """Log-probabilities of all answers of the queries, in the order in which they are computed.

        Raises
        ------
        ScoringError
            When a query cannot be answered.
        """

    @abstractmethod
    def generate(
        self, prompts: Sequence[TokenizedPrompt], decoding: Decoding, batching: Batching
    ) -> Iterator[Continued]:
        """The continuation of each prompt, in the order in which they are computed.

        Raises
        ------
        ScoringError
            When a prompt cannot be continued.
        """

    def answer(
        self,
        requests: Sequence[Request],
        *,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        share_contexts: bool = True,
        truncate: bool = False,
        decoding: Decoding | None = None,
        on_response: Callable[[Response], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Response]:
        """Answers all requests and returns the responses in their order.

        Parameters
        ----------
        batch_tokens, batch_size, share_contexts:
            See :class:`Batching`; with ``exact`` a batch has one row always.
        truncate:
            Whether a text longer than the context window is cut and its id put into ``truncated``.
        decoding:
            How contexts are continued; greedily when None.
        on_response:
            Called with every response as soon as it is complete, in the order of computation.
        progress:
            Called with the number of complete responses and of requests.

        Raises
        ------
        ScoringError
            Before anything is computed, for a request that cannot be put to this model; later, for a
            log-probability that is not a number and for what the engine cannot answer.
        """
        started = time.perf_counter()
        decoding = decoding or Decoding()
        self.tokens.truncate = truncate
        batching = Batching(batch_tokens, batch_size, share_contexts)
        responses = IncomingResponses(self.tokens, requests, self.source, on_response, progress)
        prompts = self._prompts(requests, decoding)
        with _closed(self.score(responses.queries, batching)) as all_scored:
            for scored in all_scored:
                responses.score(scored.answers, scored.values)
        with _closed(self.generate(prompts, decoding, batching)) as all_continued:
            for continued in all_continued:
                responses.write(continued.prompt.request, continued.text)
        self.stats.seconds += time.perf_counter() - started
        return responses.all()

    def _prompts(self, requests: Sequence[Request], decoding: Decoding) -> list[TokenizedPrompt]:
        """Requests that want a continuation, as token ids, longest first."""
        wanted = [request for request in requests if request.max_new]

        contexts = self.tokens.encode([request.context for request in wanted])
        prompts = []
        for request, context in zip(wanted, contexts, strict=True):
            new = decoding.max_new or request.max_new
            prompts.append(TokenizedPrompt(request, self.tokens.prompt(request, context, new), new))
        return sorted(prompts, key=len, reverse=True)

    @property
    def truncated(self) -> frozenset[str]:
        """Ids of the requests whose text was cut to the context window."""
        return frozenset(self.tokens.truncated)
