"""Clients that pipelines send requests to: a chat model, recorded responses, or a dry run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from builders.generation.costs import Budget
from builders.generation.responses import (
    ChatResponse,
    MissingResponse,
    ModelNotFound,
    RefusedRequest,
    ResponseCache,
    request_key,
    response,
)
from cards.common.progress import Progress

if TYPE_CHECKING:  # recorded responses are used without the HTTP client
    from builders.generation.endpoint import Endpoint

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request to a chat model.

    Parameters
    ----------
    body:
        What is sent, made by :func:`builders.generation.responses.request_body`.
    example:
        A usable response to it. A dry run continues with this text.
    """

    body: Body
    example: str

    @property
    def key(self) -> str:
        """The key of its response in a cache."""
        return request_key(self.body)


#: A source of responses: from the name of a stage and its requests, the response to each, in the same order. A pipeline
#: sends the requests of a stage together, so the rows do not depend on which response arrives first.
ChatClient = Callable[[str, Sequence[ChatRequest]], list[ChatResponse]]


def _missing(requests: Sequence[ChatRequest], cache: ResponseCache) -> dict[str, Body]:
    """The bodies of the requests without a recorded response, by key."""
    # Equal requests of a stage are sent once.
    bodies = {cache.key(request.body): request.body for request in requests}
    return {key: body for key, body in bodies.items() if key not in cache}


def _counts(cache: ResponseCache) -> str:
    """The number of recorded responses of each model."""
    return ", ".join(f"{count} of {name}" for name, count in cache.models().items())


@dataclass
class ReplayClient:
    """Recorded responses only.

    >>> from pathlib import Path
    >>> ReplayClient(ResponseCache(Path("none.jsonl"), writable=False))("write", [])
    []
    """

    cache: ResponseCache

    def __call__(self, stage: str, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """The recorded responses.

        Raises
        ------
        MissingResponse
            When one is not recorded.
        """
        missing = _missing(requests, self.cache)
        if missing:
            raise MissingResponse(
                f"Stage {stage} needs {len(missing)} replies of {next(iter(missing.values()))['model']} that are not "
                f"recorded (there are {_counts(self.cache) or 'none'}); run without --offline, "
                "or with the --model and settings of the recorded generation."
            )
        return [self.cache[self.cache.key(request.body)] for request in requests]


@dataclass
class DryRunClient:
    """Counts the requests that a generation would send, and continues with their examples.

    ``stages`` has for each stage the number of recorded responses and the requests without one.
    """

    cache: ResponseCache
    stages: dict[str, tuple[int, list[ChatRequest]]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def __call__(self, stage: str, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Recorded responses where there are any, else responses with the text of the example."""
        recorded, unsent = self.stages.get(stage, (0, []))
        for request in requests:
            # Stages may ask the same; a real generation would send it once.
            key = self.cache.key(request.body)
            if key not in self._seen:
                self._seen.add(key)
                if key in self.cache:
                    recorded += 1
                else:
                    unsent.append(request)
        self.stages[stage] = recorded, unsent
        responses = []
        for request in requests:
            key = self.cache.key(request.body)
            if key in self.cache:
                responses.append(self.cache[key])
            else:
                responses.append(response(request.body, request.example))
        return responses


@dataclass
class LiveClient:
    """A model behind an endpoint. Each response is recorded before it is used, and no request is sent twice.

    Parameters
    ----------
    connect:
        Makes the endpoint. It is called when the first response is missing.
    budget:
        The limit of the cost, if there is one.
    concurrency:
        Number of requests in progress at the same time. The result does not depend on it.
    """

    cache: ResponseCache
    connect: Callable[[], Endpoint]
    progress: Progress
    budget: Budget | None = None
    concurrency: int = 4
    _endpoint: Endpoint | None = None

    def __call__(self, stage: str, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """The recorded responses, after those that were missing were requested.

        Raises
        ------
        ChatError
            When a request fails or the budget is reached. Requests in progress are then waited for and their
            responses recorded, because they are paid for.
        """
        missing = _missing(requests, self.cache)
        if missing:
            # Connected late: a generation whose replies are all recorded needs neither a key nor the HTTP client.
            self._endpoint = self._endpoint or self.connect()
            try:
                self._send_all(stage, list(missing.values()), self._endpoint)
            except ModelNotFound as error:
                raise ModelNotFound(f"{error}; {self._advice(missing)}") from None
        return [self.cache[self.cache.key(request.body)] for request in requests]

    def try_all(self, stage: str, requests: Sequence[ChatRequest]) -> list[ChatResponse] | None:
        """As a call; None where the server does not take such requests, which ends nothing here."""
        try:
            return self(stage, requests)
        except RefusedRequest:
            # The failure ended all waiting of this connection, so the next request opens another one.
            self.close()
            self._endpoint = None
            return None

    def close(self) -> None:
        """Closes the connection."""
        if self._endpoint:
            self._endpoint.close()

    def _send_all(self, stage: str, bodies: Sequence[Body], endpoint: Endpoint) -> None:
        task = self.progress.add_task(stage, total=len(bodies))
        # Responses arrive in any order; the caller takes them by key, in the order of the requests.
        with ThreadPoolExecutor(self.concurrency) as pool:
            # All at once: the pool holds back what exceeds its number of threads.
            calls = [pool.submit(self._send, body, endpoint) for body in bodies]
            try:
                for call in as_completed(calls):
                    call.result()
                    self.progress.advance(task)
            except BaseException:
                endpoint.stop.set()  # also for an exception from outside, such as an interruption
                pool.shutdown(cancel_futures=True)
                raise
            finally:
                self.progress.remove_task(task)

    def _send(self, body: Body, endpoint: Endpoint) -> None:
        # The first failure sets `stop` in its own thread, which would otherwise take the next request. Later
        # failures are consequences of it and are not raised.
        try:
            self.cache.put(endpoint.send(body, partial(self.budget.reserve, body) if self.budget else None))
        except BaseException:
            if not endpoint.stop.is_set():
                endpoint.stop.set()
                raise

    def _advice(self, missing: Mapping[str, Body]) -> str:
        """What can be done without the model."""
        counts = _counts(self.cache)
        if not counts:
            return "no reply of it is recorded, so give another --model."
        # Replies that arrived before the failure are recorded and no longer missing.
        still_missing = sum(key not in self.cache for key in missing)
        return (
            f"this stage lacks {still_missing} replies of it. The recorded replies still work ({counts}): the same "
            "command replays them as far as they reach, and another --model starts a new recording in the same file."
        )


@dataclass
class RecordingClient:
    """Passes requests on to a client and keeps every response that was used, by key."""

    client: ChatClient
    responses: dict[str, ChatResponse] = field(default_factory=dict)

    def __call__(self, stage: str, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """The response to each request, in the same order."""
        responses = self.client(stage, requests)
        for answer in responses:
            self.responses[answer.key] = answer
        return responses
