"""The served engine: answers of a model behind one or several servers.

Queries become prompts: sequences whose tokens are scored, and contexts with candidate next tokens. A server scores one
token at each position of a prompt, the one that follows, so the log-probabilities of a sentence come from one prompt.
Several tokens at one position (options of one token after the same context, forms of a pronoun) come from the
distribution of the next token, in one prompt for all of them:

    queries                                   prompts
    [a b] wants c, [a b] wants d              context [a b] with the candidates c and d
    [a b c] wants b, c, e                     sequence [a b c e]
    [a b] wants b, c                          nothing: it is read from the sequence before it

The jobs are shared between servers: each takes the next job when it has room, and one that dies gives its jobs back.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

from builders.sources.client import HttpClient, HttpError, Unavailable
from cards.common.answer_key import server_name
from cards.common.stored import digest
from cards.common.text import grouped
from scoring.inference import checkpoint, fetching
from scoring.inference.batching import common
from scoring.inference.control import CHANGE, change, recognise
from scoring.inference.engine import Batching, Continued, Engine, Scored, Stats, versions
from scoring.inference.generation import Decoding, TokenizedPrompt, continued_text, until
from scoring.inference.load_options import BUNDLED
from scoring.inference.served import handshake
from scoring.inference.served.dialects import TOP, Ignored
from scoring.inference.served.handshake import INSTEAD, Server, refusal
from scoring.inference.store import Store
from scoring.inference.tokens import Query, Tokens
from scoring.options import ServedOptions
from scoring.types import ScoringError

J = TypeVar("J")
R = TypeVar("R")


def spread(
    servers: Sequence[Server], ask: Callable[[Server, J], R], concurrency: int, jobs: Sequence[J]
) -> Iterator[R]:
    """The result of each job, in the order in which they are done.

    Parameters
    ----------
    servers:
        Those that do not answer are marked by ``lost`` and get no more jobs.
    ask:
        Does one job with one server.
    concurrency:
        Jobs of one server at the same time.

    Raises
    ------
    ScoringError
        When no server is left, or a job fails for a reason that another server would not remove.
    """
    alive = [server for server in servers if not server.lost]
    # A server is among the places as often as it has room; None ends the threads that wait for one.
    places: SimpleQueue[Server | None] = SimpleQueue()
    done: SimpleQueue[Future[R]] = SimpleQueue()
    # Round robin at the start: every server gets its first job before any gets a second one.
    for server in alive * concurrency:
        server.client.stop.clear()
        places.put(server)

    failures: list[BaseException] = []

    def work(job: J) -> R:
        while server := places.get():
            try:
                if failures:  # nothing more is sent after a failure
                    raise failures[0]
                if server.lost:  # since another job left this place
                    raise Unavailable(server.lost)
                return ask(server, job)
            except Unavailable as error:
                server.lost = server.lost or str(error)
                server.client.stop.set()
                if all(other.lost for other in alive):
                    raise ScoringError(
                        f"{error}; what was answered is kept, so start the same command again."
                    ) from None
            except BaseException as error:
                failures.append(error)
                raise
            finally:
                if not server.lost:
                    places.put(server)
        places.put(None)
        raise CancelledError

    pool = ThreadPoolExecutor(min(len(alive) * concurrency, len(jobs)) or 1, "asking")
    try:
        for job in jobs:
            pool.submit(work, job).add_done_callback(done.put)
        for _ in jobs:
            yield done.get().result()
    finally:
        places.put(None)
        pool.shutdown(wait=False, cancel_futures=True)
        for server in alive:
            server.client.stop.set()


Ids = tuple[int, ...]


@dataclass(slots=True)
class TokenRow:
    """A prompt of which tokens are scored; ``reads`` are pairs of a position (from 1) and the number of an answer."""

    ids: Ids
    reads: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Context:
    """A context with candidates for the next token; ``wanted`` has the numbers of the answers by token."""

    ids: Ids
    wanted: dict[int, list[int]] = field(default_factory=dict)

    def apart(self, tokens: Sequence[int]) -> list[TokenRow]:
        """The same as one prompt for each of these tokens."""
        rows = []
        for token in tokens:
            reads = [(len(self.ids), number) for number in self.wanted[token]]
            rows.append(TokenRow((*self.ids, token), reads))
        return rows


def planned(queries: Sequence[Query], *, points: bool, share: bool = True) -> tuple[list[TokenRow], list[Context]]:
    """Prompts and contexts that answer all queries; answers are numbered through the queries in order.

    Parameters
    ----------
    points:
        Whether the server gives the probabilities of candidates for the next token; without, each is a prompt.
    share:
        Whether equal prompts are sent once, and a prompt that is the beginning of another is read from it.

    >>> planned([Query((1, 2), (1,), (3,)), Query((1, 2), (1,), (4,)), Query((1,), (0,), (2,))], points=True)
    ([TokenRow(ids=(1, 2), reads=[(1, 2)])], [Context(ids=(1, 2), wanted={3: [0], 4: [1]})])
    """
    prompts: list[TokenRow] = []
    contexts: dict[Ids, Context] = {}
    number = 0
    for query in queries:
        last = len(query.ids) - 1
        answers = range(number, number + len(query.at))
        number += len(query.at)
        # Wanted after the last token alone: a context. Otherwise a sequence, whose wanted tokens are its own next ones.
        if all(place == last for place in query.at):
            context = contexts.setdefault(query.ids, Context(query.ids))
            for token, answer in zip(query.want, answers, strict=True):
                context.wanted.setdefault(token, []).append(answer)
        else:
            ids = query.ids
            # The token after the last one is scored too, so it is sent with the others.
            if query.at[-1] == last:
                ids = (*query.ids, query.want[-1])
            reads = [(place + 1, answer) for place, answer in zip(query.at, answers, strict=True)]
            prompts.append(TokenRow(ids, reads))
    several = []
    for context in contexts.values():
        # A distribution costs one new token; for one candidate its own prompt is as cheap and merges with others.
        if points and len(context.wanted) > 1:
            several.append(context)
        else:
            prompts += context.apart(list(context.wanted))
    if share:
        prompts = merged(prompts)
    # In the order of the queries, so that the answers of a request come together and are complete early.
    prompts.sort(key=lambda prompt: min(answer for _, answer in prompt.reads))
    return prompts, several


def merged(prompts: Sequence[TokenRow]) -> list[TokenRow]:
    """Prompts that are no beginning of another one, with the reads of those that are.

    >>> [(p.ids, p.reads) for p in merged([TokenRow((1, 2), [(1, 0)]), TokenRow((1, 2, 3), [(2, 1)])])]
    [((1, 2, 3), [(2, 1), (1, 0)])]
    """
    longest: list[TokenRow] = []
    # Descending, a beginning comes after the prompts that it begins, and the last one kept is one of them.
    for prompt in sorted(prompts, key=lambda p: p.ids, reverse=True):
        if longest and common(longest[-1].ids, prompt.ids) == len(prompt.ids):
            # A server returns the log-probability of every token, so the longer prompt has those of its beginning.
            longest[-1].reads += prompt.reads
        else:
            longest.append(TokenRow(prompt.ids, list(prompt.reads)))
    return longest[::-1]


def prompt_batches(prompts: Sequence[TokenRow], tokens: int, size: int) -> Iterator[list[TokenRow]]:
    """Prompts in their order, in batches of at most so many tokens and prompts; one prompt is always allowed."""
    batch: list[TokenRow] = []
    length = 0
    for prompt in prompts:
        if batch and (len(batch) == size or length + len(prompt.ids) > tokens):
            yield batch
            batch = []
            length = 0
        batch.append(prompt)
        length += len(prompt.ids)
    if batch:
        yield batch


def context_batches(contexts: Sequence[Context], tokens: int, size: int) -> Iterator[tuple[list[Context], list[int]]]:
    """Contexts that want the same tokens, in batches, with at most ``TOP`` of these tokens at one time."""
    for wanted, same_tokens in grouped(contexts, lambda context: tuple(sorted(context.wanted))).items():
        # Contexts that begin alike come one after the other, so that a server's cache of prefixes serves them.
        ordered = sorted(same_tokens, key=lambda context: context.ids)
        longest = max(len(context.ids) for context in ordered)
        step = min(max(tokens // longest, 1), size)
        for start in range(0, len(wanted), TOP):
            chosen = list(wanted[start : start + TOP])
            for first in range(0, len(ordered), step):
                yield ordered[first : first + step], chosen


#: The most tokens and prompts of one request to a server; several requests are in progress at the same time.
TOKENS, SIZE = 2**13, 128
#: Prompts of one request for continuations.
CONTINUED = 32
#: Files of a tokenizer, and the configuration with the context window and the model type.
FILES = ["*.json", "*.txt", "*.model", "*.jinja", "*.codes", "*.vocab", "*.tiktoken", "*.bpe", "*.spm"]
#: A prompt of which every token is scored has one token more than a query, and the server generates one.
EXTRA = 2

Values = list[tuple[int, float]]


@dataclass(eq=False)
class Served(Engine):
    """A causal model behind servers that passed the handshake; all of them serve the same model.

    Parameters
    ----------
    servers:
        From :func:`connect`.
    tokens:
        The tokenization of the model.
    name, family, files:
        The model, the ``model_type`` of its configuration where that is known, and the digest of all files of its
        tokenizer.
    concurrency:
        Requests to one server at the same time.
    """

    servers: Sequence[Server]
    tokens: Tokens
    name: str
    family: str = ""
    files: str = ""
    concurrency: int = 4
    kind, adapter, exact, dtype = "causal", "", False, "the server's dtype"
    capabilities = frozenset({"logprobs", "generation"})

    def __post_init__(self) -> None:
        self.revision = f"served by {' and '.join(sorted({server.software for server in self.servers}))}"
        self.stats = Stats()
        #: Beginning and end of each request, which overlap.
        self._waited: list[tuple[float, float]] = []
        #: Tokens of the longest prompt that the servers were seen to do.
        self._longest = len(self.servers[0].sentence)

    @property
    def source(self) -> str:
        """The model and its servers."""
        return f"{self.name} at {' and '.join(self._hosts)}"

    @property
    def _hosts(self) -> list[str]:
        return [f"{server.client.host} ({server.software})" for server in self.servers]

    @property
    def store_key(self) -> dict[str, str]:
        """The addresses, so that responses of another server are not used."""
        return {"server": " ".join(sorted(server_name(server.client.address) for server in self.servers))}

    @property
    def environment(self) -> dict[str, Any]:
        """The servers, what they lack, and what share of the time was spent waiting for them."""
        share = 0.0
        if self.stats.seconds:
            share = round(self.waiting_seconds / self.stats.seconds, 3)
        return {
            **versions("transformers", "tokenizers", "numpy"),
            "engine": self.revision,
            "servers": self._hosts,
            "servers lost": [server.lost for server in self.servers if server.lost],
            "largest change on a repeat": max(server.repeat for server in self.servers),
            "share of time waiting for servers": share,
        }

    @property
    def waiting_seconds(self) -> float:
        """Seconds in which at least one request to a server was in progress."""
        total = until = 0.0
        for start, end in sorted(self._waited):
            # The union of overlapping spans: only what reaches beyond all spans before it is added.
            total += max(end - max(start, until), 0.0)
            until = max(end, until)
        return total

    @property
    def remarks(self) -> list[str]:
        """A sentence for each server that was lost."""
        return [f"A server was dropped: {server.lost}." for server in self.servers if server.lost]

    def recognise(self, store: Store) -> None:
        """Compares the control rows of each server with those of an earlier run whose responses are stored.

        Raises
        ------
        ScoringError
            When the stored responses are of another model, or their control rows are not there any more.
        """
        recognise(store, {server_name(server.client.address): server.rounds for server in self.servers})

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
        # Where every server gives the distribution of the next token, all candidates after a context are one request.
        points = all(server.points for server in self.servers)
        prompts, contexts = planned(queries, points=points, share=batching.share)
        tokens = batching.tokens or TOKENS
        size = batching.size or SIZE
        longest: Ids = max((prompt.ids for prompt in prompts), key=len, default=())
        jobs: list[Callable[[Server], Values]] = []
        if all(server.dialect.batches for server in self.servers):
            # Before the first request: a text that is too long would end a run of hours at its place.
            self._check_long(longest, tokens, size)
            for batch in prompt_batches(prompts, tokens, size):
                jobs.append(partial(_score_prompts, prompts=batch))
        else:
            self._check_long(longest, 0, size)
            for prompt in prompts:
                jobs.append(partial(_score_prompts, prompts=[prompt]))
        for batch_of_contexts, candidates in context_batches(contexts, tokens, size):
            jobs.append(partial(_score_contexts, contexts=batch_of_contexts, tokens=candidates))
        for query in queries:
            self.stats.asked += len(query.ids)
            self.stats.read += len(query.at)
        for prompt in prompts:
            self.stats.tokens += len(prompt.ids)
        for context in contexts:
            self.stats.tokens += len(context.ids)
        # In the order in which servers finish; the answers have their numbers with them.
        for values in self._spread(jobs):
            answers, logprobs = zip(*values, strict=True)
            yield Scored(np.array(answers, dtype=np.int64), np.array(logprobs))
        self._check_rows(len(jobs))

    def _check_long(self, prompt: Ids, tokens: int, size: int) -> None:
        """Checks with a full request that all servers can do the longest prompt, unless they did a longer one.

        ``tokens`` is 0 where a request has one prompt. One that cannot be reached is dropped while another does it,
        since that one was perhaps only stopped.
        """
        alive = [server for server in self.servers if not server.lost]
        if len(prompt) <= self._longest or not alive:
            return
        copies = 1
        if tokens:
            # Two at least: a second copy in one request is cut into parts at other places.
            copies = max(min(tokens // len(prompt), size), 2)
        # In threads of its own, as the servers are asked at the same time.
        with ThreadPoolExecutor(len(alive)) as pool:
            checks = [pool.submit(server.check_long, prompt, copies) for server in alive]
        for server, check in zip(alive, checks, strict=True):
            if not server.lost or all(other.lost for other in alive):
                check.result()
        self._longest = len(prompt)

    def generate(
        self, prompts: Sequence[TokenizedPrompt], decoding: Decoding, batching: Batching
    ) -> Iterator[Continued]:
        """Continuations as the servers answer them; a sampled one has a seed of its own."""
        if decoding.banned:
            raise ScoringError(
                "Words cannot be banned from what a server generates; leave out this --prompt, or score the model with "
                "the transformers engine."
            )
        # A request has one seed, so each sampled prompt is a request.
        most = 1
        if not decoding.sampled and all(server.dialect.batches for server in self.servers):
            most = batching.size or CONTINUED
        jobs = []
        # A request has one number of new tokens.
        for same_length in grouped(prompts, lambda prompt: prompt.new).values():
            for first in range(0, len(same_length), most):
                batch = same_length[first : first + most]
                jobs.append(partial(self._continue, prompts=batch, decoding=decoding))
        for continued, generated in self._spread(jobs):
            sent = sum(len(continuation.prompt.ids) for continuation in continued)
            self.stats.add(asked=sent, tokens=sent, generated=generated)
            yield from continued
        self._check_rows(len(jobs))

    def _check_rows(self, jobs: int) -> None:
        """Has each server score the control rows once more after jobs; a changed model is an error."""
        if not jobs:
            return
        alive = [server for server in self.servers if not server.lost]
        for server in alive:
            try:
                server.check_rows()
            except Unavailable as error:
                server.lost = str(error)
                if all(other.lost for other in alive):
                    raise ScoringError(
                        f"{error}; what was answered is kept, so start the same command again."
                    ) from None
            except (Ignored, HttpError) as error:
                raise refusal(server.client, server.software, error, f"what was answered is kept; {INSTEAD}") from None

    def _continue(
        self, server: Server, prompts: Sequence[TokenizedPrompt], decoding: Decoding
    ) -> tuple[list[Continued], int]:
        """The continuations, and how many new tokens the server names by their ids."""
        tokenizer = self.tokens.tokenizer
        new = prompts[0].new
        seed = decoding.seed
        if decoding.sampled:
            # Of the request and the seed of the run, so that it does not depend on the order of requests. One bit is
            # dropped, so that it is a signed integer of 32 bits.
            seed = crc32(prompts[0].request.id.encode(), decoding.seed) >> 1
        replies = server.dialect.continuations([prompt.ids for prompt in prompts], new, decoding, seed)
        # The control sentence alone: whether the server still has the same model.
        server.scored([])
        continuations = []
        generated = 0
        for prompt, (ids, text) in zip(prompts, replies, strict=True):
            if ids is not None:
                new_ids = until(ids[:new], {tokenizer.eos_token_id})
                text = continued_text(tokenizer, prompt.ids, new_ids)
                generated += len(new_ids)
            continuations.append(Continued(prompt, server.client.without_key(text)))
        return continuations, generated

    def _spread(self, jobs: Sequence[Callable[[Server], Any]]) -> Iterator[Any]:
        """The results of jobs; the control sentence is among the requests of each, or follows it."""

        def ask(server: Server, job: Callable[[Server], Any]) -> Any:
            started = time.perf_counter()
            try:
                return job(server)
            except Ignored as error:
                raise refusal(server.client, server.software, error, f"what was answered is kept; {INSTEAD}") from None
            except Unavailable:
                raise
            except HttpError as error:
                raise ScoringError(f"{error}; what was answered before is kept.") from None
            finally:
                self._waited.append((started, time.perf_counter()))

        return spread(self.servers, ask, self.concurrency, jobs)


def _score_prompts(server: Server, prompts: Sequence[TokenRow]) -> Values:
    """The log-probabilities that prompts are read for, with the numbers of their answers."""
    sequences = server.scored([prompt.ids for prompt in prompts])
    values: Values = []
    for prompt, logprobs in zip(prompts, sequences, strict=True):
        # The first token has no log-probability, so that of the token at a place is one before it.
        for place, answer in prompt.reads:
            values.append((answer, logprobs[place - 1]))
    return values


def _score_contexts(server: Server, contexts: Sequence[Context], tokens: Sequence[int]) -> Values:
    """Candidates by the distribution of the next token, and those that it lacks as one-token options."""
    distributions = server.dialect.next_tokens([context.ids for context in contexts], tokens)
    values: Values = []
    rows: list[TokenRow] = []
    for context, scores in zip(contexts, distributions, strict=True):
        lacking = []
        for token in tokens:
            if token in scores:
                for answer in context.wanted[token]:
                    values.append((answer, scores[token]))
            else:
                lacking.append(token)
        rows += context.apart(lacking)
    # Also without rows: the control sentence is scored with them.
    return values + _score_prompts(server, rows)


def connect(options: ServedOptions, revision: str | None = None, *, attempts: int = 6, trained: bool = True) -> Served:
    """The engine, after each server passed the handshake.

    Parameters
    ----------
    options:
        Without the name of a model, it is the only one that the servers have; without a tokenizer, it is what the
        server tells as the origin of its model. The load is shared between the addresses.
    revision:
        Branch, tag or commit of the tokenizer on the Hub.
    attempts:
        The most times that a request is sent.
    trained:
        Whether the model knows English, which the handshake then checks.

    Raises
    ------
    ScoringError
        For an address without a server, a server that does not give log-probabilities of the tokens that it is sent,
        a tokenizer that is not the model's, and servers of different models.
    """
    started = time.perf_counter()
    # Connections are closed where one of the servers is refused, and stay open where all are accepted.
    with ExitStack() as undo:
        clients = []
        try:
            # An address that was given twice is one server.
            for url in dict.fromkeys(options.base_url):
                clients.append(undo.enter_context(closing(HttpClient(url, options.timeout, attempts))))
        except HttpError as error:
            raise ScoringError(f"{error}.") from None
        engine = _connected(clients, options, revision, trained)
        undo.pop_all()
    engine.stats.load_seconds = time.perf_counter() - started
    return engine


def _connected(clients: Sequence[HttpClient], options: ServedOptions, revision: str | None, trained: bool) -> Served:
    """The engine of these servers; the tokenizer is that of the first one's model."""
    identities = [handshake.identity(client) for client in clients]
    names = []
    for client, identity in zip(clients, identities, strict=True):
        names.append(handshake.served_name(client, identity, options.model_name))
    if len(set(names)) > 1:
        raise ScoringError(f"The servers have different models ({', '.join(names)}); choose one with --model-name.")
    name = names[0]
    origin = str(identities[0].models.get(name, {}).get("root") or name)
    tokens, folder = _tokens(options.tokenizer, origin, revision, clients[0].host)
    with ThreadPoolExecutor(len(clients)) as pool:
        greet = partial(handshake.shake_hands, model=name, tokens=tokens, trained=trained)
        servers = list(pool.map(greet, clients, identities))
    first = servers[0]
    for other in servers[1:]:
        distance = change(first.control, other.control)
        if distance > CHANGE:
            raise ScoringError(
                f"{first.client.host} and {other.client.host} serve different models, as log-probabilities of one "
                f"sentence differ by {distance:.2g} on average; give the addresses of one model."
            )
    # The smallest window of all servers, because any of them may get any prompt.
    windows = []
    if tokens.window:
        windows.append(tokens.window)
    for server in servers:
        if server.window:
            windows.append(server.window - EXTRA)
    tokens.window = min(windows, default=None)
    family = str(checkpoint.json_object(folder / "config.json").get("model_type", ""))
    files = digest(checkpoint.file_digests(folder, weights=False))
    return Served(servers, tokens, name, family, files, options.concurrency)


def _tokens(requested: str | None, origin: str, revision: str | None, host: str) -> tuple[Tokens, Path]:
    """The tokenizer that the user names, or that of the model's origin, and the folder that it is in."""
    name = origin
    if requested is not None:
        name = requested
    try:
        folder = BUNDLED.get(name) or fetching.fetched(name, revision, FILES)
        tokenizer = checkpoint.tokenizer(folder, name, {"trust_remote_code": False})
    except ScoringError:
        if requested is not None:
            raise
        raise ScoringError(
            f"{host} calls its model {origin!r}, and no tokenizer is found by that name; give --tokenizer the folder "
            "or the name on the Hub of the model that is served."
        ) from None
    window = checkpoint.json_object(folder / "config.json").get("max_position_embeddings")
    if not isinstance(window, int) or window <= 0:
        window = None
    family = str(checkpoint.json_object(folder / "config.json").get("model_type", ""))
    return Tokens(tokenizer, "causal", window, family=family), folder
