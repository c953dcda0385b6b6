"""Requests to a chat model and its responses, and the files that store them, so that no request is sent twice.

A stored response is a JSON object on one line, with

``key``
    SHA-256 of the canonical JSON of ``request`` with ``server`` (sorted keys, no spaces, UTF-8 unescaped);
``request``
    all that the response depends on: ``model``, ``messages``, ``temperature``, ``max_tokens`` and, where the
    same prompt is sent more than once, ``seed``. ``logprobs`` and ``top_logprobs``, which change no text, are not in
    the key;
``server``
    the address of the server that responded; absent in lines of earlier versions;
``reply``, ``model``, ``date``, ``usage``, ``finish_reason``
    the text, the model that responded, the day in UTC, the counted tokens (null if the server did not count
    them), and why the text ended: ``stop``, ``length`` when it reached ``max_tokens``, ``content_filter``, …;
``logprobs``
    the log-probabilities of the tokens that could begin the text; absent where none were requested or given;
``system_fingerprint``
    the mark that the server gives its configuration; absent where it gives none;

Lines of earlier versions also have ``sha256``, which is not read.

A response is text. It is parsed by rules or left out; it is never executed.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from builders.dataset import BuildError
from builders.generation.append_log import AppendLog, split_lines
from cards.common.answer_key import answer_key, key_digest
from cards.common.stored import first_fault

#: What a body says of log-probabilities. A server that has none is sent the same request without these.
LOGPROBS = ("logprobs", "top_logprobs")
#: Where requests go without ``base_url`` and ``OPENAI_BASE_URL``.
OPENAI = "https://api.openai.com/v1"


class ChatError(BuildError):
    """A chat model cannot be used, or its responses cannot be stored."""


class MissingResponse(ChatError):
    """A response is needed that is not recorded."""

    exit_code = 2


class RefusedRequest(ChatError):
    """The endpoint does not take a request of this form, such as one with a short limit of tokens."""


class ModelNotFound(ChatError):
    """The endpoint does not have the model."""


def request_body(
    model: str, prompt: str, *, temperature: float, max_tokens: int, seed: int | None = None
) -> dict[str, Any]:
    """The body of a request: one prompt as a message of the user.

    ``seed`` is sent to the model and makes the same prompt another request. Several responses to one prompt
    are requested in this way.

    >>> request_body("m", "Hello", temperature=0.7, max_tokens=50)["messages"]
    [{'role': 'user', 'content': 'Hello'}]
    """
    # No message of the system: the published prompts have none.
    messages = [{"role": "user", "content": prompt}]
    # 0 and 0.0 are other JSON, so they would give equal requests different keys.
    body = {"model": model, "messages": messages, "temperature": float(temperature), "max_tokens": max_tokens}
    if seed is not None:
        body["seed"] = seed
    return body


def request_key(body: Mapping[str, Any], server: str = "") -> str:
    """The key under which the response of a server to a request is stored: the digest of its answer key.

    >>> request_key({"model": "m", "seed": 1}) == request_key({"seed": 1, "model": "m"})
    True
    >>> request_key({"model": "m"}, "http://one/v1") == request_key({"model": "m"}, "http://two/v1")
    False
    """
    parts = {name: value for name, value in body.items() if name not in LOGPROBS}
    return key_digest(answer_key(**parts, server=server))


class ChatResponse(BaseModel):
    """A response with its request; the fields are those of a stored line. Make one with :func:`response`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    key: str
    request: dict[str, Any]
    text: str = Field(alias="reply")
    model: str
    date: str
    usage: dict[str, int] | None
    finish_reason: str
    system_fingerprint: str = ""
    server: str = ""
    logprobs: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _without_checksum(cls, content: Any) -> Any:
        if isinstance(content, dict):
            content.pop("sha256", None)
        return content

    @model_validator(mode="after")
    def _key_matches(self) -> Self:
        try:
            is_own = self.key == request_key(self.request, self.server)
        except TypeError:  # a request without a model, or with a server of its own
            is_own = False
        if not is_own:
            raise ValueError("its key is not that of its request")
        return self

    @property
    def is_truncated(self) -> bool:
        """Whether the text ended because it reached ``max_tokens``."""
        return self.finish_reason == "length"

    def to_line(self) -> str:
        """The JSON line that is stored, without its end."""
        content = self.model_dump(by_alias=True)
        # Left out, so that the lines of servers that give no fingerprint are those of earlier versions.
        for name in ("system_fingerprint", "server", "logprobs"):
            if not content[name]:
                del content[name]
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    def of_server(self, server: str) -> "ChatResponse":
        """The same response, as one of a server."""
        return self.model_copy(update={"server": server, "key": request_key(self.request, server)})


