"""Requests to one server: JSON in, JSON out, sent again after temporary failures, within limits of time and size."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)
from tenacity.stop import stop_when_event_set

from builders.sources.retries import LONGEST_WAIT, TRANSIENT, is_address, seconds_to_wait
from scoring.types import ScoringError

#: Seconds for a connection, and the largest reply in bytes: prompt log-probabilities take about 100 bytes a token.
CONNECT, LARGEST = 10.0, 2**28
_BACKOFF = wait_exponential(multiplier=0.5, max=60) + wait_random(0, 0.5)


class Refused(ScoringError):
    """The server refuses a request; ``status`` is the code of its answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Unavailable(ScoringError):
    """The server does not answer, also after several attempts; another one may."""


class _Transient(Exception):
    """A temporary failure; ``wait`` is the number of seconds that the server asked to wait, if it did."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


@dataclass
class HttpClient:
    """An HTTP client of one server; threads may use it at the same time.

    Parameters
    ----------
    base_url:
        The address that the user gave, usually ending in ``/v1``.
    timeout:
        Seconds for a whole reply.
    attempts:
        The most times that a request is sent.
    stop:
        Set it to end all waiting between attempts.
    sleep:
        Called with the seconds to wait between attempts; by default it waits until they pass or ``stop`` is set.

    The key in ``OPENAI_API_KEY`` is sent to this address only, and is removed from all texts of the server.

    Raises
    ------
    ScoringError
        For an address that is none.
    """

    base_url: str
    timeout: float = 600.0
    attempts: int = 6
    stop: threading.Event = field(default_factory=threading.Event)
    sleep: Callable[[float], None] | None = None

    def __post_init__(self) -> None:
        self.base_url = self.base_url.rstrip("/")
        if not is_address(self.base_url):
            # It may contain a password, so it is not repeated.
            raise ScoringError(
                "The address of the server is not valid; give --base-url an address such as http://localhost:8000/v1."
            )
        self.host = urlsplit(self.base_url).netloc.rpartition("@")[2]
        self.root = self.base_url.removesuffix("/v1")
        self._key = os.environ.get("OPENAI_API_KEY", "").strip()
        headers = {"Authorization": f"Bearer {self._key}"} if self._key.isascii() and self._key.isprintable() else {}
        limits = httpx.Timeout(self.timeout, connect=min(CONNECT, self.timeout))
        self._http = httpx.Client(headers=headers if self._key else {}, timeout=limits)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def post(self, url: str, body: Mapping[str, Any]) -> Any:
        """The JSON that the server answers with status 200.

        Raises
        ------
        Refused
            When the server refuses the request.
        Unavailable
            When it does not answer in the last attempt, or answers with a temporary failure.
        ScoringError
            When its reply is too large or is not JSON.
        """
        retry = Retrying(
            stop=stop_after_attempt(self.attempts) | stop_when_event_set(self.stop),
            wait=_wait,
            retry=retry_if_exception_type(_Transient),
            sleep=self.sleep or self._pause,
            reraise=True,
        )
        try:
            return retry(self._once, "POST", url, orjson.dumps(body))
        except _Transient as error:
            tried = retry.statistics["attempt_number"]
            raise Unavailable(f"{error}, requested {tried} time{'s' * (tried != 1)}") from None

    def get(self, url: str) -> Any:
        """The JSON that the server answers, or None when it does not know the address.

        Raises
        ------
        Unavailable
            When the server cannot be reached.
        """
        try:
            return self._once("GET", url)
        except _Transient as error:
            raise Unavailable(str(error)) from None
        except ScoringError:
            return None

    def _once(self, method: str, url: str, content: bytes | None = None) -> Any:
        kind = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        deadline = time.monotonic() + self.timeout
        try:
            with self._http.stream(method, url, content=content, headers=kind) as reply:
                status, wish, data = reply.status_code, reply.headers.get("Retry-After", ""), bytearray()
                for block in reply.iter_raw():
                    data += block
                    if len(data) > LARGEST:
                        raise ScoringError(
                            f"{self.host} sent a reply of more than {LARGEST >> 20} MiB; nothing is kept."
                        )
                    if time.monotonic() > deadline:
                        raise _Transient(f"{self.host} did not complete its reply within {self.timeout:g} s")
        except httpx.TimeoutException:
            failure = _Transient(f"{self.host} did not answer within {self.timeout:g} s")
        except (httpx.HTTPError, httpx.InvalidURL):
            failure = _Transient(f"{self.host} cannot be reached")
        else:
            return self._read(status, wish, bytes(data))
        raise failure  # outside the except block: the client's error may contain the key and is not attached

    def _read(self, status: int, wish: str, data: bytes) -> Any:
        if status != 200:
            raise self._failure(status, wish, data)
        try:
            return orjson.loads(data)
        except ValueError:
            pass
        try:
            return json.loads(data)  # takes NaN, which is then refused as a number
        except ValueError:
            what = "a web page" if data.lstrip()[:1] == b"<" else "no whole JSON"
            raise ScoringError(
                f"{self.host} answered with {what}; give --base-url the address of an inference server, which usually "
                "ends in /v1."
            ) from None

    def _failure(self, status: int, wish: str, data: bytes) -> Exception:
        said = f"{self.host} answered {status} ({self.without_key(_message(data))[:300]})"
        if status in (401, 403):
            return Refused(f"{said}; set OPENAI_API_KEY to a key that this server accepts.", status)
        if status not in TRANSIENT:
            return Refused(said, status)
        wait = seconds_to_wait(wish)
        if wait is not None and wait > LONGEST_WAIT:
            return Unavailable(f"{said} and asks to wait {wait:.0f} s")
        return _Transient(said, wait)

    def without_key(self, text: str) -> str:
        """A text of the server without the key."""
        return text.replace(self._key, "[key]") if self._key else text

    def _pause(self, seconds: float) -> None:
        self.stop.wait(seconds)


def _message(data: bytes) -> str:
    """The server's message about an error, or its whole text."""
    try:
        message: Any = orjson.loads(data)
        while isinstance(message, dict):
            message = next(
                (message[name] for name in ("error", "message", "detail") if message.get(name)), str(message)
            )
        text = str(message)
    except ValueError:
        text = data.decode(errors="replace")
    return " ".join(text.split()) or "no message"


def _wait(state: RetryCallState) -> float:
    """Seconds until the next attempt: as the server asked, plus a random part that spreads retries, or a backoff."""
    error = state.outcome and state.outcome.exception()
    wish = error.wait if isinstance(error, _Transient) else None
    return _BACKOFF(state) if wish is None else wish + wait_random(0, 0.5)(state)
