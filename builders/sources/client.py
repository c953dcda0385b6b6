"""The HTTP client for servers of models: requests with retries, each under one deadline and up to a largest size."""

import asyncio
import ipaddress
import json
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2
import orjson

from builders.sources import retries
from cards.common.text import redactor

T = TypeVar("T")
#: Bytes that are read at one time.
_BLOCK = 1 << 16
#: Seconds for a connection.
CONNECT = 10.0
#: What prevents that a request is sent; after any other failure it may have been processed.
_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.UnsupportedProtocol,
    httpx2.ProxyError,
    httpx2.InvalidURL,
)
#: All else that a connection can do: httpx has no common class for it, and lets some errors of others through.
_BROKEN = (httpx2.HTTPError, httpx2.StreamError, OSError, ValueError)


#: Statuses of a request that the server did not process, so that nobody pays for it: redirects, and refusals before
#: any work. After any other status, also an unknown one, the model may have done its work.
FREE = frozenset(
    {301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 410, 411, 413, 414, 415, 417, 421, 422, 426, 428, 429}
    | {431, 451}
)


class HttpError(Exception):
    """A request failed; the message is a sentence without its end.

    ``free`` says that the server did not process it, so that nobody pays for it.
    """

    free = False


class Unavailable(HttpError):
    """The server does not answer, also after several attempts."""