def response(
    body: Mapping[str, Any],
    text: str,
    *,
    model: str = "",
    date: str = "",
    usage: tuple[int, int] | None = None,
    finish_reason: str = "stop",
    system_fingerprint: str = "",
    logprobs: Mapping[str, float] | None = None,
) -> ChatResponse:
    """The response to a request.

    Parameters
    ----------
    body:
        The request, made by :func:`request_body`.
    model:
        The model that responded; by default the requested one.
    date:
        Year, month and day; by default today in UTC.
    usage:
        Number of tokens of the prompt and of the text.
    logprobs:
        Log-probabilities of the tokens that could begin the text; those that are not finite are left out.

    >>> body = request_body("m", "Hello", temperature=0, max_tokens=50)
    >>> response(body, "Good day.", date="2026-01-31").text
    'Good day.'
    """
    # Named as OpenAI-compatible servers name them, so that a stored line reads like a reply.
    counts = usage and {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    finite = {token: float(value) for token, value in (logprobs or {}).items() if math.isfinite(value)}
    valid_text = text.encode("utf-8", "replace").decode()  # a lone surrogate can be received but not written
    return ChatResponse(
        key=request_key(body),
        request=dict(body),
        reply=valid_text,
        model=model or body["model"],
        date=date or datetime.now(UTC).date().isoformat(),
        usage=counts,
        finish_reason=finish_reason,
        system_fingerprint=system_fingerprint,
        logprobs=finite,
    )


def read_responses(*paths: Path, damaged: list[str] | None = None) -> dict[str, ChatResponse]:
    """The stored responses of files by key; of several responses to one request, the first.

    Parameters
    ----------
    damaged:
        Receives a sentence about each line that is not a stored response, which is then left out.

    Raises
    ------
    ChatError
        When a file cannot be read, no line of it is a stored response, or one is not and there is no ``damaged``.
        A last line without an end that is not one is ignored: a killed process leaves it.
    """
    responses: dict[str, ChatResponse] = {}
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ChatError(f"The replies in {path} cannot be read ({error.strerror or error}).") from None
        faults: list[str] = []
        # A damaged line is named and its request sent again, but a file without any response is another file.
        lines = split_lines(data, _is_response)
        for number, line in enumerate(lines, 1):
            try:
                stored = ChatResponse.model_validate_json(line)
                # The first stays, so that a file with a repeated line gives the same rows as before.
                responses.setdefault(stored.key, stored)
            except ValidationError as error:
                faults.append(f"{path} line {number} is not a recorded reply ({first_fault(error)})")
        if faults and (damaged is None or not any(line.startswith(b'{"key"') for line in lines)):
            raise ChatError(f"{faults[0]}; restore the file, or remove the line to send its request again.")
        if damaged is not None:
            damaged += [f"{fault}; it is left out, and its request is sent again." for fault in faults]
    return responses


def _is_response(line: bytes) -> bool:
    try:
        return bool(ChatResponse.model_validate_json(line))
    except ValidationError:
        return False


class ResponseCache(AppendLog):
    """A file of responses; a response is on the disk before it is used.

    Parameters
    ----------
    path:
        The file that responses are added to. It is created with the first one.
    also:
        Files with more responses, which are only read.
    writable:
        Whether responses may be added. Only then is the file locked and an incomplete last line cut off.
    server:
        The address whose responses are used. None is for recorded responses alone: those of the one server that there
        is. Responses that name no server are used where nothing is sent, and from the files ``also``, which the user
        named.

    Attributes
    ----------
    own:
        The responses of the file itself, by key.
    server:
        The address of the server whose responses are used and added; empty for responses that name none.
    damaged:
        A sentence about each damaged line.
    unnamed:
        How many responses of the file itself are not used, because their lines do not say which server responded.

    Raises
    ------
    ChatError
        When another process adds to the file, it cannot be read or written, or several servers responded and none is
        given.

    >>> with ResponseCache(Path("none.jsonl"), writable=False) as cache:
    ...     "key of a request" in cache
    False
    """

    error = ChatError
    in_use = "Another command adds to the replies in {path}; wait until it ends, or give another --replies."
    unusable = "The replies in {path} cannot be stored ({reason}); give a --replies that can be written and has room."

    def __init__(
        self, path: Path, also: Iterable[Path] = (), *, writable: bool = True, server: str | None = ""
    ) -> None:
        super().__init__(path, path.with_name(f".{path.name}.lock"), _is_response, writable=writable)
        with ExitStack() as undo:
            undo.callback(self.close)
            self.damaged: list[str] = []
            # The file itself need not be there yet; the files that the user named must be.
            self.own = read_responses(path, damaged=self.damaged) if path.is_file() else {}
            others = read_responses(*also, damaged=self.damaged)
            if server is None:
                server = self._only_server(list(self.own.values()) + list(others.values()))
            self.server = server
            # The file itself goes first in order and in value.
            self._responses = self._usable(self.own, unnamed=not writable)
            for key, response in self._usable(others, unnamed=True).items():
                self._responses.setdefault(key, response)
            self.unnamed = 0
            if writable and self.server:
                self.unnamed = sum(not stored.server for stored in self.own.values())
            undo.pop_all()

    def _only_server(self, responses: Iterable[ChatResponse]) -> str:
        # Lines of earlier versions name no server and decide nothing.
        servers = sorted({response.server for response in responses} - {""})
        if len(servers) > 1:
            raise ChatError(
                f"{self.path} has replies of {len(servers)} servers ({', '.join(servers)}); name one with --base-url."
            )
        return "".join(servers)

    def _usable(self, responses: Mapping[str, ChatResponse], *, unnamed: bool) -> dict[str, ChatResponse]:
        """The responses of the server by the key of their request; with ``unnamed`` also those that name no server."""
        of_server = {key: response for key, response in responses.items() if response.server == self.server}
        for response in responses.values():
            if unnamed and not response.server:
                of_server.setdefault(request_key(response.request, self.server), response)
        return of_server

    def key(self, body: Mapping[str, Any]) -> str:
        """The key of the response to a request here."""
        return request_key(body, self.server)

    def __contains__(self, key: object) -> bool:
        return key in self._responses

    def __getitem__(self, key: str) -> ChatResponse:
        return self._responses[key]

    def put(self, response: ChatResponse) -> None:
        """Adds a response, as one of the server. Threads may call this at the same time."""
        # The endpoint does not know under which address the user keeps its replies.
        stored = response.of_server(self.server)
        self.append(stored.to_line().encode())
        self.own[stored.key] = self._responses[stored.key] = stored

    def models(self) -> dict[str, int]:
        """Number of responses by the name of the requested model."""
        counts = Counter(str(response.request["model"]) for response in self._responses.values())
        return dict(sorted(counts.items()))
