"""A model behind inference servers that give log-probabilities."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rich.console import Console

from builders.sources.retries import NO_ADDRESS, is_address
from cards.common.packages import required
from scoring.asking.result import RunResult
from scoring.inference.engines import Call, EngineKind, refuse_loading, score
from scoring.inference.parallel import Processes
from scoring.options import ServedOptions
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.inference.served.engine import Served


def connect_to(options: ServedOptions, revision: str | None = None) -> Served:
    """The engine of these servers; the HTTP client is only imported here."""
    # Its packages are an extra: scoring a loaded model needs no HTTP client.
    with required("Asking a server", "serve", ScoringError):
        from scoring.inference.served.engine import connect

    return connect(options, revision)


def name(call: Call) -> str:
    """The model at the server, or the hosts."""
    refuse_loading(call)
    hosts = []
    for url in call.servers.base_url:
        if not is_address(url):
            raise ScoringError(f"{NO_ADDRESS}.")
        # Without the name and password that an address may have before an @.
        host = urlsplit(url).netloc.rpartition("@")[2]
        if host:
            hosts.append(host)
    return call.servers.model_name or " ".join(hosts) or "server"


def score_call(call: Call, console: Console, _processes: Processes) -> RunResult:
    """Connects to the servers, and scores their model."""
    # Connected only after data and settings were checked.
    return score(name(call), partial(connect_to, call.servers, call.loading.revision), call.settings, console)


ENGINE = EngineKind(
    lambda call: bool(call.servers.base_url) and not (call.in_memory or call.sampling.chat_api),
    name,
    score_call,
    remote=True,
    folder=lambda call: ("", call.servers.tokenizer or ""),
)