class Refused(HttpError):
    """The server answers with a status that another attempt does not change, such as 400, or redirects elsewhere.

    ``status`` is its code and ``reason`` what the server says. It is ``free`` for a status of :data:`FREE` alone.
    """

    def __init__(self, message: str, status: int, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.free = status in FREE


@dataclass
class HttpClient:
    """A client of one server; threads may use it at the same time.

    Parameters
    ----------
    base_url:
        The address that the user gave, usually ending in ``/v1``. Its query (``?api-version=…``) is sent with every
        request, behind the path.
    timeout:
        Seconds for a whole request: the connection, headers and body.
    attempts:
        The most times that a request is sent.
    largest:
        A longer reply, in bytes, is cut off and not used.
    stop:
        Set it to end all waiting between attempts.
    sleep:
        Called with the seconds to wait between attempts; by default it waits until they pass or ``stop`` is set.

    ``address`` keeps the address as it was given, for the keys of stored answers.

    The key in ``OPENAI_API_KEY`` is sent to this address only, and is removed from all texts of the server, as
    is every other secret of the environment. Redirects
    are refused, because prompts would go to an address that nobody gave.

    Raises
    ------
    HttpError
        When the address is not valid.
    """

    base_url: str
    timeout: float = 600.0
    attempts: int = 6
    largest: int = 2**28
    stop: threading.Event = field(default_factory=threading.Event)
    sleep: Callable[[float], None] | None = None

    def __post_init__(self) -> None:
        self.address = self.base_url
        try:
            httpx2.URL(self.address)
            usable = retries.is_address(self.address)
        except (httpx2.InvalidURL, ValueError):  # such as a host with characters that no host has
            usable = False
        if not usable:
            raise HttpError(retries.NO_ADDRESS)
        parts = urlsplit(self.address)
        self.base_url = parts._replace(query="", fragment="").geturl().rstrip("/")
        self.host = parts.netloc.rpartition("@")[2]
        # Servers have further addresses outside the interface, such as those of tokenizers.
        self.root = self.base_url.removesuffix("/v1")
        self.key = os.environ.get("OPENAI_API_KEY", "").strip()
        self._redact = redactor(os.environ)
        headers = {"Authorization": f"Bearer {self.key}"} if self.key.isascii() and self.key.isprintable() else {}
        # No limit for single reads: the deadline is of the whole request.
        limits = httpx2.Timeout(None, connect=min(CONNECT, self.timeout))
        self.session = httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", **(headers if self.key else {})},
            params=parts.query,
            timeout=limits,
            limits=httpx2.Limits(max_connections=None),
            # A proxy of the environment cannot reach servers of this machine.
            trust_env=not is_loopback(parts.hostname or ""),
        )
        # A loop can end a whole request at its deadline; a blocking client only knows one for each read.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the requests in progress and closes the connections."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self) -> None:
        # A cancelled request has to end before its connection is closed.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.session.aclose()

    def post(self, url: str, body: Mapping[str, Any]) -> Any:
        """The JSON that the server answers with status 200.

        Raises
        ------
        HttpError
            When the server refuses the request, does not answer in the last attempt, or its reply is too large or is
            not JSON.
        """
        content = orjson.dumps(body)
        headers = {"Content-Type": "application/json"}
        return self.read_json(
            self.retry(lambda: self.once(lambda: self.session.stream("POST", url, content=content, headers=headers)))
        )

    def get(self, url: str) -> Any:
        """The JSON that the server answers, or None when it does not know the address or answers something else.

        Raises
        ------
        HttpError
            When the server cannot be reached, or redirects.
        """
        try:
            return self.read_json(self.once(lambda: self.session.stream("GET", url)))
        except retries.Transient as error:
            raise Unavailable(str(error)) from None
        except HttpError as error:
            if isinstance(error, Refused) and 300 <= error.status < 400:
                raise
            return None

    def retry(self, attempt: Callable[[], T]) -> T:
        """What a function returns; it is called again, with growing, random pauses, after a :class:`Transient`.

        Raises
        ------
        Unavailable
            When the last attempt fails.
        """
        again = retries.retrying(self.attempts, self.sleep or self._pause, self.stop.is_set)
        try:
            return again(attempt)
        except retries.Transient as error:
            count = again.statistics["attempt_number"]
            raise Unavailable(f"{error}, requested {count} time{'s' * (count != 1)}") from None

    def once(self, reply: Callable[[], AbstractAsyncContextManager[httpx2.Response]]) -> bytes:
        """The body that the server answers with status 200 to one request, which :attr:`session` sends.

        Raises
        ------
        retries.Transient
            After a temporary failure of the connection or of the reply, or one that the status reports.
        HttpError
            When the server refuses the request, or its reply is too large.
        """
        received = asyncio.run_coroutine_threadsafe(self._receive(reply), self._loop)
        try:
            url, status, headers, data = received.result()
        except TimeoutError:
            failure: Exception = retries.Transient(f"{self.host} did not answer within {self.timeout:g} s")
        except _NOT_SENT:
            failure = retries.Transient(f"{self.host} cannot be reached", free=True)
        except _BROKEN as error:
            failure = retries.Transient(f"{self.host} broke off its reply ({type(error).__name__})")
        except CancelledError:
            failure = Unavailable(f"{self.host} was left before it answered")
        except BaseException:
            received.cancel()
            raise
        else:
            if status == 200:
                return data
            failure = self._failure(url, status, headers, data)
        raise failure  # outside the except block: the client's error may contain the key and is not attached

    async def _receive(
        self, reply: Callable[[], AbstractAsyncContextManager[httpx2.Response]]
    ) -> tuple[str, int, httpx2.Headers, bytes]:
        data = bytearray()
        # Read in blocks, so that a reply without end is cut off before it fills the memory.
        async with asyncio.timeout(self.timeout), reply() as answer:
            async for block in answer.aiter_bytes(_BLOCK):
                data += block
                if len(data) > self.largest:
                    raise HttpError(f"{self.host} sent a reply of more than {self.largest >> 20} MB, which was cut off")
        return str(answer.url), answer.status_code, answer.headers, bytes(data)

    def read_json(self, data: bytes) -> Any:
        """The JSON of a reply.

        Raises
        ------
        HttpError
            When it is not JSON, or is nested too deeply.
        """
        try:
            return orjson.loads(data)
        except ValueError:
            pass
        try:
            return json.loads(data)  # takes NaN, which is then refused as a number
        except RecursionError:
            what = "JSON that is nested too deeply"
        except ValueError:
            what = "a web page" if data.lstrip()[:1] == b"<" else "no whole JSON"
        raise HttpError(
            f"{self.host} answered with {what}; give --base-url the address of an inference server, which usually "
            "ends in /v1"
        )

    def _failure(self, url: str, status: int, headers: httpx2.Headers, data: bytes) -> Exception:
        """The error for a status other than 200."""
        if 300 <= status < 400 and (target := headers.get("Location")):
            return self._redirect(url, status, target)
        reason, code = _reason(data)
        reason = self.without_key(reason)[:300]
        message = f"{self.host} answered {status} ({reason or 'no message'})"
        if status in (401, 403):
            return Refused(f"{message}; set OPENAI_API_KEY to a key that this server accepts", status, reason)
        # OpenAI answers 429 both for a high rate, which passes, and for an empty account, which does not.
        if status not in retries.TRANSIENT or code == "insufficient_quota":
            return Refused(message, status, f"{code} {reason}")
        wait, free = retries.seconds_to_wait(headers.get("Retry-After", "")), status in FREE
        if wait is None or wait <= retries.LONGEST_WAIT:
            return retries.Transient(message, wait, free=free)
        failure = Unavailable(f"{message} and asks to wait {wait:.0f} s")
        failure.free = free
        return failure

    def _redirect(self, url: str, status: int, target: str) -> Refused:
        try:
            parts = urlsplit(urljoin(url, target))
            where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        except ValueError:
            where = "an address that is none"
        # The address is of somebody else: no control characters and no secrets in the message.
        where = "".join(filter(str.isprintable, self.without_key(where)))[:200]
        return Refused(
            f"{self.host} answered {status} and redirects to {where}, and redirects are not followed; if prompts may "
            "go there, give --base-url that address",
            status,
        )

    def without_key(self, text: str) -> str:
        """A text of the server without the key and all other secrets, which a server on this machine may know."""
        text = text.replace(self.key, "[key]") if self.key else text
        return str(self._redact(text))

    def _pause(self, seconds: float) -> None:
        self.stop.wait(seconds)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("example.org")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _reason(data: bytes) -> tuple[str, str]:
    """The server's message about an error, or its whole text, and the code of the error where it has one."""
    text, code = data.decode(errors="replace"), ""
    try:
        entry: Any = orjson.loads(data)
    except ValueError:
        entry = None
    # Servers nest the message differently: {"error": {"message": …}}, {"detail": [{"msg": …}]}, a list of errors.
    while entry and isinstance(entry, dict | list):
        if isinstance(entry, list):
            entry = entry[0]
            continue
        code = entry["code"] if isinstance(entry.get("code"), str) else code
        entry = next((entry[name] for name in ("error", "message", "detail", "msg") if entry.get(name)), None)
    text = entry if isinstance(entry, str) else text
    return "".join(filter(str.isprintable, " ".join(text.split()))), code
