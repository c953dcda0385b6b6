"""Requests to an OpenAI-compatible server, with retries after temporary failures."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import openai
from openai.types.chat import ChatCompletion
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)
from tenacity.stop import stop_when_event_set

from builders.generation.responses import ChatError, ModelNotFound, Response, request_key, response
from builders.sources.fetch import LONGEST_WAIT, TRANSIENT, seconds_to_wait

_BACKOFF = wait_exponential(multiplier=0.5, max=60) + wait_random(0, 0.5)
# Sent if no key is set: a local server needs none, but the client library does.
_NO_KEY = "none"


class _Transient(ChatError):
    """A temporary failure; ``wait`` is the number of seconds that the server asked to wait, if it did."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


@dataclass
class Endpoint:
    """An OpenAI-compatible server.

    Parameters
    ----------
    base_url:
        Usually ends in ``/v1``; None for ``OPENAI_BASE_URL`` or the service of OpenAI.
    timeout:
        Seconds to wait for a response.
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
        if self.base_url is not None and not _is_address(self.base_url):
            # It may hold a password, so it is not repeated.
            raise ChatError(
                "The address of the server is not valid; give --base-url an address such as http://localhost:8000/v1."
            )
        self._client = openai.OpenAI(base_url=self.base_url, api_key=self._key, timeout=self.timeout, max_retries=0)
        self._host = urlsplit(str(self._client.base_url)).netloc.rpartition("@")[2]

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def send(self, body: Mapping[str, Any]) -> Response:
        """The response to a request; after temporary failures it is sent again with growing, random pauses.

        Raises
        ------
        ModelNotFound
            When the server does not have the model.
        ChatError
            When the server refuses the request, or the last attempt fails.
        """
        retry = Retrying(
            stop=stop_after_attempt(self.attempts) | stop_when_event_set(self.stop),
            wait=_wait,
            retry=retry_if_exception_type(_Transient),
            sleep=self.sleep or self._pause,
            reraise=True,
        )
        try:
            return retry(self._send_once, body)
        except _Transient as error:
            attempts = retry.statistics["attempt_number"]
            raise ChatError(
                f"{error}, requested {attempts} time{'s' * (attempts != 1)}; run again to continue."
            ) from None

    def _send_once(self, body: Mapping[str, Any]) -> Response:
        arguments = {self.limit_name if name == "max_tokens" else name: value for name, value in body.items()}
        # A gateway that supports this header does not charge twice for a request that it has already processed.
        headers = {"Idempotency-Key": request_key(body)}
        try:
            completion = self._client.chat.completions.create(**arguments, extra_headers=headers)
        except (openai.OpenAIError, ValueError) as error:  # ValueError: a key that no header can hold
            failure = self._failure(body, error)
        else:
            return self._response(body, completion)
        raise failure  # outside the except block: the client's error may contain the key and is not attached

    def _failure(self, body: Mapping[str, Any], error: Exception) -> ChatError:
        if isinstance(error, openai.APIStatusError):
            return self._refusal(body, error)
        if isinstance(error, openai.APITimeoutError):
            return _Transient(f"{self._host} did not respond within {self.timeout:g} s")
        if isinstance(error, openai.APIConnectionError):
            return _Transient(f"{self._host} cannot be reached")
        return ChatError(f"The request to {self._host} failed ({type(error).__name__}).")

    def _response(self, body: Mapping[str, Any], completion: ChatCompletion) -> Response:
        choices = getattr(completion, "choices", None)
        if not choices:
            raise ChatError(
                f"{self._host} answered without a reply; give --base-url an OpenAI-compatible address, which usually "
                "ends in /v1."
            )
        message, usage = choices[0].message, completion.usage
        return response(
            body,
            self._without_key(message.content or message.refusal or ""),
            model=self._without_key(completion.model or ""),
            usage=(usage.prompt_tokens, usage.completion_tokens) if usage else None,
            finish_reason=choices[0].finish_reason or "stop",
        )

    def _refusal(self, body: Mapping[str, Any], error: openai.APIStatusError) -> ChatError:
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
        return _Transient(message, wait)

    def _pause(self, seconds: float) -> None:
        self.stop.wait(seconds)

    def _without_key(self, text: str) -> str:
        return text if self._key == _NO_KEY else text.replace(self._key, "[key]")


def _message(error: openai.APIStatusError) -> str:
    """The server's message about an error, or the whole body where there is no message."""
    message = error.body.get("message") if isinstance(error.body, dict) else None
    return " ".join((message if isinstance(message, str) else error.response.text).split())


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _wait(state: RetryCallState) -> float:
    """Seconds until the next attempt: as the server asked, plus a random part that spreads retries, or a backoff."""
    error = state.outcome and state.outcome.exception()
    wish = error.wait if isinstance(error, _Transient) else None
    return _BACKOFF(state) if wish is None else wish + wait_random(0, 0.5)(state)
