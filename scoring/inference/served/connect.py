"""Addresses of servers and a tokenizer become the served engine."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from builders.sources.client import HttpClient, HttpError
from scoring.inference import checkpoint
from scoring.inference.load_options import BUNDLED
from scoring.inference.served.engine import Served
from scoring.inference.served.handshake import CHANGE, change, identity, served_name, shake_hands
from scoring.inference.tokens import Tokens
from scoring.options import ServedOptions
from scoring.types import ScoringError

#: Files of a tokenizer, and the configuration with the context window and the model type.
FILES = ["*.json", "*.txt", "*.model", "*.jinja"]
#: A prompt of which every token is scored has one token more than a query, and the server generates one.
EXTRA = 2


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
    with ExitStack() as undo:
        try:
            urls = dict.fromkeys(options.base_url)
            clients = [undo.enter_context(closing(HttpClient(u, options.timeout, attempts))) for u in urls]
        except HttpError as error:
            raise ScoringError(f"{error}.") from None
        engine = _connected(clients, options, revision, trained)
        undo.pop_all()
    engine.stats.load_seconds = time.perf_counter() - started
    return engine


def _connected(clients: Sequence[HttpClient], options: ServedOptions, revision: str | None, trained: bool) -> Served:
    identities = [identity(client) for client in clients]
    names = [served_name(*server, options.model_name) for server in zip(clients, identities, strict=True)]
    if len(set(names)) > 1:
        raise ScoringError(f"The servers have different models ({', '.join(names)}); choose one with --model-name.")
    origin = str(identities[0].models.get(names[0], {}).get("root") or names[0])
    tokens, folder = _tokens(options.tokenizer, origin, revision, clients[0].host)
    with ThreadPoolExecutor(len(clients)) as pool:
        greet = partial(shake_hands, model=names[0], tokens=tokens, trained=trained)
        servers = list(pool.map(greet, clients, identities))
    first, *others = servers
    for other in others:
        if (apart := change(first.control, other.control)) > CHANGE:
            raise ScoringError(
                f"{first.client.host} and {other.client.host} serve different models, as log-probabilities of one "
                f"sentence differ by {apart:.2g} on average; give the addresses of one model."
            )
    windows = [window - EXTRA for server in servers if (window := server.window)]
    tokens.window = min([*windows, *([tokens.window] if tokens.window else [])], default=None)
    family = str(checkpoint.json_object(folder / "config.json").get("model_type", ""))
    # What identifies a tokenizer: its tokens and what it puts around a text.
    content = [sorted(tokens.tokenizer.get_vocab().items()), tokens.prefix, tokens.suffix]
    vocabulary = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return Served(servers, tokens, names[0], family, vocabulary, options.concurrency)


def _tokens(given: str | None, origin: str, revision: str | None, host: str) -> tuple[Tokens, Path]:
    """The tokenizer, and the folder that it is in."""
    name = origin if given is None else given
    try:
        folder = BUNDLED.get(name) or checkpoint.fetched(name, revision, FILES)
        tokenizer = checkpoint.tokenizer(folder, name, {"trust_remote_code": False})
    except ScoringError:
        if given is not None:
            raise
        raise ScoringError(
            f"{host} calls its model {origin!r}, and no tokenizer is found by that name; give --tokenizer the folder "
            "or the name on the Hub of the model that is served."
        ) from None
    window = checkpoint.json_object(folder / "config.json").get("max_position_embeddings")
    return Tokens(tokenizer, "causal", window if isinstance(window, int) and window > 0 else None), folder
