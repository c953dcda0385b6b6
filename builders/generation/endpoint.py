"""Requests to an OpenAI-compatible server, with retries after temporary failures."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import openai

from builders.generation.responses import ChatError, ModelNotFound, Response, request_key, response
from builders.sources.retries import LONGEST_WAIT, TRANSIENT, Transient, is_address, retrying, seconds_to_wait

#: A longer reply, in bytes, is cut off and not kept.
LONGEST_REPLY = 32 << 20
# A server that counts more tokens than this for one request does not count tokens.
_MANY_TOKENS = 10**9
# Sent if no key is set: a local server needs none, but the client library does.
_NO_KEY = "none"


@dataclass
class Endpoint:
    """An OpenAI-compatible server.

    Parameters
    ----------
    base_url:
        Usually ends in ``/v1``; None for ``OPENAI_BASE_URL`` or the service of OpenAI.
    timeout:
        Seconds until a response must be complete.
    attempts:
        Highest number of times that a request is sent.
    limit_name:
        The server's name for ``max_tokens``: newer models expect ``max_completion_tokens``.
    stop:
        Set it to end all waiting between attempts.
    sleep:
        Called with the seconds to wait between attempts; by default it waits until they pass or ``stop`` is set.

    The key is read from ``OPENAI_API_KEY``, is sent to this address only, and is removed from all texts that
    the server returns.
    """

    base_url: str | None = None
    timeout: float = 120.0
    attempts: int = 6
    limit_name: str = "max_tokens"
    stop: threading.Event = field(default_factory=threading.Event)
    sleep: Callable[[float], None] | None = None

    def __post_init__(self) -> None:
        self._key = os.environ.get("OPENAI_API_KEY", "").strip() or _NO_KEY
        if self.base_url is not None and not is_address(self.base_url):
            # It may hold a password, so it is not repeated.
            raise ChatError(
                "The address of the server is not valid; give --base-url an address such as http://localhost:8000/v1."
            )
        self._client = openai.AsyncOpenAI(
            base_url=self.base_url, api_key=self._key, timeout=self.timeout, max_retries=0
        )
        self._host = urlsplit(str(self._client.base_url)).netloc.rpartition("@")[2]
        # A loop can end a whole request at its deadline; a blocking client only knows one for each read.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Closes the connection."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def send(self, body: Mapping[str, Any]) -> Response:
        """The response to a request; after temporary failures it is sent again with growing, random pauses.

        Raises
        ------
        ModelNotFound
            When the server does not have the model.
        ChatError
            When the server refuses the request, or the last attempt fails.
        """
        retry = retrying(self.attempts, self.sleep or self._pause, self.stop.is_set)
        try:
            return retry(self._send_once, body)
        except Transient as error:
            attempts = retry.statistics["attempt_number"]
            raise ChatError(
                f"{error}, requested {attempts} time{'s' * (attempts != 1)}; run again to continue."
            ) from None

    def _send_once(self, body: Mapping[str, Any]) -> Response:
        received = asyncio.run_coroutine_threadsafe(self._receive(body), self._loop)
        try:
            content = received.result()
        except (openai.OpenAIError, ValueError, TimeoutError) as error:  # ValueError: a key that no header can hold
            failure = self._failure(body, error)
        except BaseException:
            received.cancel()
            raise
        else:
            return self._response(body, content)
        raise failure  # outside the except block: the client's error may contain the key and is not attached

    async def _receive(self, body: Mapping[str, Any]) -> bytes:
        """The content of the reply, before the deadline and up to the longest reply."""
        arguments = {self.limit_name if name == "max_tokens" else name: value for name, value in body.items()}
        # A gateway that supports this header does not charge twice for a request that it has already processed.
        headers = {"Idempotency-Key": request_key(body)}
        create = self._client.chat.completions.with_streaming_response.create
        content = bytearray()
        async with asyncio.timeout(self.timeout), create(**arguments, extra_headers=headers) as reply:
            async for block in reply.iter_bytes():
                content += block
                if len(content) > LONGEST_REPLY:
                    raise ChatError(
                        f"{self._host} sent a reply of more than {LONGEST_REPLY >> 20} MB, which was cut off; "
                        "the replies so far are kept."
                    )
        return bytes(content)

    def _failure(self, body: Mapping[str, Any], error: Exception) -> Exception:
        if isinstance(error, openai.APIStatusError):
            return self._refusal(body, error)
        if isinstance(error, openai.APITimeoutError | TimeoutError):
            return Transient(f"{self._host} did not respond within {self.timeout:g} s")
        if isinstance(error, openai.APIConnectionError):
            return Transient(f"{self._host} cannot be reached")
        return ChatError(f"The request to {self._host} failed ({type(error).__name__}).")

    def _response(self, body: Mapping[str, Any], content: bytes) -> Response:
        """The response in a reply; what has another type than it should is empty, because the reply was paid for."""
        try:
            reply = json.loads(content)
            choices = reply["choices"]
        except (ValueError, RecursionError, KeyError, TypeError):
            choices = []
        if choices == []:
            raise ChatError(
                f"{self._host} answered without a reply; give --base-url an OpenAI-compatible address, which usually "
                "ends in /v1."
            )
        choice = _object(choices[0] if isinstance(choices, list) else None)
        message, usage = _object(choice.get("message")), _object(reply.get("usage"))
        counts: list[Any] = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        are_counts = all(type(count) is int and 0 <= count < _MANY_TOKENS for count in counts)
        return response(
            body,
            self._without_key(_text(message.get("content")) or _text(message.get("refusal"))),
            model=self._without_key(_text(reply.get("model"))),
            usage=(counts[0], counts[1]) if are_counts else None,
            finish_reason=_text(choice.get("finish_reason")) or "stop",
        )

    def _refusal(self, body: Mapping[str, Any], error: openai.APIStatusError) -> Exception:
        """The error for a status other than 200."""
        status, code = error.status_code, error.code or ""
        message = f"{self._host} answered {status} ({self._without_key(_message(error))[:300]})"
        if status in (404, 410) and "model" in f"{code} {_message(error)}".lower():
            return ModelNotFound(f"{self._host} does not have the model {body['model']}")
        if status in (401, 403):
            return ChatError(f"{message}; set OPENAI_API_KEY to a key that may use {body['model']}.")
        if status not in TRANSIENT or code == "insufficient_quota":
            return ChatError(f"{message}; the replies so far are kept.")
        wait = seconds_to_wait(error.response.headers.get("Retry-After", ""))
        if wait is not None and wait > LONGEST_WAIT:
            return ChatError(f"{message} and asks to wait {wait:.0f} s; run again after that.")
        return Transient(message, wait)

    def _pause(self, seconds: float) -> None:
        self.stop.wait(seconds)

    def _without_key(self, text: str) -> str:
        return text if self._key == _NO_KEY else text.replace(self._key, "[key]")


def _message(error: openai.APIStatusError) -> str:
    """The server's message about an error, or the whole body where there is no message."""
    message = error.body.get("message") if isinstance(error.body, dict) else None
    return " ".join((message if isinstance(message, str) else error.response.text).split())


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """A text, that of a number, or the texts of a list of parts; half of a surrogate pair becomes a question mark."""
    if isinstance(value, list):
        return "".join(_text(part.get("text") if isinstance(part, dict) else part) for part in value)
    return str(value).encode("utf-8", "replace").decode() if isinstance(value, str | int | float) else ""
