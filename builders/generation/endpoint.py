"""One call of a chat model behind any OpenAI-compatible address, tried again where that may help."""

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

from builders.generation.chat import ChatError, ModelGone, Record, key, record
from builders.sources.fetch import LONGEST_WAIT, TRANSIENT, seconds_to_wait

_BACKOFF = wait_exponential(multiplier=0.5, max=60) + wait_random(0, 0.5)
# Sent where no key is set: servers of one's own want none, but the client does.
_NO_KEY = "none"


class _Transient(ChatError):
    """A failure that may pass; ``wait`` is how many seconds the server asked for, if it did."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


@dataclass
class Endpoint:
    """An OpenAI-compatible server.

    Parameters
    ----------
    base_url:
        Usually ends in ``/v1``; None for ``OPENAI_BASE_URL`` or the service of OpenAI.
    timeout:
        Seconds to wait for a reply.
    attempts:
        How often one request is sent at most.
    limit_name:
        What the server calls the longest reply: newer models want ``max_completion_tokens``.
    stop:
        Set to end all waiting between attempts.
    sleep:
        Called with the seconds to wait between attempts; if not given, waits for them or for ``stop``.

    The key is read from ``OPENAI_API_KEY``, goes to this address alone, and is taken out of all that
    the server says.
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
                "That is no address of a server; give --base-url an address such as http://localhost:8000/v1."
            )
        self._client = openai.OpenAI(base_url=self.base_url, api_key=self._key, timeout=self.timeout, max_retries=0)
        self._host = urlsplit(str(self._client.base_url)).netloc.rpartition("@")[2]

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def ask(self, request: Mapping[str, Any]) -> Record:
        """The reply to a request, asked again with growing, uneven pauses after failures that may pass.

        Raises
        ------
        ModelGone
            When the server does not have the model.
        ChatError
            When it refuses, or still fails at the last attempt.
        """
        again = Retrying(
            stop=stop_after_attempt(self.attempts) | stop_when_event_set(self.stop),
            wait=_wait,
            retry=retry_if_exception_type(_Transient),
            sleep=self.sleep or self._pause,
            reraise=True,
        )
        try:
            return again(self._once, request)
        except _Transient as error:
            tries = again.statistics["attempt_number"]
            raise ChatError(f"{error}, asked {tries} time{'s' * (tries != 1)}; run again to go on.") from None

    def _once(self, request: Mapping[str, Any]) -> Record:
        arguments = {self.limit_name if name == "max_tokens" else name: value for name, value in request.items()}
        # A gateway that knows the header answers a request that it has answered before without a second charge.
        headers = {"Idempotency-Key": key(request)}
        try:
            answer = self._client.chat.completions.create(**arguments, extra_headers=headers)
        except (openai.OpenAIError, ValueError) as error:  # ValueError: a key that no header can hold
            failure = self._failure(request, error)
        else:
            return self._record(request, answer)
        raise failure  # not above, where the client's error, in which the key may stand, would go along with it

    def _failure(self, request: Mapping[str, Any], error: Exception) -> ChatError:
        if isinstance(error, openai.APIStatusError):
            return self._refusal(request, error)
        if isinstance(error, openai.APITimeoutError):
            return _Transient(f"{self._host} gave no reply within {self.timeout:g} s")
        if isinstance(error, openai.APIConnectionError):
            return _Transient(f"{self._host} cannot be reached")
        return ChatError(f"{self._host} could not be asked ({type(error).__name__}).")

    def _record(self, request: Mapping[str, Any], answer: ChatCompletion) -> Record:
        choices = getattr(answer, "choices", None)
        if not choices:
            raise ChatError(
                f"{self._host} answered without a reply; give --base-url an OpenAI-compatible address, which usually "
                "ends in /v1."
            )
        message, usage = choices[0].message, answer.usage
        return record(
            request,
            self._clean(message.content or message.refusal or ""),
            model=self._clean(answer.model or ""),
            usage=(usage.prompt_tokens, usage.completion_tokens) if usage else None,
            finish_reason=choices[0].finish_reason or "stop",
        )

    def _refusal(self, request: Mapping[str, Any], error: openai.APIStatusError) -> ChatError:
        """What an answer other than 200 means."""
        status, code = error.status_code, error.code or ""
        what = f"{self._host} answered {status} ({self._clean(_said(error))[:300]})"
        if status in (404, 410) and "model" in f"{code} {_said(error)}".lower():
            return ModelGone(f"{self._host} does not have the model {request['model']}")
        if status in (401, 403):
            return ChatError(f"{what}; set OPENAI_API_KEY to a key that may use {request['model']}.")
        if status not in TRANSIENT or code == "insufficient_quota":
            return ChatError(f"{what}; what was replied before is kept.")
        wait = seconds_to_wait(error.response.headers.get("Retry-After", ""))
        if wait is not None and wait > LONGEST_WAIT:
            return ChatError(f"{what} and asks to wait {wait:.0f} s; run again after that.")
        return _Transient(what, wait)

    def _pause(self, seconds: float) -> None:
        self.stop.wait(seconds)

    def _clean(self, text: str) -> str:
        return text if self._key == _NO_KEY else text.replace(self._key, "[key]")


def _said(error: openai.APIStatusError) -> str:
    """What a server says of an error, whatever the shape it says it in."""
    body = error.body
    told = body.get("message") if isinstance(body, dict) else None
    return " ".join((told if isinstance(told, str) else error.response.text).split())


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _wait(state: RetryCallState) -> float:
    """What the server asked for and a little more, so that many do not return at once; else ever longer."""
    error = state.outcome and state.outcome.exception()
    told = error.wait if isinstance(error, _Transient) else None
    return _BACKOFF(state) if told is None else told + wait_random(0, 0.5)(state)
