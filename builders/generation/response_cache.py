"""Responses of chat models in files, so that no request is sent twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from pydantic import ValidationError

from builders.generation.append_log import ResponseLog, split_lines
from builders.generation.responses import ChatError, Response
from cards.validation import first_fault


def read_responses(*paths: Path, damaged: list[str] | None = None) -> dict[str, Response]:
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
    responses: dict[str, Response] = {}
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ChatError(f"The replies in {path} cannot be read ({error.strerror or error}).") from None
        faults: list[str] = []
        lines = split_lines(data, _is_response)
        for number, line in enumerate(lines, 1):
            try:
                response = Response.model_validate_json(line)
                responses.setdefault(response.key, response)
            except ValidationError as error:
                faults.append(f"{path} line {number} is not a recorded reply ({first_fault(error)})")
        if faults and (damaged is None or not any(line.startswith(b'{"key"') for line in lines)):
            raise ChatError(f"{faults[0]}; restore the file, or remove the line to send its request again.")
        if damaged is not None:
            damaged += [f"{fault}; it is left out, and its request is sent again." for fault in faults]
    return responses


def _is_response(line: bytes) -> bool:
    try:
        return bool(Response.model_validate_json(line))
    except ValidationError:
        return False


class ResponseCache(ResponseLog):
    """A file of responses; a response is on the disk before it is used.

    Parameters
    ----------
    path:
        The file that responses are added to. It is created with the first one.
    also:
        Files with more responses, which are only read.
    writable:
        Whether responses may be added. Only then is the file locked and an incomplete last line cut off.

    Attributes
    ----------
    own:
        The responses of the file itself, by key.
    damaged:
        A sentence about each damaged line.

    Raises
    ------
    ChatError
        When another process adds to the file, or when it cannot be read or written.

    >>> with ResponseCache(Path("none.jsonl"), writable=False) as cache:
    ...     "key of a request" in cache
    False
    """

    error = ChatError
    in_use = "Another run adds to the replies in {path}; wait until it ends, or give another --replies."
    unusable = "The replies in {path} cannot be stored ({reason}); give a --replies that can be written and has room."

    def __init__(self, path: Path, also: Iterable[Path] = (), *, writable: bool = True) -> None:
        super().__init__(path, path.with_name(f".{path.name}.lock"), _is_response, writable=writable)
        with ExitStack() as undo:
            undo.callback(self.close)
            self.damaged: list[str] = []
            self.own = read_responses(*[path] * path.is_file(), damaged=self.damaged)
            self._responses = self.own | read_responses(*also, damaged=self.damaged) | self.own
            undo.pop_all()

    def __contains__(self, key: object) -> bool:
        return key in self._responses

    def __getitem__(self, key: str) -> Response:
        return self._responses[key]

    def put(self, response: Response) -> None:
        """Adds a response. Threads may call this at the same time."""
        self.append(response.to_line().encode())
        self.own[response.key] = self._responses[response.key] = response

    def models(self) -> dict[str, int]:
        """Number of responses by the name of the requested model."""
        return dict(sorted(Counter(str(response.request["model"]) for response in self._responses.values()).items()))
