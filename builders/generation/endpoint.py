"""Requests to an OpenAI-compatible server, with retries after temporary failures."""

import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

import httpx2
import openai

from builders.generation.responses import (
    LOGPROBS,
    OPENAI,
    ChatError,
    ChatResponse,
    ModelNotFound,
    RefusedRequest,
    request_key,
    response,
)
from builders.sources.client import HttpClient, HttpError, Refused, Unavailable

#: A longer reply, in bytes, is cut off and not kept.
LONGEST_REPLY = 32 << 20
# Sent if no key is set: a local server needs none, but the client library does.
_NO_KEY = "none"
# A server that counts more tokens than this for one request does not count tokens.
_MANY_TOKENS = 10**9

#: A context around each attempt, which takes its response; see :meth:`builders.generation.costs.Budget.reserve`.
Payment = Callable[[], AbstractContextManager[list[ChatResponse]]]


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

    The key is read from ``OPENAI_API_KEY``, is sent to this address only, and is removed from all texts that
    the server returns.
    """

    def __init__(
        self,
        base_url: str | None = None,
        timeout: float = 120.0,
        attempts: int = 6,
        limit_name: str = "max_tokens",
    ) -> None:
        address = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        try:
            # Our client does the retries and the deadline; the library only knows the form of requests and replies.
            self._http = HttpClient(address, timeout, attempts, LONGEST_REPLY)
        except HttpError as error:
            raise ChatError(f"{error}.") from None
        self._client = openai.AsyncOpenAI(
            base_url=self._http.base_url,
            api_key=self._http.key or _NO_KEY,
            max_retries=0,
            http_client=self._http.session,
        )
        self.limit_name = limit_name
        self.gives_logprobs = True

    @property
    def stop(self) -> threading.Event:
        """Set it to end all waiting; no further request is sent then."""
        return self._http.stop

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()

    def send(self, body: Mapping[str, Any], payment: Payment | None = None) -> ChatResponse:
        """The response to a request; after temporary failures it is sent again with growing, random pauses.

        A server that refuses to give log-probabilities is asked without them from then on.

        ``payment`` is entered for each attempt and gets its response.

        Raises
        ------
        ModelNotFound
            When the server does not have the model.
        RefusedRequest
            When the server does not take such a request (status 400 or 422).
        ChatError
            When the server refuses the request, or the last attempt fails.
        """

        def attempt() -> ChatResponse:
            # Without a budget nothing is reserved; the list takes the response in both cases.
            with payment() if payment else nullcontext([]) as paid:
                paid.append(self._send_once(body))
            return paid[0]

        # Other threads may find out at the same time that the server refuses.
        asks_logprobs = self.gives_logprobs and "logprobs" in body
        try:
            return self._http.retry(attempt)
        except Unavailable as error:
            raise ChatError(f"{error}; run again to continue.") from None
        except Refused as error:
            if asks_logprobs and "logprobs" in error.reason:
                self.gives_logprobs = False
                return self.send(body, payment)
            if error.status in (404, 410) and "model" in error.reason.lower():
                raise ModelNotFound(f"{self._http.host} does not have the model {body['model']}") from None
            kind = RefusedRequest if error.status in (400, 422) else ChatError
            raise kind(f"{error}; the replies so far are kept.") from None
        except HttpError as error:
            raise ChatError(f"{error}; the replies so far are kept.") from None

    def _send_once(self, body: Mapping[str, Any]) -> ChatResponse:
        if self.stop.is_set():  # while it waited for its payment
            failure = Unavailable("The request was not sent")
            failure.free = True
            raise failure
        # The key of a stored response does not depend on the server's name for the limit, so it is renamed here.
        content = {self.limit_name if name == "max_tokens" else name: value for name, value in body.items()}
        if not self.gives_logprobs:
            content = {name: value for name, value in content.items() if name not in LOGPROBS}
        # A gateway that supports this header does not charge twice for a request that it has already processed.
        headers = {"Idempotency-Key": request_key(body)}
        return self._response(body, self._http.once(lambda: self._chat(content, headers)))

    @asynccontextmanager
    async def _chat(self, content: Mapping[str, Any], headers: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        """The reply of the server, whatever its status; a broken connection is httpx's error."""
        create = self._client.chat.completions.with_streaming_response.create
        try:
            async with create(**content, extra_headers=headers) as reply:
                yield reply.http_response
        except openai.APIStatusError as error:
            yield error.response
        except openai.APIConnectionError as error:
            raise error.__cause__ or OSError(str(error)) from None

    def _response(self, body: Mapping[str, Any], content: bytes) -> ChatResponse:
        """The response in a reply; what has another type than it should is empty, because the reply was paid for."""
        try:
            reply = self._http.read_json(content)
        except HttpError:
            reply = None
        if not isinstance(reply, dict) or reply.get("choices", []) == []:
            raise ChatError(
                f"{self._http.host} answered without a reply; give --base-url an OpenAI-compatible address, which "
                "usually ends in /v1."
            )
        choices = reply["choices"]
        choice = _object(choices[0] if isinstance(choices, list) else None)
        message = _object(choice.get("message"))
        # Some models put a refusal into a field of its own and leave the text empty.
        text = _text(message.get("content")) or _text(message.get("refusal"))
        return response(
            body,
            self._http.without_key(text),
            model=self._http.without_key(_text(reply.get("model"))),
            usage=_usage(_object(reply.get("usage"))),
            finish_reason=_text(choice.get("finish_reason")) or "stop",
            system_fingerprint=self._http.without_key(_text(reply.get("system_fingerprint"))),
            logprobs=_first_logprobs(_object(choice.get("logprobs"))),
        )


def _first_logprobs(logprobs: Mapping[str, Any]) -> dict[str, float]:
    """The log-probabilities of the tokens at the first place that is no blank; empty where a reply has none."""
    places = logprobs.get("content")
    for place in map(_object, places if isinstance(places, list) else []):
        if not _text(place.get("token")).strip():
            continue
        others = place.get("top_logprobs")
        found = {}
        for token in [place, *map(_object, others if isinstance(others, list) else [])]:
            value = token.get("logprob")
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[_text(token.get("token"))] = float(value)
        return found
    return {}


def _usage(usage: Mapping[str, Any]) -> tuple[int, int] | None:
    """The tokens of the prompt and of the reply; None unless both are plain counts."""
    prompt_tokens: Any = usage.get("prompt_tokens")
    reply_tokens: Any = usage.get("completion_tokens")
    for count in (prompt_tokens, reply_tokens):
        # True and 3.0 are no counts either. Without counts the highest cost is charged.
        if type(count) is not int or not 0 <= count < _MANY_TOKENS:
            return None
    return prompt_tokens, reply_tokens


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """A text, that of a number, or the texts of a list of parts; half of a surrogate pair becomes a question mark."""
    if not isinstance(value, list):
        return _plain(value)
    texts = []
    for part in value:
        # A part is a text, or an object with a type and a text.
        if isinstance(part, dict):
            texts.append(_plain(part.get("text")))
        else:
            texts.append(_plain(part))
    return "".join(texts)


def _plain(value: Any) -> str:
    if not isinstance(value, str | int | float):
        return ""
    return str(value).encode("utf-8", "replace").decode()
