"""The options of ``python -m scoring`` for inference servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cards.packages import required
from scoring.inference.load_options import LoadOptions
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.inference.served.engine import Served

#: Options that say how to load a model here, which a server has done already.
LOADING = ("adapter", "device", "quantize", "trust_remote_code", "allow_pickle", "exact")


@dataclass(frozen=True, slots=True)
class ServedOptions:
    """Which servers to ask, and how; the parameters of :func:`scoring.inference.served.connect.connect`."""

    base_urls: Sequence[str]
    model: str | None = None
    tokenizer: str | None = None
    revision: str | None = None
    concurrency: int = 4
    timeout: float = 600.0


def connect_to(options: ServedOptions) -> Served:
    """The engine of these servers; the HTTP client is only imported here."""
    with required("Asking a server", "serve", ScoringError):
        from scoring.inference.served.connect import connect

    return connect(
        options.base_urls,
        options.model,
        options.tokenizer,
        options.revision,
        concurrency=options.concurrency,
        timeout=options.timeout,
    )


def served_as(base_urls: Sequence[str], model_name: str | None, options: LoadOptions) -> str:
    """The name of a run: of the model at the server, or of the server.

    Raises
    ------
    ScoringError
        For options that contradict each other.
    """
    if options.model:
        raise ScoringError(
            f"Both the model {options.model!r} and a server are given; name the server's model with --model-name, or "
            "leave out --base-url."
        )
    given = [name for name in LOADING if getattr(options, name)] + ["dtype"] * (options.dtype != "auto")
    if given:
        raise ScoringError(
            f"--{given[0].replace('_', '-')} says how a model is loaded, and a server has loaded it already; leave it "
            "out, or start the server with it."
        )
    hosts = [urlsplit(url).netloc.rpartition("@")[2] for url in base_urls]
    return model_name or " ".join(filter(None, hosts)) or "server"
